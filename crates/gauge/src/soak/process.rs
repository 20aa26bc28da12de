//! The other side of a run: what a receiver, a sender or a load does in the process that it is.
//!
//! Such a process ends with the run: it is killed when the run's thread ends, and ends by itself when
//! the pipe that it is told by is closed.

use std::io::{self, BufReader};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tautline::Address;

use super::connection::Connection;
use super::protocol::{Job, LoadLimit, Order, Ready, Word, hear, say};
use super::sender::{self, Event, Pings};
use super::trace::Trace;
use crate::placement::{self, Hold};
use crate::plan::{PlacementPlan, Sched};
use crate::primes::{self, Counting, TRIAL_LIMIT, Trial, WholeCount};
use crate::serve::{ServePlan, Server};
use crate::sys;

/// Does what the first line of standard input says, until it is done or told that it is enough. What it
/// has to say goes to standard output.
///
/// # Errors
///
/// When whoever started it cannot be heard.
pub fn process(one_session: bool) -> io::Result<()> {
    sys::session::die_with_parent()?;
    sys::session::ignore_interrupt();
    if !one_session {
        sys::session::setsid()?;
    }
    let mut input = BufReader::new(io::stdin());
    let Some(job) = hear::<Job>(&mut input)? else {
        return Ok(());
    };
    let (event, events) = mpsc::channel();
    let orders = event.clone();
    thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || {
            while let Ok(Some(order)) = hear::<Order>(&mut input) {
                if orders.send(Event::Order(order)).is_err() {
                    return;
                }
            }
            // Nobody is there to hear that nobody is there once the work is done.
            let _ = orders.send(Event::Alone);
        })?;
    let outcome = match job {
        Job::Receiver { address, sched } => receive(&address, &sched, &events),
        Job::Sender { .. } => send(&job, &events, &event),
        Job::Load { .. } => load(&job, &events),
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(why) => tell(&Word::Failed(why)),
    }
}

fn receive(address: &str, sched: &str, events: &Receiver<Event>) -> Result<(), String> {
    let address: Address = address.parse().map_err(|why| format!("{why}"))?;
    let sched: Sched = sched.parse().map_err(|why| format!("{why}"))?;
    // Whole, as `chrt` does it: the threads of clients inherit it.
    let refused = placement::take_sched(sched);
    let plan = ServePlan {
        addresses: vec![address],
        ..ServePlan::default()
    };
    let server = Server::start(plan).map_err(|why| why.to_string())?;
    let ready = Ready {
        refused,
        address: server.addresses().first().map(Address::to_string),
        ..ready()
    };
    tell(&Word::Ready(Box::new(ready))).map_err(|cause| cause.to_string())?;
    while let Ok(Event::Order(Order::Go { .. }) | Event::Over) = events.recv() {}
    // The summary is the senders' to give.
    let _ = server.stop();
    Ok(())
}

fn send(job: &Job, events: &Receiver<Event>, event: &Sender<Event>) -> Result<(), String> {
    let Job::Sender {
        address,
        payload_bytes,
        pings,
        warmup,
        trace_over_ns,
    } = job
    else {
        unreachable!("the caller looked");
    };
    let trace = trace_over_ns.map(Trace::open).transpose()?;
    let address: Address = address.parse().map_err(|why| format!("{why}"))?;
    let (connection, peer) = Connection::open(&address, *payload_bytes)?;
    // Refused, pages come when they are first used: in the warm-up.
    let _hold = Hold::take(&PlacementPlan::default(), &[]);
    warm_up(&connection, *payload_bytes, *warmup)
        .map_err(|cause| format!("{address}: in the warm-up: {cause}"))?;
    let ready = Ready {
        peer: Some(peer),
        ..ready()
    };
    tell(&Word::Ready(Box::new(ready))).map_err(|cause| cause.to_string())?;
    let on = match events.recv() {
        Ok(Event::Order(Order::Go { on })) => on,
        Ok(Event::Order(Order::Enough) | Event::Alone | Event::Over) | Err(_) => return Ok(()),
    };
    let pings = Pings {
        payload_bytes: *payload_bytes,
        number: *pings,
        on,
    };
    let sent = sender::send(&connection, pings, trace, events, event, || {
        // A run that is gone shows in the orders.
        let _ = tell(&Word::Counted);
    });
    tell(&Word::Sent(Box::new(sent))).map_err(|cause| cause.to_string())
}

/// Pings that do not count, for a second at most.
fn warm_up(connection: &Connection, payload_bytes: usize, pings: u64) -> io::Result<()> {
    let mut ping = vec![0; payload_bytes];
    let mut reply = vec![0; payload_bytes];
    let until = Instant::now() + WARMUP_LIMIT;
    for sequence in 0..pings {
        sender::stamp(&mut ping, sequence);
        connection.exchange(&ping, &mut reply)?;
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}

fn load(job: &Job, events: &Receiver<Event>) -> Result<(), String> {
    let Job::Load {
        limit,
        threads,
        sched,
        repeat,
    } = job
    else {
        unreachable!("the caller looked");
    };
    let in_words = |cause: io::Error| format!("start a thread: {cause}");
    let sched: Sched = sched.parse().map_err(|why| format!("{why}"))?;
    let (limit, within) = match *limit {
        LoadLimit::UpTo(limit) => (limit, None),
        LoadLimit::Within { time_ns } => (TRIAL_LIMIT, Some(Duration::from_nanos(time_ns))),
    };
    let plan = primes::Plan {
        repeat: *repeat,
        ..primes::Plan::once(limit, *threads, sched)
    };
    let counting = Counting::start(&plan).map_err(in_words)?;
    let cpus = placement::allowed_cpus()
        .map_or(1, |cpus| cpus.len())
        .min(*threads);
    let until = Instant::now() + SPREAD_LIMIT;
    while counting.cpus_seen() < cpus && Instant::now() < until && !counting.finished() {
        thread::sleep(STEP / 10);
    }
    let ready = Ready {
        sched: counting.sched_effective().to_owned(),
        refused: counting.refused().map(str::to_owned),
        limit: within.is_none().then_some(limit),
        cpus: Some(counting.cpus_seen()),
        ..ready()
    };
    tell(&Word::Ready(Box::new(ready))).map_err(|cause| cause.to_string())?;
    let (whole, counting) =
        count_until_enough(counting, &plan, within, events).map_err(|cause| cause.to_string())?;
    let counted = counting.stop();
    let last = Word::Load {
        whole: counted.first.or(whole),
        whole_counts: counted.whole_counts,
    };
    tell(&last).map_err(|cause| cause.to_string())
}

/// Says when the first whole count has ended: of a load that repeats, the first from its release on.
/// Until told that it is enough, or until nothing is left. Hands back the count that runs then: where
/// its limit was to be found out `within` some time, it is another one from there on.
fn count_until_enough(
    mut counting: Counting,
    plan: &primes::Plan,
    within: Option<Duration>,
    events: &Receiver<Event>,
) -> io::Result<(Option<WholeCount>, Counting)> {
    let mut said = None;
    let mut told = counting.finishes();
    let mut trial = None;
    loop {
        if let Some(limit) = trial
            .as_ref()
            .and_then(|trial: &Trial| trial.limit(&counting))
        {
            trial = None;
            tell(&Word::Limit(limit))?;
            let plan = primes::Plan {
                limit,
                ..plan.clone()
            };
            // Started before the other one stops: no ping is without load.
            counting = Counting::start(&plan)?;
            told = true;
        }
        if told
            && said.is_none()
            && let Some(whole) = counting.first()
        {
            said = Some(whole);
            tell(&Word::Whole(whole))?;
        }
        if counting.finished() {
            return Ok((said, counting));
        }
        match events.recv_timeout(STEP) {
            Err(RecvTimeoutError::Timeout) | Ok(Event::Over) => {}
            // What it counted before only made it a load.
            Ok(Event::Order(Order::Go { .. })) => {
                counting.restart();
                match within {
                    Some(time) => trial = Some(Trial::begin(&counting, time)),
                    None => told = true,
                }
            }
            Ok(Event::Order(Order::Enough) | Event::Alone)
            | Err(RecvTimeoutError::Disconnected) => {
                return Ok((said, counting));
            }
        }
    }
}

/// What every process can say of itself.
fn ready() -> Ready {
    Ready {
        session: sys::session::getsid().unwrap_or(0),
        sched: sys::sched::scheduler().unwrap_or_else(|_| "unknown".to_owned()),
        ..Ready::default()
    }
}

fn tell(word: &Word) -> io::Result<()> {
    say(&mut io::stdout().lock(), word)
}

/// How long it may take a load to get onto every CPU.
const SPREAD_LIMIT: Duration = Duration::from_secs(10);
const WARMUP_LIMIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(50);
