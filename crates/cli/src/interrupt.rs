//! Ctrl-C and SIGTERM: the first ends the run with its partial report, the second ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// Catches both signals from now on.
#[derive(Debug)]
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    pub(crate) fn catch() -> io::Result<Self> {
        let interrupt = Self {
            stop: Arc::new(AtomicBool::new(false)),
            signal: Arc::new(AtomicUsize::new(0)),
        };
        for signal in [SIGINT, SIGTERM] {
            // In this order: a first signal finds the flag down and only raises it.
            let at_once = Exit::Signal(signal as u8).status();
            flag::register_conditional_shutdown(signal, at_once.into(), interrupt.stop.clone())?;
            flag::register_usize(signal, interrupt.signal.clone(), signal as usize)?;
            flag::register(signal, interrupt.stop.clone())?;
        }
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
