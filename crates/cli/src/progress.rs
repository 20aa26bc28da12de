//! The line of progress on a terminal; nowhere else.

use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tautline_gauge::run::Progress;

/// The line, or nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        let terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let target = if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("[{bar:32}] {percent:>3} %  {wide_msg}")
            .expect("a constant template")
            .progress_chars("=> ");
        Self {
            bar: ProgressBar::with_draw_target(Some(STEPS), target).with_style(style),
        }
    }

    pub(crate) fn show(&self, progress: Progress) {
        self.bar
            .set_position((progress.done.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.bar.set_message(progress.cell);
    }

    /// Takes the line away while something else is printed.
    pub(crate) fn hide_while(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Takes the line away, so that the report begins on a clean one.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}

const STEPS: u64 = 1_000;
