//! A report file from anybody: it is refused with a reason, or it renders as a page, as Markdown, as HTML and
//! as JSON that reads back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_gauge::report::{export, html, text};

fuzz_target!(|written: &str| {
    let report = match export::read(written) {
        Ok(report) => report,
        Err(why) => return assert!(!why.is_empty()),
    };
    let mut json = Vec::new();
    export::json(&report, &mut json).expect("a vector takes everything");
    let json = String::from_utf8(json).expect("JSON is UTF-8");
    export::read(&json).expect("what was written reads back");
    let _ = text::page(&report);
    let _ = text::markdown(&report);
    let _ = html::render(&[("fuzz".to_owned(), report)]);
});
