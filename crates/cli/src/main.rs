//! The `tautline` program: measures round trips and streams on this machine, the library beside raw
//! sockets. It parses, prints and chooses the exit status; measuring is `tautline-gauge`.

mod bench;
mod cli;
mod course;
mod exit;
mod interrupt;
mod options;
mod outputs;
mod ping;
mod progress;
mod serve;
mod started_at;
mod stream;
mod values;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = if let Some(shell) = cli.completions {
        outputs::print(&cli::completions(shell))
    } else if cli.man {
        cli::man().and_then(|page| outputs::print(&page))
    } else {
        match cli.command {
            Some(Command::Bench(command)) => command.run(),
            Some(Command::Serve(command)) => command.run(),
            Some(Command::Ping(command)) => command.run(),
            Some(Command::Stream(command)) => command.run(),
            // clap prints the help itself when there is no argument at all.
            None => Ok(Exit::Good),
        }
    };
    result.unwrap_or_else(Failure::report).into()
}
