//! The command line as a whole: its commands, the completions and the manual made from them.

use std::io::{self, Write};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use tautline_gauge::gate::Gate;

use crate::bench::BenchCommand;
use crate::compare::CompareCommand;
use crate::env::EnvCommand;
use crate::exit::{Exit, Failure, STATUSES};
use crate::lagscope::{self, LagscopeCommand};
use crate::load::LoadCommand;
use crate::ping::PingCommand;
use crate::report::ReportCommand;
use crate::serve::ServeCommand;
use crate::soak::{self, ProcessCommand, SoakCommand};
use crate::stream::StreamCommand;
use crate::verify::VerifyCommand;
use crate::wakeup::WakeupCommand;

/// Measures message links: round trips and one-way streams over TCP, TLS, UDP, Unix sockets and serial
/// lines, the Tautline library beside raw sockets doing the same.
#[derive(Debug, Parser)]
#[command(
    name = "tautline",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = format!("Exit status:\n{}", indented(STATUSES)),
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Print the completions for a shell, and nothing else
    #[arg(long, value_name = "SHELL", exclusive = true)]
    pub(crate) completions: Option<Shell>,

    /// Print the manual page in roff: tautline --man | man -l -
    #[arg(long, exclusive = true)]
    pub(crate) man: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(Box<BenchCommand>),
    Serve(Box<ServeCommand>),
    Ping(Box<PingCommand>),
    Stream(Box<StreamCommand>),
    Soak(Box<SoakCommand>),
    Wakeup(Box<WakeupCommand>),
    Load(LoadCommand),
    Report(ReportCommand),
    Verify(VerifyCommand),
    Env(EnvCommand),
    Compare(CompareCommand),
    Lagscope(LagscopeCommand),
    #[command(name = soak::PROCESS, hide = true)]
    SoakProcess(ProcessCommand),
}

/// The command line that the program was called with; clap ends the program where it makes no sense.
pub(crate) fn parse() -> Cli {
    let matches = takes_minus(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Lets `-1` be an option's value, so that what is wrong with it is said by the option's name.
fn takes_minus(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| {
            let takes = argument.get_action().takes_values() && !argument.is_positional();
            argument.allow_negative_numbers(takes)
        })
        .mut_subcommands(takes_minus)
}

/// The completions for one shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tautline", &mut script);
    script
}

/// The manual: one page, every command with all its options.
pub(crate) fn man() -> Result<Vec<u8>, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    man_page(&command, &mut page)
        .map(|()| page)
        .map_err(|error| Failure::new(Exit::Partial, format!("render the manual: {error}")))
}

fn man_page(command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(page)?;
    for render in [
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ] {
        section(&man, render, ".SH", page)?;
    }
    man_commands(command, page)?;
    verbatim("LAGSCOPE'S OPTIONS", lagscope::HELP, page);
    verbatim("FIGURES FOR --fail-if", &Gate::figures(), page);
    verbatim("EXIT STATUS", STATUSES, page);
    Ok(())
}

/// A section for each command below `parent`: how it is called, what it is for, its options.
fn man_commands(parent: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    for command in parent
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        page.extend(format!(".SH {}\n", name.to_uppercase()).bytes());
        let man = Man::new(command.clone());
        for render in [
            Man::render_synopsis_section,
            Man::render_description_section,
            Man::render_options_section,
        ] {
            section(&man, render, ".SS", page)?;
        }
        man_commands(command, page)?;
    }
    Ok(())
}

/// One section under a heading of the given level. Each comes with a preamble that the page has once.
fn section(
    man: &Man,
    render: fn(&Man, &mut dyn Write) -> io::Result<()>,
    heading: &str,
    page: &mut Vec<u8>,
) -> io::Result<()> {
    let mut section = Vec::new();
    render(man, &mut section)?;
    let section = String::from_utf8_lossy(&section);
    let lines = section.lines().skip_while(|line| !line.starts_with(".SH "));
    for line in lines {
        page.extend(line.replacen(".SH", heading, 1).bytes().chain([b'\n']));
    }
    Ok(())
}

/// Text that keeps its lines.
fn verbatim(heading: &str, text: &str, page: &mut Vec<u8>) {
    let text = text.replace('-', "\\-");
    page.extend(format!(".SH {heading}\n.nf\n{text}\n.fi\n").bytes());
}

/// Two spaces before each line.
pub(crate) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Walks every option of every command: a name, a help, a value's name where it takes one.
    #[test]
    fn every_option_says_what_it_is_for() {
        fn walk(command: &clap::Command) {
            for option in command.get_arguments() {
                let name = option.get_id();
                assert!(option.get_help().is_some(), "{name} has no help");
                if option.get_action().takes_values() {
                    assert!(
                        option.get_value_names().is_some(),
                        "{name} has no value name"
                    );
                }
            }
            command.get_subcommands().for_each(walk);
        }
        let mut command = Cli::command();
        command.build();
        walk(&command);
    }

    #[test]
    fn the_manual_has_every_command_and_every_option() {
        let page = String::from_utf8(man().unwrap()).unwrap();
        for heading in [
            ".TH tautline 1",
            ".SH TAUTLINE BENCH LATENCY",
            ".SH TAUTLINE BENCH STRATEGY",
            ".SH TAUTLINE SERVE",
            ".SH TAUTLINE PING",
            ".SH TAUTLINE STREAM",
            ".SH TAUTLINE VERIFY",
            ".SH TAUTLINE ENV",
            ".SH TAUTLINE LAGSCOPE",
            ".SH LAGSCOPE'S OPTIONS",
        ] {
            assert!(page.contains(heading), "{heading}");
        }
        for option in [
            "transports",
            "sizes",
            "fail\\-if",
            "stay\\-awake",
            "on\\-refused",
        ] {
            assert!(page.contains(&format!("\\-\\-{option}")), "{option}");
        }
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::PowerShell,
            Shell::Elvish,
        ] {
            let script = String::from_utf8(completions(shell)).unwrap();
            assert!(script.contains("strategy"), "{shell}");
            assert!(script.contains("lagscope"), "{shell}");
        }
    }
}
