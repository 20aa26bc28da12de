//! The benchmark that decides: every target that the library has to meet, product and control
//! interleaved, with the interval of their ratio.
//!
//! ```text
//! cargo bench -p tautline-gauge --bench targets -- --only T4,T5 --rounds 15 --json FILE
//! ```
//!
//! The program itself is in `targets/`; `tests/targets.rs` runs the same with the least of everything.

use std::env;
use std::io;
use std::process::ExitCode;

#[path = "targets/program.rs"]
mod program;

fn main() -> ExitCode {
    if program::run_if_child() {
        return ExitCode::SUCCESS;
    }
    match program::execute(env::args().skip(1), &mut io::stdout()) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(outcome)) if outcome.failed.is_empty() => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::from(4),
        Err(refused) => {
            eprintln!("targets: {}", refused.why);
            ExitCode::from(refused.status)
        }
    }
}
