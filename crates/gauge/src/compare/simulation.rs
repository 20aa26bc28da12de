//! What the method is held to, on simulated pairs of runs: its level where nothing changed, and how
//! often it finds a tenth.
//!
//! The noise is what rounds on shared machines look like: neighbours resemble each other, one in twenty
//! is hit by something else, the machine drifts while a run lasts, and every run has fresh endpoints.

use super::LEVEL;
use super::holm::holm;
use super::samples::Samples;
use super::shift::Shift;
use crate::statistics::Random;

/// How one comparison is made.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: usize,
    runs: usize,
    rounds: usize,
}

/// Pairs of 200 in which some row was called different.
fn called(shape: Shape, ratio: f64, seed: u64) -> usize {
    let mut random = Random::seeded(seed);
    let pairs = (0..PAIRS).filter(|_| {
        let ps: Vec<f64> = (0..shape.rows)
            .map(|_| {
                let a = side(shape, 1.0, &mut random);
                let b = side(shape, ratio, &mut random);
                Shift::between(&a, &b).unwrap().p
            })
            .collect();
        holm(&ps).iter().any(|&p| p <= LEVEL)
    });
    pairs.count()
}

/// Pairs of 200 in which the first row was called different in the right direction.
fn found(shape: Shape, ratio: f64, seed: u64) -> usize {
    let mut random = Random::seeded(seed);
    let pairs = (0..PAIRS).filter(|_| {
        let shifts: Vec<Shift> = (0..shape.rows)
            .map(|_| {
                let a = side(shape, 1.0, &mut random);
                let b = side(shape, ratio, &mut random);
                Shift::between(&a, &b).unwrap()
            })
            .collect();
        let ps: Vec<f64> = shifts.iter().map(|shift| shift.p).collect();
        holm(&ps)[0] <= LEVEL && (shifts[0].log_ratio > 0.0) == (ratio > 1.0)
    });
    pairs.count()
}

fn side(shape: Shape, level: f64, random: &mut Random) -> Samples {
    let mut samples = Samples::default();
    for _ in 0..shape.runs {
        samples.add(Some("boot"), run(shape.rounds, level, random));
    }
    samples
}

/// The medians of a run's rounds, in microseconds around 25.
fn run(rounds: usize, level: f64, random: &mut Random) -> Vec<f64> {
    let endpoints = ENDPOINTS * normal(random);
    let drift = DRIFT * normal(random);
    let mut like_the_last = SCATTER * normal(random);
    (0..rounds)
        .map(|round| {
            let fresh = SCATTER * (1.0 - ALIKE * ALIKE).sqrt() * normal(random);
            like_the_last = ALIKE * like_the_last + fresh;
            let hit = match random.below(20) {
                0 => 0.1 + 0.2 * normal(random).abs(),
                _ => 0.0,
            };
            let way = round as f64 / rounds as f64 - 0.5;
            25.0 * level * (endpoints + drift * way + like_the_last + hit).exp()
        })
        .collect()
}

/// Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let (radius, angle) = (1.0 - uniform(), uniform());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

const PAIRS: usize = 200;
/// Of the stationary noise of rounds.
const SCATTER: f64 = 0.025;
/// Standard deviation of what fresh endpoints do to a run.
const ENDPOINTS: f64 = 0.01;
/// How much of its deviation a round hands on to the next.
const ALIKE: f64 = 0.4;
/// Standard deviation of what the machine gains or loses while a run lasts.
const DRIFT: f64 = 0.03;

const SHAPES: [Shape; 6] = [
    // One run each, one row.
    Shape {
        rows: 1,
        runs: 1,
        rounds: 15,
    },
    // One run each, a page of rows.
    Shape {
        rows: 12,
        runs: 1,
        rounds: 15,
    },
    // `bench` as it is.
    Shape {
        rows: 1,
        runs: 3,
        rounds: 15,
    },
    Shape {
        rows: 12,
        runs: 3,
        rounds: 15,
    },
    // `bench --ab` as it is, with commands of one round.
    Shape {
        rows: 1,
        runs: 15,
        rounds: 1,
    },
    Shape {
        rows: 12,
        runs: 15,
        rounds: 6,
    },
];

#[test]
fn of_200_pairs_of_the_same_thing_one_in_twenty_at_most_is_called_different() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let alarms = called(shape, 1.0, 1_000 + number as u64);
        println!("{shape:?}: {alarms} false alarms in {PAIRS} pairs");
        assert!(alarms as f64 <= LEVEL * PAIRS as f64, "{shape:?}: {alarms}");
    }
}

#[test]
fn of_200_pairs_a_tenth_apart_nineteen_in_twenty_are_found() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        for ratio in [1.10, 1.0 / 1.10] {
            let found = found(shape, ratio, 2_000 + number as u64);
            println!("{shape:?}: {ratio:.3}x found in {found} of {PAIRS} pairs");
            assert!(found as f64 >= 0.95 * PAIRS as f64, "{shape:?}: {found}");
        }
    }
}
