//! A report made by hand for tests: figures of a board with six cores, as a real run would give them.

use super::*;
use crate::environment::{self, Cpu, Frequency, Idle, Kernel, Memory};

/// One transport and payload: msg/s, MiB/s, p50, p95, p99, p99.9, max in microseconds.
type Echo = (&'static str, usize, f64, f64, [u64; 5]);
/// accepted, received MiB/s, delivery, failed sends, dropped MiB, max queue KiB, pressure events.
type Stream = (
    &'static str,
    &'static str,
    usize,
    f64,
    f64,
    f64,
    u64,
    f64,
    f64,
    u64,
);

#[rustfmt::skip]
const ECHOES: &[Echo] = &[
    ("tcp", 64, 8631.0, 0.53, [118, 127, 153, 238, 880]),
    ("tcp", 16384, 3587.0, 56.05, [272, 310, 351, 419, 715]),
    ("tcp", 65536, 1770.0, 110.64, [557, 599, 645, 988, 1312]),
    ("udp", 64, 9742.0, 0.59, [101, 115, 139, 282, 909]),
    ("udp", 16384, 9377.0, 9.16, [105, 114, 138, 274, 840]),
    ("uds", 64, 14588.0, 0.89, [70, 76, 100, 172, 821]),
    ("uds", 16384, 5618.0, 87.79, [178, 204, 234, 338, 1234]),
    ("uds", 65536, 3509.0, 219.31, [279, 295, 307, 516, 980]),
];

#[rustfmt::skip]
const STREAMS: &[Stream] = &[
    ("tcp", "reliable", 64, 23.49, 23.49, 100.0, 0, 0.0, 1024.0, 80),
    ("tcp", "besteffort", 64, 32.16, 32.16, 100.0, 5366, 0.33, 1024.0, 150),
    ("tcp", "keeplatest", 64, 48.21, 31.02, 64.34, 0, 17.19, 1024.0, 1),
    ("tcp", "reliable", 65536, 1199.38, 1199.38, 100.0, 0, 0.0, 960.06, 13560),
    ("tcp", "besteffort", 65536, 1237.50, 1237.50, 100.0, 18223, 1138.94, 960.06, 11628),
    ("tcp", "keeplatest", 65536, 1411.88, 1240.31, 87.84, 0, 514.7, 960.06, 1),
    ("udp", "reliable", 64, 6.63, 6.63, 100.0, 0, 0.0, 1024.0, 68),
    ("udp", "besteffort", 64, 7.90, 7.89, 99.96, 23265, 1.42, 1024.0, 88),
    ("udp", "keeplatest", 64, 9.82, 6.59, 67.1, 0, 9.7, 1024.0, 1),
];

pub(crate) fn report() -> Report {
    let environment = environment();
    let evidence = Evidence {
        clock_resolution_ns: 32,
        clock_read_ns: 41.0,
        wake_halted_ns: Some(38_400.0),
        wake_awake_ns: Some(5_200.0),
        steal_ticks: Some(0),
        total_ticks: Some(180_000),
        other_load_percent: Some(1.2),
        throttled_periods: Some(0),
        rt_throttling_possible: false,
        loopback: true,
    };
    Report {
        schema: SCHEMA.into(),
        version: "0.1.0".into(),
        commit: Some("2a6b4c4d1db4bb797052cfe2bb6fe1ec8faf5f8c".to_owned()),
        command_line: ["tautline", "bench"].map(str::to_owned).to_vec(),
        started_at: "2026-08-30T12:46:06Z".to_owned(),
        label: Some("as delivered".to_owned()),
        boot_id: environment.kernel.boot_id.clone(),
        clock: Clock {
            name: "CLOCK_MONOTONIC".into(),
            resolution_ns: 32,
            read_ns: 41.0,
        },
        warnings: environment::doubts(&environment, &evidence),
        environment,
        evidence,
        peer: None,
        same_host: Some(true),
        placement: placement(),
        seed: 7,
        latency: ECHOES.iter().map(latency_row).collect(),
        strategy: STREAMS.iter().map(strategy_row).collect(),
        ping: None,
        cells: Vec::new(),
        stream: Vec::new(),
        wakeup: Vec::new(),
        soak: None,
        udp_smoke: smoke(),
        udp_smoke_verdicts: verdicts(),
        absent: ["latency", "strategy"]
            .map(|table| Absent {
                table: table.into(),
                transport: "udp".to_owned(),
                payload_bytes: 65_536,
                reason: "a datagram holds 65507 bytes".to_owned(),
            })
            .to_vec(),
        gates: Vec::new(),
        interrupted: false,
        error: None,
    }
}

/// A report with rows over TLS, over pseudo-terminals, and over a port whose ends are joined.
pub(crate) fn media_report() -> Report {
    let mut report = report();
    report.latency.truncate(1);
    report.strategy.truncate(1);
    let (tcp, stream) = (report.latency[0].clone(), report.strategy[0].clone());
    let tls = Medium {
        tls: Some(TlsRecord {
            version: "TLS 1.3".to_owned(),
            cipher_suite: "TLS_AES_256_GCM_SHA384".to_owned(),
            ..TlsRecord::default()
        }),
        ..Medium::default()
    };
    let terminals = Medium {
        note: Some("pseudo-terminals joined by a thread: no wire, no UART".to_owned()),
        ..Medium::default()
    };
    let port = Medium {
        port: Some("serial:///dev/ttyUSB0?baud=115200".to_owned()),
        wire_time_ns: Some(5_902_777),
        latency_timer_ms: Some(16),
        low_latency: Some(false),
        ..Medium::default()
    };
    for (transport, medium) in [("tls", tls), ("serial", terminals), ("serial", port)] {
        report.latency.push(LatencyRow {
            transport: transport.to_owned(),
            medium: medium.clone(),
            ..tcp.clone()
        });
        if medium.port.is_none() {
            report.strategy.push(StrategyRow {
                transport: transport.to_owned(),
                medium,
                ..stream.clone()
            });
        }
    }
    report
}

/// A report of one stream that lost the race against its own producer.
pub(crate) fn stream_report() -> Report {
    let mut report = ping_report();
    report.ping = None;
    report.cells.clear();
    report.stream = vec![stream::StreamRow {
        address: "tcp://10.0.0.5:6001".to_owned(),
        transport: "tcp".to_owned(),
        strategy: "keeplatest".to_owned(),
        payload_bytes: 64,
        asked_rate_hz: None,
        offered_per_s: Some(100_000.0),
        elapsed_s: 10.0,
        offered: 1_000_000,
        accepted: 999_000,
        refused: 1_000,
        evicted: 98_000,
        max_queue_delay_ns: Some(20_000_000),
        too_old: 1_000,
        discarded: 0,
        delivered: Some(900_000),
        lost: Some(0),
        duplicates: Some(0),
        reordered: Some(2),
        corrupted: Some(0),
        receiving_s: Some(1.0),
        mib_per_s: Some(54.93),
        gbit_per_s: Some(0.4608),
        queue_delay: stream::QueueDelayRow {
            count: 800_000,
            p50_ns: Some(288_000),
            p95_ns: Some(1_024_000),
            p99_ns: Some(4_608_000),
            p999_ns: Some(5_120_000),
            max_ns: Some(9_216_000),
        },
        max_queue_kib: 1_024.0,
        pressure_events: 18,
        write_calls: 12_345,
        accounting_closes: true,
        slices: vec![stream::StreamSlice {
            start_s: 0.0,
            seconds: 1.0,
            offered: 100_000,
            accepted: 100_000,
            written: 99_000,
        }],
        medium: Medium::default(),
        error: None,
    }];
    report
}

/// A report of two cells: closed loop over TCP, open loop over UDP with everything that can go wrong.
pub(crate) fn ping_report() -> Report {
    let mut report = report();
    report.command_line = ["tautline", "ping", "127.0.0.1"]
        .map(str::to_owned)
        .to_vec();
    report.latency.clear();
    report.strategy.clear();
    report.udp_smoke.clear();
    report.udp_smoke_verdicts.clear();
    report.absent.clear();
    report.udp_smoke.clear();
    report.udp_smoke_verdicts.clear();
    report.warnings.clear();
    report.peer = Some(PeerRecord {
        version: "0.1.0".to_owned(),
        host: Some("board".to_owned()),
        kernel: Some("5.15.185-tegra".to_owned()),
        logical_cpus: Some(6),
        ..PeerRecord::default()
    });
    report.cells = vec![closed_cell(), open_cell()];
    report.ping = report.cells.first().cloned();
    report
}

fn times(scale: u64) -> ping::Times {
    let of = |percentile, value_ns: Option<u64>| ping::PercentileValue {
        percentile,
        value_ns: value_ns.map(|ns| ns * scale),
        reason: value_ns
            .is_none()
            .then(|| "needs 1000000 samples and has 412345".to_owned()),
    };
    ping::Times {
        count: 412_345,
        min_ns: Some(19_300 * scale),
        mean_ns: Some(24_100.5 * scale as f64),
        stddev_ns: Some(1_200.0),
        max_ns: Some(912_300 * scale),
        percentiles: vec![
            of(50.0, Some(23_100)),
            of(75.0, Some(24_000)),
            of(90.0, Some(25_500)),
            of(95.0, Some(26_100)),
            of(99.0, Some(31_700)),
            of(99.9, Some(54_200)),
            of(99.99, Some(133_000)),
            of(99.999, None),
        ],
        over_1ms: 12,
        over_5ms: 3,
        over_10ms: 1,
        over_20ms: 0,
        hdr: None,
    }
}

fn closed_cell() -> ping::PingCell {
    let tcp = |retransmits| ping::TcpState {
        retransmits,
        srtt_us: 21,
        rttvar_us: 3,
        congestion_window: 10,
        mss_bytes: 65_483,
        path_mtu_bytes: 65_535,
        congestion_control: Some("cubic".to_owned()),
    };
    let option =
        |name: &'static str, requested: Option<&str>, effective: &str| ping::SocketOption {
            name: name.into(),
            requested: requested.map(str::to_owned),
            effective: Some(effective.to_owned()),
        };
    let thread = |thread| ping::ThreadCell {
        thread,
        connections: 1,
        sent: 206_172,
        received: 206_172,
        rtt: times(1),
    };
    ping::PingCell {
        address: "tcp://127.0.0.1:6001".to_owned(),
        transport: "tcp".to_owned(),
        payload_bytes: 64,
        connections: 2,
        threads: 2,
        pacing: "closed".into(),
        load: "none".to_owned(),
        warmup: 2_000,
        elapsed_s: 10.000_021,
        sent: 412_345,
        received: 412_345,
        lost: 0,
        lost_up: Some(0),
        lost_down: Some(0),
        duplicate: 0,
        reordered: 0,
        late: 0,
        corrupted: 0,
        in_flight_at_end: 0,
        asked_rate_hz: None,
        achieved_rate_hz: None,
        late_sends: None,
        late_send_ns: None,
        latest_send_ns: None,
        rtt: times(1),
        response: None,
        half_rtt: Some(times(1).halved()),
        p50_low_ns: Some(22_900.0),
        p50_high_ns: Some(23_300.0),
        histogram: Some(ping::LinearHistogram {
            from_ns: 15_000,
            step_ns: 15_000,
            below: 0,
            counts: vec![400_000, 12_000, 0],
            above: 345,
        }),
        slices: vec![ping::Slice {
            start_s: 0.0,
            seconds: 1.0,
            sent: 41_234,
            received: 41_234,
            mean_ns: Some(24_000.0),
            p50_ns: Some(23_100),
            p99_ns: Some(31_000),
            max_ns: Some(912_300),
        }],
        slow: vec![ping::SlowMoment {
            at_s: 3.204_5,
            at_monotonic_ns: 14_003_204_500_000,
            time_ns: 912_300,
            sequence: 131_002,
            connection: 0,
            coincided: Some(crate::moments::Coincidence {
                over_ms: 100.1,
                retransmissions: Some(1),
                throttled_periods: Some(0),
                throttled_us: Some(0),
                interrupts: Some(412),
                softirqs: Some(97),
                context_switches: Some(16_230),
                steal_ticks: Some(2),
            }),
        }],
        each_thread: vec![thread(0), thread(1)],
        medium: Medium::default(),
        path: ping::Path {
            local: Some("127.0.0.1:40112".to_owned()),
            remote: Some("127.0.0.1:6001".to_owned()),
            options: vec![
                option("sndbuf", Some("1000"), "2304"),
                option("rcvbuf", None, "65536"),
                option("nodelay", Some("on"), "on"),
            ],
            tcp_before: Some(tcp(0)),
            tcp_after: Some(tcp(1)),
            retransmits: Some(1),
        },
        samples_left_out: 0,
        error: None,
    }
}

fn open_cell() -> ping::PingCell {
    ping::PingCell {
        address: "udp://127.0.0.1:6001".to_owned(),
        transport: "udp".to_owned(),
        connections: 1,
        threads: 1,
        pacing: "open".into(),
        load: "primes".to_owned(),
        sent: 1_000,
        received: 993,
        lost: 3,
        lost_up: Some(1),
        lost_down: Some(2),
        duplicate: 1,
        reordered: 1,
        late: 1,
        corrupted: 2,
        in_flight_at_end: 1,
        asked_rate_hz: Some(100.0),
        achieved_rate_hz: Some(100.0),
        late_sends: Some(4),
        late_send_ns: Some(10_000),
        latest_send_ns: Some(61_000),
        response: Some(times(2)),
        half_rtt: None,
        p50_low_ns: None,
        p50_high_ns: None,
        histogram: None,
        slow: Vec::new(),
        each_thread: Vec::new(),
        path: ping::Path::default(),
        error: Some("the server is gone: connection refused".to_owned()),
        ..closed_cell()
    }
}

fn environment() -> Environment {
    Environment {
        os: Some("Ubuntu 22.04.5 LTS".to_owned()),
        kernel: Kernel {
            release: Some("5.15.185-tegra".to_owned()),
            architecture: Some("aarch64".to_owned()),
            preemption: Some("full".to_owned()),
            boot_id: Some("239b2ccb-96d8-4be8-89eb-5c15110f3176".to_owned()),
            ..Kernel::default()
        },
        cpu: Cpu {
            model: Some("Cortex-A78AE".to_owned()),
            logical: Some(6),
            cores: Some(6),
            packages: Some(1),
            smt: Some(false),
            ..Cpu::default()
        },
        frequency: Frequency {
            governors: Some(vec!["schedutil".to_owned()]),
            min_khz: Some(115_200),
            max_khz: Some(1_728_000),
            ..Frequency::default()
        },
        idle: Idle {
            driver: Some("psci_idle".to_owned()),
            states: None,
            ..Idle::default()
        },
        memory: Memory {
            total_bytes: Some(7_976_910_848),
            ..Memory::default()
        },
        ..Environment::default()
    }
}

fn placement() -> PlacementRecord {
    let thread = |role: &str, cpu: usize| ThreadRecord {
        role: role.to_owned(),
        cpus_requested: vec![cpu],
        cpus_effective: vec![cpu],
        sched_requested: "other".to_owned(),
        sched_effective: "other".to_owned(),
    };
    PlacementRecord {
        requested: "split".to_owned(),
        threads: vec![thread("client", 1), thread("server", 2)],
        stay_awake: false,
        keep_cpus_busy: false,
        note: None,
    }
}

fn latency_row(&(transport, payload_bytes, messages_per_s, mib_per_s, us): &Echo) -> LatencyRow {
    let summary = summary(us.map(|us| us * 1_000));
    let control = self::summary(us.map(|us| us * 550));
    // Direct at the control, callback a little above, handoff as in the row, spin far below.
    let drivers = [
        ("direct", 560),
        ("callback", 640),
        ("handoff", 1_000),
        ("spin", 95),
    ];
    let of_run = RttSummary {
        count: 10_000,
        ..summary.clone()
    };
    let each_run = |run| LatencyRun {
        run,
        elapsed_s: 10_000.0 / messages_per_s,
        messages_per_s,
        mib_per_s,
        summary: of_run.clone(),
        over_5ms: 0,
        over_10ms: 0,
        over_50ms: 0,
    };
    LatencyRow {
        transport: transport.to_owned(),
        payload_bytes,
        address: None,
        runs: 3,
        iterations: 10_000,
        warmup: 1_000,
        driver: Some("handoff".to_owned()),
        messages_per_s: Some(messages_per_s),
        mib_per_s: Some(mib_per_s),
        summary,
        over_5ms: 0,
        over_10ms: 0,
        over_50ms: 0,
        control,
        drivers: drivers
            .into_iter()
            .map(|(driver, share)| driver_row(driver, share, us))
            .collect(),
        each_run: (0..3).map(each_run).collect(),
        medium: Medium::default(),
    }
}

fn driver_row(driver: &str, share: u64, us: [u64; 5]) -> DriverRow {
    let ratio = share as f64 / 550.0;
    let p50 = (us[0] * share) as f64;
    let pair = |run, round| RoundPair {
        run,
        round,
        control: p50 / ratio,
        product: p50,
    };
    DriverRow {
        driver: driver.to_owned(),
        summary: summary(us.map(|us| us * share)),
        p50_ratio: Some(ratio),
        ratio_low: Some(ratio - 0.02),
        ratio_high: Some(ratio + 0.03),
        rounds: (0..3)
            .flat_map(|run| (0..15).map(move |round| pair(run, round)))
            .collect(),
    }
}

fn summary([p50, p95, p99, p999, max]: [u64; 5]) -> RttSummary {
    RttSummary {
        count: 30_000,
        min_ns: Some(p50 * 9 / 10),
        mean_ns: Some(p50 as f64 * 1.02),
        p50_ns: Some(p50),
        p95_ns: Some(p95),
        p99_ns: Some(p99),
        p999_ns: Some(p999),
        max_ns: Some(max),
        ..RttSummary::default()
    }
}

fn strategy_row(stream: &Stream) -> StrategyRow {
    let &(
        transport,
        strategy,
        payload_bytes,
        accepted,
        received,
        delivery,
        failed,
        dropped,
        queue,
        events,
    ) = stream;
    let messages = |mib_per_s: f64| (mib_per_s * 3.0 * 1_048_576.0 / payload_bytes as f64) as u64;
    let (accepted_messages, received_messages) = (messages(accepted), messages(received));
    let evicted = if strategy == "keeplatest" {
        accepted_messages - received_messages
    } else {
        0
    };
    let payload = payload_bytes as u64;
    let sender = EndStatistics {
        accepted_messages,
        accepted_bytes: accepted_messages * (payload + 4),
        written_messages: accepted_messages - evicted,
        written_bytes: (accepted_messages - evicted) * (payload + 4),
        discarded_messages: evicted,
        discarded_bytes: evicted * (payload + 4),
        refused_messages: failed,
        refused_bytes: failed * (payload + 4),
        max_queued_bytes: (queue * 1024.0) as u64,
        pressure_events: events,
        ..EndStatistics::default()
    };
    let receiver = EndStatistics {
        received_messages,
        received_payload_bytes: received_messages * payload,
        ..EndStatistics::default()
    };
    let run = StrategyRun {
        run: 0,
        elapsed_s: 3.0,
        offered_messages: accepted_messages + failed,
        accepted_messages,
        failed_sends: failed,
        received_messages,
        evicted_messages: evicted,
        max_queue_bytes: (queue * 1024.0) as u64,
        pressure_events: events,
        integrity: Integrity {
            gaps: evicted,
            ..Integrity::default()
        },
        control_received_mib_per_s: Some(received / 1.5),
        sender,
        receiver: Some(receiver),
    };
    StrategyRow {
        transport: transport.to_owned(),
        strategy: strategy.to_owned(),
        payload_bytes,
        address: None,
        runs: 1,
        offered_messages: run.offered_messages,
        accepted_messages,
        received_messages,
        accepted_mib_per_s: Some(accepted),
        received_mib_per_s: Some(received),
        delivery_percent: Some(delivery),
        failed_sends: failed,
        dropped_messages: failed + evicted,
        refused_messages: failed,
        evicted_messages: evicted,
        dropped_mib: dropped,
        lost_messages: 0,
        max_queue_kib: queue,
        pressure_events: events,
        runtime_stats: true,
        integrity: run.integrity,
        accounting_closes: true,
        drains_given_up: 0,
        control: StreamControl {
            received_mib_per_s: Some(received / 1.5),
            received_messages_per_s: Some(received_messages as f64 / 4.5),
            ratio: Some(1.5),
        },
        each_run: vec![run],
        medium: Medium::default(),
    }
}

/// A clean payload, and one at which the library loses what raw sockets do not.
fn smoke() -> Vec<SmokeRow> {
    let mut rows = Vec::new();
    for (payload_bytes, lost, classification) in [
        (1_024, 0, SmokeClass::None),
        (65_507, 3, SmokeClass::LibraryPath),
    ] {
        for path in ["raw", "reliable", "besteffort"] {
            let lost = if path == "besteffort" { lost } else { 0 };
            rows.push(smoke_row(path, payload_bytes, lost, classification));
        }
    }
    rows
}

fn smoke_row(path: &str, payload_bytes: usize, lost: u64, classification: SmokeClass) -> SmokeRow {
    let back = 1_000 - lost;
    let end = EndStatistics {
        accepted_messages: 1_000,
        written_messages: 1_000,
        received_messages: 1_000,
        received_payload_bytes: 1_000 * payload_bytes as u64,
        max_queued_bytes: payload_bytes as u64,
        ..EndStatistics::default()
    };
    SmokeRow {
        path: path.to_owned(),
        payload_bytes,
        iterations: 1_000,
        warmup: 100,
        send_attempts: 1_000,
        sent: 1_000,
        server_received: 1_000,
        client_received: back,
        matched: back,
        delivery_percent: Some(back as f64 / 10.0),
        match_percent: Some(back as f64 / 10.0),
        timeouts: lost,
        send_failures: 0,
        send_failure: None,
        stopped_early: false,
        elapsed_s: 0.5,
        runtime: (path != "raw").then_some(SmokeRuntime {
            client: EndStatistics {
                received_messages: back,
                ..end
            },
            server: end,
        }),
        classification,
    }
}

fn verdicts() -> Vec<SmokeVerdict> {
    let verdict = |payload_bytes, classification, because: &str| SmokeVerdict {
        payload_bytes,
        classification,
        because: because.to_owned(),
        kernel: KernelUdp {
            receive_errors: Some(3),
            receive_buffer_errors: Some(3),
            send_buffer_errors: Some(0),
            checksum_errors: Some(0),
            no_ports: None,
        },
        receive_buffer_bytes: Some(212_992),
        send_buffer_bytes: Some(212_992),
        mtu_bytes: None,
    };
    vec![
        verdict(
            1_024,
            SmokeClass::None,
            "every echo of every path came back whole",
        ),
        verdict(
            65_507,
            SmokeClass::LibraryPath,
            "raw sockets are clean; besteffort: 997 of 1000 echoes came back whole, 3 replies did \
             not come back",
        ),
    ]
}
