//! The promises, each run over every transport it applies to.
//!
//! One file per promise; at its head stands the table of its tests and the transports they run on.
//! Peers are either the library itself or plain sockets of the standard library, which do what no
//! polite program does. Nothing here sleeps: tests wait for events, with a watchdog.

mod common;

mod accounting;
mod addresses;
mod bad_peers;
mod batches;
mod broadcast;
mod broadcasting;
mod bulk;
mod callbacks;
mod churn;
mod closing;
mod credentials;
mod crowd;
mod datagrams;
mod direct;
mod economy;
mod fairness;
mod first_words;
mod floods;
mod framing;
mod freshness;
mod guarded;
mod heartbeats;
mod keeping;
mod killed;
mod large;
mod last_words;
mod life;
mod limits;
mod liveness;
mod multicast;
mod names;
mod no_network;
mod opened_first;
mod options;
mod own_loop;
mod pressure;
mod reading;
mod reconnect;
mod sending;
#[cfg(feature = "serial")]
mod serial;
mod serving;
mod shortage;
mod signals;
mod starting;
mod threads;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod uds;
