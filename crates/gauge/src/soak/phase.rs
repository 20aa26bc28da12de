//! One phase: the senders are released together, and heard until all have done their pings and, under
//! load, until the first whole count has ended.

use std::time::{Duration, Instant};

use super::Breaker;
use super::crew::Crew;
use super::moments::moments;
use super::protocol::{Order, Sent, Word};
use crate::clock::now_ns;
use crate::moments::Moments;
use crate::recorder::Recorder;
use crate::report::soak::{Phase, Rtt, Sender, Slice};

/// What a phase came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) phase: Phase,
    pub(super) slices: Vec<Slice>,
    /// How far the load counts, where it found that out in this phase.
    pub(super) limit: Option<u64>,
    /// What broke, if it concerns more than one sender.
    pub(super) error: Option<String>,
}

/// Releases the senders, which are ready, and waits for all of them.
pub(super) fn run(
    crew: &mut Crew,
    senders: &[usize],
    load: Option<usize>,
    breaker: &Breaker<'_>,
) -> Outcome {
    let mut hearing = Hearing {
        counted: vec![false; senders.len()],
        sent: vec![None; senders.len()],
        load_ended: load.is_none(),
        first_count_ns: None,
        limit: None,
        error: None,
    };
    let mut machine = Moments::new();
    machine.read(now_ns(), None);
    for &member in load.iter().chain(senders) {
        crew.tell(member, Order::Go { on: load.is_some() });
    }
    let mut next_reading = Instant::now() + READING;
    let mut told = None;
    while hearing.sent.iter().any(Option::is_none) {
        let left = next_reading.saturating_duration_since(Instant::now());
        if left.is_zero() {
            machine.read(now_ns(), None);
            next_reading += READING;
        } else if let Some(heard) = crew.hear(left) {
            hearing.hear(crew, senders, load, heard.member, heard.word);
        }
        if told.is_none() && (breaker.is_set() || hearing.is_enough(load)) {
            told = Some(Instant::now());
            senders
                .iter()
                .for_each(|&sender| crew.tell(sender, Order::Enough));
        }
        if told.is_some_and(|told: Instant| told.elapsed() > LAST_WORD_LIMIT) {
            hearing.give_up();
        }
    }
    machine.read(now_ns(), None);
    if let Some(load) = load {
        crew.tell(load, Order::Enough);
    }
    hearing.outcome(load, &machine)
}

/// What has been heard so far.
#[derive(Debug)]
struct Hearing {
    counted: Vec<bool>,
    sent: Vec<Option<Box<Sent>>>,
    load_ended: bool,
    first_count_ns: Option<u64>,
    limit: Option<u64>,
    error: Option<String>,
}

impl Hearing {
    fn hear(
        &mut self,
        crew: &Crew,
        senders: &[usize],
        load: Option<usize>,
        member: usize,
        word: Option<Word>,
    ) {
        if Some(member) == load {
            match word {
                Some(Word::Limit(limit)) => self.limit = Some(limit),
                Some(Word::Whole(whole)) => self.first_count_ns = Some(whole.time_ns),
                Some(Word::Failed(why)) => self.load_broke(format!("the load: {why}")),
                None => self.load_broke("the load ended by itself".to_owned()),
                Some(Word::Ready(_) | Word::Counted | Word::Sent(_) | Word::Load { .. }) => {}
            }
            return;
        }
        let Some(index) = senders.iter().position(|&sender| sender == member) else {
            return;
        };
        match word {
            Some(Word::Counted) => self.counted[index] = true,
            Some(Word::Sent(sent)) => self.sent[index] = Some(sent),
            Some(Word::Failed(why)) => self.broke(index, why),
            None => self.broke(
                index,
                format!("the process of {} ended by itself", crew.role(member)),
            ),
            Some(Word::Ready(_) | Word::Limit(_) | Word::Whole(_) | Word::Load { .. }) => {}
        }
    }

    /// Every sender has done its pings, or has ended; and the load has counted once, or has ended.
    fn is_enough(&self, load: Option<usize>) -> bool {
        let pings = self.counted.iter().zip(&self.sent);
        let count = load.is_none() || self.load_ended || self.first_count_ns.is_some();
        count
            && pings
                .into_iter()
                .all(|(&counted, sent)| counted || sent.is_some())
    }

    fn broke(&mut self, index: usize, why: String) {
        // After its last word a process may end.
        self.sent[index].get_or_insert_with(|| {
            Box::new(Sent {
                error: Some(why),
                ..Sent::default()
            })
        });
    }

    fn load_broke(&mut self, why: String) {
        self.load_ended = true;
        self.error.get_or_insert(why);
    }

    fn give_up(&mut self) {
        let seconds = LAST_WORD_LIMIT.as_secs();
        for index in 0..self.sent.len() {
            self.broke(
                index,
                format!("said nothing for {seconds} s after it was told to end"),
            );
        }
    }

    fn outcome(self, load: Option<usize>, machine: &Moments) -> Outcome {
        let sent: Vec<Sent> = self.sent.into_iter().flatten().map(|sent| *sent).collect();
        let mut merged = Recorder::new();
        let mut over = [0; 4];
        for one in &sent {
            merged.add(&one.recorded);
            for (over, more) in over.iter_mut().zip(one.over) {
                *over += more;
            }
        }
        let broken = !sent.is_empty() && sent.iter().all(|one| one.error.is_some());
        let all_broken = broken.then(|| sent[0].error.clone().unwrap_or_default());
        Outcome {
            slices: sent
                .iter()
                .flat_map(|one| one.slices.iter().copied())
                .collect(),
            phase: Phase {
                load: if load.is_some() { "primes" } else { "none" }.to_owned(),
                repeat: 0,
                slow: moments(&sent, machine),
                senders: sent.iter().map(sender).collect(),
                rtt: rtt(&merged),
                over_1ms: over[0],
                over_5ms: over[1],
                over_10ms: over[2],
                over_20ms: over[3],
                primes_ns: self.first_count_ns,
                load_cpus: None,
            },
            limit: self.limit,
            error: self.error.or(all_broken),
        }
    }
}

fn sender(sent: &Sent) -> Sender {
    let mut recorder = Recorder::new();
    recorder.add(&sent.recorded);
    let summary = recorder.summary();
    Sender {
        max_ns: summary.max_ns,
        mean_ns: summary.mean_ns,
        time_ns: (summary.count > 0).then_some(sent.time_ns),
        min_ns: summary.min_ns,
        pings: summary.count,
        further_pings: sent.further_pings,
        corrupted: sent.corrupted,
        error: sent.error.clone(),
        traced_sequence: sent.traced,
        slices: sent.slices.clone(),
    }
}

fn rtt(merged: &Recorder) -> Rtt {
    let summary = merged.summary();
    Rtt {
        count: summary.count,
        min_ns: summary.min_ns,
        mean_ns: summary.mean_ns,
        p50_ns: summary.p50_ns,
        p99_ns: summary.p99_ns,
        p999_ns: summary.p999_ns,
        p9999_ns: merged.beyond(10_000),
        p99999_ns: merged.beyond(100_000),
        max_ns: summary.max_ns,
        hdr: Some(merged.to_report()),
    }
}

const READING: Duration = Duration::from_millis(100);
/// A starved process needs some time for its last word.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(15);
