//! The `tautline` program: measures round trips and streams on this machine, the library beside raw
//! sockets. It parses, prints and chooses the exit status; measuring is `tautline-gauge`.

mod bench;
mod bundle;
mod cli;
mod compare;
mod course;
mod env;
mod exit;
mod interrupt;
mod lagscope;
mod load;
mod options;
mod outputs;
mod ping;
mod progress;
mod report;
mod serve;
mod soak;
mod started_at;
mod stream;
mod tls;
mod values;
mod verify;
mod wakeup;

use std::process::ExitCode;

use tautline_gauge::leftovers;

use crate::cli::Command;
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    outputs::survive_file_limits();
    if let Some(words) = lagscope::called_by_its_name() {
        return lagscope::run(&words).into();
    }
    let cli = cli::parse();
    let result = if let Some(shell) = cli.completions {
        outputs::print(&cli::completions(shell))
    } else if cli.man {
        cli::man().and_then(|page| outputs::print(&page))
    } else {
        match cli.command {
            Some(Command::Bench(command)) => command.run(),
            Some(Command::Lagscope(command)) => Ok(command.run()),
            Some(Command::Serve(command)) => command.run(),
            Some(Command::Ping(command)) => command.run(),
            Some(Command::Stream(command)) => command.run(),
            Some(Command::Load(command)) => command.run(),
            Some(Command::Wakeup(command)) => command.run(),
            Some(Command::Soak(command)) => command.run(),
            Some(Command::SoakProcess(command)) => command.run(),
            Some(Command::Report(command)) => command.run(),
            Some(Command::Verify(command)) => command.run(),
            Some(Command::Env(command)) => command.run(),
            Some(Command::Compare(command)) => command.run(),
            // clap prints the help itself when there is no argument at all.
            None => Ok(Exit::Good),
        }
    };
    // What a thread that did not end still holds would stay behind otherwise.
    leftovers::remove_all();
    result.unwrap_or_else(Failure::report).into()
}
