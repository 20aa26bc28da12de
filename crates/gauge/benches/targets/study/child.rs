//! This program once more, as a process of its own: told by an environment variable, spoken to in lines.
//! It ends with its standard input, so it outlives nobody.

use std::env;
use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use tautline_gauge::placement::{Register, Seats};
use tautline_gauge::plan::{Placement, PlacementPlan, Sched};
use tautline_gauge::usage::{self, Usage};

use super::super::site::said;
use super::crowd;

/// Such a process, from outside.
pub(super) struct Child {
    process: process::Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Child {
    pub(super) fn start(role: &str) -> Result<Self, String> {
        let own = env::current_exe().map_err(said)?;
        let mut process = Command::new(own)
            // For the test that runs this program: its only part that does as the variable says.
            .args(["child", "--exact", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| format!("a second process: {cause}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Ok(Self {
            process,
            input: input.ok_or("a second process without an input")?,
            lines: BufReader::new(output.ok_or("a second process without an output")?),
        })
    }

    /// One that keeps a CPU busy.
    pub(super) fn busy(sched: Sched) -> Result<Self, String> {
        let mut child = Self::start(match sched {
            Sched::Idle => BUSY_IDLE,
            Sched::Other | Sched::Fifo(_) | Sched::RoundRobin(_) => BUSY,
        })?;
        child.hear()?;
        Ok(child)
    }

    /// Says a line and hears one back.
    pub(super) fn ask(&mut self, line: &str) -> Result<String, String> {
        writeln!(self.input, "{line}").map_err(said)?;
        self.hear()
    }

    /// The same for an answer of numbers.
    pub(super) fn ask_numbers<const N: usize>(&mut self, line: &str) -> Result<[u64; N], String> {
        let answer = self.ask(line)?;
        let numbers: Option<Vec<u64>> = answer.split(' ').map(|word| word.parse().ok()).collect();
        numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| format!("{line}: {answer}"))
    }

    /// The next line that is for us.
    pub(super) fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).map_err(said)? == 0 {
                return Err("the second process ended".to_owned());
            }
            if let Some((_, answer)) = line.split_once(MARK) {
                return Ok(answer.trim_end().to_owned());
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In a process that was started by [`Child::start`]: does what it is for and returns true at its end.
pub(crate) fn run_if_child() -> bool {
    let Ok(role) = env::var(ROLE) else {
        return false;
    };
    let outcome = match role.as_str() {
        BUSY => busy(Sched::Other),
        BUSY_IDLE => busy(Sched::Idle),
        crowd::SERVER => crowd::serve(),
        crowd::CLIENTS => crowd::connect(),
        other => Err(format!("{ROLE}={other}: no such role")),
    };
    if let Err(why) = outcome {
        tell(&why);
    }
    true
}

/// Answers the starter.
pub(super) fn tell(answer: &str) {
    // Without a starter to hear it, the input has ended too.
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{MARK}{answer}").and_then(|()| out.flush());
}

/// Every command of the starter, until it is gone; those that any child knows are answered here.
pub(super) fn obey(
    mut each: impl FnMut(&str, &str) -> Result<String, String>,
) -> Result<(), String> {
    for line in io::stdin().lines() {
        let line = line.map_err(said)?;
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        tell(&match command {
            "memory" => {
                let anonymous_bytes = usage::anonymous_bytes().map_err(said)?;
                format!("{anonymous_bytes} {}", usage::threads().map_err(said)?)
            }
            "cpu" => Usage::of_process().map_err(said)?.cpu_ns.to_string(),
            _ => each(command, rest)?,
        });
    }
    Ok(())
}

fn busy(sched: Sched) -> Result<(), String> {
    let plan = PlacementPlan {
        placement: Placement::Free,
        sched,
        ..PlacementPlan::default()
    };
    let seats = Seats::choose(&plan).map_err(said)?;
    thread::spawn(move || {
        if let Err(why) = seats.client("busy").take(&Register::default()) {
            return tell(&why.to_string());
        }
        tell("busy");
        let mut turns = 0_u64;
        loop {
            turns = black_box(turns + 1);
        }
    });
    obey(|command, _| Err(format!("{command}: it is only busy")))
}

const ROLE: &str = "TAUTLINE_TARGETS_ROLE";
const MARK: &str = "targets: ";
const BUSY: &str = "busy";
const BUSY_IDLE: &str = "busy-idle";
