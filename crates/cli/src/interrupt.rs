//! Ctrl-C, SIGTERM and a terminal that goes away (SIGHUP): the first ends the run with its partial
//! report, the second ends at once.

use std::fmt;
use std::fs;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tautline_gauge::leftovers;

use crate::exit::Exit;

/// Catches the signals from now on.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    act: Arc<Act>,
}

/// What the first signal calls, once.
#[derive(Default)]
struct Act(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Interrupt {
    pub(crate) fn catch() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if !is_ignored(SIGHUP) {
            signals.handle().add_signal(SIGHUP)?;
        }
        let interrupt = Self {
            stop: Arc::new(AtomicBool::new(false)),
            signal: Arc::new(AtomicUsize::new(0)),
            act: Arc::default(),
        };
        let (stop, first) = (Arc::clone(&interrupt.stop), Arc::clone(&interrupt.signal));
        let act = Arc::clone(&interrupt.act);
        // A thread of its own, not a handler: what is left in the file system is taken away too.
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut first_at: Option<Instant> = None;
                for signal in signals.forever() {
                    if let Some(first_at) = first_at {
                        if first_at.elapsed() < SAME_EVENT {
                            continue;
                        }
                        leftovers::remove_all();
                        process::exit(Exit::Signal(signal as u8).status().into());
                    }
                    first_at = Some(Instant::now());
                    first.store(signal as usize, Ordering::SeqCst);
                    stop.store(true, Ordering::SeqCst);
                    act.call();
                }
            })?;
        Ok(interrupt)
    }

    /// Goes up at the first signal.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Calls `act` at the first signal, at once if it has come: for whoever waits without looking at
    /// [`stop`](Self::stop).
    pub(crate) fn on_first(&self, act: impl FnOnce() + Send + 'static) {
        self.act.set(Box::new(act));
        if self.stop.load(Ordering::SeqCst) {
            self.act.call();
        }
    }

    /// The status of the signal that came, if one came.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(Exit::Signal(signal as u8)),
        }
    }
}

impl Act {
    fn set(&self, act: Box<dyn FnOnce() + Send>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(act);
    }

    fn call(&self) {
        let act = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(act) = act {
            act();
        }
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Act").finish_non_exhaustive()
    }
}

/// Signals closer together are one event: timeout(1) sends its signal to the program and then to the
/// group that the program is in, and nobody means two by one Ctrl-C.
const SAME_EVENT: Duration = Duration::from_millis(300);

/// Whether whoever started us had the signal ignored, as nohup does with SIGHUP: then it stays so.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
