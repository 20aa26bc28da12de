//! A whole distribution inside the report: what percentile curves, comparisons and the check of a
//! bundle are computed from.
//!
//! In JSON it is one text: the histogram in HdrHistogram's compressed V2 encoding, in base64, exactly
//! what a line of an HdrHistogram log carries.

use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{
    Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// Recorded times in nanoseconds, to three digits.
#[derive(Clone, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    /// Keeps what was recorded.
    #[must_use]
    pub fn new(recorded: hdrhistogram::Histogram<u64>) -> Self {
        Self(recorded)
    }

    /// The recorded values.
    #[must_use]
    pub fn recorded(&self) -> &hdrhistogram::Histogram<u64> {
        &self.0
    }

    /// Samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The sample of this rank, counted from 1, within a digit of the histogram. What the histogram
    /// blurs at its ends is held within the exact extremes.
    #[must_use]
    pub fn at_rank(&self, rank: u64, least_ns: u64, most_ns: u64) -> u64 {
        at_rank(&self.0, rank, least_ns, most_ns)
    }

    /// As [`Self::to_base64`] wrote it, or a line of an HdrHistogram log carries it.
    ///
    /// # Errors
    ///
    /// A sentence about what the text is instead.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let compressed = STANDARD
            .decode(text)
            .map_err(|why| format!("a histogram that is no base64: {why}"))?;
        let plain = inflate(&compressed)
            .map_err(|why| format!("a histogram that cannot be read: {why}"))?;
        HdrDeserializer::new()
            .deserialize(&mut plain.as_slice())
            .map(Self)
            .map_err(|why| format!("a histogram that cannot be read: {why}"))
    }

    /// The compressed V2 encoding, in base64.
    ///
    /// # Errors
    ///
    /// A sentence; only counts beyond 2^63 have one.
    pub fn to_base64(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|why| why.to_string())?;
        Ok(STANDARD.encode(bytes))
    }
}

/// The plain V2 encoding inside the compressed one, if reading it takes no more memory than a histogram
/// of ours: the library that reads it sets memory aside by the lengths and the range that it announces.
fn inflate(compressed: &[u8]) -> Result<Vec<u8>, &'static str> {
    let Some((&[c0, c1, c2, c3, ..], deflated)) = compressed.split_first_chunk::<8>() else {
        return Err("it is cut short");
    };
    if u32::from_be_bytes([c0, c1, c2, c3]) != COMPRESSED_COOKIE {
        return Err("it is not in the compressed V2 encoding");
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated)
        .take(PLAIN_LIMIT_BYTES)
        .read_to_end(&mut plain)
        .map_err(|_| "it is damaged")?;
    let number = |at: usize| {
        let bytes = plain.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (Some(payload_bytes), Some(digits)) = (number(4), number(12)) else {
        return Err("it is cut short");
    };
    if plain.len() < PLAIN_HEADER_BYTES || payload_bytes as usize > plain.len() - PLAIN_HEADER_BYTES
    {
        return Err("it is cut short, or longer than any report's");
    }
    if digits > DIGITS {
        return Err("it has more digits than a report's");
    }
    Ok(plain)
}

/// The first word of the compressed V2 encoding.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// What stands before the counts in the plain one: two words, offset, digits, range and a ratio.
const PLAIN_HEADER_BYTES: usize = 40;
/// All counts of three digits over all values of 64 bits, each in its longest form, and the header.
const PLAIN_LIMIT_BYTES: u64 = 64 * 1024 * 9 + PLAIN_HEADER_BYTES as u64;
/// Digits of every histogram of ours.
const DIGITS: u32 = 3;

/// The one rule by which a recorder, and whoever checks its report, finds a percentile.
pub(crate) fn at_rank(
    recorded: &hdrhistogram::Histogram<u64>,
    rank: u64,
    least_ns: u64,
    most_ns: u64,
) -> u64 {
    // Half a rank below, so that no rounding of the quotient can reach the next rank.
    let quantile = (rank as f64 - 0.5) / recorded.len() as f64;
    let found = recorded.value_at_quantile(quantile);
    found.max(least_ns).min(most_ns)
}

impl fmt::Debug for Histogram {
    /// Thirty thousand counters would say less.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} samples)", self.count())
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_base64().map_err(ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_base64(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_back_as_it_was_written() {
        let mut recorded = hdrhistogram::Histogram::new(3).unwrap();
        (1..=1_000).for_each(|us| recorded.record(us * 1_000).unwrap());
        let histogram = Histogram::new(recorded);
        let json = serde_json::to_string(&histogram).unwrap();
        assert!(json.starts_with("\"HISTF"), "{json}");
        let back: Histogram = serde_json::from_str(&json).unwrap();
        assert_eq!(back.count(), 1_000);
        assert_eq!(back.recorded(), histogram.recorded());
    }

    #[test]
    fn what_is_no_histogram_is_said_to_be_none() {
        for text in ["", "§", "AAAA", "HISTFAAAA"] {
            assert!(Histogram::from_base64(text).is_err(), "{text:?}");
        }
    }

    /// A histogram of no counts with this payload length and these digits, compressed.
    fn announcing(payload_bytes: u32, digits: u32) -> String {
        let mut plain = Vec::new();
        for word in [0x1c84_9313, payload_bytes, 0, digits] {
            plain.extend(u32::to_be_bytes(word));
        }
        for range in [1_u64, 1 << 60, 1.0_f64.to_bits()] {
            plain.extend(range.to_be_bytes());
        }
        let mut deflated = Vec::new();
        let level = flate2::Compression::fast();
        flate2::read::ZlibEncoder::new(plain.as_slice(), level)
            .read_to_end(&mut deflated)
            .unwrap();
        let mut compressed = COMPRESSED_COOKIE.to_be_bytes().to_vec();
        compressed.extend((deflated.len() as u32).to_be_bytes());
        compressed.extend(deflated);
        STANDARD.encode(compressed)
    }

    // The library behind it set aside what a forty-byte text announced: four gibibytes.
    #[test]
    fn no_memory_follows_what_a_histogram_only_announces() {
        assert_eq!(
            Histogram::from_base64(&announcing(0, 3)).unwrap().count(),
            0
        );
        let longer = Histogram::from_base64(&announcing(u32::MAX, 3)).unwrap_err();
        assert!(longer.contains("cut short, or longer"), "{longer}");
        let finer = Histogram::from_base64(&announcing(0, 5)).unwrap_err();
        assert!(finer.contains("more digits"), "{finer}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0_u8.., 0..200)) {
            let _ = Histogram::from_base64(&STANDARD.encode(bytes));
        }
    }
}
