//! Real sockets on loopback and in fresh folders.

use std::process::Command;
use std::time::Duration;

use super::*;
use crate::error::ErrorKind;

mod race;
mod tcp;
mod udp;
mod uds;

/// Longer than anything on this machine takes; a test that gets here has failed.
pub(super) const WATCHDOG: Duration = Duration::from_secs(30);

const READ: PollInterest = PollInterest {
    read: true,
    write: false,
};

const WRITE: PollInterest = PollInterest {
    read: false,
    write: true,
};

fn deadline() -> Option<Instant> {
    Some(Instant::now() + WATCHDOG)
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn listen_on(text: &str) -> Listener {
    listen(&address(text), &ServerOptions::default()).unwrap()
}

/// Connects to the end.
fn connect(address: &Address) -> Result<Socket, Error> {
    connect_with(address, &LinkOptions::default())
}

fn connect_with(address: &Address, options: &LinkOptions) -> Result<Socket, Error> {
    let target = resolve(address)?.remove(0);
    let (socket, connecting) = start_connect(address, &target, options)?;
    if connecting == Connecting::InProgress {
        assert!(socket.wait_ready(WRITE, deadline()).unwrap().write);
        finish_connect(&socket).map_err(|cause| Error::connect(address, cause))?;
    }
    Ok(socket)
}

fn accept(listener: &Listener) -> Socket {
    assert!(listener.wait_ready(READ, deadline()).unwrap().read);
    listener.accept().unwrap().socket
}

/// A connected client and its peer, on a stream.
fn pair(listener: &Listener) -> (Socket, Socket) {
    let client = connect(&listener.local_address()).unwrap();
    (client, accept(listener))
}

/// Receives exactly what is expected, however it is cut.
fn expect_bytes(socket: &Socket, expected: &[u8]) {
    let mut received = Vec::new();
    while received.len() < expected.len() {
        assert!(socket.wait_ready(READ, deadline()).unwrap().read);
        let mut buffer = [0; 4096];
        let arrived = socket.recv(&mut buffer, Wait::No).unwrap();
        assert_ne!(arrived.bytes, 0, "the stream ended early");
        received.extend_from_slice(&buffer[..arrived.bytes]);
    }
    assert_eq!(received, expected);
}

/// Receives the end of the stream.
fn expect_end(socket: &Socket) {
    assert!(socket.wait_ready(READ, deadline()).unwrap().read);
    let arrived = socket.recv(&mut [0; 16], Wait::No).unwrap();
    assert_eq!(arrived.bytes, 0);
}

fn errno<T: fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

fn message<T: fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

/// Some containers have no IPv6; there is nothing to see then.
fn has_ipv6() -> bool {
    std::net::UdpSocket::bind("[::1]:0").is_ok()
}

/// Runs one test in a process of its own, after a shell has prepared what belongs to a process.
fn run_again(prepare: &str, test: &str) {
    let again = Command::new("sh")
        .arg("-c")
        .arg(format!("{prepare} && exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{prepare}: {shown}");
    assert!(shown.contains("1 passed"), "{shown}");
}
