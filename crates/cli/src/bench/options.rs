//! The options of `tautline bench`: name, unit, default and check of each in one block.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use tautline::{Address, SerialLine, Strategy};
use tautline_gauge::plan::{Driver, OnRefused, Transport};

use super::ab::AbOptions;
use crate::options::{OUT, Output, Place, Usage, after_help};
use crate::outputs::CsvTable;
use crate::values;

/// Measure on loopback, in one process: latency, strategies, UDP payloads, each beside raw sockets
///
/// Round trips and one-way streams over TCP, UDP and Unix sockets, through the library and through raw
/// sockets doing the same in the same rounds. Nothing else is needed: no server, no peer, no privilege.
/// TLS and serial lines are measured where --transports names them.
/// `bench latency` and `bench strategy` measure against a server elsewhere with --to.
/// Without the name of one table it makes all of them; with --quick all but the UDP payloads.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "One table alone",
    subcommand_value_name = "TABLE",
    after_help = after_help("tautline bench --quick")
)]
pub(crate) struct BenchCommand {
    #[command(subcommand)]
    pub(super) table: Option<Table>,
    #[command(flatten)]
    pub(super) matrix: Matrix,
    #[command(flatten)]
    pub(super) latency: LatencyOptions,
    #[command(flatten)]
    pub(super) strategy: StrategyOptions,
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) rows: Rows,
    #[command(flatten)]
    pub(super) ab: AbOptions,
    #[command(flatten)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) nowhere: Nowhere,
}

#[derive(Debug, Subcommand)]
pub(super) enum Table {
    Latency(Box<LatencyCommand>),
    Strategy(Box<StrategyCommand>),
    UdpSmoke(Box<SmokeCommand>),
}

/// Round trips: percentiles, and each driver of the library beside raw blocking sockets
#[derive(Debug, Args)]
#[command(after_help = after_help(
    "tautline bench latency --transports uds --sizes 64,16Ki\n  \
     tautline bench latency --loopback-plug '/dev/ttyUSB0?baud=921600'\n  \
     tautline bench latency --to 10.0.0.5,udp://10.0.0.5:6001 --sizes 64"
))]
pub(super) struct LatencyCommand {
    #[command(flatten)]
    pub(super) matrix: Matrix,
    #[command(flatten)]
    pub(super) elsewhere: Elsewhere,
    /// Measure on one serial port whose sending and receiving ends are joined: a path with settings, such
    /// as /dev/ttyUSB0?baud=921600, or a serial:// address. The library and the control hear themselves
    /// on it in turns. Sizes are 64,256,1Ki unless given, and a run has half a minute unless its echoes
    /// are given by --iterations
    #[arg(
        long,
        value_name = "PORT",
        value_parser = values::serial_port,
        conflicts_with_all = ["to", "bind"]
    )]
    pub(super) loopback_plug: Option<SerialLine>,
    #[command(flatten)]
    pub(super) latency: LatencyOptions,
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) rows: Rows,
    #[command(flatten)]
    pub(super) output: Output,
}

/// One-way streams: what each send strategy accepts, delivers and drops, beside a raw writer
#[derive(Debug, Args)]
#[command(after_help = after_help(
    "tautline bench strategy --strategies keeplatest -t 1\n  \
     tautline bench strategy --to 10.0.0.5 --sizes 1Ki -t 1"
))]
pub(super) struct StrategyCommand {
    #[command(flatten)]
    pub(super) matrix: Matrix,
    #[command(flatten)]
    pub(super) elsewhere: Elsewhere,
    #[command(flatten)]
    pub(super) strategy: StrategyOptions,
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) rows: Rows,
    #[command(flatten)]
    pub(super) output: Output,
}

/// UDP payloads, stop and wait: does every datagram come back whole, and if not, whose fault is it
///
/// Over raw sockets, and over the library with reliable and besteffort; every byte of every echo is
/// compared. A payload is judged from what was counted: none, environment, library path or pressure
/// model. Ends with 1 when one is not clean.
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline bench udp-smoke --sizes 1024,65507"))]
pub(super) struct SmokeCommand {
    /// Payloads in bytes, 16 to 65507; Ki and Mi are binary, M decimal [default: 1Ki,4Ki,16Ki,65507]
    #[arg(
        long,
        visible_alias = "size",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::size
    )]
    pub(super) sizes: Option<Vec<usize>>,

    /// Echoes of each payload over each path; k and M are decimal [default: 1000]
    #[arg(long, short = 'n', value_name = "N", value_parser = values::count)]
    pub(super) iterations: Option<u64>,

    /// Echoes before them that are not counted [default: 100]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(super) warmup: Option<u64>,

    /// How long a reply may take; a bare number is seconds [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(super) timeout: Option<Duration>,

    /// Where the library listens, such as udp://[::1]:7000 [default: a free loopback port]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) bind: Vec<Address>,

    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) rows: Rows,
    #[command(flatten)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) nowhere: Nowhere,
}

/// Servers elsewhere, of the tables that can be measured against one.
#[derive(Debug, Args)]
pub(super) struct Elsewhere {
    /// Measure against a `tautline serve` elsewhere, control and library alike: tcp://, udp:// or
    /// uds:// addresses, one a transport; HOST or HOST:PORT means tcp. They decide the transports. Over
    /// udp payloads have 32 bytes at least, and a reply after half a second is lost. Placement is of
    /// this side alone, and so is the driver: the server is what it is
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::address,
        conflicts_with_all = ["transports", "bind"]
    )]
    pub(super) to: Vec<Address>,
}

/// The same option where it cannot be followed: refused with the commands that can.
#[derive(Debug, Args)]
pub(super) struct Nowhere {
    /// Only with `bench latency` and `bench strategy`
    #[arg(long, value_name = "LIST", hide = true)]
    pub(super) to: Option<String>,
}

/// What is measured, in every table.
#[derive(Debug, Args)]
pub(super) struct Matrix {
    /// A page in about 25 s on any machine: sizes 64 and 16Ki, one run; echoes and streams
    /// are cut to fit the time. Other options still count
    #[arg(long)]
    pub(super) quick: bool,

    /// Transports: tcp, tls, udp, uds, serial. Over tls the run makes a certificate of its own; serial is
    /// two pseudo-terminals joined by a thread [default: tcp,udp,uds]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::transport)]
    pub(super) transports: Option<Vec<Transport>>,

    /// Payloads in bytes, 16 to 1048572; Ki and Mi are binary, M decimal
    /// [default: 64,256,1Ki,4Ki,16Ki,64Ki; with --quick 64,16Ki]
    #[arg(
        long,
        visible_alias = "size",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::size
    )]
    pub(super) sizes: Option<Vec<usize>>,

    /// Runs, each with fresh endpoints [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = values::times)]
    pub(super) repeats: Option<usize>,

    /// Where to listen, with its scheme: tcp://127.0.0.1:7000, udp://[::1]:7000, uds:///run/x.sock.
    /// One a transport [default: a free loopback port; a socket in a fresh temporary folder]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) bind: Vec<Address>,

    /// Seed of the random order of rounds [default: a new one each time; the report has it]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(super) seed: Option<u64>,
}

/// Options of the latency table.
#[derive(Debug, Args)]
pub(super) struct LatencyOptions {
    /// Drivers of the library: direct, callback, handoff, spin. The first table shows handoff,
    /// or the first of the list without it
    /// [default: direct,callback,handoff,spin]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::driver,
        help_heading = LATENCY
    )]
    pub(super) drivers: Option<Vec<Driver>>,

    /// Timed echoes of one driver in one run; k and M are decimal [default: 10000]
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        value_parser = values::count,
        help_heading = LATENCY
    )]
    pub(super) iterations: Option<u64>,

    /// Echoes before the first round of a run; a tenth as many before each later one
    /// [default: 1000; with --quick 200]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = LATENCY)]
    pub(super) warmup: Option<u64>,

    /// Rounds in a run: short blocks with the control and every driver once, in random order. From 6
    /// on ratios have an interval [default: 15; with --quick 10]
    #[arg(long, value_name = "N", value_parser = values::times, help_heading = LATENCY)]
    pub(super) rounds: Option<usize>,

    /// How long the spin driver polls before it sleeps, with its unit [default: 50us]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = LATENCY)]
    pub(super) spin: Option<Duration>,
}

/// Options of the strategy table.
#[derive(Debug, Args)]
pub(super) struct StrategyOptions {
    /// Send strategies: reliable, besteffort, keeplatest [default: reliable,besteffort,keeplatest]
    #[arg(
        long,
        visible_alias = "strategy",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::strategy,
        help_heading = STRATEGY
    )]
    pub(super) strategies: Option<Vec<Strategy>>,

    /// How long the producer sends in each run; a bare number is seconds
    /// [default: 3s; with --quick 250ms]
    #[arg(
        long,
        short = 't',
        value_name = "TIME",
        value_parser = values::seconds,
        help_heading = STRATEGY
    )]
    pub(super) duration: Option<Duration>,

    /// What the producer does after a refusal: yield, spin, sleep:50us [default: yield]
    #[arg(long, value_name = "WAY", value_parser = values::on_refused, help_heading = STRATEGY)]
    pub(super) on_refused: Option<OnRefused>,
}

/// Where a table goes as rows.
#[derive(Debug, Args)]
pub(super) struct Rows {
    /// Write the table as CSV, a row for each run; with `latency` or `strategy`, one file being one
    /// table; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    pub(super) csv: Option<PathBuf>,
}

impl BenchCommand {
    /// The outputs, from where they were given: each table is a command of its own.
    pub(crate) fn output(&self) -> &Output {
        match &self.table {
            None => &self.output,
            Some(Table::Latency(command)) => &command.output,
            Some(Table::Strategy(command)) => &command.output,
            Some(Table::UdpSmoke(command)) => &command.output,
        }
    }

    /// Of the tables that have one.
    pub(super) fn matrix(&self) -> Option<&Matrix> {
        match &self.table {
            None => Some(&self.matrix),
            Some(Table::Latency(command)) => Some(&command.matrix),
            Some(Table::Strategy(command)) => Some(&command.matrix),
            Some(Table::UdpSmoke(_)) => None,
        }
    }

    /// The port whose ends are joined.
    pub(super) fn plug(&self) -> Option<&SerialLine> {
        match &self.table {
            Some(Table::Latency(command)) => command.loopback_plug.as_ref(),
            None | Some(Table::Strategy(_) | Table::UdpSmoke(_)) => None,
        }
    }

    /// The servers elsewhere.
    ///
    /// # Errors
    ///
    /// Says which commands have them, where this one has not.
    pub(super) fn to(&self) -> Result<&[Address], Usage> {
        let nowhere = match &self.table {
            None => &self.nowhere,
            Some(Table::UdpSmoke(command)) => &command.nowhere,
            Some(Table::Latency(command)) => return Ok(&command.elsewhere.to),
            Some(Table::Strategy(command)) => return Ok(&command.elsewhere.to),
        };
        match &nowhere.to {
            None => Ok(&[]),
            Some(_) => Err(Usage::new(
                "--to: one table at a time is measured against a server elsewhere, say 'bench \
                 latency' or 'bench strategy'",
            )),
        }
    }

    pub(super) fn place(&self) -> &Place {
        match &self.table {
            None => &self.place,
            Some(Table::Latency(command)) => &command.place,
            Some(Table::Strategy(command)) => &command.place,
            Some(Table::UdpSmoke(command)) => &command.place,
        }
    }

    pub(super) fn rows(&self) -> &Rows {
        match &self.table {
            None => &self.rows,
            Some(Table::Latency(command)) => &command.rows,
            Some(Table::Strategy(command)) => &command.rows,
            Some(Table::UdpSmoke(command)) => &command.rows,
        }
    }

    /// The CSV file with its table.
    pub(crate) fn csv(&self) -> Option<(CsvTable, &Path)> {
        let table = match &self.table {
            None => return None,
            Some(Table::Latency(_)) => CsvTable::Latency,
            Some(Table::Strategy(_)) => CsvTable::Strategy,
            Some(Table::UdpSmoke(_)) => CsvTable::UdpSmoke,
        };
        Some((table, self.rows().csv.as_deref()?))
    }
}

const LATENCY: &str = "Latency table";
const STRATEGY: &str = "Strategy table";
