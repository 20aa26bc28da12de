//! Links driven by futures, under every executor: tokio with several threads and with one, smol, and one
//! made by hand that runs tasks inside `wake`.
//!
//! Each file has its table of tests and the transports they run on; each runs under each executor.
//! Nothing here sleeps: tests wait for events, with a watchdog.

#[path = "../contract/common/certificates.rs"]
mod certificates;
#[path = "../contract/common/transport.rs"]
#[expect(dead_code, reason = "the contract suite's, which uses all of it")]
mod transport;

mod executor;
mod rig;

mod echo;
mod lives;
mod receiving;
mod sending;
