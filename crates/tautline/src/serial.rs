//! Serial lines: how one is set, and which devices there are.
//!
//! A line is an [`Address`](crate::Address) like any other. Needs the feature `serial`; without it a
//! serial address is refused when it is used.

pub use crate::address::{FlowControl, Parity, Rs485, SerialLine};
