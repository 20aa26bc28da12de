//! A sender's measurement: pings one after the other, each sent when the last has come back.
//!
//! The thread that measures does nothing but that. Another one listens to the run, and shuts the
//! connection when it is to stop or when the receiver answers no more: so no receive needs a timeout.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::protocol::{Order, Sent, SlowPing};
use super::trace::Trace;
use crate::clock::now_ns;
use crate::recorder::Recorder;
use crate::report::soak::Slice;
use crate::sys;

/// What to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pings {
    pub(super) payload_bytes: usize,
    /// So many count.
    pub(super) number: u64,
    /// Goes on after those until told that it is enough.
    pub(super) on: bool,
}

/// What the listening thread waits for.
#[derive(Debug)]
pub(super) enum Event {
    Order(Order),
    /// The run is gone.
    Alone,
    /// The measuring thread has ended.
    Over,
}

/// Sends and records, and hands back what there is by the time that it ends, however it ends. `counted`
/// is called after the last ping that counts.
pub(super) fn send(
    connection: &Connection,
    pings: Pings,
    trace: Option<Trace>,
    events: &Receiver<Event>,
    event: &Sender<Event>,
    counted: impl FnOnce() + Send,
) -> Sent {
    let (enough, done) = (&AtomicBool::new(false), &AtomicU64::new(0));
    thread::scope(|scope| {
        let measuring = scope.spawn(move || {
            // No privilege is needed; were it refused, nothing here waits for timers.
            let _ = sys::sched::set_timer_slack(1);
            let mut measured = Measured::new(trace);
            let outcome = measured.run(connection, pings, enough, done, counted);
            let sent = measured.sent(outcome, enough.load(Ordering::Relaxed));
            // The receiver of this is the thread that waits for ours.
            let _ = event.send(Event::Over);
            sent
        });
        let silent = listen(connection, events, enough, done);
        let mut sent = measuring.join().unwrap_or_else(|_| Sent {
            error: Some("the measuring thread panicked".to_owned()),
            ..Sent::default()
        });
        if silent {
            let seconds = SILENCE.as_secs();
            sent.error = Some(format!("the receiver answered nothing for {seconds} s"));
        }
        sent
    })
}

/// Until the measuring thread has ended. Whether that took a shutdown because of silence.
fn listen(
    connection: &Connection,
    events: &Receiver<Event>,
    enough: &AtomicBool,
    done: &AtomicU64,
) -> bool {
    let mut seen = (0, Instant::now());
    let mut told = None;
    let mut silent = false;
    loop {
        match events.recv_timeout(STEP) {
            Ok(Event::Over) => return silent,
            Ok(Event::Order(Order::Enough) | Event::Alone)
            | Err(RecvTimeoutError::Disconnected) => {
                enough.store(true, Ordering::Relaxed);
                told.get_or_insert_with(Instant::now);
            }
            Ok(Event::Order(Order::Go { .. })) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now_done = done.load(Ordering::Relaxed);
        if now_done != seen.0 {
            seen = (now_done, Instant::now());
        }
        // A ping that is under way may end; one that hangs may not hold up the end of the run.
        let hangs = told.is_some_and(|told: Instant| told.elapsed() >= STEP);
        if hangs || seen.1.elapsed() >= SILENCE {
            silent |= told.is_none();
            connection.shutdown();
        }
    }
}

/// What one run of pings recorded: constant memory, but for one entry a second.
#[derive(Debug)]
struct Measured {
    all: Recorder,
    second: Recorder,
    second_ends_ns: u64,
    over: [u64; 4],
    slices: Vec<Slice>,
    slow: Vec<SlowPing>,
    /// What a ping has to exceed to be among the slowest.
    slow_from_ns: u64,
    start_ns: u64,
    end_ns: u64,
    further_pings: u64,
    corrupted: u64,
    trace: Option<Trace>,
}

impl Measured {
    fn new(trace: Option<Trace>) -> Self {
        Self {
            all: Recorder::new(),
            second: Recorder::new(),
            second_ends_ns: 0,
            over: [0; 4],
            slices: Vec::with_capacity(SLICES),
            slow: Vec::with_capacity(SLOWEST + 1),
            slow_from_ns: 0,
            start_ns: 0,
            end_ns: 0,
            further_pings: 0,
            corrupted: 0,
            trace,
        }
    }

    fn run(
        &mut self,
        connection: &Connection,
        pings: Pings,
        enough: &AtomicBool,
        done: &AtomicU64,
        counted: impl FnOnce(),
    ) -> io::Result<()> {
        let mut ping = vec![0; pings.payload_bytes];
        let mut reply = vec![0; pings.payload_bytes];
        self.start_ns = now_ns();
        self.end_ns = self.start_ns;
        self.second_ends_ns = self.start_ns + SECOND_NS;
        for sequence in 0..pings.number {
            if enough.load(Ordering::Relaxed) {
                return Ok(());
            }
            stamp(&mut ping, sequence);
            let sent_ns = now_ns();
            connection.exchange(&ping, &mut reply)?;
            let received_ns = now_ns();
            self.record(sequence, sent_ns, received_ns);
            self.corrupted += u64::from(reply != ping);
            done.store(sequence + 1, Ordering::Relaxed);
        }
        counted();
        while pings.on && !enough.load(Ordering::Relaxed) {
            stamp(&mut ping, pings.number + self.further_pings);
            connection.exchange(&ping, &mut reply)?;
            self.further_pings += 1;
            done.store(pings.number + self.further_pings, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn record(&mut self, sequence: u64, sent_ns: u64, received_ns: u64) {
        let rtt_ns = received_ns - sent_ns;
        self.all.record(rtt_ns);
        self.second.record(rtt_ns);
        self.end_ns = received_ns;
        if rtt_ns > self.slow_from_ns {
            self.keep(SlowPing {
                sent_ns,
                rtt_ns,
                sequence,
                cpu: sys::sched::getcpu(),
            });
        }
        if rtt_ns > OVER_NS[0] {
            self.count_over(rtt_ns);
        }
        if received_ns >= self.second_ends_ns {
            self.cut(received_ns);
        }
        if let Some(trace) = &mut self.trace {
            trace.judge(sequence, rtt_ns);
        }
    }

    #[cold]
    fn keep(&mut self, ping: SlowPing) {
        let at = self.slow.partition_point(|kept| kept.rtt_ns >= ping.rtt_ns);
        self.slow.insert(at, ping);
        self.slow.truncate(SLOWEST);
        if self.slow.len() == SLOWEST {
            self.slow_from_ns = self.slow[SLOWEST - 1].rtt_ns;
        }
    }

    #[cold]
    fn count_over(&mut self, rtt_ns: u64) {
        for (over, limit_ns) in self.over.iter_mut().zip(OVER_NS) {
            *over += u64::from(rtt_ns > limit_ns);
        }
    }

    #[cold]
    fn cut(&mut self, now_ns: u64) {
        let summary = self.second.summary();
        if let Some((mean_ns, p50_ns)) = summary.mean_ns.zip(self.second.round_median_ns())
            && self.slices.len() < SLICES
        {
            self.slices.push(Slice {
                mean_ns,
                p50_ns,
                p99_ns: summary.p99_ns,
            });
        }
        self.second.clear();
        self.second_ends_ns = now_ns + SECOND_NS;
    }

    fn sent(mut self, outcome: io::Result<()>, stopped: bool) -> Sent {
        // What a run that is stopped does to its connection is no fault.
        let error = outcome
            .err()
            .filter(|_| !stopped)
            .map(|cause| match cause.kind() {
                io::ErrorKind::UnexpectedEof => "the receiver ended the connection".to_owned(),
                _ => cause.to_string(),
            });
        if self.slices.is_empty() {
            self.cut(self.end_ns); // A run of less than a second is one slice.
        }
        Sent {
            recorded: self.all.recorded(),
            over: self.over,
            time_ns: self.end_ns - self.start_ns,
            further_pings: self.further_pings,
            corrupted: self.corrupted,
            slices: self.slices,
            slow: self.slow,
            traced: self.trace.and_then(|trace| trace.stopped_at()),
            error,
        }
    }
}

/// The number of the ping, as far as there is room.
#[inline]
pub(super) fn stamp(ping: &mut [u8], sequence: u64) {
    let room = ping.len().min(4);
    ping[..room].copy_from_slice(&sequence.to_le_bytes()[..room]);
}

const OVER_NS: [u64; 4] = [1_000_000, 5_000_000, 10_000_000, 20_000_000];
const SECOND_NS: u64 = 1_000_000_000;
/// As many as the report shows, each of another moment: pings of one sender never overlap.
const SLOWEST: usize = 20;
/// Two hours; what comes after changes no median.
const SLICES: usize = 7_200;
/// How long a ping may hang after an order to stop.
const STEP: Duration = Duration::from_millis(500);
/// A receiver that answers nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_in_order_and_the_others_cost_nothing() {
        let mut measured = Measured::new(None);
        measured.second_ends_ns = u64::MAX;
        for sequence in 0..1_000 {
            measured.record(sequence, 1, 1 + (sequence * 7_919) % 1_000);
        }
        let slow: Vec<u64> = measured.slow.iter().map(|ping| ping.rtt_ns).collect();
        assert_eq!(slow, (980..1_000).rev().collect::<Vec<_>>());
        assert_eq!(measured.slow_from_ns, 980);
    }

    #[test]
    fn every_second_is_a_slice_and_a_shorter_run_is_one() {
        let mut measured = Measured::new(None);
        measured.second_ends_ns = SECOND_NS;
        for tenth in 0..25 {
            measured.record(tenth, tenth * 100_000_000, tenth * 100_000_000 + 5_000);
        }
        let sent = measured.sent(Ok(()), false);
        assert_eq!(sent.slices.len(), 2);
        assert_eq!(sent.slices[0].p50_ns, 5_000);
        assert_eq!(sent.slices[0].p99_ns, None);
        let mut short = Measured::new(None);
        short.second_ends_ns = SECOND_NS;
        short.record(0, 0, 2_000_000);
        let sent = short.sent(Ok(()), false);
        assert_eq!((sent.slices.len(), sent.over), (1, [1, 0, 0, 0]));
    }

    #[test]
    fn a_stamp_fills_what_room_there_is() {
        let mut ping = [0xff; 2];
        stamp(&mut ping, 0x01_02_03);
        assert_eq!(ping, [3, 2]);
        let mut ping = [0xff; 6];
        stamp(&mut ping, 1);
        assert_eq!(ping, [1, 0, 0, 0, 0xff, 0xff]);
    }
}
