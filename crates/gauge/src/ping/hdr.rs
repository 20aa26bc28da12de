//! `--hdr`: the histograms as an HdrHistogram interval log, which other HDR tools read.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::record::Sorted;

/// One line of the log.
#[derive(Debug)]
pub(crate) struct Interval {
    /// From the start of the log.
    pub(crate) start: Duration,
    pub(crate) duration: Duration,
    pub(crate) tag: String,
    pub(crate) times: Sorted,
}

/// Writes the log: one line a cell, in nanoseconds, tagged with its address and size.
pub(crate) fn write(file: File, started_at: SystemTime, intervals: &[Interval]) -> io::Result<()> {
    let mut to = BufWriter::new(file);
    let mut serializer = V2DeflateSerializer::new();
    let seconds = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("round trips in nanoseconds, by tautline ping")
        .with_start_time(UNIX_EPOCH + seconds)
        .with_base_time(UNIX_EPOCH + seconds)
        // The line's own maximum: in milliseconds, as readers of such logs expect.
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut to, &mut serializer)?;
    for interval in intervals {
        let tag: String = interval
            .tag
            .chars()
            .map(|c| {
                if c == ',' || c.is_whitespace() {
                    '_'
                } else {
                    c
                }
            })
            .collect();
        log.write_histogram(
            interval.times.recorder().histogram(),
            interval.start,
            interval.duration,
            Tag::new(&tag),
        )
        .map_err(|error| match error {
            IntervalLogWriterError::SerializeError(why) => io::Error::other(why.to_string()),
            IntervalLogWriterError::IoError(cause) => cause,
        })?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn the_log_is_read_back_by_a_reader_of_such_logs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hlog");
        let mut times = Sorted::new();
        (1..=1_000).for_each(|us| times.record(us * 1_000));
        let interval = Interval {
            start: Duration::from_secs(1),
            duration: Duration::from_secs(2),
            tag: "tcp://[::1]:6001,64 B".to_owned(),
            times,
        };
        write(File::create(&path).unwrap(), SystemTime::now(), &[interval]).unwrap();
        let text = fs::read(&path).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&text)
            .map(Result::unwrap)
            .collect();
        let interval = entries
            .iter()
            .find_map(|entry| match entry {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .unwrap();
        assert_eq!(interval.tag().unwrap().as_str(), "tcp://[::1]:6001_64_B");
        let encoded = interval.encoded_histogram();
        let bytes = base64(encoded);
        let found: Histogram<u64> = Deserializer::new()
            .deserialize(&mut io::Cursor::new(bytes))
            .unwrap();
        assert_eq!(found.len(), 1_000);
        assert!(found.value_at_quantile(0.5).abs_diff(500_000) < 1_000);
    }

    /// By hand: no crate of ours decodes it elsewhere.
    fn base64(text: &str) -> Vec<u8> {
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text.bytes().filter(|&b| b != b'=').map(value).collect();
        let mut bytes = Vec::new();
        for chunk in digits.chunks(4) {
            let bits = chunk
                .iter()
                .fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit))
                << (6 * (4 - chunk.len()));
            bytes.extend(&bits.to_be_bytes()[1..chunk.len()]);
        }
        bytes
    }
}
