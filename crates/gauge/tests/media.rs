//! The tables over TLS, over pseudo-terminals, and on one port whose ends are joined: small plans, and
//! what must be true of any result.

#![cfg(all(feature = "serial", feature = "tls"))]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{Address, DirectLink, LinkOptions, SerialLine, Strategy};
use tautline_gauge::null_modem::NullModem;
use tautline_gauge::plan::{Driver, LatencyPlan, Plan, StrategyPlan, Transport};
use tautline_gauge::report::{Integrity, LatencyRow};
use tautline_gauge::run::{BenchErrorKind, BenchResult, bench};

const BOTH: [Transport; 2] = [Transport::Tls, Transport::Serial];

fn latency_plan(transports: &[Transport], sizes: &[usize]) -> LatencyPlan {
    LatencyPlan {
        transports: transports.to_vec(),
        sizes: sizes.to_vec(),
        runs: 1,
        rounds: 6,
        iterations: 60,
        warmup: 10,
        ..LatencyPlan::default()
    }
}

fn run(latency: Option<LatencyPlan>, strategy: Option<StrategyPlan>) -> BenchResult {
    let plan = Plan {
        latency,
        strategy,
        smoke: None,
        ..Plan::full(7)
    };
    bench(
        &plan.checked().unwrap(),
        &mut |_| {},
        &AtomicBool::new(false),
    )
}

fn assert_every_echo_came_back(row: &LatencyRow, echoes: u64) {
    let cell = format!("{} {} B", row.transport, row.payload_bytes);
    assert_eq!(row.control.count, echoes, "{cell} control");
    assert_eq!(row.control.corrupted, 0, "{cell} control");
    assert_eq!(row.drivers.len(), 4, "{cell}");
    for driver in &row.drivers {
        let cell = format!("{cell} {}", driver.driver);
        assert_eq!(driver.summary.count, echoes, "{cell}");
        let faults = (driver.summary.lost, driver.summary.corrupted);
        assert_eq!(faults, (0, 0), "{cell}");
        assert_eq!(driver.rounds.len(), 6, "{cell}");
        assert!(driver.ratio_low.is_some(), "{cell}");
    }
}

/// 100,000 bytes are far above what a terminal holds.
#[test]
fn tls_and_terminals_give_latency_rows_by_every_driver() {
    let result = run(Some(latency_plan(&BOTH, &[64, 100_000])), None);
    assert_eq!(result.error, None);
    assert_eq!(result.latency.len(), 4);
    for row in &result.latency {
        assert_every_echo_came_back(row, 60);
        assert_eq!((&row.address, &row.medium.port), (&None, &None));
        assert_eq!(row.medium.wire_time_ns, None);
        match row.transport.as_str() {
            "tls" => {
                let tls = row.medium.tls.as_ref().expect("it was agreed on");
                assert_eq!(tls.version, "TLS 1.3");
                assert!(tls.cipher_suite.starts_with("TLS_"), "{tls:?}");
                assert_eq!(row.medium.note, None);
            }
            "serial" => {
                let note = row.medium.note.as_deref().expect("it says what it is");
                assert!(note.contains("no wire, no UART"), "{note}");
                assert_eq!(row.medium.tls, None);
            }
            other => panic!("{other} was not asked for"),
        }
    }
    let between = |thread: &&_| {
        let thread: &tautline_gauge::report::ThreadRecord = thread;
        thread.role == "null-modem"
    };
    let pump = result.placement.threads.iter().find(between);
    let pump = pump.expect("the thread between the terminals has a place");
    assert!(!pump.cpus_effective.is_empty());
    assert_eq!(pump.cpus_effective, pump.cpus_requested);
}

#[test]
fn tls_and_terminals_give_strategy_rows_whose_accounts_close() {
    let strategy = StrategyPlan {
        transports: BOTH.to_vec(),
        sizes: vec![64, 16_384],
        runs: 1,
        duration: Duration::from_millis(50),
        ..StrategyPlan::default()
    };
    let result = run(None, Some(strategy));
    assert_eq!(result.error, None);
    assert_eq!(result.strategy.len(), 12);
    for row in &result.strategy {
        let cell = format!("{row:?}");
        assert!(row.accounting_closes, "{cell}");
        assert!(row.received_messages > 0, "{cell}");
        assert_eq!((row.drains_given_up, row.lost_messages), (0, 0), "{cell}");
        let Integrity {
            gaps,
            duplicates,
            reordered,
            corrupted,
        } = row.integrity;
        assert_eq!((duplicates, reordered, corrupted), (0, 0, 0), "{cell}");
        assert_eq!(gaps, row.evicted_messages, "{cell}");
        if row.strategy == Strategy::Reliable.as_str() {
            assert_eq!(row.delivery_percent, Some(100.0), "{cell}");
        }
        assert!(row.control.received_mib_per_s.is_some(), "{cell}");
        assert_eq!(row.medium.tls.is_some(), row.transport == "tls", "{cell}");
    }
}

/// A port whose ends are joined: what is written to a null modem's near side comes back from its far
/// one.
struct Joined {
    modem: Option<NullModem>,
    echo: Option<JoinHandle<()>>,
}

impl Joined {
    fn new() -> Self {
        let modem = NullModem::start(|| Ok(())).unwrap();
        let mut far = open(modem.far());
        let echo = thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(bytes @ 1..) = far.read(&mut buffer) {
                if far.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
        });
        Self {
            modem: Some(modem),
            echo: Some(echo),
        }
    }

    /// Not exclusive: the modem has its terminals locked.
    fn line(&self) -> SerialLine {
        SerialLine {
            exclusive: false,
            ..SerialLine::new(self.modem.as_ref().unwrap().near())
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.modem = None;
        self.echo.take().unwrap().join().unwrap();
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

fn on_plug(line: SerialLine, sizes: &[usize]) -> LatencyPlan {
    LatencyPlan {
        sizes: sizes.to_vec(),
        ..latency_plan(&[], &[64]).on_plug(line)
    }
}

#[test]
fn on_one_port_every_driver_and_the_control_hear_themselves_in_turns() {
    let joined = Joined::new();
    let sizes = [16, 64, 20_000];
    let result = run(Some(on_plug(joined.line(), &sizes)), None);
    assert_eq!(result.error, None);
    assert_eq!(result.latency.len(), 3);
    for row in &result.latency {
        assert_every_echo_came_back(row, 60);
        let medium = &row.medium;
        let port = medium.port.as_deref().expect("it names its port");
        assert_eq!(port, Address::Serial(joined.line()).to_string());
        // It is a pseudo-terminal after all.
        assert_eq!((medium.wire_time_ns, medium.low_latency), (None, None));
        let note = medium.note.as_deref().unwrap();
        assert!(note.contains("pseudo-terminal"), "{note}");
    }
    // Whoever comes next finds it free.
    DirectLink::connect(&Address::Serial(joined.line()), LinkOptions::default()).unwrap();
}

fn setup_error(line: SerialLine) -> String {
    let result = run(Some(on_plug(line, &[64])), None);
    assert!(result.latency.is_empty());
    let error = result.error.expect("the run cannot begin");
    assert_eq!(error.kind, BenchErrorKind::Setup, "{error}");
    error.message
}

#[test]
fn a_port_that_somebody_has_or_that_is_none_ends_the_run_before_it_begins() {
    let joined = Joined::new();
    let said = setup_error(SerialLine {
        exclusive: true,
        ..joined.line()
    });
    assert!(said.contains("in use"), "{said}");
    for (path, why) in [("/dev/ttyNONE7", "No such"), ("/dev/null", "no terminal")] {
        let said = setup_error(SerialLine::new(path));
        assert!(
            said.contains(path) && said.to_lowercase().contains(&why.to_lowercase()),
            "{said}"
        );
    }
}

#[test]
fn a_port_whose_ends_are_not_joined_is_silent_and_said_to_be() {
    let modem = NullModem::start(|| Ok(())).unwrap();
    let Address::Serial(line) = modem.near_address() else {
        panic!("a terminal is a serial line");
    };
    let plan = LatencyPlan {
        drivers: vec![Driver::Direct],
        ..on_plug(line, &[64])
    };
    let result = run(Some(plan), None);
    let error = result.error.expect("nothing comes back");
    assert!(
        error.message.ends_with("nothing arrived for 5 s"),
        "{error}"
    );
}
