//! A server that answers with what it hears, and a client that asks three times.
//!
//! `cargo run -p tautline --example echo [ADDRESS]`, with `tcp://127.0.0.1:0` where none is given.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tautline::{Address, Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions};

const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let address: Address = match std::env::args().nth(1) {
        Some(given) => given.parse()?,
        None => "tcp://127.0.0.1:0".parse()?,
    };
    let options = LinkOptions {
        // Datagrams have borders of their own.
        framing: match address {
            Address::Udp { .. } => Framing::Raw,
            Address::Tcp { .. } | Address::Uds(_) => Framing::length_prefix(),
        },
        ..LinkOptions::default()
    };
    let io = IoThread::start(IoOptions::default())?;

    let serving = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    let server = io.listen(&address, serving, |_: &Link| {
        Ok(|peer: &Link, message: &[u8], _: Received| {
            if let Err(refused) = peer.send(message) {
                eprintln!("no answer: {refused}");
            }
        })
    })?;
    println!("listening on {}", server.local_address());

    let (answers, inbox) = mpsc::channel();
    let hear = move |_: &Link, message: &[u8], _: Received| drop(answers.send(message.to_vec()));
    let link = io.connect(&server.local_address(), options, hear)?;
    link.wait_open(PATIENCE)?;
    for call in ["hello", "is anybody there?", "goodbye"] {
        link.send(call.as_bytes())?;
        let answer = inbox.recv_timeout(PATIENCE)?;
        println!("{call} -> {}", String::from_utf8_lossy(&answer));
        assert_eq!(answer, call.as_bytes());
    }
    link.close(PATIENCE);
    server.close(PATIENCE);
    Ok(())
}
