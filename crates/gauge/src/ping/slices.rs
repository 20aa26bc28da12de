//! A run cut into slices of a second, in bounded memory: when there are too many, pairs become one.

use super::live::Window;
use crate::report::ping::Slice;
use crate::statistics::{Interval, Random, median_interval};

/// The slices of one cell.
#[derive(Debug)]
pub struct Slices {
    start_ns: u64,
    length_ns: u64,
    done: Vec<Cut>,
    current: Cut,
}

#[derive(Debug, Clone)]
struct Cut {
    start_ns: u64,
    end_ns: u64,
    window: Window,
}

impl Slices {
    /// Slices of a second from here on.
    #[must_use]
    pub fn starting_at(start_ns: u64) -> Self {
        Self {
            start_ns,
            length_ns: SECOND_NS,
            done: Vec::with_capacity(MOST),
            current: Cut::at(start_ns),
        }
    }

    /// Adds what happened until now.
    pub fn add(&mut self, window: &Window, now_ns: u64) {
        self.current.window.merge(window);
        self.current.end_ns = now_ns;
        if now_ns - self.current.start_ns >= self.length_ns {
            let cut = std::mem::replace(&mut self.current, Cut::at(now_ns));
            self.done.push(cut);
            if self.done.len() == MOST {
                self.merge_pairs();
            }
        }
    }

    /// Each slice in its order, the last one if at least half of it is there.
    #[must_use]
    pub fn rows(&self) -> Vec<Slice> {
        self.whole().map(|cut| cut.row(self.start_ns)).collect()
    }

    /// The 95 % interval of the slices' medians.
    #[must_use]
    pub fn p50_interval(&self) -> Option<Interval> {
        let medians: Vec<f64> = self
            .whole()
            .filter_map(|cut| cut.window.p50_ns())
            .map(|ns| ns as f64)
            .collect();
        median_interval(&medians, &mut Random::seeded(medians.len() as u64))
    }

    fn whole(&self) -> impl Iterator<Item = &Cut> {
        let half = self.length_ns / 2;
        let last = Some(&self.current)
            .filter(|cut| self.done.is_empty() || cut.end_ns - cut.start_ns >= half)
            .filter(|cut| cut.window.sent > 0 || cut.window.received > 0);
        self.done.iter().chain(last)
    }

    fn merge_pairs(&mut self) {
        let pairs = self.done.chunks(2).map(|pair| {
            let mut cut = pair[0].clone();
            if let Some(other) = pair.get(1) {
                cut.window.merge(&other.window);
                cut.end_ns = other.end_ns;
            }
            cut
        });
        self.done = pairs.collect();
        self.done.reserve(MOST);
        self.length_ns *= 2;
    }
}

impl Cut {
    fn at(start_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns: start_ns,
            window: Window::default(),
        }
    }

    fn row(&self, origin_ns: u64) -> Slice {
        let any = self.window.received > 0;
        Slice {
            start_s: (self.start_ns - origin_ns) as f64 / 1e9,
            seconds: (self.end_ns - self.start_ns) as f64 / 1e9,
            sent: self.window.sent,
            received: self.window.received,
            mean_ns: self.window.mean_ns(),
            p50_ns: self.window.p50_ns(),
            p99_ns: self.window.p99_ns(),
            max_ns: any.then_some(self.window.max_ns),
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// Two minutes in seconds; an hour has slices of a minute.
const MOST: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: u64) -> Slices {
        let mut slices = Slices::starting_at(7);
        for tenth in 1..=seconds * 10 {
            let window = Window {
                sent: 2,
                received: 2,
                max_ns: tenth,
                ..Window::default()
            };
            slices.add(&window, 7 + tenth * SECOND_NS / 10);
        }
        slices
    }

    #[test]
    fn a_run_has_a_slice_a_second() {
        let rows = run(3).rows();
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[2].start_s, rows[2].seconds), (2.0, 1.0));
        assert_eq!((rows[2].sent, rows[2].max_ns), (20, Some(30)));
    }

    #[test]
    fn a_long_run_has_longer_slices_and_loses_nothing() {
        let slices = run(10_000);
        let rows = slices.rows();
        assert!(rows.len() < MOST, "{}", rows.len());
        assert_eq!(rows[0].seconds, 128.0);
        let sent: u64 = rows.iter().map(|row| row.sent).sum();
        assert_eq!(sent + slices.current.window.sent, 200_000);
    }

    #[test]
    fn half_a_second_alone_is_a_slice_too() {
        let mut slices = Slices::starting_at(0);
        let window = Window {
            sent: 1,
            ..Window::default()
        };
        slices.add(&window, SECOND_NS / 4);
        assert_eq!(slices.rows().len(), 1);
        assert_eq!(slices.p50_interval(), None);
    }
}
