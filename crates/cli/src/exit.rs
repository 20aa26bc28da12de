//! The exit statuses that scripts rely on.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// What the program says to the shell. Most usage errors are clap's to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Good,
    /// A gate failed, or could not be decided.
    CheckFailed,
    /// The command line cannot be followed.
    Usage,
    /// What was asked for could not be had.
    Unavailable,
    /// Something was done, not all of it.
    Partial,
    /// A signal ended it.
    Signal(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::CheckFailed => 1,
            Self::Usage => 2,
            Self::Unavailable => 3,
            Self::Partial => 4,
            Self::Signal(number) => 128 + number,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

/// The statuses in words, for the help and the manual.
pub(crate) const STATUSES: &str = "\
0  good
1  a gate (--fail-if) failed or could not be decided
2  usage
3  not available: connect, bind, a required scheduler, an output that cannot be opened
4  partial: the run broke off, or an output failed while it was written
130, 143, 129  ended by SIGINT, SIGTERM, SIGHUP; the partial report is written";

/// Why the program ends early: its status, and what it says on standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// `None` says nothing: whoever closed our standard output knows.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            message: Some(message.to_string()),
        }
    }

    /// What to make of an output that failed while it was written.
    pub(crate) fn of_output(name: &str, error: &io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Self {
            exit: Exit::Partial,
            message: (!quiet).then(|| format!("write {name}: {error}")),
        }
    }

    /// Says what there is to say.
    pub(crate) fn report(self) -> Exit {
        if let Some(message) = self.message {
            say(format_args!("tautline: {message}"));
        }
        self.exit
    }
}

/// A line on standard error. Where nobody reads it any more it is lost, and nothing else is:
/// `eprintln!` would panic.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
