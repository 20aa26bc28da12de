//! One reading to every client at once; a client that does not read holds up nobody and gets the
//! freshest when it does. `cargo run -p tautline --example broadcast_server`

use std::sync::mpsc;
use std::time::Duration;

use tautline::{
    Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions, Strategy,
};

const READINGS: u32 = 50_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let io = IoThread::start(IoOptions::default())?;
    // Eight readings a client: then the oldest makes room.
    let link = LinkOptions {
        framing: Framing::lines(),
        strategy: Strategy::KeepLatest,
        queue_limit_messages: 8,
        ..LinkOptions::default()
    };
    let options = ServerOptions {
        link: link.clone(),
        ..ServerOptions::default()
    };
    let (came, arrivals) = mpsc::channel();
    let server = io.listen(&"tcp://127.0.0.1:0".parse()?, options, move |_: &Link| {
        let _ = came.send(()); // The receiver lives to the end of main.
        Ok(|_: &Link, _: &[u8], _: Received| {})
    })?;

    let (seen, last_seen) = mpsc::channel();
    let mut clients = Vec::new();
    for name in ["display", "logger", "sleeper"] {
        let seen = seen.clone();
        let client = io.connect(
            &server.local_address(),
            link.clone(),
            move |_: &Link, reading: &[u8], _: Received| {
                if reading == format!("reading {READINGS}").as_bytes() {
                    let _ = seen.send(name);
                }
            },
        )?;
        client.wait_open(Duration::from_secs(5))?;
        arrivals.recv_timeout(Duration::from_secs(5))?;
        clients.push(client);
    }
    clients[2].pause_reading();

    let mut accepted = 0;
    for number in 1..=READINGS {
        accepted += server
            .broadcast(format!("reading {number}").as_bytes())
            .accepted;
    }
    clients[2].resume_reading();
    for _ in 0..3 {
        let name = last_seen.recv_timeout(Duration::from_secs(5))?;
        println!("{name} has the last reading");
    }
    let sending = server.statistics().peers.sending;
    println!(
        "{READINGS} readings, {accepted} accepted for 3 clients, {} evicted",
        sending.discarded.evicted.messages
    );
    Ok(())
}
