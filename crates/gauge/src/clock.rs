//! The clock of every figure: CLOCK_MONOTONIC in nanoseconds, one reading per event.
//!
//! The wall clock has no place here; labels are the report's business.

use std::hint::black_box;

use crate::report;
use crate::statistics::median;
use crate::sys;

/// Nanoseconds since an arbitrary start, never going back.
#[inline]
pub fn now_ns() -> u64 {
    sys::clock::monotonic_ns()
}

/// Finds out how fine the clock is and what reading it costs; takes about a millisecond.
pub fn measure() -> report::Clock {
    report::Clock {
        name: "CLOCK_MONOTONIC".into(),
        resolution_ns: smallest_step(now_ns),
        read_ns: read_cost(),
    }
}

/// The smallest step between readings that differ. A coarse clock repeats itself and then jumps by a
/// tick; a fine one steps by what one reading takes.
fn smallest_step(mut read: impl FnMut() -> u64) -> u64 {
    let mut smallest = u64::MAX;
    let mut last = read();
    let mut steps = 0;
    let mut readings = 0_u64;
    while steps < STEPS && readings < MOST_READINGS {
        let now = read();
        if now > last {
            smallest = smallest.min(now - last);
            steps += 1;
        }
        last = now;
        readings += 1;
    }
    smallest
}

/// The median over batches, because one interrupt would spoil a mean.
fn read_cost() -> f64 {
    let mut batches = [0.0; 31];
    for cost in &mut batches {
        let start = now_ns();
        for _ in 0..READINGS_A_BATCH {
            black_box(now_ns());
        }
        *cost = (now_ns() - start) as f64 / f64::from(READINGS_A_BATCH + 1);
    }
    median(&mut batches).expect("there are batches")
}

/// Enough to meet the smallest; a tick of 10 ms would otherwise make this last for ever.
const STEPS: usize = 2_000;
const MOST_READINGS: u64 = 5_000_000;
const READINGS_A_BATCH: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..100_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_coarse_clock_shows_its_tick() {
        let mut readings = 0;
        let coarse = || {
            readings += 1;
            readings / 100 * 4_000_000
        };
        assert_eq!(smallest_step(coarse), 4_000_000);
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_search() {
        assert_eq!(smallest_step(|| 7), u64::MAX);
    }

    #[test]
    fn this_machine_has_a_clock_with_a_cost() {
        let clock = measure();
        assert_eq!(clock.name, "CLOCK_MONOTONIC");
        assert!(clock.resolution_ns > 0);
        assert!(clock.read_ns > 0.0);
    }
}
