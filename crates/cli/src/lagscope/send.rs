//! The sender's course: connect, ping, and the statistics as lagscope prints them.

mod report;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use tautline_gauge::lagscope::{
    ConnectError, End, Length, Outgoing, Ping, REPLY_LIMIT, Run, Sender, Tally,
};

use self::report::Outputs;
use super::console::Console;
use super::files::Csv;
use super::options::{Options, Sending};
use super::resolve::resolve;
use super::signals::{Signal, Signals};
use super::{background, complain, note_buffers};
use crate::exit::Exit;

/// Pings and reports, and says how it ended.
pub(super) fn run(
    options: &Options,
    sending: &Sending,
    console: &Console,
    signals: &Signals,
) -> Exit {
    let host = &sending.address;
    let addresses = match resolve(host, options.port, options.ipv6) {
        Ok(addresses) => addresses,
        Err(error) => {
            console.error(format_args!("cannot get address info for receiver"));
            complain(format_args!("resolve {host}: {error}"));
            return Exit::Unavailable;
        }
    };
    let mut outputs = match Outputs::open(sending, console) {
        Ok(outputs) => outputs,
        Err(exit) => return exit,
    };
    if let Err(exit) = background(options, console) {
        return exit;
    }
    let (mut sender, address) = match connect(options, sending, &addresses, console, signals) {
        Ok(connected) => connected,
        Err(exit) => return exit,
    };
    let ip = address.ip();
    console.info(format_args!(
        "New connection: local:{} [socket:{}] --> {ip}:{}",
        sender.local_port(),
        sender.socket_number(),
        address.port()
    ));
    let mut teller = Teller {
        console,
        ip,
        tally: Tally::new(),
        csv: outputs.csv.take(),
        message_bytes: options.verbose.then_some(options.message_bytes),
        progress: Progress::of(&sending.run),
    };
    let end = sender.run(&sending.run, signals.stop(), |ping| teller.told(ping));
    drop(sender);
    outputs.csv = teller.csv.take();
    let tally = teller.tally;
    let ended = judge(&end, &tally, address, console, signals);
    let written = report::report(outputs, sending, &tally, ip, console);
    // In the order of what a script wants to know first.
    if ended == Exit::Good { written } else { ended }
}

/// Connects to the first address that answers.
fn connect(
    options: &Options,
    sending: &Sending,
    addresses: &[SocketAddr],
    console: &Console,
    signals: &Signals,
) -> Result<(Sender, SocketAddr), Exit> {
    let mut failed: Option<(SocketAddr, i32, io::Error)> = None;
    for &address in addresses {
        // Scripts take any line of an error for a failure, and the next address may well answer.
        if let Some((address, _, error)) = &failed {
            complain(format_args!(
                "connect to {address}: {error}; trying {}",
                address.ip()
            ));
        }
        let outgoing = Outgoing::open(address, options.buffers()).map_err(|error| {
            console.error(format_args!("cannot create socket endpoint"));
            complain(format_args!("make a socket for {address}: {error}"));
            Exit::Unavailable
        })?;
        if let Ok(given) = outgoing.buffers() {
            note_buffers(options, given);
        }
        let number = outgoing.socket_number();
        bind_source(&outgoing, address, sending.source_port, console);
        match outgoing.connect(options.message_bytes, signals.stop()) {
            Ok(sender) => return Ok((sender, address)),
            Err(ConnectError::Stopped) => return Err(stopped(console, signals)),
            Err(ConnectError::Failed(error)) => failed = Some((address, number, error)),
        }
    }
    let (address, number, error) = failed.expect("there is an address, and it did not connect");
    console.error(format_args!(
        "failed to connect to receiver: {}:{} on socket: {number}. errno = {}",
        address.ip(),
        address.port(),
        error.raw_os_error().unwrap_or(0)
    ));
    complain(format_args!("connect to {address}: {error}"));
    Err(Exit::Unavailable)
}

/// Takes the source port if it is free, and says so if it is not.
fn bind_source(outgoing: &Outgoing, address: SocketAddr, port: u16, console: &Console) {
    if port == 0 {
        return;
    }
    if let Err(error) = outgoing.bind_source(port) {
        let any = if address.is_ipv6() { "::" } else { "0.0.0.0" };
        console.info(format_args!(
            "failed to bind socket[{}] to a local port: [{any}:{port}]. errno = {}. Ignored",
            outgoing.socket_number(),
            error.raw_os_error().unwrap_or(0)
        ));
    }
}

/// Says how the run ended where it was not as planned, and gives the status of that.
fn judge(
    end: &End,
    tally: &Tally,
    address: SocketAddr,
    console: &Console,
    signals: &Signals,
) -> Exit {
    let (line, reason) = match end {
        End::Complete => return Exit::Good,
        End::Stopped => return stopped(console, signals),
        End::Lost(error) => (
            "failed to receive bytes from server".to_owned(),
            match error.kind() {
                io::ErrorKind::UnexpectedEof => "the receiver has closed the connection".to_owned(),
                _ => format!("the connection is lost: {error}"),
            },
        ),
        End::Silent => (
            format!("no reply from server within {} seconds", REPLY_LIMIT.as_secs()),
            format!(
                "no whole reply came within {} s; the receiver has to have the same message size (-z)",
                REPLY_LIMIT.as_secs()
            ),
        ),
        End::Altered => (
            "reply from server differs from what was sent".to_owned(),
            "the reply differs from what was sent: this is no receiver of lagscope, or of another -z"
                .to_owned(),
        ),
    };
    console.error(format_args!("{line}"));
    complain(format_args!(
        "{address}: {reason}; {} pings had come back",
        tally.count()
    ));
    // Figures make it a partial result; without any there was nothing to be had.
    if tally.count() > 0 {
        Exit::Partial
    } else {
        Exit::Unavailable
    }
}

/// A signal ended it, or standard output is gone, which is found at the end.
fn stopped(console: &Console, signals: &Signals) -> Exit {
    let Some(signal) = signals.came() else {
        return Exit::Partial;
    };
    if signal == Signal::Interrupt {
        console.info(format_args!("Interrupted by Ctrl+C"));
    }
    signal.into()
}

/// Is told of every ping, between two measurements.
struct Teller<'a> {
    console: &'a Console,
    ip: IpAddr,
    tally: Tally,
    csv: Option<Csv>,
    /// In the verbose mode, which has a line for each ping instead of progress.
    message_bytes: Option<usize>,
    progress: Progress,
}

impl Teller<'_> {
    fn told(&mut self, ping: Ping) -> ControlFlow<()> {
        self.tally.record(ping.rtt_ns);
        if let Some(csv) = &mut self.csv {
            csv.record(ping.number - 1, ping.rtt_ns);
        }
        let ip = self.ip;
        if let Some(bytes) = self.message_bytes {
            let us = ping.rtt_ns as f64 / 1e3;
            self.console.debug(format_args!(
                "Reply from {ip}: bytes={bytes} time={us:.3}us"
            ));
        } else if let Some(percent) = self.progress.step(ping) {
            self.console
                .plain(&format!("{ip}: {percent}% completed.\r"));
        } else {
            return ControlFlow::Continue(());
        }
        // Only a line that was written can have failed.
        if self.console.is_broken() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Which percent of a run has been told.
#[derive(Debug)]
struct Progress {
    length: Length,
    /// The first percent that has not been told.
    next: u64,
}

impl Progress {
    fn of(run: &Run) -> Self {
        let next = match run.length {
            // lagscope tells 0 % of a time, and not of a number.
            Length::Time(_) => 0,
            Length::Pings(_) => 1,
        };
        Self {
            length: run.length,
            next,
        }
    }

    /// The percent to tell after this ping: whole ones, each once, and never the last.
    fn step(&mut self, ping: Ping) -> Option<u64> {
        let percent = match self.length {
            Length::Pings(pings) => u128::from(ping.number) * 100 / u128::from(pings),
            Length::Time(time) => u128::from(ping.elapsed_ns) * 100 / time.as_nanos(),
        };
        let percent = u64::try_from(percent).unwrap_or(100);
        if percent < self.next || percent >= 100 {
            return None;
        }
        self.next = percent + 1;
        Some(percent)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(length: Length, pings: impl IntoIterator<Item = Ping>) -> Vec<u64> {
        let mut progress = Progress::of(&Run {
            length,
            pause: Duration::ZERO,
        });
        pings
            .into_iter()
            .filter_map(|ping| progress.step(ping))
            .collect()
    }

    fn ping(number: u64, elapsed_ms: u64) -> Ping {
        Ping {
            number,
            rtt_ns: 1,
            elapsed_ns: elapsed_ms * 1_000_000,
        }
    }

    #[test]
    fn progress_of_a_number_begins_at_its_first_percent() {
        let pings = |count| {
            told(
                Length::Pings(count),
                (1..=count).map(|number| ping(number, 0)),
            )
        };
        assert_eq!(pings(10), [10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(pings(20_000), (1..=99).collect::<Vec<_>>());
        assert_eq!(pings(1), [0; 0]);
    }

    #[test]
    fn progress_of_a_time_begins_at_zero() {
        let time = Length::Time(Duration::from_secs(2));
        assert_eq!(
            told(time, [ping(1, 0), ping(2, 1_000), ping(3, 2_000)]),
            [0, 50]
        );
        assert_eq!(told(time, [ping(1, 1), ping(2, 2), ping(3, 21)]), [0, 1]);
    }
}
