//! What the instrument itself costs: `ping` beside sockperf, each over the raw blocking round trip of
//! the same round, and what recording one sample costs.
//!
//! `cargo bench -p tautline-cli --bench instrument [-- --rounds 15 --seconds 1]`. Two CPUs kept awake,
//! the client on one and the server on the other. Without sockperf on the machine it says so and prints
//! the rest.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tautline_gauge::clock::now_ns;
use tautline_gauge::control::{EchoClient, End, serve_echo};
use tautline_gauge::plan::Transport;
use tautline_gauge::recorder::Recorder;
use tautline_gauge::statistics::{Random, median, median_interval};

fn main() -> Result<(), String> {
    let options = Options::parse()?;
    recording();
    round_trips(&options)
}

struct Options {
    rounds: usize,
    seconds: u64,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut options = Self {
            rounds: 15,
            seconds: 1,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|value| value.parse::<u64>().ok());
                value
                    .filter(|&value| value > 0)
                    .ok_or_else(|| format!("{word} takes a whole number above 0"))
            };
            match word.as_str() {
                // Cargo says it to every benchmark.
                "--bench" => {}
                "--rounds" => options.rounds = number()? as usize,
                "--seconds" => options.seconds = number()?,
                _ => return Err(format!("{word} is not one of --rounds N, --seconds N")),
            }
        }
        Ok(options)
    }
}

/// T14: one sample, clock read included, and the memory of a billion.
fn recording() {
    let before_kib = peak_kib();
    let mut recorder = Box::new(Recorder::new());
    let mut costs_ns = Vec::new();
    let mut recorded = 0_u64;
    for _ in 0..15 {
        let start_ns = now_ns();
        let mut last_ns = start_ns;
        for _ in 0..SAMPLES_A_ROUND {
            let at_ns = now_ns();
            recorder.record(at_ns - last_ns);
            last_ns = at_ns;
        }
        costs_ns.push((last_ns - start_ns) as f64 / SAMPLES_A_ROUND as f64);
        recorded += SAMPLES_A_ROUND;
    }
    // The rest of the billion without the clock, which takes no memory.
    while recorded < 1_000_000_000 {
        recorder.record(black_box(recorded % 1_000_000));
        recorded += 1;
    }
    let grown_kib = peak_kib()
        .zip(before_kib)
        .map(|(after, before)| after - before);
    let cost_ns = median(&mut costs_ns).unwrap_or(f64::NAN);
    println!(
        "T14 one sample, clock read included: {cost_ns:.1} ns (target <= 50), median of 15 rounds"
    );
    match grown_kib {
        Some(kib) => println!("T14 memory of {recorded} samples: {kib} KiB (target <= 65536)"),
        None => println!("T14 memory: unknown, /proc/self/status cannot be read"),
    }
}

/// T13: both tools over the raw round trip.
fn round_trips(options: &Options) -> Result<(), String> {
    let _awake = keep_awake();
    let sockperf = Sockperf::start();
    let server = Serve::start()?;
    let (mut raw, mut ping, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Each is first, second and last equally often.
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => raw.push(raw_p50_us(options.seconds)?),
                1 => ping.push(server.ping_p50_us(options.seconds)?),
                _ => peer.extend(
                    sockperf
                        .as_ref()
                        .map(|sockperf| sockperf.p50_us(options.seconds))
                        .transpose()?,
                ),
            }
        }
    }
    report("ping / raw blocking client", &ping, &raw);
    if peer.is_empty() {
        println!("T13 undecided: sockperf is not on this machine (Debian has it as `sockperf`)");
        return Ok(());
    }
    report("sockperf / raw blocking client", &peer, &raw);
    report("T13 (target <= 1.05): ping / sockperf", &ping, &peer);
    Ok(())
}

fn report(name: &str, product: &[f64], control: &[f64]) {
    let mut ratios: Vec<f64> = product.iter().zip(control).map(|(p, c)| p / c).collect();
    let interval = median_interval(&ratios, &mut Random::seeded(7));
    let of = |values: &[f64]| median(&mut values.to_vec()).unwrap_or(f64::NAN);
    let (product, control) = (of(product), of(control));
    let ratio = median(&mut ratios).unwrap_or(f64::NAN);
    let interval = interval.map_or_else(
        || "no interval below 6 rounds".to_owned(),
        |interval| format!("[{:.3}, {:.3}]", interval.low, interval.high),
    );
    println!("{name}: p50 {product:.2} us / {control:.2} us = {ratio:.3} {interval}");
}

/// The median of raw blocking TCP round trips of 64 bytes.
fn raw_p50_us(seconds: u64) -> Result<f64, String> {
    let said = |cause: std::io::Error| format!("raw round trips: {cause}");
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (client, server) = End::pair(Transport::Tcp, localhost).map_err(said)?;
    let closer = server.closer().map_err(said)?;
    let serving = thread::spawn(move || {
        pin(SERVER_CPU);
        // It ends with an error when it is shut down.
        let _ = serve_echo(&server, RAW_WIRE_BYTES);
    });
    let measuring = thread::spawn(move || {
        pin(CLIENT_CPU);
        let mut client = EchoClient::new(client, Transport::Tcp, PAYLOAD_BYTES);
        let mut recorder = Recorder::new();
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            for _ in 0..100 {
                let sent_ns = now_ns();
                client.send()?;
                client.recv()?;
                recorder.record(now_ns() - sent_ns);
            }
        }
        Ok::<_, std::io::Error>(recorder)
    });
    let recorder = measuring.join().expect("it does not panic").map_err(said)?;
    closer.shutdown();
    serving.join().expect("it does not panic");
    let p50_ns = recorder.round_median_ns().ok_or("raw round trips: none")?;
    Ok(p50_ns as f64 / 1e3)
}

/// `tautline serve` in a process of its own.
struct Serve {
    child: Child,
    address: String,
}

impl Serve {
    fn start() -> Result<Self, String> {
        let folder = std::env::temp_dir();
        let ready = folder.join(format!("tautline-instrument-{}", std::process::id()));
        let child = Command::new(PROGRAM)
            .args([
                "serve",
                "tcp://127.0.0.1:0",
                "--cpu",
                SERVER_CPU,
                "--ready-file",
            ])
            .arg(&ready)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|cause| format!("start {PROGRAM} serve: {cause}"))?;
        let mut server = Self {
            child,
            address: String::new(),
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.address.is_empty() {
            if Instant::now() > deadline {
                return Err("tautline serve is not ready after 10 s".to_owned());
            }
            let text = fs::read_to_string(&ready).unwrap_or_default();
            if text.ends_with('\n') {
                server.address = text.trim().to_owned();
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(&ready);
        Ok(server)
    }

    fn ping_p50_us(&self, seconds: u64) -> Result<f64, String> {
        let output = Command::new(PROGRAM)
            .args([
                "ping",
                &self.address,
                "--cpu",
                CLIENT_CPU,
                "--json",
                "-",
                "-t",
            ])
            .arg(seconds.to_string())
            .stderr(Stdio::null())
            .output()
            .map_err(|cause| format!("run {PROGRAM} ping: {cause}"))?;
        let report: Value = serde_json::from_slice(&output.stdout)
            .map_err(|cause| format!("the report of ping: {cause}"))?;
        let percentiles = report["ping"]["rtt"]["percentiles"].as_array();
        let p50 = percentiles
            .into_iter()
            .flatten()
            .find(|of| of["percentile"] == 50.0)
            .and_then(|of| of["value_ns"].as_f64());
        p50.map(|ns| ns / 1e3)
            .ok_or_else(|| "ping has no p50".to_owned())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// sockperf's server, where there is sockperf.
struct Sockperf {
    child: Child,
    port: String,
}

impl Sockperf {
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port();
        let port = port.to_string();
        let child = Command::new("taskset")
            .args([
                "-c",
                SERVER_CPU,
                "sockperf",
                "server",
                "--tcp",
                "-i",
                "127.0.0.1",
                "-p",
                &port,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut server = Self { child, port };
        thread::sleep(Duration::from_millis(500));
        // Without sockperf taskset ends at once.
        matches!(server.child.try_wait(), Ok(None)).then_some(server)
    }

    fn p50_us(&self, seconds: u64) -> Result<f64, String> {
        let output = Command::new("taskset")
            .args([
                "-c",
                CLIENT_CPU,
                "sockperf",
                "ping-pong",
                "--tcp",
                "-i",
                "127.0.0.1",
            ])
            .args([
                "-p",
                &self.port,
                "-m",
                "64",
                "--full-rtt",
                "-t",
                &seconds.to_string(),
            ])
            .output()
            .map_err(|cause| format!("run sockperf: {cause}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("percentile 50.000"));
        line.and_then(|line| line.rsplit('=').next()?.trim().parse().ok())
            .ok_or_else(|| format!("sockperf has no median: {text}"))
    }
}

impl Drop for Sockperf {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Through `taskset`, as the peer is pinned: by the id of the calling thread.
fn pin(cpu: &str) {
    let Ok(path) = fs::read_link("/proc/thread-self") else {
        return;
    };
    let thread_id = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    if let Some(thread_id) = thread_id {
        // Unpinned the figures are worse for the control, which the ratio would show.
        let _ = Command::new("taskset")
            .args(["-cp", cpu, &thread_id])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Idle states off until it is dropped; says so where that is not allowed.
fn keep_awake() -> Option<File> {
    let mut device = OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")
        .ok();
    let held = device
        .as_mut()
        .map(|device| device.write_all(&0_i32.to_ne_bytes()));
    if !matches!(held, Some(Ok(()))) {
        println!("note: /dev/cpu_dma_latency cannot be held: CPUs halt between round trips");
    }
    device
}

/// `VmHWM`: the most that this process ever had resident.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_tautline");
const CLIENT_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const PAYLOAD_BYTES: usize = 64 - 4;
/// With the prefix: the same bytes as both tools send.
const RAW_WIRE_BYTES: usize = 64;
const SAMPLES_A_ROUND: u64 = 2_000_000;
