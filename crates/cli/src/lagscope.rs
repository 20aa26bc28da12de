//! `tautline lagscope`, and the program when it is called `lagscope`: lagscope's own command line,
//! console and files, for scripts that call it and read what it prints.
//!
//! Standard output holds what lagscope would print and nothing else; what we have to add stands on
//! standard error. Measuring is `tautline_gauge::lagscope`.

mod console;
mod files;
mod grammar;
mod options;
mod receive;
mod resolve;
mod send;
mod signals;

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process;

use clap::Args;
use tautline_gauge::lagscope;

use self::console::Console;
pub(crate) use self::options::HELP;
use self::options::{Options, Request, Role};
use self::signals::Signals;
use crate::exit::{Exit, say};

/// lagscope's own command line, for its scripts: a receiver or a sender, on the wire with the
/// original; also when this program is called lagscope
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LagscopeCommand {
    /// lagscope's options, as it takes them: -r, -s10.0.0.5 -n1000000 -P; -h lists them
    #[arg(
        value_name = "OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

impl LagscopeCommand {
    pub(crate) fn run(self) -> Exit {
        // Scripts look for a process of that name, some by its first word: so it gets a new one.
        // Where the program cannot be started again, it goes on as it is.
        let _ = process::Command::new("/proc/self/exe")
            .arg0(NAME)
            .args(&self.words)
            .exec();
        run(&self.words)
    }
}

/// The words behind the name, if the program was called `lagscope`.
pub(crate) fn called_by_its_name() -> Option<Vec<OsString>> {
    let mut words = env::args_os();
    let first = words.next()?;
    (Path::new(&first).file_name()? == NAME).then(|| words.collect())
}

/// Does what the words say.
pub(crate) fn run(words: &[OsString]) -> Exit {
    // Without it a script may not find the process; that is no reason not to serve.
    let _ = lagscope::set_process_name(c"lagscope");
    let console = Console::new();
    console.plain(HEADER);
    let options = match options::parse(words) {
        Ok(Request::Help) => {
            console.plain(HELP);
            return console.end(Exit::Good);
        }
        Ok(Request::Run(options)) => options,
        Err(usage) => {
            console.error(format_args!("{}", usage.message));
            complain(format_args!(
                "{}; lagscope -h lists the options",
                usage.message
            ));
            return console.end(Exit::Usage);
        }
    };
    for note in &options.notes {
        complain(format_args!("note: {note}"));
    }
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            console.error(format_args!("cannot catch signals"));
            complain(format_args!("catch signals: {error}"));
            return Exit::Unavailable;
        }
    };
    if let Role::Receiver { assumed: true, .. } = &options.role {
        console.info(format_args!("no role specified; use receiver role"));
    }
    if options.verbose {
        console.plain(&options.block());
    }
    if let Some(exit) = refused_processor(&options, &console) {
        return exit;
    }
    let exit = match &options.role {
        Role::Receiver { address, .. } => {
            receive::run(&options, address, console.clone(), &signals)
        }
        Role::Sender(sending) => send::run(&options, sending, &console, &signals),
    };
    console.end(exit)
}

fn refused_processor(options: &Options, console: &Console) -> Option<Exit> {
    let processor = options.processor?;
    let error = lagscope::pin(processor).err()?;
    console.error(format_args!("cannot set cpu affinity to: {processor}"));
    complain(format_args!("-f: run on processor {processor}: {error}"));
    Some(Exit::Unavailable)
}

/// Goes into the background if that was asked for.
fn background(options: &Options, console: &Console) -> Result<(), Exit> {
    if !options.daemon {
        return Ok(());
    }
    lagscope::become_daemon().map_err(|error| {
        console.error(format_args!("cannot run as daemon"));
        complain(format_args!("-D: go into the background: {error}"));
        Exit::Unavailable
    })
}

/// What the kernel did not give of buffers that were asked for.
fn note_buffers(options: &Options, given: lagscope::Buffers) {
    let asked = options.buffers();
    let least = given.send_bytes.min(given.receive_bytes);
    if options.buffer_bytes.is_some_and(|bytes| least < bytes) {
        complain(format_args!(
            "note: -b: of {} bytes the kernel gave {} for sending and {} for receiving; its limits are \
             net.core.wmem_max and net.core.rmem_max",
            asked.send_bytes, given.send_bytes, given.receive_bytes
        ));
    }
}

/// A line of ours.
fn complain(line: std::fmt::Arguments<'_>) {
    say(format_args!("{NAME}: {line}"));
}

const NAME: &str = "lagscope";
/// The version whose console this is: scripts match it.
const HEADER: &str = "lagscope 1.0.1\n---------------------------------------------------------\n";
