//! Round trips in a closed loop: stamp, send, wait, stamp. One loop for every side that waits on the
//! measuring thread, the controls too, so that they differ in nothing else.

mod blocking;
mod callback;
pub(crate) mod clerk;
mod direct;
mod polling;

use std::time::Duration;

use tautline_gauge::clock::now_ns;
use tautline_gauge::probe;
use tautline_gauge::statistics::median;

use super::paced::quantile;
use super::rounds::{Block, Counts, Side};
use super::site::Site;

pub(crate) use blocking::{start_blocking, start_epoll};
pub(crate) use callback::start_callback;
pub(crate) use direct::{start_direct, start_spin};
pub(crate) use polling::start_polling;

/// One way of sending a message and waiting for its reply.
trait Exchange {
    /// The payload of the next message.
    fn payload_mut(&mut self) -> &mut [u8];

    fn send(&mut self) -> Result<(), String>;

    /// Waits for one reply and hands back its payload.
    fn recv(&mut self) -> Result<&[u8], String>;

    /// A block begins.
    fn wake(&mut self) {}

    /// A block is over, and the other end must not use the CPU until the next.
    fn rest(&mut self) {}

    /// The end; `messages` were exchanged.
    fn finish(self, messages: u64) -> Result<Option<String>, String>;
}

/// The measuring thread's loop over one exchange.
struct Echo<E> {
    exchange: E,
    payload_bytes: usize,
    /// Of the next message; counted up for as long as the side lives.
    sequence: u64,
    times_ns: Vec<f64>,
}

impl<E: Exchange + 'static> Echo<E> {
    /// Takes an exchange into use: compares a few replies whole, which timed blocks do not.
    fn start(exchange: E, site: &Site) -> Result<Box<dyn Side>, String> {
        let mut echo = Self {
            exchange,
            payload_bytes: site.payload_bytes,
            sequence: 0,
            times_ns: Vec::with_capacity(MOST_TIMES),
        };
        echo.exchange.wake();
        for _ in 0..WHOLE_MESSAGES {
            probe::fill(echo.exchange.payload_mut(), echo.sequence);
            echo.exchange.send()?;
            let reply = echo.exchange.recv()?;
            if !probe::is_filled(reply, site.payload_bytes, echo.sequence) {
                return Err("a reply came back changed".to_owned());
            }
            echo.sequence += 1;
        }
        echo.exchange.rest();
        Ok(Box::new(echo))
    }

    fn exchange_until(&mut self, end_ns: u64) -> Result<Counts, String> {
        let mut counts = Counts::default();
        while self.times_ns.len() < MOST_TIMES {
            probe::stamp(self.exchange.payload_mut(), self.sequence);
            let sent_ns = now_ns();
            self.exchange.send()?;
            let reply = self.exchange.recv()?;
            let received_ns = now_ns();
            if probe::sequence_of(reply, self.payload_bytes) == Some(self.sequence) {
                self.times_ns.push((received_ns - sent_ns) as f64);
                counts.received += 1;
            } else {
                counts.wrong += 1;
            }
            self.sequence += 1;
            counts.sent += 1;
            if received_ns >= end_ns {
                break;
            }
        }
        Ok(counts)
    }
}

impl<E: Exchange + 'static> Side for Echo<E> {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        self.times_ns.clear();
        self.exchange.wake();
        let counts = self.exchange_until(now_ns() + length.as_nanos() as u64)?;
        self.exchange.rest();
        block_of(&mut self.times_ns, counts)
    }

    fn p99_ns(&mut self) -> Option<f64> {
        quantile(&mut self.times_ns, 0.99)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.exchange.finish(self.sequence)
    }
}

/// The median of a block's round trips.
pub(crate) fn block_of(times_ns: &mut [f64], counts: Counts) -> Result<Block, String> {
    let figure = median(times_ns).ok_or("no reply came back intact")?;
    let worst_ns = times_ns.iter().copied().fold(0.0, f64::max);
    Ok(Block {
        figure,
        worst_ns,
        counts,
    })
}

/// Compared whole before a side is timed.
pub(crate) const WHOLE_MESSAGES: u64 = 8;
/// More than a block of 100 ms holds at 1 us a round trip; a vector never grows while it is timed.
pub(crate) const MOST_TIMES: usize = 1 << 17;
