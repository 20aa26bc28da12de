//! A server that answers what it is sent, and a client that asks it, over any transport:
//! `cargo run -p tautline --example echo -- uds:///tmp/echo.sock`

use std::sync::mpsc;
use std::time::Duration;

use tautline::{Address, Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address: Address = address.as_deref().unwrap_or("tcp://127.0.0.1:0").parse()?;
    // UDP keeps the borders of messages by itself; streams need marks.
    let framing = match address {
        Address::Udp { .. } => Framing::Raw,
        _ => Framing::length_prefix(),
    };
    let options = LinkOptions {
        framing,
        ..LinkOptions::default()
    };

    let io = IoThread::start(IoOptions::default())?;
    let server_options = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    let server = io.listen(&address, server_options, |peer: &Link| {
        println!("server: hello {:?}", peer.peer_address());
        Ok(|peer: &Link, message: &[u8], _: Received| {
            if let Err(error) = peer.send(message) {
                eprintln!("server: the answer is lost: {error}");
            }
        })
    })?;
    println!("server: listening on {}", server.local_address());

    let (answers, inbox) = mpsc::channel();
    let on_message = move |_: &Link, message: &[u8], _: Received| {
        // The other end of the channel lives to the end of main.
        let _ = answers.send(String::from_utf8_lossy(message).into_owned());
    };
    let link = io.connect(&server.local_address(), options, on_message)?;
    link.wait_open(Duration::from_secs(5))?;
    for question in ["one", "two", "three"] {
        link.send(question.as_bytes())?;
        println!("client: {}", inbox.recv_timeout(Duration::from_secs(5))?);
    }

    let unsent = link.close(Duration::from_secs(1));
    println!(
        "client: closed, {} messages not sent",
        unsent.queued.messages
    );
    Ok(())
}
