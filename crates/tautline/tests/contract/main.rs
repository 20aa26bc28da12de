//! The promises, each run over every transport it applies to.
//!
//! One file per promise; at its head stands the table of its tests and the transports they run on.
//! Peers are either the library itself or plain sockets of the standard library, which do what no
//! polite program does. Nothing here sleeps: tests wait for events, with a watchdog.

mod common;

mod accounting;
mod bad_peers;
mod callbacks;
mod closing;
mod crowd;
mod datagrams;
mod direct;
mod framing;
mod life;
mod limits;
mod options;
mod pressure;
mod reading;
mod sending;
mod threads;
mod uds;
