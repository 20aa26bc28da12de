//! What lagscope's options ask for, checked, and what the verbose mode says about it.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tautline_gauge::lagscope::{Buffers, Histogram, Length, Run};
use tautline_gauge::wire::{DEFAULT_PORT, MESSAGE_LIMIT_BYTES};

use super::grammar::Given;
use crate::options::Usage;

/// What a command line asks for.
#[derive(Debug)]
pub(super) enum Request {
    Help,
    Run(Box<Options>),
}

/// A command line that can be followed.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) role: Role,
    pub(super) daemon: bool,
    pub(super) processor: Option<usize>,
    pub(super) ipv6: bool,
    pub(super) port: u16,
    /// As given; see [`buffers`](Self::buffers).
    pub(super) buffer_bytes: Option<usize>,
    pub(super) message_bytes: usize,
    pub(super) verbose: bool,
    /// What was given and does nothing here.
    pub(super) notes: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Role {
    Receiver {
        address: String,
        /// Neither role was given.
        assumed: bool,
    },
    Sender(Sending),
}

/// What only a sender has.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) address: String,
    pub(super) source_port: u16,
    pub(super) run: Run,
    pub(super) csv: Option<PathBuf>,
    pub(super) histogram: Option<Histogram>,
    pub(super) percentiles: bool,
    pub(super) json: Option<PathBuf>,
}

/// Reads the words.
pub(super) fn parse(words: &[OsString]) -> Result<Request, Usage> {
    let given = Given::read(words)?;
    if given.has('h') {
        return Ok(Request::Help);
    }
    if given.has('r') && given.has('s') {
        return Err(Usage::new(
            "-r and -s: it is a receiver or a sender, not both",
        ));
    }
    let ipv6 = given.has('6');
    let mut notes = Vec::new();
    let (role, ports) = if given.has('s') {
        (Role::Sender(sending(&given, ipv6, &mut notes)?), 1..=65_535)
    } else {
        (receiving(&given, ipv6, &mut notes)?, 0..=65_535)
    };
    let port = given.number('p', ports)?.map(|port| port as u16);
    let number = |letter, range| -> Result<Option<usize>, Usage> {
        let number = given.number(letter, range)?;
        Ok(number.map(|number| usize::try_from(number).expect("the range is far below")))
    };
    Ok(Request::Run(Box::new(Options {
        role,
        daemon: given.has('D'),
        processor: number('f', 0..=MOST_PROCESSOR)?,
        ipv6,
        port: port.unwrap_or(DEFAULT_PORT),
        buffer_bytes: number('b', 1..=MOST_BUFFER_BYTES)?,
        message_bytes: number('z', 1..=MESSAGE_LIMIT_BYTES as u64)?.unwrap_or(4),
        verbose: given.has('V'),
        notes,
    })))
}

fn receiving(given: &Given, ipv6: bool, notes: &mut Vec<String>) -> Result<Role, Usage> {
    if let Some(letter) = given.of("RHP").next() {
        return Err(Usage::new(format_args!(
            "-{letter}: only a sender has latencies to report; give it to the one with -s"
        )));
    }
    for letter in given.of("otnialc") {
        notes.push(format!(
            "-{letter} is for a sender; a receiver does without it"
        ));
    }
    let wildcard = if ipv6 { "::" } else { "0.0.0.0" };
    let address = given.text('r')?.unwrap_or_else(|| wildcard.to_owned());
    family_fits('r', &address, ipv6)?;
    Ok(Role::Receiver {
        address,
        assumed: !given.has('r'),
    })
}

fn sending(given: &Given, ipv6: bool, notes: &mut Vec<String>) -> Result<Sending, Usage> {
    let address = given.text('s')?.expect("the grammar asks for a value");
    family_fits('s', &address, ipv6)?;
    let pings = given.number('n', 1..=MOST_PINGS)?.unwrap_or(1_000_000);
    // -n is ignored when -t is given, as it always was.
    let length = match given.number('t', 1..=MOST_SECONDS)? {
        Some(seconds) => Length::Time(Duration::from_secs(seconds)),
        None => Length::Pings(pings),
    };
    let pause_s = given.number('i', 0..=MOST_SECONDS)?.unwrap_or(0);
    let histogram = Histogram {
        start_us: given.number('a', 0..=MOST_US)?.unwrap_or(0),
        width_us: given.number('l', 1..=MOST_US)?.unwrap_or(100),
        intervals: given.number('c', 1..=MOST_INTERVALS)?.unwrap_or(10),
    };
    if !given.has('H') {
        for letter in given.of("alc") {
            notes.push(format!(
                "-{letter} shapes the histogram, and there is none without -H"
            ));
        }
    }
    let path = |value: &OsStr| PathBuf::from(value);
    Ok(Sending {
        address,
        source_port: given
            .number('o', 0..=65_535)?
            .map_or(25_001, |port| port as u16),
        run: Run {
            length,
            pause: Duration::from_secs(pause_s),
        },
        csv: given.has('R').then(|| {
            given
                .value('R')
                .map_or_else(|| "latencies_log.csv".into(), path)
        }),
        histogram: given.has('H').then_some(histogram),
        percentiles: given.has('P'),
        json: given.value('P').map(path),
    })
}

/// An address in digits tells its family, and so does -6. A name may have either.
fn family_fits(letter: char, address: &str, ipv6: bool) -> Result<(), Usage> {
    let digits = address
        .split_once('%')
        .map_or(address, |(digits, _scope)| digits);
    match digits.parse() {
        Ok(IpAddr::V6(_)) if !ipv6 => Err(Usage::new(format_args!(
            "-{letter}: {address} is an IPv6 address: give -6 too"
        ))),
        Ok(IpAddr::V4(_)) if ipv6 => Err(Usage::new(format_args!(
            "-{letter}: {address} is an IPv4 address: leave -6 out"
        ))),
        _ => Ok(()),
    }
}

impl Options {
    /// What is asked of the kernel: lagscope's, or -b for both ways.
    pub(super) fn buffers(&self) -> Buffers {
        self.buffer_bytes
            .map_or_else(Buffers::default, |bytes| Buffers {
                send_bytes: bytes,
                receive_bytes: bytes,
            })
    }

    /// What the verbose mode says first.
    pub(super) fn block(&self) -> String {
        let mut block = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_block(&mut block);
        block
    }

    fn write_block(&self, to: &mut String) -> std::fmt::Result {
        let address = match &self.role {
            Role::Receiver { address, .. } => {
                writeln!(to, "*** receiver role")?;
                address
            }
            Role::Sender(sending) => {
                writeln!(to, "*** sender role")?;
                &sending.address
            }
        };
        if self.daemon {
            writeln!(to, "*** run as daemon")?;
        }
        match self.processor {
            None => writeln!(to, "cpu affinity:\t\t\t No")?,
            Some(processor) => writeln!(to, "cpu affinity:\t\t\t {processor}")?,
        }
        writeln!(to, "server address:\t\t\t {address}")?;
        let domain = if self.ipv6 { "IPv6" } else { "IPv4" };
        writeln!(to, "domain:\t\t\t\t {domain}")?;
        writeln!(to, "protocol:\t\t\t TCP")?;
        writeln!(to, "server port:\t\t\t {}", self.port)?;
        let buffers = self.buffers();
        match &self.role {
            Role::Receiver { .. } => {
                writeln!(
                    to,
                    "receiver socket buffer (bytes):\t {}",
                    buffers.receive_bytes
                )?;
                writeln!(to, "message size (bytes):\t\t {}", self.message_bytes)?;
            }
            Role::Sender(sending) => {
                if sending.source_port > 0 {
                    writeln!(to, "client port:\t\t\t {}", sending.source_port)?;
                }
                writeln!(to, "sender socket buffer (bytes):\t {}", buffers.send_bytes)?;
                writeln!(to, "message size (bytes):\t\t {}", self.message_bytes)?;
                sending.write_block(to)?;
            }
        }
        writeln!(to, "verbose mode:\t\t\t enabled")?;
        writeln!(
            to,
            "---------------------------------------------------------"
        )
    }
}

impl Sending {
    fn write_block(&self, to: &mut String) -> std::fmt::Result {
        match self.run.length {
            Length::Time(time) => {
                writeln!(to, "test mode:\t\t\t TIME DURATION")?;
                writeln!(to, "test duration (sec):\t\t {}", time.as_secs())?;
            }
            Length::Pings(pings) => {
                writeln!(to, "test mode:\t\t\t PING ITERATION")?;
                writeln!(to, "test iteration:\t\t\t {pings}")?;
            }
        }
        writeln!(to, "test interval (sec):\t\t {}", self.run.pause.as_secs())?;
        if let Some(histogram) = self.histogram {
            writeln!(to, "histogram report:\t\t enabled")?;
            writeln!(
                to,
                "histogram 1st interval start at: {}",
                histogram.start_us
            )?;
            writeln!(
                to,
                "histogram length of intervals:\t {}",
                histogram.width_us
            )?;
            writeln!(
                to,
                "histogram count of intervals:\t {}",
                histogram.intervals
            )?;
        }
        Ok(())
    }
}

/// lagscope's options in words.
pub(crate) const HELP: &str = "\
lagscope: [-r|-s|-D|-f|-6|-p|-o|-b|-z|-t|-n|-i|-R|-P|-H|-a|-l|-c|-V|-h]

  -r[ADDRESS]  be a receiver, on this address or name [default: every one of this host]
  -sADDRESS    be a sender to the receiver at this address or name
  -D           go on in the background, once everything has been opened
  -fN          run on processor N [default: any]
  -6           IPv6 [default: IPv4]
  -pN          port of the receiver; 0, for a receiver, is any free one [default: 6001]
  -bN          socket buffers in bytes [default: 65536 to receive, 131072 to send]
  -zN          message size in bytes, 1 to 67108864 [default: 4]
  -V           say more; -h prints this

A sender's:
  -oN          port to go out from, if it is free; 0 is any [default: 25001]
  -tS          how long, in whole seconds; -n is ignored then
  -nN          how many pings [default: 1000000]
  -iS          pause between a reply and the next ping, in whole seconds [default: 0]
  -R[FILE]     write each latency to a CSV file, while it runs [default: latencies_log.csv]
  -P[FILE]     percentiles of the latencies; with FILE also how often each came, as JSON
  -H           histogram of the latencies in microseconds: how many below -a, in each interval, and
               at or above the last edge
  -aN          where its first interval begins [default: 0]
  -lN          length of an interval, at least 1 [default: 100]
  -cN          count of intervals, 1 to 98 [default: 10]

A value is glued to its letter; for all but -r, -R and -P it may also be the next word. With neither
-r nor -s it is a receiver. Exit status: 0 success, 2 usage, 3 no connection, bind, output or reply,
4 a run that broke off or an output that failed; 130 and 143 after SIGINT and SIGTERM, a sender's
with statistics.

Examples:
  lagscope -r
  lagscope -s192.168.1.1 -n1000000 -P
  lagscope -s192.168.1.1 -t60 -H -a10 -l1 -c98 -Rlatencies.csv
";

/// What a set of processors holds.
const MOST_PROCESSOR: u64 = 1_023;
const MOST_BUFFER_BYTES: u64 = 1 << 30;
/// Thirty years of microseconds.
const MOST_PINGS: u64 = 1_000_000_000_000_000;
/// 68 years, and what a 32-bit number holds.
const MOST_SECONDS: u64 = i32::MAX as u64;
/// Over a quarter of an hour: no reply is waited for so long.
const MOST_US: u64 = 1_000_000_000;
/// What lagscope's table has room for.
const MOST_INTERVALS: u64 = 98;

#[cfg(test)]
mod tests;
