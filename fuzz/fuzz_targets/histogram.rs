//! HdrHistograms from a report or a log of any program: refused with a reason, or written and read again
//! with the same samples.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_gauge::report::{Histogram, hlog};

fuzz_target!(|text: &str| {
    if let Ok(histogram) = Histogram::from_base64(text) {
        let encoded = histogram.to_base64().expect("it was read");
        let again = Histogram::from_base64(&encoded).expect("what was written reads back");
        assert_eq!(again.count(), histogram.count());
        if histogram.count() > 0 {
            let _ = histogram.at_rank(1, 0, u64::MAX);
            let _ = histogram.at_rank(histogram.count(), 0, u64::MAX);
        }
    }
    if let Err(why) = hlog::read(text) {
        assert!(!why.is_empty());
    }
});
