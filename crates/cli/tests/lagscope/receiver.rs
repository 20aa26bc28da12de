//! A receiver against plain clients that send as the original does.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::face::{HEADER, Running, START, client, exchange, lagscope, receiver, without_time};
use crate::program::{Program, signal};

#[test]
fn the_verbose_console_is_lagscopes() {
    let (mut running, port) = receiver("");
    let mut stream = client(port);
    let from = stream.local_addr().unwrap().port();
    exchange(&mut stream, &START);
    exchange(&mut stream, &[0, 0, 0, 0]);
    drop(stream);
    let console = running.read_to("socket closed");
    let (opened, rest) = console.split_once("[socket ").unwrap();
    assert_eq!(
        opened,
        format!("TIME INFO: New connection: 127.0.0.1:{from} --> local:{port} ")
    );
    let (number, rest) = rest.split_once("]\n").unwrap();
    assert_eq!(
        rest,
        format!(
            "TIME DBG : Received from 127.0.0.1: bytes=4\n\
             TIME DBG : Received from 127.0.0.1: bytes=4\n\
             TIME DBG : socket closed: {number}\n"
        )
    );
    let finished = running.end_by("INT").ended_with(130);
    assert_eq!(
        without_time(&finished.stdout),
        "TIME INFO: Interrupted by Ctrl+C\n"
    );
    assert_eq!(finished.stderr, "");
}

#[test]
fn the_plain_console_has_connections_alone() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut running = Running::start(&format!("-r127.0.0.1 -p{port}"));
    assert_eq!(running.read_to("-----"), HEADER);
    let mut stream = loop {
        // It listens a moment after its header.
        if let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
    };
    exchange(&mut stream, &START);
    drop(stream);
    assert!(
        running
            .read_to("\n")
            .starts_with("TIME INFO: New connection: 127.0.0.1:")
    );
    let finished = running.end_by("TERM").ended_with(143);
    assert_eq!(finished.stdout, "");
}

#[test]
fn messages_of_any_size_come_back_whatever_its_own_is() {
    let (running, port) = receiver("-z1000");
    for size in [1, 3, 4, 100_000] {
        let mut stream = client(port);
        let mut message = vec![b'A'; size];
        let start = size.min(4);
        message[..start].copy_from_slice(&START[..start]);
        exchange(&mut stream, &message);
        for number in 0..20_u8 {
            message[0] = number;
            exchange(&mut stream, &message);
        }
    }
    running.end_by("TERM").ended_with(143);
}

#[test]
fn half_a_message_comes_back_at_once() {
    let (running, port) = receiver("");
    let mut stream = client(port);
    exchange(&mut stream, &START[..2]);
    exchange(&mut stream, &START[2..]);
    running.end_by("TERM").ended_with(143);
}

/// One client that sent part of a message stopped all others of the original.
#[test]
fn clients_that_stall_or_flood_cost_the_others_nothing() {
    let (running, port) = receiver("-z1000000");
    let mut half = client(port);
    half.write_all(&START[..2]).unwrap();
    let mut flood = client(port);
    flood.set_nonblocking(true).unwrap();
    // Until nothing more is taken from it: it fetches none of what comes back.
    let mut refusals = 0;
    while refusals < 100 {
        match flood.write_all(&[0; 65_536]) {
            Ok(()) => refusals = 0,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                refusals += 1;
                std::thread::yield_now();
            }
        }
    }
    let mut others: Vec<_> = (0..8).map(|_| client(port)).collect();
    for number in 0..200_u32 {
        for stream in &mut others {
            exchange(stream, &number.to_le_bytes());
        }
    }
    let mut reply = [0; 2];
    half.read_exact(&mut reply).unwrap();
    exchange(&mut half, &START[2..]);
    running.end_by("TERM").ended_with(143);
}

/// The client ends its side with its whole message still on the way back.
#[test]
fn what_a_client_sent_before_its_end_comes_back() {
    let (running, port) = receiver("");
    let mut stream = client(port);
    let message = vec![7; 600_000];
    stream.write_all(&message).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply == message, "{} bytes", reply.len());
    running.end_by("TERM").ended_with(143);
}

#[test]
fn a_port_in_use_is_status_3_with_lagscopes_lines() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let finished = lagscope(&format!("-r -p{port}")).ended_with(3);
    let console: String = finished
        .stdout
        .split_inclusive('\n')
        .map(without_time)
        .collect();
    assert_eq!(
        console,
        format!(
            "{HEADER}TIME ERR : cannot bind the socket on address: 0.0.0.0\n\
             TIME ERR : listen error at port: {port}\n"
        )
    );
    assert_eq!(
        finished.stderr,
        format!("lagscope: listen on 0.0.0.0 port {port}: Address already in use (os error 98)\n")
    );
}

/// Scripts look for it with pidof and lsof, however it was called.
#[test]
fn the_process_is_called_lagscope() {
    let (running, _port) = receiver("");
    let process = format!("/proc/{}", running.pid());
    assert_eq!(
        fs::read_to_string(format!("{process}/comm")).unwrap(),
        "lagscope\n"
    );
    let words = fs::read(format!("{process}/cmdline")).unwrap();
    assert!(words.starts_with(b"lagscope\0-r127.0.0.1\0"));
    running.end_by("TERM").ended_with(143);
}

#[test]
fn a_killed_receiver_can_be_started_again_at_once() {
    let (running, port) = receiver("");
    let mut stream = client(port);
    exchange(&mut stream, &START);
    signal("KILL", running.pid());
    // The end of the stream is the end of the process.
    let _ = stream.read(&mut [0]);
    let mut again = Running::start(&format!("-r127.0.0.1 -p{port} -V"));
    again.read_to("listening on");
    exchange(&mut client(port), &START);
    again.end_by("TERM").ended_with(143);
}

/// The first process ends well, and what stays has neither parent, terminal nor folder.
#[test]
fn a_daemon_goes_on_by_itself() {
    let finished = Program::new("lagscope -r127.0.0.1 -p0 -D -V", &[])
        .run()
        .ended_with(0);
    let console = &finished.stdout;
    assert!(
        console.contains("*** receiver role\n*** run as daemon\n"),
        "{console}"
    );
    let port: u16 = console
        .trim_end()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let daemon = Daemon(listener_of(port));
    let process = format!("/proc/{}", daemon.0);
    assert_eq!(
        fs::read_to_string(format!("{process}/comm")).unwrap(),
        "lagscope\n"
    );
    assert_eq!(
        fs::read_link(format!("{process}/cwd")).unwrap().to_str(),
        Some("/")
    );
    for stream in 0..=2 {
        let target = fs::read_link(format!("{process}/fd/{stream}")).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    let mut stream = client(port);
    exchange(&mut stream, &START);
    drop(daemon);
    // Its end is the end of the stream.
    let _ = stream.read(&mut [0]);
}

/// Ended with the test, also where that fails.
struct Daemon(u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        signal("TERM", self.0);
    }
}

/// A daemon that cannot listen would be one that nobody hears of.
#[test]
fn a_daemon_that_cannot_listen_says_so_first() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let finished = lagscope(&format!("-r127.0.0.1 -p{port} -D")).ended_with(3);
    assert!(finished.stdout.contains(" ERR : listen error at port: "));
}

/// The process that holds the listening socket of a port, found as lsof finds it.
fn listener_of(port: u16) -> u32 {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let inode = sockets
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.len() > 9 && fields[1].ends_with(&local) && fields[3] == "0A")
        .map(|fields| format!("socket:[{}]", fields[9]))
        .expect("somebody listens");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| {
            let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten();
            descriptors
                .flatten()
                .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
                .any(|target| target.to_str() == Some(&inode))
        })
        .expect("it can be seen")
}
