//! The measuring engine of Tautline.

pub mod bundle;
#[cfg(feature = "tls")]
mod certificate;
#[cfg(not(feature = "tls"))]
#[path = "certificate/absent.rs"]
mod certificate;
pub mod clock;
pub mod command;
pub mod compare;
pub mod control;
pub mod environment;
pub mod evidence;
pub mod gate;
mod handshake;
#[cfg(test)]
mod known_answers;
pub mod lagscope;
pub mod leftovers;
mod line;
pub mod moments;
pub mod null_modem;
pub mod ping;
pub mod placement;
pub mod plan;
pub mod primes;
pub mod probe;
pub mod quantity;
pub mod recorder;
pub mod report;
pub mod run;
pub mod secured;
pub mod serve;
pub mod soak;
mod stamp;
pub mod statistics;
pub mod stream;
mod sys;
pub mod usage;
pub mod veth;
pub mod wakeup;
pub mod wire;
