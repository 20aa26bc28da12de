//! The whole program: options, one target after another, a line for each row as it is done.

use std::fs::File;
use std::io::Write;

use serde::Serialize;
use tautline_gauge::statistics::Random;

mod batch;
mod contention;
pub(crate) mod crowd;
mod echo;
pub(crate) mod list;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod paced;
pub(crate) mod peers;
mod place;
pub(crate) mod regime;
pub(crate) mod rounds;
pub(crate) mod rows;
mod site;
pub(crate) mod stream;
mod study;
pub(crate) mod summary;

pub(crate) use list::Target;
use list::{Group, SideKind};
use options::{Asked, HELP, Options};
use regime::{Period, Regime};
use rounds::{Measured, Side};
pub(crate) use rows::Row;
use site::{Site, Watchdog, said};
pub(crate) use study::{Finding, run_if_child};
use summary::Summary;

/// Everything that was measured, and what could not be.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    pub(crate) block_ns: u64,
    pub(crate) regimes: Vec<Period>,
    pub(crate) rows: Vec<Row>,
    /// What targets without rounds came to.
    pub(crate) findings: Vec<Finding>,
    /// Groups without rows, and peers without figures, each with its reason.
    pub(crate) failed: Vec<String>,
    /// Peers that are not on this machine; that is no failure.
    pub(crate) missing: Vec<String>,
    /// Written at the end: what the rows come to.
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// Why there is no outcome, and the exit status that says so.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) status: u8,
    pub(crate) why: String,
}

/// Does what the arguments ask for and writes to `out`; nothing is measured when they ask for help.
pub(crate) fn execute(
    arguments: impl IntoIterator<Item = String>,
    out: &mut dyn Write,
) -> Result<Option<Outcome>, Refused> {
    let refused = |status| move |why| Refused { status, why };
    match Options::parse(arguments).map_err(refused(2))? {
        Asked::Run(options) => match options.once {
            None => run(*options, out).map(Some).map_err(refused(3)),
            Some(once) => {
                let done = once::run(once, &options).map_err(refused(3))?;
                let shown = writeln!(out, "{done}").map(|()| None);
                shown.map_err(|cause| refused(3)(said(cause)))
            }
        },
        Asked::Help => {
            let shown = out.write_all(HELP.as_bytes());
            shown
                .map(|()| None)
                .map_err(|cause| refused(3)(said(cause)))
        }
    }
}

/// Runs what `options` ask for and writes the table to `out` as it grows.
fn run(mut options: Options, out: &mut dyn Write) -> Result<Outcome, String> {
    // Opened before the run: ten minutes are a long way to "permission denied".
    let json = options.json.as_ref().map(|path| {
        File::create(path).map_err(|cause| format!("--json {}: {cause}", path.display()))
    });
    let json = json.transpose()?;
    let watchdog = Watchdog::start()?;
    let mut random = Random::seeded(options.seed);
    let mut outcome = Outcome {
        seed: options.seed,
        rounds: options.rounds,
        block_ns: options.block.as_nanos() as u64,
        regimes: Vec::new(),
        rows: Vec::new(),
        findings: Vec::new(),
        failed: Vec::new(),
        missing: options
            .peers
            .iter()
            .filter_map(|peer| peer.missing())
            .collect(),
        summary: Summary::default(),
    };
    options.peers.retain(|peer| peer.missing().is_none());
    for peer in &outcome.missing {
        writeln!(out, "{peer}").map_err(said)?;
    }
    let minutes = list::expected(&options).as_secs_f64() / 60.0;
    writeln!(out, "about {minutes:.1} minutes on a quiet machine").map_err(said)?;
    let mut told: Vec<String> = Vec::new();
    let heading = rows::heading();
    for target in Target::ALL {
        let groups = list::groups(target, &options);
        let studied = options.studies(target);
        if groups.is_empty() && !studied {
            continue;
        }
        let first_row = outcome.rows.len();
        let mut regime = Regime::measure()?;
        // Said once.
        regime.notes.retain(|note| !told.contains(note));
        told.extend(regime.notes.iter().cloned());
        writeln!(
            out,
            "\n{target}  {}\n{}\n{}",
            target.title(),
            regime.render(),
            if studied { "" } else { &heading }
        )
        .map_err(said)?;
        let findings = if studied {
            study::of(target, &options, &watchdog)
        } else {
            None
        };
        for finding in findings.into_iter().flatten() {
            match finding {
                Ok(finding) => {
                    writeln!(out, "{finding}").map_err(said)?;
                    outcome.findings.push(finding);
                }
                Err(why) => {
                    writeln!(out, "{why}").map_err(said)?;
                    outcome.failed.push(why);
                }
            }
        }
        for group in groups {
            let cell = format!(
                "{target} {} {} {}",
                group.condition, group.transport, group.payload_bytes
            );
            let failed = match measure(&group, &options, &mut random, &watchdog) {
                Ok(measured) => {
                    for row in rows::rows(&group, &measured.records, &mut random) {
                        writeln!(out, "{row}").map_err(said)?;
                        outcome.rows.push(row);
                    }
                    measured.failed
                }
                Err(why) => vec![why],
            };
            for why in failed {
                let why = format!("{cell}: {why}");
                writeln!(out, "{why}").map_err(said)?;
                outcome.failed.push(why);
            }
        }
        let period = Period::ended(target, regime)?;
        for change in &period.changed {
            writeln!(
                out,
                "    changed: {change}; the rows above count as changed"
            )
            .map_err(said)?;
        }
        for row in &mut outcome.rows[first_row..] {
            row.changed = !period.changed.is_empty();
        }
        outcome.regimes.push(period);
    }
    outcome.summary = Summary::of(&outcome.rows);
    write!(out, "\n{}", outcome.summary).map_err(said)?;
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &outcome).map_err(said)?;
    }
    Ok(outcome)
}

/// One group in its place, on a thread of its own: it is the client of every side, and pinned.
fn measure(
    group: &Group,
    options: &Options,
    random: &mut Random,
    watchdog: &Watchdog,
) -> Result<Measured, String> {
    let (own, watchdog) = (group.clone(), watchdog.clone());
    let amount = (options.rounds, options.block);
    let mut own_random = random.clone();
    let (condition, transport) = (group.condition, group.transport);
    let (measured, used) = place::at(condition, transport, group.payload_bytes, move |site| {
        let measured = rounds::run(&own, site, amount, &mut own_random, &watchdog)?;
        Ok((measured, own_random))
    })?;
    *random = used;
    Ok(measured)
}

impl SideKind {
    /// Connects this side; the calling thread will run its blocks.
    pub(crate) fn start(self, site: &Site) -> Result<Box<dyn Side>, String> {
        match self {
            Self::Direct => echo::start_direct(site),
            Self::Spin => echo::start_spin(site),
            Self::Callback => echo::start_callback(site),
            Self::Blocking => echo::start_blocking(site),
            Self::PollYield => echo::start_polling(site),
            Self::Epoll => echo::start_epoll(site),
            Self::Link(strategy) => stream::start_link(site, strategy),
            Self::Raw(gather) => stream::start_raw(site, gather),
            Self::Datagrams(bulk) => stream::start_datagrams(site, bulk),
            Self::Paced(rate_hz) => paced::start_link(site, rate_hz),
            Self::PacedRaw(wait, rate_hz) => paced::start_raw(site, wait, rate_hz),
            Self::BatchCallback => batch::start_callback(site),
            Self::BatchEach => batch::start_each(site),
            Self::TrySendCaught => contention::start_caught(site),
            Self::TrySendFlooded => contention::start_flooded(site),
            Self::MutexPush => contention::start_push(site),
            Self::CrowdCallback(crowd) => crowd::start_callback(site, crowd),
            Self::CrowdEpoll(crowd) => crowd::start_epoll(site, crowd),
            Self::Peer(peer) => peer.start(site),
        }
    }
}
