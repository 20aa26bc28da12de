//! lagscope's console: its lines on standard output, each written at once.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tautline_gauge::lagscope;

use super::complain;
use crate::exit::Exit;

/// Standard output, until it fails. Clones are the same console; any thread may write.
#[derive(Debug, Clone, Default)]
pub(super) struct Console {
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Console {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Text as it is.
    pub(super) fn plain(&self, text: &str) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return;
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        *failure = written.and_then(|()| stdout.flush()).err();
    }

    pub(super) fn info(&self, line: fmt::Arguments<'_>) {
        self.line("INFO: ", line);
    }

    /// A failure: scripts take any such line for one.
    pub(super) fn error(&self, line: fmt::Arguments<'_>) {
        self.line("ERR : ", line);
    }

    pub(super) fn debug(&self, line: fmt::Arguments<'_>) {
        self.line("DBG : ", line);
    }

    /// The same line so many times, in one piece.
    pub(super) fn debug_times(&self, times: usize, line: fmt::Arguments<'_>) {
        if times > 0 {
            self.plain(&timed("DBG : ", line).repeat(times));
        }
    }

    /// Whether nothing more can be written.
    pub(super) fn is_broken(&self) -> bool {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.is_some()
    }

    /// The status of a program that ends with `exit`, had it been able to say so. Whoever closed
    /// our standard output knows; anything else is said.
    pub(super) fn end(&self, exit: Exit) -> Exit {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => exit,
            Some(error) => {
                if error.kind() != io::ErrorKind::BrokenPipe {
                    complain(format_args!("write standard output: {error}"));
                }
                Exit::Partial
            }
        }
    }

    fn line(&self, kind: &str, line: fmt::Arguments<'_>) {
        self.plain(&timed(kind, line));
    }
}

/// A line with the time of day in front.
fn timed(kind: &str, line: fmt::Arguments<'_>) -> String {
    let (hour, minute, second) = lagscope::local_time_of_day();
    format!("{hour:02}:{minute:02}:{second:02} {kind}{line}\n")
}
