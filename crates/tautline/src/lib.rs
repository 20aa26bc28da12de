//! Scratch of the wire branch: the lead's file replaces this one.

#[cfg(not(target_os = "linux"))]
compile_error!("Tautline runs on Linux only: it relies on its sockets, clocks and scheduler.");

mod address;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the drivers that call it come on main")
)]
mod error;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the drivers that call it come on main")
)]
mod options;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the drivers that call it come on main")
)]
mod sys;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the drivers that call it come on main")
)]
mod transport;

pub use address::{Address, AddressError, DEFAULT_PORT, UDS_NAME_LIMIT, UdsName};
pub use error::{Error, ErrorKind, FlushError, RecvError, Refusal, SendError};
pub use options::{IoOptions, LinkOptions, ServerOptions};
pub use tautline_session::{ByteOrder, FrameFault, Framing, PrefixWidth, Strategy};
