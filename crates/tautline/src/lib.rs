//! Scratch of the wire branch: the lead's file replaces this one.

#![cfg_attr(
    not(test),
    expect(
        dead_code,
        unused_imports,
        reason = "the drivers that call it come on main"
    )
)]

#[cfg(not(target_os = "linux"))]
compile_error!("Tautline runs on Linux only: it relies on its sockets, clocks and scheduler.");

mod address;
mod error;
mod options;
mod sys;
mod transport;

pub use address::{Address, AddressError, DEFAULT_PORT, UDS_NAME_LIMIT, UdsName};
pub use error::{Error, ErrorKind, FlushError, RecvError, Refusal, SendError};
pub use options::{IoOptions, LinkOptions, ServerOptions};
pub use tautline_session::{ByteOrder, FrameFault, Framing, PrefixWidth, Strategy};
