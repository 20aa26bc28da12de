//! The system calls that neither the standard library nor socket2 offers: one function each, named
//! like the man page. The only module of this crate with `unsafe`.

pub(crate) mod clock;
pub(crate) mod datagram;
pub(crate) mod descriptor;
pub(crate) mod epoll;
pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod net;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod sched;
pub(crate) mod segments;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod tty;
