//! `tautline serve`: its options, what it says, and how it ends.

mod ready;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use tautline::{Address, ClientCertificates, ErrorKind};
use tautline_gauge::plan::{PlacementPlan, Sched};
use tautline_gauge::report::text::serve as text;
use tautline_gauge::secured::in_options;
use tautline_gauge::serve::{Network, ServeError, ServePlan, Server};

use self::ready::Ready;
use crate::cli::indented;
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::options::{PLACE, Usage};
use crate::outputs;
use crate::tls::{Secured, ServerTls};
use crate::values;

/// Answer ping, stream and lagscope: any number of clients, on all transports at once
///
/// Echoes what ping sends and counts what stream sends; bench latency and bench strategy do both with
/// --to. The tcp address answers lagscope too, whatever
/// its message size. Nobody has to prove who they are, but over TLS with --tls-client-roots. A serial line
/// has one client at a time, and is waited for when it is unplugged. Ctrl-C or SIGTERM ends it with a summary.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ServeCommand {
    /// Where to listen: tcp://127.0.0.1:7000, tls://127.0.0.1:7001, udp://[::]:7000, uds:///run/x.sock,
    /// uds://@name, or a serial line to answer on: serial:///dev/ttyUSB0?baud=921600; HOST or HOST:PORT
    /// means tcp; port 0 takes a free one
    /// [default: tcp and udp on every address of the machine, port 6001]
    #[arg(value_name = "ADDRESS", value_parser = values::address)]
    addresses: Vec<Address>,

    /// Serve this network alone, such as 10.0.0.0/8, 192.168.1.7 or fe80::/10; repeatable. Unix
    /// sockets are not meant: their file's mode is
    #[arg(long, value_name = "CIDR")]
    allow: Vec<Network>,

    /// End when the first client, and whoever came meanwhile, has left: for a second over tcp and uds,
    /// silent for five over udp
    #[arg(long)]
    once: bool,

    /// Hold each reply exactly so long from the arrival of its request, as 500us or 20ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = values::duration)]
    reply_delay: Option<Duration>,

    /// Write the addresses to this file, one a line, once all are listening; it is gone when the
    /// server is
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ready_file: Option<PathBuf>,

    /// Write them to this open descriptor, 3 or higher, and close it
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::descriptor)]
    ready_fd: Option<i32>,

    #[command(flatten)]
    tls: ServerTls,
    #[command(flatten)]
    place: ServerPlace,
}

/// Where clients' threads run and how the machine is held.
#[derive(Debug, Args)]
struct ServerPlace {
    /// CPUs for the clients' threads, such as 2,3 or 2-3, given to them in turn [default: any]
    #[arg(long, value_name = "LIST", value_parser = values::cpus, help_heading = PLACE)]
    cpu: Option<::std::vec::Vec<usize>>,

    /// Scheduler of the clients' threads: other, idle, fifo:N or rr:N, N from 1 to 99 [default: other]
    #[arg(long, value_name = "POLICY", value_parser = values::sched, help_heading = PLACE)]
    sched: Option<Sched>,

    /// Exit with 3 where --sched is refused, instead of serving without and saying so
    #[arg(long, requires = "sched", help_heading = PLACE)]
    require_sched: bool,

    /// Keep idle CPUs from halting: hold /dev/cpu_dma_latency at 0 (usually root's)
    #[arg(long, help_heading = PLACE)]
    stay_awake: bool,

    /// Keep each CPU of --cpu, or every one, busy with a thread of the idle class
    #[arg(long, help_heading = PLACE)]
    keep_cpus_busy: bool,

    /// Poll so long for the next message of a tcp or uds client before sleeping, as 50us [default: 0]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = PLACE)]
    spin: Option<Duration>,
}

impl ServeCommand {
    /// Serves until a signal, or with `--once` until the clients have left.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let plan = self.plan().unwrap_or_else(|usage| usage.exit("serve"));
        let signals = |error| Failure::new(Exit::Unavailable, format!("catch signals: {error}"));
        let interrupt = Interrupt::catch().map_err(signals)?;
        let Secured {
            tls,
            client_certificates,
            fingerprint,
        } = self.tls.prepare(&self.addresses)?;
        let plan = ServePlan {
            tls,
            client_certificates,
            ..plan
        };
        let mut ready = Ready::prepare(self.ready_file.as_deref(), self.ready_fd)?;
        let limits = text::Limited {
            by_network: !plan.allow.is_empty(),
            by_certificate: client_certificates == ClientCertificates::Required,
        };
        let places = plan.placement != PlacementPlan::default();
        let server = Server::start(plan).map_err(failure)?;
        let ender = server.ender();
        interrupt.on_first(move || ender.end());

        let mut page = text::listening(server.addresses(), limits);
        if let Some(fingerprint) = fingerprint {
            page.push_str(&text::self_signed(&fingerprint));
        }
        if places {
            page.push_str(&text::threads(&server.threads()));
        }
        outputs::print(page.as_bytes())?;
        for refusal in server.refusals() {
            say(format_args!("tautline: {refusal}: serving without"));
        }
        ready.announce(server.addresses())?;

        server.wait(&mut |notice| say(format_args!("tautline: {notice}")));
        let summary = server.stop();
        drop(ready);
        outputs::print(text::summary(&summary).as_bytes())
    }

    fn plan(&self) -> Result<ServePlan, Usage> {
        if self.reply_delay.is_some_and(|delay| delay > DELAY_LIMIT) {
            return Err(Usage::new(format!(
                "--reply-delay: {DELAY_LIMIT:?} is the most"
            )));
        }
        self.tls.check(&self.addresses)?;
        let default = ServePlan::default();
        let place = &self.place;
        Ok(ServePlan {
            addresses: self.addresses.clone(),
            allow: self.allow.clone(),
            once: self.once,
            reply_delay: self.reply_delay.unwrap_or(default.reply_delay),
            spin: place.spin.unwrap_or(default.spin),
            placement: PlacementPlan {
                cpus: place.cpu.clone().unwrap_or_default(),
                sched: place.sched.unwrap_or(default.placement.sched),
                require_sched: place.require_sched,
                stay_awake: place.stay_awake,
                keep_cpus_busy: place.keep_cpus_busy,
                ..default.placement
            },
            ..default
        })
    }
}

/// What is wrong with the command line is usage, what is wrong with the machine is not.
fn failure(error: ServeError) -> Failure {
    match &error {
        // A certificate that cannot be read, or a setting that a line's driver does not take, is of the
        // machine.
        ServeError::Listen(cause)
            if cause.kind() == ErrorKind::InvalidOption
                && cause.to_string().starts_with("spin") =>
        {
            Usage::new(format!("--{error}")).exit("serve")
        }
        ServeError::Listen(cause) => {
            Failure::new(Exit::Unavailable, in_options(&cause.to_string()))
        }
        ServeError::ListenUdp { .. }
        | ServeError::Placement(_)
        | ServeError::Scheduler(_)
        | ServeError::Thread(_) => Failure::new(Exit::Unavailable, error),
    }
}

fn after_help() -> String {
    format!(
        "Exit status:\n{}\nExamples:\n  tautline serve & tautline ping 127.0.0.1\n  \
         tautline serve & tautline bench latency --to 127.0.0.1,udp://127.0.0.1:6001",
        indented(STATUSES)
    )
}

const STATUSES: &str = "\
0  ended by Ctrl-C, SIGTERM or --once
2  usage
3  not available: an address, a required scheduler, a ready file
4  its output failed";

/// Held replies have their time in memory, and nobody waits longer for one.
const DELAY_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_has_a_limit() {
        use clap::Parser as _;
        #[derive(Debug, clap::Parser)]
        struct Alone {
            #[command(flatten)]
            serve: ServeCommand,
        }
        let plan = |words: &str| Alone::parse_from(words.split(' ')).serve.plan();
        assert!(plan("serve --reply-delay 60s").is_ok());
        assert_eq!(
            plan("serve --reply-delay 61s").unwrap_err(),
            Usage::new("--reply-delay: 60s is the most")
        );
        let plan = plan("serve 10.0.0.1 --cpu 2-3 --once").unwrap();
        assert_eq!(plan.addresses[0].to_string(), "tcp://10.0.0.1:6001");
        assert_eq!((plan.placement.cpus, plan.once), (vec![2, 3], true));
    }
}
