//! Serial lines: how one is set, and which devices there are.
//!
//! A line is an [`Address`](crate::Address) like any other. Needs the feature `serial`; without it a
//! serial address is refused when it is used.
//!
//! ```no_run
//! use tautline::{Address, DirectLink, Framing, LinkOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "serial:///dev/ttyUSB0?baud=9600&parity=even".parse()?;
//! let options = LinkOptions { framing: Framing::lines(), ..LinkOptions::default() };
//! let mut instrument = DirectLink::connect(&address, options)?;
//! instrument.send(b"*IDN?")?;
//! println!("{}", String::from_utf8_lossy(instrument.recv(None)?));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "serial")]
mod ports;

pub use crate::address::{FlowControl, Parity, Rs485, SerialLine};
#[cfg(feature = "serial")]
pub use ports::{SerialPort, UsbDevice, ports};
