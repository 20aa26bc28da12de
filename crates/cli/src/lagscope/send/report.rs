//! What a sender prints and writes when the pings are over.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use tautline_gauge::lagscope::{Histogram, PERCENTILES, Tally};

use crate::exit::Exit;
use crate::lagscope::complain;
use crate::lagscope::console::Console;
use crate::lagscope::files::{Csv, Json};
use crate::lagscope::options::Sending;

/// The files of a run, open.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) csv: Option<Csv>,
    json: Option<Json>,
}

impl Outputs {
    /// Opens what was asked for, and says what cannot be.
    pub(super) fn open(sending: &Sending, console: &Console) -> Result<Self, Exit> {
        let refused = |kind: &str, option: &str, path: &Path, error: io::Error| {
            console.error(format_args!(
                "could not create {kind} file: {}",
                path.display()
            ));
            complain(format_args!("open {option} {}: {error}", path.display()));
            Exit::Unavailable
        };
        let csv = sending
            .csv
            .as_deref()
            .map(|path| Csv::create(path).map_err(|error| refused("csv", "-R", path, error)));
        let json = sending
            .json
            .as_deref()
            .map(|path| Json::open(path).map_err(|error| refused("json", "-P", path, error)));
        Ok(Self {
            csv: csv.transpose()?,
            json: json.transpose()?,
        })
    }
}

/// Prints the statistics and the tables that were asked for, and finishes the files. Says what
/// could not be written.
pub(super) fn report(
    outputs: Outputs,
    sending: &Sending,
    tally: &Tally,
    ip: IpAddr,
    console: &Console,
) -> Exit {
    console.info(format_args!("TEST COMPLETED."));
    statistics(tally, ip, console);
    let mut exit = Exit::Good;
    let mut wrote = |kind: &str, what: &str, option: &str, path: &Path, result: io::Result<()>| {
        let path = path.display();
        match result {
            Ok(()) => console.info(format_args!("Dumping {what} into {kind} file: {path}")),
            Err(error) => {
                console.error(format_args!("could not write {kind} file: {path}"));
                complain(format_args!("write {option} {path}: {error}"));
                exit = Exit::Partial;
            }
        }
    };
    if let Some(csv) = outputs.csv {
        let path = csv.path.clone();
        wrote("csv", "all latencies", "-R", &path, csv.finish());
    }
    if let Some(json) = outputs.json {
        wrote(
            "json",
            "latency frequency table",
            "-P",
            &json.path,
            json.write(tally),
        );
    }
    // Without a ping there is nothing that a row could say.
    if tally.count() > 0 {
        if sending.percentiles {
            percentiles(tally, console);
        }
        if let Some(histogram) = sending.histogram {
            rows(histogram, tally, console);
        }
        doubts(sending, tally);
    }
    exit
}

fn statistics(tally: &Tally, ip: IpAddr, console: &Console) {
    console.info(format_args!("Ping statistics for {ip}:"));
    console.info(format_args!(
        "\t  Number of successful Pings: {}",
        tally.count()
    ));
    let least_most_mean = (tally.least_ns(), tally.most_ns(), tally.mean_ns());
    if let (Some(least_ns), Some(most_ns), Some(mean_ns)) = least_most_mean {
        console.info(format_args!(
            "\t  Minimum = {:.3}us, Maximum = {:.3}us, Average = {:.3}us",
            least_ns as f64 / 1e3,
            most_ns as f64 / 1e3,
            mean_ns / 1e3
        ));
    }
}

fn percentiles(tally: &Tally, console: &Console) {
    let mut table = "\nPercentile\t Latency(us)\n".to_owned();
    for percentile in PERCENTILES {
        let us = tally.percentile_us(percentile).expect("there are pings");
        table += &format!("{percentile:>7}% \t {us}\n");
    }
    console.plain(&table);
}

fn rows(histogram: Histogram, tally: &Tally, console: &Console) {
    let mut table = "\nInterval(usec)\t Frequency\n".to_owned();
    for (edge_us, times) in histogram.rows(tally) {
        table += &format!("{edge_us:>7} \t {times}\n");
    }
    console.plain(&table);
}

/// What the tables cannot say of themselves.
fn doubts(sending: &Sending, tally: &Tally) {
    if sending.percentiles
        && let Some(few) = tally.too_few()
    {
        let names: Vec<String> = few
            .percentiles
            .iter()
            .map(|name| format!("{name}%"))
            .collect();
        complain(format_args!(
            "note: {} pings are too few for {}: fewer than ten lie beyond, so single pings decide",
            tally.count(),
            names.join(", ")
        ));
    }
    let tables = sending.percentiles || sending.histogram.is_some();
    if tables && tally.coarse() > 0 {
        complain(format_args!(
            "note: {} latencies above 262 ms stand in the tables to within 1 %",
            tally.coarse()
        ));
    }
}
