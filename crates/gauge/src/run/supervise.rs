//! One thread measures, another watches over it: that is how measuring waits without timers and yet
//! never for ever.
//!
//! The measuring thread beats its [`Pulse`] with every reply. The watching thread wakes ten times a
//! second, passes the stop flag on, rings when the beats stall, and closes the sockets when they stay
//! away: whoever waits on one comes back with an error.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::clock::now_ns;

/// What the measuring thread and the watching one share.
pub(crate) struct Pulse {
    /// Whether what does not come may be lost. On a stream it is late, however long it takes.
    lossy: bool,
    /// Whether all that is measured in turn waits for one and the same peer.
    one_peer: bool,
    /// Nothing moved for so long: the other end is gone.
    silence: Duration,
    stop: AtomicBool,
    last_beat_ns: AtomicU64,
    stalls: AtomicU64,
    blocks: AtomicU64,
    closed: AtomicBool,
    sleepers: Mutex<Vec<Thread>>,
    closers: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl Pulse {
    pub(crate) fn new(lossy: bool) -> Self {
        Self {
            lossy,
            one_peer: false,
            silence: SILENCE_LIMIT,
            stop: AtomicBool::new(false),
            last_beat_ns: AtomicU64::new(now_ns()),
            stalls: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            sleepers: Mutex::default(),
            closers: Mutex::default(),
        }
    }

    /// The pulse of a run whose every end is a client of one server: its silence towards one of them
    /// is silence towards all.
    pub(crate) fn of_one_peer(self) -> Self {
        Self {
            one_peer: true,
            ..self
        }
    }

    /// The pulse of a run whose every message takes so long by itself.
    pub(crate) fn of_slow_messages(self, each: Duration) -> Self {
        Self {
            silence: self.silence.saturating_add(each.saturating_mul(2)),
            ..self
        }
    }

    /// How long nothing has to move until the other end is taken for gone.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    /// Another end takes its turn at this time. What went before is no silence of its own peer.
    #[inline]
    pub(crate) fn begin_turn(&self, at_ns: u64) {
        if !self.one_peer {
            self.beat(at_ns);
        }
    }

    /// What begins now is bounded by itself: no silence of so long is one.
    pub(crate) fn allow(&self, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.beat(now_ns().saturating_add(limit_ns));
    }

    /// Something moved at this time.
    #[inline]
    pub(crate) fn beat(&self, at_ns: u64) {
        self.last_beat_ns.store(at_ns, Ordering::Relaxed);
    }

    /// Whether to end after this message.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag behind [`is_stopping`](Self::is_stopping), for those who wait by themselves.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// How often nothing moved for [`STALL`] over a lossy transport. Whoever waits for a reply takes a
    /// change for its loss.
    #[inline]
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Whether the closers have been called: an error after that is the watching thread's doing.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// One more block is done, for the progress.
    pub(crate) fn block_done(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Unparks the calling thread at every stall and when stopping.
    pub(crate) fn unpark_me_on_stall(&self) {
        lock(&self.sleepers).push(thread::current());
    }

    /// Calls `close` when the measurement has to be broken off. If that has happened already it is
    /// called at once.
    pub(crate) fn on_close(&self, close: impl Fn() + Send + 'static) {
        let mut closers = lock(&self.closers);
        if self.is_closed() {
            close();
        }
        closers.push(Box::new(close));
    }

    /// Whoever was there to be closed has gone by itself.
    pub(crate) fn forget_closers(&self) {
        lock(&self.closers).clear();
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ring();
    }

    fn stalled(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.ring();
    }

    fn ring(&self) {
        lock(&self.sleepers).iter().for_each(Thread::unpark);
    }

    /// Closes every socket of the run.
    pub(crate) fn close(&self) {
        let closers = lock(&self.closers);
        self.closed.store(true, Ordering::Release);
        closers.iter().for_each(|close| close());
        drop(closers);
        self.ring();
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").finish_non_exhaustive()
    }
}

/// Runs `measure` on a thread of its own and watches over it; `tick` is told ten times a second how
/// many blocks are done. Returns what `measure` returned.
///
/// # Errors
///
/// When no thread can be started, when `measure` panicked, or when it did not come back even after its
/// sockets were closed.
pub(crate) fn supervise<T: Send + 'static>(
    pulse: &Arc<Pulse>,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(u64),
    measure: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = mpsc::sync_channel(1);
    let measuring = thread::Builder::new()
        .name("gauge-client".to_owned())
        .spawn(move || {
            // Nobody receives any more when the watching thread has given up.
            let _ = send.send(measure());
        })?;
    let mut watch = Watch::new(pulse);
    loop {
        match receive.recv_timeout(TICK) {
            Ok(outcome) => {
                // It has sent its last word: joining cannot wait long.
                let _ = measuring.join();
                return Ok(outcome);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let _ = measuring.join();
                return Err(io::Error::other("the measuring thread panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {
                tick(pulse.blocks.load(Ordering::Relaxed));
                if watch.look(stop.load(Ordering::Relaxed), now_ns()) == Verdict::Stuck {
                    return Err(io::Error::other("the measuring thread does not end"));
                }
            }
        }
    }
}

/// What the watching thread remembers between two looks.
#[derive(Debug)]
struct Watch<'a> {
    pulse: &'a Pulse,
    stopped_ns: Option<u64>,
    closed_ns: Option<u64>,
    rung_ns: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    GoOn,
    Stuck,
}

impl<'a> Watch<'a> {
    fn new(pulse: &'a Pulse) -> Self {
        Self {
            pulse,
            stopped_ns: None,
            closed_ns: None,
            rung_ns: 0,
        }
    }

    fn look(&mut self, stop: bool, now: u64) -> Verdict {
        if stop && self.stopped_ns.is_none() {
            self.stopped_ns = Some(now);
            self.pulse.stop();
        }
        if let Some(closed_ns) = self.closed_ns {
            // Again and again: a thread may have parked between two unparks.
            self.pulse.ring();
            return if since(closed_ns, now) > END_LIMIT {
                Verdict::Stuck
            } else {
                Verdict::GoOn
            };
        }
        let last_beat_ns = self.pulse.last_beat_ns.load(Ordering::Relaxed);
        let overdue = self
            .stopped_ns
            .is_some_and(|stopped| since(stopped, now) > STOP_LIMIT);
        if overdue || since(last_beat_ns, now) > self.pulse.silence {
            self.closed_ns = Some(now);
            self.pulse.close();
        } else if self.pulse.lossy && since(last_beat_ns.max(self.rung_ns), now) > STALL {
            self.rung_ns = now;
            self.pulse.stalled();
        }
        Verdict::GoOn
    }
}

fn since(start_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(start_ns))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned list of threads or closers is still a good list.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing moved for so long: a reply is lost. Far above any round trip on one machine, and short
/// enough that a lossy loopback still gives a table.
pub(crate) const STALL: Duration = Duration::from_millis(500);

/// Nothing moved for so long, lost replies taken into account: the other end is gone.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// Ending promptly means within this time; then sockets are closed.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// What errors on closed sockets and joining threads may take on a loaded machine.
const END_LIMIT: Duration = Duration::from_secs(10);

const TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn supervised<T: Send + 'static>(
        stop: &AtomicBool,
        measure: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> io::Result<T> {
        let pulse = Arc::new(Pulse::new(true));
        let own = Arc::clone(&pulse);
        supervise(&pulse, stop, &mut |_| {}, move || measure(&own))
    }

    #[test]
    fn what_is_measured_comes_back() {
        assert_eq!(supervised(&AtomicBool::new(false), |_| 7).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_an_error_of_the_run() {
        let outcome = supervised(&AtomicBool::new(false), |_| -> u8 {
            panic!("as the test wants")
        });
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "the measuring thread panicked"
        );
    }

    #[test]
    fn the_stop_flag_reaches_a_sleeping_thread() {
        let stopping = supervised(&AtomicBool::new(true), |pulse| {
            pulse.unpark_me_on_stall();
            while !pulse.is_stopping() {
                thread::park();
            }
            true
        });
        assert!(stopping.unwrap());
    }

    #[test]
    fn silence_rings_first_and_closes_then() {
        let pulse = Pulse::new(true);
        let closed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&closed);
        pulse.on_close(move || flag.store(true, Ordering::Relaxed));
        let mut watch = Watch::new(&pulse);
        let start = 100 * SECOND;
        pulse.beat(start);

        watch.look(false, start + SECOND / 4);
        assert_eq!(pulse.stalls(), 0);
        watch.look(false, start + SECOND);
        assert_eq!(pulse.stalls(), 1);
        watch.look(false, start + SECOND + SECOND / 4);
        assert_eq!(pulse.stalls(), 1, "one stall rings once");
        assert!(!closed.load(Ordering::Relaxed));
        watch.look(false, start + 6 * SECOND);
        assert!(closed.load(Ordering::Relaxed));
        assert_eq!(watch.look(false, start + 7 * SECOND), Verdict::GoOn);
        assert_eq!(watch.look(false, start + 20 * SECOND), Verdict::Stuck);
    }

    #[test]
    fn over_a_stream_silence_is_no_loss_but_ends_the_run_all_the_same() {
        let pulse = Pulse::new(false);
        let mut watch = Watch::new(&pulse);
        let start = 100 * SECOND;
        pulse.beat(start);
        watch.look(false, start + 4 * SECOND);
        assert_eq!((pulse.stalls(), pulse.is_closed()), (0, false));
        watch.look(false, start + 6 * SECOND);
        assert!(pulse.is_closed());
    }

    #[test]
    fn stopping_closes_what_does_not_end_by_itself() {
        let pulse = Pulse::new(true);
        let mut watch = Watch::new(&pulse);
        let start = 100 * SECOND;
        pulse.beat(start);
        watch.look(true, start);
        assert!(pulse.is_stopping() && !pulse.is_closed());
        pulse.beat(start + 2 * SECOND);
        watch.look(true, start + 2 * SECOND);
        assert!(pulse.is_closed());
    }

    #[test]
    fn a_closer_that_comes_too_late_is_called_at_once() {
        let pulse = Pulse::new(true);
        pulse.close();
        let called = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&called);
        pulse.on_close(move || flag.store(true, Ordering::Relaxed));
        assert!(called.load(Ordering::Relaxed));
    }
}
