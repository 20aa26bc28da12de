//! `tautline ping` from the outside: what it prints, what it leaves, what status it ends with.

mod program;
mod schema;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::process::Stdio;

use serde_json::Value;
use tautline_gauge::serve::{ServePlan, Server};

use self::program::{Finished, Program, signal};
use self::schema::json;

/// The shortest run with percentiles.
const PINGS: &str = "ping -n 40 --warmup 5 --timeout 20 --placement free";

fn server(address: &str) -> (Server, String) {
    let plan = ServePlan {
        addresses: vec![address.parse().unwrap()],
        ..ServePlan::default()
    };
    let server = Server::start(plan).unwrap();
    let address = server.addresses()[0].to_string();
    (server, address)
}

const TCP: &str = "tcp://127.0.0.1:0";

fn usage(words: &[&str]) -> String {
    let mut program = Program::new("ping", words);
    // A country of decimal commas changes nothing.
    program.command.env("LC_ALL", "de_DE.UTF-8");
    let finished = program.run().ended_with(2);
    assert_eq!(finished.stdout, "");
    finished
        .stderr
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_ping_has_its_page_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let uds = format!("uds://{}/x.sock", folder.path().display());
    for (listen, second) in [
        (TCP, "sent 40, received 40, late 0, corrupted 0"),
        (
            "udp://127.0.0.1:0",
            "sent 40, received 40, lost 0, duplicate 0, reordered 0, late 0, corrupted 0",
        ),
        (&uds, "sent 40, received 40, late 0, corrupted 0"),
    ] {
        let (_server, address) = server(listen);
        let finished = Program::new(PINGS, &[&address]).run().ended_with(0);
        let page = &finished.stdout;
        let lines: Vec<&str> = page.lines().collect();
        let title = lines
            .iter()
            .position(|line| {
                line.starts_with(&format!("{address}, 64 B, closed loop, 1 connection, "))
            })
            .unwrap_or_else(|| panic!("{page}"));
        assert_eq!(lines[title + 1].trim(), second);
        for part in [
            "p50",
            "p99.99",
            "mean",
            "slowest: ",
            "path: ",
            "server: this host, tautline ",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            lines
                .iter()
                .all(|line| line.len() <= 100 && line.is_ascii()),
            "{page}"
        );
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn a_bare_host_is_tcp() {
    let (_server, address) = server(TCP);
    let bare = address.strip_prefix("tcp://").unwrap();
    let finished = Program::new(PINGS, &[bare, "--json", "-"])
        .run()
        .ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["ping"]["address"], *address);
}

#[test]
fn the_report_has_a_cell_for_each_address_and_size() {
    let (_first, tcp) = server(TCP);
    let (_second, udp) = server("udp://127.0.0.1:0");
    let more = [
        &tcp,
        &udp,
        "--size",
        "32,1Ki",
        "--percentiles",
        "50,97.5",
        "--histogram",
        "1us:10us:5",
        "--half-rtt",
        "--label",
        "x",
        "--json",
        "-",
    ];
    let finished = Program::new(PINGS, &more).run().ended_with(0);
    let document = json(&finished.stdout);
    let cells = document["cells"].as_array().unwrap();
    let found: Vec<_> = cells
        .iter()
        .map(|cell| {
            (
                cell["transport"].as_str().unwrap(),
                cell["payload_bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("tcp", 32), ("tcp", 1_024), ("udp", 32), ("udp", 1_024)]
    );
    assert_eq!(document["ping"], cells[0]);
    assert_eq!(document["same_host"], true);
    assert_eq!(document["label"], "x");
    assert!(document["peer"]["version"].is_string());
    for cell in cells {
        assert_eq!(cell["rtt"]["percentiles"][0]["percentile"], 50.0);
        assert!(cell["rtt"]["percentiles"][0]["value_ns"].is_u64());
        let missing = &cell["rtt"]["percentiles"][1];
        assert_eq!(missing["value_ns"], Value::Null);
        assert_eq!(missing["reason"], "needs 400 samples and has 40");
        assert!(cell["half_rtt"]["min_ns"].as_u64() < cell["rtt"]["min_ns"].as_u64());
        let histogram = &cell["histogram"];
        let counts = histogram["counts"].as_array().unwrap();
        let sum: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
        let outside = histogram["below"].as_u64().unwrap() + histogram["above"].as_u64().unwrap();
        assert_eq!(sum + outside, 40);
    }
}

#[test]
fn open_loop_says_what_it_asked_for_and_what_left() {
    let (_server, address) = server("udp://127.0.0.1:0");
    let more = [&address, "--rate", "400", "--json", "-"];
    let finished = Program::new(PINGS, &more).run().ended_with(0);
    let cell = &json(&finished.stdout)["ping"];
    assert_eq!(cell["pacing"], "open");
    assert_eq!(cell["asked_rate_hz"], 400.0);
    assert!(cell["achieved_rate_hz"].is_f64());
    assert!(cell["late_sends"].is_u64());
    assert_eq!(cell["response"]["count"], 40);
    assert!(
        finished.stderr.contains("open loop at 400 a second ("),
        "{}",
        finished.stderr
    );
}

#[test]
fn options_of_the_socket_are_read_back() {
    let (_server, address) = server(TCP);
    let more = [
        &address,
        "-4",
        "--sndbuf",
        "100",
        "--rcvbuf",
        "64Ki",
        "--tos",
        "0x10",
        "--bind",
        "127.0.0.2",
        "--interface",
        "lo",
        "--json",
        "-",
    ];
    let finished = Program::new(PINGS, &more).run().ended_with(0);
    let path = &json(&finished.stdout)["ping"]["path"];
    assert!(path["local"].as_str().unwrap().starts_with("127.0.0.2:"));
    let option = |name: &str| {
        let options = path["options"].as_array().unwrap();
        options
            .iter()
            .find(|option| option["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(option("tos")["effective"], "16");
    assert_eq!(option("interface")["effective"], "lo");
    assert_eq!(option("nodelay")["effective"], "on");
    assert_eq!(option("rcvbuf")["effective"], "65536");
    assert_eq!(option("sndbuf")["requested"], "100");
    assert_ne!(option("sndbuf")["effective"], "100");
    assert!(path["tcp_before"]["mss_bytes"].is_u64());
    assert!(
        finished.stderr.contains("100 asked for"),
        "{}",
        finished.stderr
    );

    let refused = Program::new(PINGS, &[&address, "--congestion", "nosuch"])
        .run()
        .ended_with(3);
    assert!(
        refused.stderr.contains("--congestion nosuch: "),
        "{}",
        refused.stderr
    );
    let refused = Program::new(PINGS, &[&address, "-6"]).run().ended_with(3);
    assert!(
        refused
            .stderr
            .contains("-6: it has no address of that family"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_cannot_be_followed_is_a_usage_error_that_names_the_option() {
    for (words, said) in [
        (
            vec!["x", "--size", "0"],
            "error: --size: 0 is not within 1 to 67108864 over tcp",
        ),
        (
            vec!["udp://x:1", "--size", "31"],
            "error: --size: 31 is not within 32 to 65507 over udp",
        ),
        (
            vec!["x", "--size", "64k"],
            "error: invalid value '64k' for '--size <LIST>': did you mean 64Ki (65536)?",
        ),
        (
            vec!["x", "--rate", "1,5"],
            "error: invalid value '1,5' for '--rate <HZ>': expected a number a second such as 1000, 10k \
             or 0.5",
        ),
        (
            vec!["x", "--rate", "nan"],
            "error: invalid value 'nan' for '--rate <HZ>': expected a number a second such as 1000, 10k \
             or 0.5",
        ),
        (
            vec!["x", "-i", "1e-12"],
            "error: invalid value '1e-12' for '--interval <TIME>': expected a duration such as 50us, \
             500ms or 3s",
        ),
        (
            vec!["x", "-i", "99999999999"],
            "error: invalid value '99999999999' for '--interval <TIME>': too large: beyond 64 bits",
        ),
        (vec!["x", "-t", "0"], "error: -t: it has to be above 0"),
        (
            vec!["x", "-n", "0"],
            "error: -n: 0 is not within 1 to 18446744073709551615",
        ),
        (
            vec!["x", "-P", "0"],
            "error: --connections: 0 is not within 1 to 1024",
        ),
        (
            vec!["x", "--percentiles", "50,100"],
            "error: invalid value '100' for '--percentiles <LIST>': 100 is the maximum, which is always \
             shown",
        ),
        (
            vec!["x", "--timeout", ""],
            "error: invalid value '' for '--timeout <TIME>': expected a duration such as 50us, 500ms or \
             3s",
        ),
        (
            vec!["ftp://x"],
            "error: invalid value 'ftp://x' for '<ADDRESS>...': \"ftp://x\": ftp: the schemes are \
             tcp, tls, udp, uds and serial",
        ),
        (
            vec!["x", "-i", "-1"],
            "error: invalid value '-1' for '--interval <TIME>': expected a duration such as 50us, 500ms \
             or 3s",
        ),
        (
            vec!["x", "-i", "nan"],
            "error: invalid value 'nan' for '--interval <TIME>': expected a duration such as 50us, 500ms \
             or 3s",
        ),
        (
            vec!["x", "-i", "1e-12"],
            "error: invalid value '1e-12' for '--interval <TIME>': expected a duration such as 50us, \
             500ms or 3s",
        ),
        (
            vec!["x", "-i", "0,5"],
            "error: invalid value '0,5' for '--interval <TIME>': expected a duration such as 50us, 500ms \
             or 3s",
        ),
        (
            vec!["x", "-i", "99999999999"],
            "error: invalid value '99999999999' for '--interval <TIME>': too large: beyond 64 bits",
        ),
        (
            vec!["x", "--fail-if", "delivery < 100"],
            "error: --fail-if 'delivery < 100': delivery stands in the strategy table, which this command \
             does not make",
        ),
    ] {
        assert_eq!(usage(&words), said, "{words:?}");
    }
    assert!(usage(&["x", "--rate", "10", "-i", "1"]).contains("cannot be used with"));
    assert!(
        usage(&["x", "--timeout", "1", "--timeout", "2"]).contains("cannot be used multiple times")
    );
}

#[test]
fn nobody_there_is_not_available_and_the_document_says_why() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = format!("tcp://{closed}");
    let finished = Program::new(PINGS, &[&address, "--json", "-"])
        .run()
        .ended_with(3);
    let reason = format!("connect to {address}: connection refused: nobody listens there");
    assert_eq!(finished.stderr, format!("tautline: {reason}\n"));
    let document = json(&finished.stdout);
    assert_eq!(document["error"], *reason);
    assert_eq!(document["ping"], Value::Null);
    assert_eq!(document["cells"], Value::Array(vec![]));

    let finished = Program::new(PINGS, &["no-such-name.invalid"])
        .run()
        .ended_with(3);
    assert!(
        finished
            .stderr
            .starts_with("tautline: look up tcp://no-such-name.invalid:6001: ")
    );
}

/// One takes connections, the other datagrams, and both say nothing.
#[test]
fn a_silent_host_ends_within_its_bound() {
    let stream = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = format!("tcp://{}", stream.local_addr().unwrap());
    let udp = format!("udp://{}", datagrams.local_addr().unwrap());
    let finished = Program::new(PINGS, &[&tcp]).run().ended_with(3);
    assert!(
        finished.stderr.contains("answers nothing"),
        "{}",
        finished.stderr
    );
    let finished = Program::new(PINGS, &[&udp]).run().ended_with(3);
    assert!(
        finished.stderr.contains("no answer: nobody listens there"),
        "{}",
        finished.stderr
    );
}

#[test]
fn gates_are_judged_on_every_cell() {
    let (_server, address) = server(TCP);
    Program::new(PINGS, &[&address, "--fail-if", "lost > 0 or p50 > 1h"])
        .run()
        .ended_with(0);
    let finished = Program::new(PINGS, &[&address, "--fail-if", "p50 > 0ns"])
        .run()
        .ended_with(1);
    assert!(
        finished.stdout.contains("Gate FAILED: p50 > 0ns"),
        "{}",
        finished.stdout
    );
    let finished = Program::new(PINGS, &[&address, "--fail-if", "p99.999 > 1us"])
        .run()
        .ended_with(1);
    assert!(
        finished.stdout.contains("needs 1000000 samples and has 40"),
        "{}",
        finished.stdout
    );
}

#[test]
fn samples_and_the_log_are_written_beside_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (samples, log) = (path("samples.csv"), path("x.hlog"));
    let (_server, address) = server(TCP);
    Program::new(PINGS, &[&address, "--samples", &samples, "--hdr", &log])
        .run()
        .ended_with(0);
    let samples = fs::read_to_string(samples).unwrap();
    assert_eq!(
        samples.lines().next(),
        Some("address,payload_bytes,connection,sequence,intended_ns,sent_ns,rtt_ns,response_ns")
    );
    assert_eq!(samples.lines().count(), 41);
    assert!(
        fs::read_to_string(log)
            .unwrap()
            .contains("#[Histogram log format version 1.3]")
    );
}

#[test]
fn a_full_device_is_a_partial_result_with_a_page() {
    let (_server, address) = server(TCP);
    let finished = Program::new(PINGS, &[&address, "--samples", "/dev/full"])
        .run()
        .ended_with(4);
    assert_eq!(
        finished.stderr,
        "tautline: write --samples: No space left on device (os error 28)\n"
    );
    assert!(
        finished.stdout.contains("sent 40, received 40"),
        "{}",
        finished.stdout
    );
}

#[test]
fn the_length_of_a_run_is_printed_and_nothing_measured() {
    let finished = Program::new("ping nobody.invalid -t 60 --print-duration", &[])
        .run()
        .ended_with(0);
    assert_eq!(finished.stdout, "63\n");
    let finished = Program::new("ping nobody.invalid --print-duration", &[])
        .run()
        .ended_with(0);
    assert_eq!(finished.stdout, "13\n");
}

#[test]
fn a_line_comes_this_often_and_the_page_after_it() {
    let (_server, address) = server(TCP);
    let more = [&address, "-t", "0.5", "--every", "0.2"];
    let finished = Program::new("ping --placement free", &more)
        .run()
        .ended_with(0);
    let lines: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|line| line.contains("  received ") && line.contains("us: p50 "))
        .collect();
    assert!(!lines.is_empty(), "{}", finished.stdout);
    assert!(
        lines[0].starts_with(&format!("{address} 64 B  0.0-")),
        "{}",
        lines[0]
    );
    // Nothing of a live line: nobody looks at a pipe.
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_command_as_load_runs_meanwhile_and_ends_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let command = format!("echo $$ > {}; exec sleep 1000", pid_file.display());
    let (_server, address) = server(TCP);
    // Long enough that the shell has begun.
    let more = [&address, "-t", "0.3", "--load", &command];
    Program::new("ping --placement free", &more)
        .run()
        .ended_with(0);
    let pid = fs::read_to_string(pid_file).unwrap();
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap());
}

#[test]
fn a_prime_count_as_load_leaves_the_pings_whole() {
    let (_server, address) = server(TCP);
    let finished = Program::new(PINGS, &[&address, "--load", "primes"])
        .run()
        .ended_with(0);
    assert!(
        finished.stdout.contains("sent 40, received 40"),
        "{}",
        finished.stdout
    );
}

#[test]
fn streams_as_load_go_to_the_same_server() {
    let (server, address) = server(TCP);
    Program::new(PINGS, &[&address, "--load", "stream:2"])
        .run()
        .ended_with(0);
    let summary = server.stop();
    assert_eq!(summary.clients, 3);
    assert!(summary.bytes > 45 * 64, "{summary:?}");
}

/// Memory is bounded whatever the length: it fits below a limit on the address space, too.
fn interrupted_by(name: &str, status: i32) {
    let (_server, address) = server(TCP);
    let mut program = Program::new("", &[]);
    let tautline = program.command.get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "ulimit -v 400000; exec \"$0\" \"$@\""])
        .arg(tautline)
        .args(["ping", &address, "-t", "10000h", "--json", "-"])
        .args(["--every", "0.1", "--placement", "free"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program.command = shell;
    let mut child = program.command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("  received ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended early");
    }
    signal(name, child.id());
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest)
    });
    let finished = Finished::wait(child, &program.folder);
    rest.join().unwrap().unwrap();
    let document = json(&finished.stdout);
    finished.ended_with(status);
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["error"], Value::Null);
    assert!(document["ping"]["received"].as_u64().unwrap() > 0);
}

#[test]
fn ctrl_c_ends_ten_thousand_hours_with_a_partial_report() {
    interrupted_by("INT", 130);
}

#[test]
fn sigterm_ends_ten_thousand_hours_with_a_partial_report() {
    interrupted_by("TERM", 143);
}

/// A server of its own that can be stopped by a signal, and where it listens.
fn process() -> (std::process::Child, String) {
    let mut child = Program::new("serve tcp://127.0.0.1:0", &[])
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .find_map(|line| {
            let line = line.unwrap();
            let from = line.find("tcp://")?;
            let rest = &line[from..];
            Some(rest[..rest.find([' ', ',']).unwrap_or(rest.len())].to_owned())
        })
        .unwrap();
    // Whatever else it prints is read to its end.
    std::thread::spawn(move || lines.count());
    (child, address)
}

/// Ten seconds at 1000 a second, one second of which the server stands still: the slow ones.
fn slow_of_a_stall(pacing: &[&str]) -> u64 {
    let (mut serving, address) = process();
    let more = [
        &[&*address, "-t", "10", "--timeout", "5", "--json", "-"],
        pacing,
    ]
    .concat();
    let mut program = Program::new("ping", &more);
    let child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = serving.id();
    let stalling = std::thread::spawn(move || {
        let second = std::time::Duration::from_secs(1);
        std::thread::sleep(second * 5);
        signal("STOP", pid);
        std::thread::sleep(second);
        signal("CONT", pid);
    });
    let finished = Finished::wait(child, &program.folder).ended_with(0);
    stalling.join().unwrap();
    signal("KILL", pid);
    serving.wait().unwrap();
    let document = json(&finished.stdout);
    let cell = &document["ping"];
    let times = if cell["pacing"] == "open" {
        "response"
    } else {
        "rtt"
    };
    cell[times]["over_1ms"].as_u64().unwrap()
}

#[test]
#[ignore = "takes 24 s"]
fn a_second_of_standstill_is_a_thousand_slow_responses_and_one_slow_round_trip() {
    let open = slow_of_a_stall(&["--rate", "1000"]);
    let closed = slow_of_a_stall(&["-i", "1ms"]);
    println!("above 1 ms: open loop {open}, closed loop {closed}");
    // A busy machine adds to both; what the standstill itself adds it cannot take away.
    assert!(open >= 950, "{open}");
    assert!(closed >= 1, "{closed}");
    assert!(open > closed, "{open} {closed}");
}
