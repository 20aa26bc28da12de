//! The processes of a soak: this program again, with a command that nobody types.

use clap::Args;
use tautline_gauge::soak;

use crate::exit::{Exit, Failure};

/// A receiver, sender or load of `tautline soak`; takes its orders from standard input
#[derive(Debug, Args)]
pub(crate) struct ProcessCommand {
    /// Stay in the session of whoever started it
    #[arg(long)]
    one_session: bool,
}

impl ProcessCommand {
    /// The command line that leads here.
    pub(super) fn arguments(one_session: bool) -> Vec<String> {
        let mut words = vec![NAME.to_owned()];
        words.extend(one_session.then(|| "--one-session".to_owned()));
        words
    }

    /// Until the job is done or the run is gone.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        // What cannot be said to the run any more is said to nobody.
        match soak::process(self.one_session) {
            Ok(()) => Ok(Exit::Good),
            Err(_) => Ok(Exit::Partial),
        }
    }
}

/// Of the command.
pub(crate) const NAME: &str = "soak-process";
