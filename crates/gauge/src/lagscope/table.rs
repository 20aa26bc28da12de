//! The two tables made of a tally: the histogram's rows, and the frequencies as a JSON document.

use std::io::{self, Write};

use super::Tally;

/// A histogram of equal intervals, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    /// Where the first interval begins.
    pub start_us: u64,
    /// How long each is, at least 1.
    pub width_us: u64,
    /// How many there are.
    pub intervals: u64,
}

impl Histogram {
    /// Where each row begins and how many pings it holds. A row 0 counts what lies below the first
    /// interval and is there only if something can; the last row counts what is at or above the
    /// final edge.
    pub fn rows(&self, tally: &Tally) -> Vec<(u64, u64)> {
        let edges = (0..=self.intervals).map(|index| self.start_us + index * self.width_us);
        let below = (self.start_us > 0).then_some(0);
        let mut rows: Vec<(u64, u64)> = below
            .into_iter()
            .chain(edges)
            .map(|edge| (edge, 0))
            .collect();
        for (us, times) in tally.frequencies() {
            // The first row begins at 0, so there is always one that begins no later.
            let row = rows.partition_point(|&(edge, _)| edge <= us) - 1;
            rows[row].1 += times;
        }
        rows
    }
}

/// Writes how often each whole microsecond came, in lagscope's layout to the byte.
///
/// # Errors
///
/// What the writer says.
pub fn write_frequencies(tally: &Tally, to: &mut impl Write) -> io::Result<()> {
    write!(to, "{{\n\t\"latencies\":[\n")?;
    let mut between = "";
    for (latency, frequency) in tally.frequencies() {
        write!(
            to,
            "{between}\t\t{{\n\t\t\t\"latency\": {latency},\n\t\t\t\"frequency\": {frequency}\n\t\t}}"
        )?;
        between = ",\n";
    }
    let after_the_last = if between.is_empty() { "" } else { "\n" };
    write!(to, "{after_the_last}\t]\n}}\n")?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_us(values: &[u64]) -> Tally {
        let mut tally = Tally::new();
        values.iter().for_each(|us| tally.record(us * 1_000 + 250));
        tally
    }

    fn histogram(start_us: u64, width_us: u64, intervals: u64) -> Histogram {
        Histogram {
            start_us,
            width_us,
            intervals,
        }
    }

    #[test]
    fn from_zero_there_is_no_row_for_what_lies_below() {
        let tally = of_us(&[0, 99, 100, 299, 300, 301, 28_133]);
        let rows = histogram(0, 100, 3).rows(&tally);
        assert_eq!(rows, [(0, 2), (100, 1), (200, 1), (300, 3)]);
    }

    #[test]
    fn above_zero_row_0_counts_what_lies_below() {
        let rows = histogram(10, 1, 2).rows(&of_us(&[3, 9, 10, 11, 12]));
        assert_eq!(rows, [(0, 2), (10, 1), (11, 1), (12, 1)]);
    }

    /// `-a100000` made the original read outside of its table.
    #[test]
    fn a_start_beyond_every_ping_counts_them_all_below() {
        let rows = histogram(100_000, 100, 2).rows(&of_us(&[13, 14]));
        assert_eq!(rows, [(0, 2), (100_000, 0), (100_100, 0), (100_200, 0)]);
    }

    #[test]
    fn nothing_measured_is_rows_of_zero() {
        let rows = histogram(0, 1, 1).rows(&Tally::new());
        assert_eq!(rows, [(0, 0), (1, 0)]);
    }

    #[test]
    fn the_document_is_lagscopes_to_the_byte() {
        let mut document = Vec::new();
        write_frequencies(&of_us(&[13, 12, 13, 13]), &mut document).unwrap();
        assert_eq!(
            String::from_utf8(document).unwrap(),
            "{\n\t\"latencies\":[\n\
             \t\t{\n\t\t\t\"latency\": 12,\n\t\t\t\"frequency\": 1\n\t\t},\n\
             \t\t{\n\t\t\t\"latency\": 13,\n\t\t\t\"frequency\": 3\n\t\t}\n\
             \t]\n}\n"
        );
    }

    #[test]
    fn an_empty_document_is_still_one() {
        let mut document = Vec::new();
        write_frequencies(&Tally::new(), &mut document).unwrap();
        assert_eq!(document, b"{\n\t\"latencies\":[\n\t]\n}\n");
    }
}
