//! One cell: one address, one size, one stream.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{Address, FlushError, IoOptions, IoThread, SendError, Strategy};

use super::live::{Live, Looking};
use super::peer::{Beginning, Peer};
use super::row::Found;
use super::{Onlooker, StreamPlan};
use crate::clock::now_ns;
use crate::handshake::hello;
use crate::line;
use crate::placement::{Register, Seat};
use crate::report::stream::StreamRow;
use crate::report::{Medium, TlsRecord};
use crate::run::BenchError;
use crate::wire::{Mode, PeerRecord};

/// What one cell needs to know.
pub(super) struct Cell<'a> {
    pub(super) plan: &'a StreamPlan,
    pub(super) address: &'a Address,
    pub(super) payload_bytes: usize,
    pub(super) number: usize,
    pub(super) cells: usize,
    pub(super) seat: Seat,
    pub(super) register: &'a Arc<Register>,
    pub(super) own: &'a PeerRecord,
    pub(super) stop: &'a AtomicBool,
}

/// What the sending thread counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Produced {
    pub(super) offered: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) elapsed: Duration,
}

impl Cell<'_> {
    /// Measures on a thread of its own; the calling one looks on.
    pub(super) fn measure(
        &self,
        onlooker: &mut Onlooker<'_>,
    ) -> Result<(StreamRow, PeerRecord), BenchError> {
        let live = Live::default();
        thread::scope(|scope| {
            let sending = thread::Builder::new()
                .name("gauge-client".to_owned())
                .spawn_scoped(scope, || self.stream(&live))
                .map_err(|cause| BenchError::setup(format!("start a thread: {cause}")))?;
            let mut looking = Looking::new(self, &live);
            while !sending.is_finished() {
                thread::park_timeout(TICK);
                looking.look(onlooker);
            }
            match sending.join() {
                Ok(outcome) => {
                    looking.finish(onlooker);
                    let (row, peer) = outcome?;
                    let slices = looking.into_slices();
                    Ok((StreamRow { slices, ..row }, peer))
                }
                Err(_) => Err(BenchError::partial("the sending thread panicked")),
            }
        })
    }

    /// The whole life of one stream, on the sending thread.
    fn stream(&self, live: &Live) -> Result<(StreamRow, PeerRecord), BenchError> {
        self.seat.take(self.register).map_err(BenchError::setup)?;
        // It inherits this thread's place.
        let io = IoThread::start(IoOptions::default()).map_err(BenchError::setup)?;
        let hello = hello(Mode::Sink, self.payload_bytes, self.own);
        let mut peer = Peer::meet(
            &io,
            &Beginning {
                address: self.address,
                strategy: self.plan.strategy,
                max_queue_delay: self.plan.max_queue_delay,
                tls: &self.plan.tls,
                hello: &hello,
                seat: self.seat,
                register: self.register,
            },
            self.stop,
        )?;
        let before = peer.link.statistics().sending;
        live.written_before
            .store(before.written.messages, Ordering::Relaxed);
        *live.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer.link.clone());
        let medium = self.medium(&peer);
        let (produced, sent) = self.produce(&peer, live);
        let flushed = sent.and_then(|()| self.flush(&peer));
        // The account is taken before the question, which is no part of the stream.
        let sending = peer.link.statistics().sending;
        let counts = flushed.and_then(|()| peer.counts());
        *live.link.lock().unwrap_or_else(PoisonError::into_inner) = None;
        peer.link.abort();
        let row = StreamRow::new(&Found {
            cell: self,
            medium,
            produced,
            before: &before,
            sending: &sending,
            counts: counts.as_ref().ok(),
            error: counts.as_ref().err().cloned(),
        });
        Ok((row, peer.record))
    }

    /// What it went over.
    fn medium(&self, peer: &Peer<'_>) -> Medium {
        match self.address {
            Address::Serial(line) => line::medium(line, self.payload_bytes),
            Address::Tls { .. } => {
                let handshake = peer.link.statistics().tls.map(|tls| tls.handshake_time);
                let verification = self.plan.tls.verification;
                Medium {
                    tls: peer
                        .link
                        .secured()
                        .map(|secured| TlsRecord::of_client(&secured, verification, handshake)),
                    ..Medium::default()
                }
            }
            Address::Tcp { .. } | Address::Udp { .. } | Address::Uds(_) => Medium::default(),
        }
    }

    /// Sends for the plan's time. What was counted stands whatever broke.
    fn produce(&self, peer: &Peer<'_>, live: &Live) -> (Produced, Result<(), String>) {
        let mut produced = Produced::default();
        let mut message = vec![0; self.payload_bytes];
        let start_ns = now_ns();
        live.started_ns.store(start_ns, Ordering::Relaxed);
        let duration_ns = u64::try_from(self.plan.duration.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = start_ns.saturating_add(duration_ns);
        let outcome = loop {
            if self.plan.rate_hz.is_some() || produced.offered.is_multiple_of(SENDS_A_LOOK) {
                live.show(&produced);
                if self.is_stopped() || !self.wait_for_turn(start_ns, until_ns, produced.offered) {
                    break Ok(());
                }
            }
            produced.offered += 1;
            peer.stamp.write(&mut message, produced.accepted, false);
            match self.send(peer, &message, until_ns) {
                Ok(Sent::Accepted) => produced.accepted += 1,
                Ok(Sent::Refused) => {
                    produced.refused += 1;
                    if self.plan.rate_hz.is_none() {
                        thread::yield_now();
                    }
                }
                // It has not been accepted when the time was over: it was not offered, then.
                Ok(Sent::TooLate) => {
                    produced.offered -= 1;
                    break Ok(());
                }
                Err(why) => break Err(why),
            }
        };
        produced.elapsed = Duration::from_nanos(now_ns() - start_ns);
        live.show(&produced);
        (produced, outcome)
    }

    /// Waits until message number `number` is to leave; `false` when the time is over before.
    fn wait_for_turn(&self, start_ns: u64, until_ns: u64, number: u64) -> bool {
        let Some(rate_hz) = self.plan.rate_hz else {
            return now_ns() < until_ns;
        };
        // Below 2^53 a number of nanoseconds is exact, which is 104 days.
        let due_ns = start_ns.saturating_add((number as f64 / rate_hz * 1e9) as u64);
        if due_ns >= until_ns {
            return self.sleep_until(until_ns, false);
        }
        self.sleep_until(due_ns, true)
    }

    /// Sleeps in steps, so that a stop is noticed; returns `then`, or `false` when stopped.
    fn sleep_until(&self, due_ns: u64, then: bool) -> bool {
        loop {
            let left = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return then;
            }
            if self.is_stopped() {
                return false;
            }
            thread::sleep(left.min(TICK));
        }
    }

    #[inline]
    fn send(&self, peer: &Peer<'_>, message: &[u8], until_ns: u64) -> Result<Sent, String> {
        let outcome = match self.plan.strategy {
            // Not `send`, which would wait for a server that hangs for ever.
            Strategy::Reliable => peer.link.try_send(message),
            Strategy::BestEffort | Strategy::KeepLatest => peer.link.send(message),
        };
        match outcome {
            Ok(()) => Ok(Sent::Accepted),
            Err(SendError::Full) if self.plan.strategy == Strategy::Reliable => {
                self.send_when_there_is_room(peer, message, until_ns)
            }
            Err(SendError::Full) => Ok(Sent::Refused),
            Err(error) => Err(why_not_sent(peer, error)),
        }
    }

    #[cold]
    fn send_when_there_is_room(
        &self,
        peer: &Peer<'_>,
        message: &[u8],
        until_ns: u64,
    ) -> Result<Sent, String> {
        loop {
            match peer.link.send_timeout(message, TICK) {
                Ok(()) => return Ok(Sent::Accepted),
                Err(SendError::TimedOut | SendError::Full) => {
                    if self.is_stopped() || now_ns() >= until_ns {
                        return Ok(Sent::TooLate);
                    }
                }
                Err(error) => return Err(why_not_sent(peer, error)),
            }
        }
    }

    /// Waits until what was accepted is written, as long as some of it is.
    fn flush(&self, peer: &Peer<'_>) -> Result<(), String> {
        let written = || peer.link.statistics().sending.written.messages;
        let (mut last, mut since) = (written(), Instant::now());
        loop {
            match peer.link.flush(TICK) {
                Ok(()) => return Ok(()),
                Err(FlushError::TimedOut) => {}
                Err(error) => return Err(format!("{error}: {}", peer.why_lost())),
            }
            let now = written();
            if now > last {
                (last, since) = (now, Instant::now());
            }
            let limit = if self.is_stopped() {
                STOPPED_LIMIT
            } else {
                STALL_LIMIT
            };
            if since.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(format!("the server has taken nothing for {seconds} s"));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

enum Sent {
    Accepted,
    Refused,
    /// The time was over while it waited.
    TooLate,
}

fn why_not_sent(peer: &Peer<'_>, error: SendError) -> String {
    match error {
        SendError::NotConnected | SendError::Closed => {
            format!("the connection ended in mid-run: {}", peer.why_lost())
        }
        error => format!("send: {error}"),
    }
}

/// How many sends go by between two looks at the clock, which costs as much as half a send.
const SENDS_A_LOOK: u64 = 64;
/// How often somebody looks, and how soon a stop is noticed.
const TICK: Duration = Duration::from_millis(100);
/// A server that takes nothing for so long has hung.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// The same when the run is interrupted.
const STOPPED_LIMIT: Duration = Duration::from_secs(1);
