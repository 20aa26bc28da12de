//! The options of `tautline ping`: name, unit, default and check of each in one block.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use tautline::Address;
use tautline_gauge::ping::{HistogramPlan, Load, Point};

use super::values as own;
use crate::options::{OUT, Output, Place, after_help};
use crate::tls::ClientTls;
use crate::values;

/// Round trips to a `tautline serve`: closed loop, or open loop with --rate
///
/// Each address is pinged with each size, one after the other. In closed loop the next ping waits for
/// the reply to the last; with --rate pings leave at their time whatever comes back, and are counted
/// from the time they should have left.
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline ping 192.168.1.7 -t 30 --rate 1k"))]
pub(crate) struct PingCommand {
    /// Servers: HOST[:PORT] (tcp, port 6001), tcp://HOST:PORT, tls://HOST:PORT, udp://HOST:PORT,
    /// uds:///run/x.sock, serial:///dev/ttyUSB0?baud=921600 for one at the other end of a serial line
    #[arg(value_name = "ADDRESS", required = true, value_parser = values::address)]
    pub(super) addresses: Vec<Address>,

    /// Pings of each connection; k and M are decimal [default: as many as -t allows]
    #[arg(long, short = 'n', value_name = "N", value_parser = values::count)]
    pub(super) count: Option<u64>,

    /// How long each cell takes; a bare number is seconds [default: 10s, or until -n is reached]
    #[arg(long, short = 't', value_name = "TIME", value_parser = values::seconds)]
    pub(super) duration: Option<Duration>,

    /// Bytes of a message, all of it: 1 or more over tcp, tls and uds, 16 with --rate, 32 over udp and
    /// serial lines; Ki and Mi are binary
    #[arg(
        long,
        visible_alias = "sizes",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64",
        value_parser = values::size
    )]
    pub(super) size: Vec<usize>,

    /// Open loop: pings a second over all connections, on an absolute schedule
    #[arg(long, value_name = "HZ", value_parser = values::rate, conflicts_with = "interval")]
    pub(super) rate: Option<f64>,

    /// Closed loop: least time from one ping of a connection to its next; a bare number is seconds
    /// [default: none]
    #[arg(long, short = 'i', value_name = "TIME", value_parser = values::seconds)]
    pub(super) interval: Option<Duration>,

    /// Connections at once
    #[arg(long, short = 'P', value_name = "N", default_value = "1", value_parser = values::times)]
    pub(super) connections: usize,

    /// Threads that share them [default: one each, up to the CPUs]
    #[arg(long, value_name = "N", value_parser = values::times)]
    pub(super) threads: Option<usize>,

    /// Pings of each connection before those that count; at most a second of them
    #[arg(long, value_name = "N", default_value = "1000", value_parser = values::count)]
    pub(super) warmup: u64,

    /// A reply that takes longer is late: counted, and not in the percentiles; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::seconds)]
    pub(super) timeout: Duration,

    /// How long to try for a server that is not there yet; a bare number is seconds [default: not]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(super) wait_for_server: Option<Duration>,

    /// Keep the machine or the way busy meanwhile: none, primes (a count on every CPU, in the
    /// idle class), stream[:N] (one-way streams to the same server), or a command for `sh -c`, ended
    /// with its process group
    #[arg(long, value_name = "LOAD", default_value = "none", value_parser = own::load)]
    pub(super) load: Load,

    /// Percentiles of the report
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "50,75,90,95,99,99.9,99.99,99.999",
        value_parser = own::point,
        help_heading = OUT
    )]
    pub(super) percentiles: Vec<Point>,

    /// Counts in equal steps, too: FROM:STEP:COUNT, such as 30us:15us:30
    #[arg(long, value_name = "STEPS", value_parser = own::histogram, help_heading = OUT)]
    pub(super) histogram: Option<HistogramPlan>,

    /// Half of each round trip, too: an estimate of one way
    #[arg(long, help_heading = OUT)]
    pub(super) half_rtt: bool,

    /// Write every answered ping as a line of CSV, in nanoseconds, while it is measured
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    pub(super) samples: Option<PathBuf>,

    /// Write the histograms as an HdrHistogram interval log (V2), which other HDR tools read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    pub(super) hdr: Option<PathBuf>,

    /// Print a line this often while it is measured; a bare number is seconds, 0.1 the least
    #[arg(long, value_name = "TIME", value_parser = values::every, help_heading = OUT)]
    pub(super) every: Option<Duration>,

    #[command(flatten)]
    pub(super) sockets: SocketOptions,
    #[command(flatten)]
    pub(super) tls: ClientTls,
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Options of every socket: set, read back, and shown where they differ.
#[derive(Debug, Args)]
pub(super) struct SocketOptions {
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6", help_heading = SOCKET)]
    pub(super) ipv4: bool,

    /// IPv6 only
    #[arg(short = '6', long, help_heading = SOCKET)]
    pub(super) ipv6: bool,

    /// Connect from this address: 10.0.0.2, 10.0.0.2:5000 or [fe80::1]:0
    #[arg(long, value_name = "ADDRESS", value_parser = own::bind, help_heading = SOCKET)]
    pub(super) bind: Option<SocketAddr>,

    /// Only through this network interface (SO_BINDTODEVICE)
    #[arg(long, value_name = "NAME", value_parser = own::interface, help_heading = SOCKET)]
    pub(super) interface: Option<String>,

    /// Send buffer in bytes (SO_SNDBUF)
    #[arg(long, value_name = "BYTES", value_parser = own::buffer, help_heading = SOCKET)]
    pub(super) sndbuf: Option<usize>,

    /// Receive buffer in bytes (SO_RCVBUF)
    #[arg(long, value_name = "BYTES", value_parser = own::buffer, help_heading = SOCKET)]
    pub(super) rcvbuf: Option<usize>,

    /// Type of service or traffic class, 0 to 255 or 0x00 to 0xff
    #[arg(long, value_name = "BYTE", value_parser = own::tos, help_heading = SOCKET)]
    pub(super) tos: Option<u8>,

    /// TCP congestion control, such as cubic or bbr
    #[arg(long, value_name = "NAME", value_parser = own::congestion, help_heading = SOCKET)]
    pub(super) congestion: Option<String>,

    /// How long a receive polls the device before it sleeps (SO_BUSY_POLL), with its unit
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = SOCKET)]
    pub(super) so_busy_poll: Option<Duration>,
}

const SOCKET: &str = "Sockets";
