//! Ctrl-C and SIGTERM: the first ends a run with its statistics, the second ends at once.
//!
//! By handlers and not by a thread as elsewhere: what goes into the background forks, which needs a
//! process of one thread; nothing is left in the file system that a second signal would have to
//! take away; and a handler ends a wait for a reply, so that the flag is seen at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// Which signal came, if one came.
#[derive(Debug)]
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    first: Arc<AtomicUsize>,
}

/// The two that are caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// Ctrl-C.
    Interrupt,
    Terminate,
}

impl Signals {
    /// Catches both from now on.
    pub(super) fn catch() -> io::Result<Self> {
        let signals = Self {
            stop: Arc::new(AtomicBool::new(false)),
            first: Arc::new(AtomicUsize::new(0)),
        };
        for signal in [SIGINT, SIGTERM] {
            // In this order: a first signal finds the flag down and only raises it, and whoever
            // sees it up finds the number.
            let at_once = Exit::Signal(signal as u8).status();
            flag::register_conditional_shutdown(signal, at_once.into(), signals.stop.clone())?;
            flag::register_usize(signal, signals.first.clone(), signal as usize)?;
            flag::register(signal, signals.stop.clone())?;
        }
        Ok(signals)
    }

    /// Goes up at the first signal.
    pub(super) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    pub(super) fn came(&self) -> Option<Signal> {
        match self.first.load(Ordering::SeqCst) as i32 {
            SIGINT => Some(Signal::Interrupt),
            SIGTERM => Some(Signal::Terminate),
            _ => None,
        }
    }
}

impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        Self::Signal(match signal {
            Signal::Interrupt => SIGINT as u8,
            Signal::Terminate => SIGTERM as u8,
        })
    }
}
