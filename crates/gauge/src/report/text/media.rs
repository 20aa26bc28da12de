//! Below a table: what its rows went over, where that is more than a transport, and what TLS costs.

use std::fmt::Write as _;

use super::figures::{micros, optional, ratio};
use super::section::Section;
use crate::report::{LatencyRow, Medium, Report};

/// Each of these sentences, as a point below a table.
pub(super) fn below(sentences: Vec<String>, section: &mut Section) {
    for sentence in sentences {
        section.words(format!("- {sentence}"), "  ");
    }
}

/// Of the rows of the latency table.
pub(crate) fn of_latency(report: &Report) -> Vec<String> {
    let rows = &report.latency;
    let mut sentences = of_rows(rows.iter().map(|row| (&*row.transport, &row.medium)));
    sentences.extend(rows.iter().filter_map(of_port));
    what_tls_costs(rows, &mut sentences);
    sentences
}

/// Of the rows of the strategy table.
pub(crate) fn of_strategy(report: &Report) -> Vec<String> {
    let rows = report.strategy.iter();
    of_rows(rows.map(|row| (&*row.transport, &row.medium)))
}

/// Below the way of a client to its server: how it is secured, or what line it is.
pub(super) fn of_way(medium: &Medium, section: &mut Section) {
    if let Some(tls) = &medium.tls {
        let mut words = format!(
            "  TLS by rustls in this process: {}, {}",
            tls.version, tls.cipher_suite
        );
        if tls.handshake_ns.is_some() {
            let _ = write!(words, ", handshake {} us", micros(tls.handshake_ns));
        }
        words.push_str(match tls.verified {
            Some(false) => "; the certificate was NOT CHECKED (--insecure)",
            Some(true) | None => "; the certificate was checked",
        });
        section.words(words, "    ");
        if let Some(fingerprint) = tls
            .certificate_sha256
            .as_ref()
            .filter(|_| tls.verified == Some(false))
        {
            section.words("  its SHA-256 is", "    ");
            section.words(format!("  {fingerprint}"), "    ");
        }
    }
    if let Some(port) = &medium.port {
        section.words(format!("  line: {port}, {}", speed(medium)), "    ");
    }
    if let Some(note) = &medium.note {
        section.words(format!("  {note}"), "    ");
    }
}

/// Each sentence once, however many rows it is true of.
fn of_rows<'a>(rows: impl Iterator<Item = (&'a str, &'a Medium)>) -> Vec<String> {
    let mut sentences = Vec::new();
    for (transport, medium) in rows {
        let tls = medium.tls.as_ref().map(|tls| {
            format!(
                "{transport}: the control is rustls over blocking sockets, one record a message up to \
                 16 KiB; both sides agreed on {}, {}",
                tls.version, tls.cipher_suite
            )
        });
        let note = medium
            .note
            .as_ref()
            .map(|note| format!("{transport}: {note}"));
        for sentence in tls.into_iter().chain(note) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences
}

fn of_port(row: &LatencyRow) -> Option<String> {
    let medium = &row.medium;
    let port = medium.port.as_ref()?;
    Some(format!(
        "{} {} B on {port}: {}",
        row.transport,
        row.payload_bytes,
        speed(medium)
    ))
}

/// How fast a port is, as far as it is known.
fn speed(medium: &Medium) -> String {
    let mut words = match medium.wire_time_ns {
        Some(ns) => format!("the frame takes {} us on the wire", micros(Some(ns))),
        None => "no wire".to_owned(),
    };
    if let Some(ms) = medium.latency_timer_ms {
        let _ = write!(words, ", latency timer {ms} ms");
    }
    if let Some(low) = medium.low_latency {
        words.push_str(if low {
            ", low latency on"
        } else {
            ", low latency off"
        });
    }
    words
}

/// The median over TLS divided by that over TCP, of the control and of each driver, where a report has
/// both.
fn what_tls_costs(rows: &[LatencyRow], sentences: &mut Vec<String>) {
    let of = |transport: &'static str| {
        rows.iter()
            .filter(move |row| row.transport == transport && row.address.is_none())
    };
    for (tls, tcp) in of("tls").flat_map(|tls| {
        of("tcp")
            .filter(|tcp| tcp.payload_bytes == tls.payload_bytes)
            .map(move |tcp| (tls, tcp))
    }) {
        let over = |tls: Option<u64>, tcp: Option<u64>| {
            let (tls, tcp) = tls.zip(tcp)?;
            (tcp > 0).then(|| tls as f64 / tcp as f64)
        };
        let mut parts = vec![format!(
            "control {}",
            optional(over(tls.control.p50_ns, tcp.control.p50_ns), ratio)
        )];
        for driver in &tls.drivers {
            let plain = tcp
                .drivers
                .iter()
                .find(|plain| plain.driver == driver.driver);
            let plain = plain.and_then(|plain| plain.summary.p50_ns);
            parts.push(format!(
                "{} {}",
                driver.driver,
                optional(over(driver.summary.p50_ns, plain), ratio)
            ));
        }
        sentences.push(format!(
            "tls / tcp, p50 at {} B: {}; measured one after the other, not in the same rounds",
            tls.payload_bytes,
            parts.join(", ")
        ));
    }
}
