//! Ctrl-C and SIGTERM: the first ends the run with its partial report, the second ends at once.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tautline_gauge::leftovers;

use crate::exit::Exit;

/// Catches both signals from now on.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    pub(crate) fn catch() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let interrupt = Self {
            stop: Arc::new(AtomicBool::new(false)),
            signal: Arc::new(AtomicUsize::new(0)),
        };
        let (stop, first) = (Arc::clone(&interrupt.stop), Arc::clone(&interrupt.signal));
        // A thread of its own, not a handler: what is left in the file system is taken away too.
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if stop.load(Ordering::SeqCst) {
                        leftovers::remove_all();
                        process::exit(Exit::Signal(signal as u8).status().into());
                    }
                    first.store(signal as usize, Ordering::SeqCst);
                    stop.store(true, Ordering::SeqCst);
                }
            })?;
        Ok(interrupt)
    }

    /// Goes up at the first signal.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The status of the signal that came, if one came.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(Exit::Signal(signal as u8)),
        }
    }
}
