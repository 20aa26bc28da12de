//! A program with a loop of its own: one `epoll` waits for tautline's links and for other descriptors,
//! here the words of an operator, and one thread does everything.
//! `cargo run -p tautline --example own_loop`

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tautline::{Framing, IoLoop, IoOptions, Link, LinkOptions, Received, ServerOptions};

const LINKS: Token = Token(0);
const OPERATOR: Token = Token(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut io = IoLoop::new(IoOptions::default())?;
    let options = LinkOptions {
        framing: Framing::length_prefix(),
        ..LinkOptions::default()
    };
    let server_options = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    let server = io.listen(&"tcp://127.0.0.1:0".parse()?, server_options, |_: &Link| {
        Ok(|peer: &Link, message: &[u8], _: Received| {
            // It fails only when the client has gone.
            let _ = peer.send(&message.to_ascii_uppercase());
        })
    })?;
    let (answers, answered) = mpsc::channel();
    let on_answer = move |_: &Link, message: &[u8], _: Received| {
        println!("answer: {}", String::from_utf8_lossy(message));
        // The other end lives to the end of main.
        let _ = answers.send(());
    };
    let link = io.connect(&server.local_address(), options, on_answer)?;

    let (mut operator, console) = UnixStream::pair()?;
    operator.write_all(b"one\ntwo\nthree\n")?;
    drop(operator);
    console.set_nonblocking(true)?;

    let mut poll = Poll::new()?;
    let readable = Interest::READABLE;
    let registry = poll.registry();
    registry.register(&mut SourceFd(&io.as_raw_fd()), LINKS, readable)?;
    registry.register(&mut SourceFd(&console.as_raw_fd()), OPERATOR, readable)?;

    let mut console = BufReader::new(console);
    let mut events = Events::with_capacity(8);
    let mut words = Vec::new();
    let mut pending = 3;
    while pending > 0 {
        poll.poll(&mut events, Some(Duration::from_secs(5)))?;
        for event in &events {
            match event.token() {
                // Only what is there: other descriptors have their turn.
                LINKS => drop(io.turn(Some(Duration::ZERO))?),
                _ => read_words(&mut console, &mut words)?,
            }
        }
        if link.is_open() {
            for word in words.drain(..) {
                println!("asked: {word}");
                link.send(word.as_bytes())?;
            }
        }
        pending -= answered.try_iter().count();
    }
    Ok(())
}

/// The lines that are there.
fn read_words(console: &mut impl BufRead, words: &mut Vec<String>) -> std::io::Result<()> {
    let mut line = String::new();
    loop {
        match console.read_line(&mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => words.push(std::mem::take(&mut line).trim_end().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
