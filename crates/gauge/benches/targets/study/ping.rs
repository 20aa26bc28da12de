//! T13: what the program's own `ping` adds to a raw round trip, beside what sockperf adds.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::Value;
use tautline_gauge::plan::Transport;
use tautline_gauge::statistics::{Random, median};

use super::super::list::{Condition, Limit, SideKind, Target};
use super::super::options::Options;
use super::super::place;
use super::super::site::{Site, Watchdog, said};
use super::{Figure, Finding};

pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    let (rounds, seed, watchdog) = (options.rounds, options.seed, watchdog.clone());
    let outcome = place::at(
        Condition::Awake,
        Transport::Tcp,
        PAYLOAD_BYTES,
        move |site| one(site, rounds, seed, &watchdog),
    );
    vec![outcome.map_err(|why| format!("T13: {why}"))]
}

fn one(site: &Site, rounds: usize, seed: u64, watchdog: &Watchdog) -> Result<Finding, String> {
    let Some(program) = program() else {
        let why = "the program is not there: cargo build --release -p tautline-cli makes it";
        return Ok(undecided(why));
    };
    let Some(sockperf) = Sockperf::start(site)? else {
        return Ok(undecided(
            "sockperf is not on this machine (Debian: sockperf)",
        ));
    };
    let server = Serve::start(&program, site)?;
    let mut raw = SideKind::Blocking.start(site)?;
    raw.block(A_TURN)?;
    let mut times_us = [const { Vec::new() }; 3];
    let mut random = Random::seeded(seed);
    let mut order = [0, 1, 2];
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for who in order {
            watchdog.beat(|| "T13".to_owned());
            times_us[who].push(match who {
                0 => server.ping_p50_us(site)?,
                1 => sockperf.p50_us(site)?,
                _ => raw.block(A_TURN)?.figure / 1e3,
            });
        }
    }
    raw.finish()?;
    let [ping, peer, raw] = times_us;
    let ratio = |name, product: &[f64], control: &[f64], limit: Limit| {
        let pairs = product.iter().zip(control);
        let ratios = pairs.map(|(product, control)| product / control).collect();
        Figure::judged(name, ratios, "", limit, seed)
    };
    let figures = vec![
        ratio("ping / sockperf", &ping, &peer, Limit::RatioAtMost(MOST))?,
        ratio("ping / raw", &ping, &raw, Limit::Reported)?,
        ratio("sockperf / raw", &peer, &raw, Limit::Reported)?,
        Figure::reported(
            "raw p50",
            median(&mut raw.clone()).unwrap_or(f64::NAN),
            "us",
        ),
    ];
    Ok(Finding::new(Target::T13, WHAT, figures))
}

fn undecided(why: &str) -> Finding {
    let figure = Figure::missing("ping / sockperf", "", MOST);
    Finding::new(Target::T13, WHAT, vec![figure]).noted(why.to_owned())
}

/// The program, which the same build puts beside the folder that this one is in.
fn program() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let program = own.parent()?.parent()?.join("tautline");
    program.is_file().then_some(program)
}

/// A process that ends with this value.
struct Running(process::Child);

impl Running {
    /// Pinned, and silent.
    fn start(cpu: Option<usize>, program: &Path, words: &[&str]) -> io::Result<Self> {
        pinned(cpu, program, words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pinned(cpu: Option<usize>, program: &Path, words: &[&str]) -> Command {
    let Some(cpu) = cpu else {
        let mut command = Command::new(program);
        command.args(words);
        return command;
    };
    // The thread that starts it is pinned itself, and would hand that on.
    let mut command = Command::new("taskset");
    command
        .args(["-c", &cpu.to_string()])
        .arg(program)
        .args(words);
    command
}

/// `tautline serve` in a process of its own.
struct Serve {
    _process: Running,
    program: PathBuf,
    address: String,
}

impl Serve {
    fn start(program: &Path, site: &Site) -> Result<Self, String> {
        let ready = env::temp_dir().join(format!("tautline-targets-{}", process::id()));
        let ready_text = ready.to_str().ok_or("a temporary folder without a name")?;
        let words = ["serve", "tcp://127.0.0.1:0", "--ready-file", ready_text];
        let process = Running::start(site.seats.server, program, &words).map_err(said)?;
        let mut address = String::new();
        let deadline = Instant::now() + Duration::from_secs(10);
        while address.is_empty() {
            if Instant::now() > deadline {
                return Err("tautline serve is not ready after 10 s".to_owned());
            }
            let text = fs::read_to_string(&ready).unwrap_or_default();
            if text.ends_with('\n') {
                text.trim().clone_into(&mut address);
            }
            thread::sleep(Duration::from_millis(10));
        }
        // A file that stays in a temporary folder is no harm.
        let _ = fs::remove_file(&ready);
        Ok(Self {
            _process: process,
            program: program.to_owned(),
            address,
        })
    }

    fn ping_p50_us(&self, site: &Site) -> Result<f64, String> {
        let words = ["ping", &self.address, "--json", "-", "-t", SECONDS];
        let output = pinned(site.seats.client, &self.program, &words).output();
        let output = output.map_err(|cause| format!("tautline ping: {cause}"))?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .map_err(|cause| format!("the report of tautline ping: {cause}"))?;
        let percentiles = report["ping"]["rtt"]["percentiles"].as_array();
        let mut percentiles = percentiles.into_iter().flatten();
        let p50 = percentiles.find(|of| of["percentile"] == 50.0);
        let p50_ns = p50.and_then(|of| of["value_ns"].as_f64());
        p50_ns
            .map(|ns| ns / 1e3)
            .ok_or_else(|| "tautline ping has no p50".to_owned())
    }
}

/// sockperf's server.
struct Sockperf {
    _process: Running,
    port: String,
}

impl Sockperf {
    /// `None` where there is no sockperf.
    fn start(site: &Site) -> Result<Option<Self>, String> {
        let found = env::var_os("PATH").is_some_and(|path| {
            env::split_paths(&path).any(|folder| folder.join("sockperf").is_file())
        });
        if !found {
            return Ok(None);
        }
        let listener = TcpListener::bind("127.0.0.1:0").map_err(said)?;
        let port = listener.local_addr().map_err(said)?.port();
        drop(listener);
        let text = port.to_string();
        let words = ["server", "--tcp", "-i", "127.0.0.1", "-p", &text];
        let mut process = Running::start(site.seats.server, Path::new("sockperf"), &words)
            .map_err(|cause| format!("sockperf: {cause}"))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline || !matches!(process.0.try_wait(), Ok(None)) {
                return Err("sockperf's server does not listen".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(Self {
            _process: process,
            port: text,
        }))
    }

    fn p50_us(&self, site: &Site) -> Result<f64, String> {
        let words = [
            "ping-pong",
            "--tcp",
            "-i",
            "127.0.0.1",
            "-p",
            &self.port,
            "-m",
            WIRE_BYTES,
            "--full-rtt",
            "-t",
            SECONDS,
        ];
        let output = pinned(site.seats.client, Path::new("sockperf"), &words).output();
        let output = output.map_err(|cause| format!("sockperf: {cause}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("percentile 50.000"));
        line.and_then(|line| line.rsplit('=').next()?.trim().parse().ok())
            .ok_or_else(|| format!("sockperf has no median: {text}"))
    }
}

const WHAT: &str = "64 B on the wire, tcp";
const MOST: f64 = 1.05;
/// With the prefix: the same bytes as both tools send.
const PAYLOAD_BYTES: usize = 64 - 4;
const WIRE_BYTES: &str = "64";
/// sockperf takes whole ones.
const SECONDS: &str = "1";
/// Of the raw side, as long as its list of times.
const A_TURN: Duration = Duration::from_millis(500);
