//! Samples of which only the freshest matter: keeplatest evicts what a slow reader has not taken.
//! `cargo run -p tautline --example telemetry`

use std::sync::mpsc;
use std::time::Duration;

use tautline::{
    Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions, Strategy,
};

const SAMPLES: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let io = IoThread::start(IoOptions::default())?;
    let framed = LinkOptions {
        framing: Framing::length_prefix(),
        ..LinkOptions::default()
    };

    // A display that reads nothing at first.
    let (seen, shown) = mpsc::channel();
    let options = ServerOptions {
        link: framed.clone(),
        ..ServerOptions::default()
    };
    let display = io.listen(
        &"tcp://127.0.0.1:0".parse()?,
        options,
        move |peer: &Link| {
            peer.pause_reading();
            let seen = seen.clone();
            Ok(move |_: &Link, sample: &[u8], _: Received| {
                if let Ok(number) = sample.try_into().map(u32::from_be_bytes) {
                    // The receiver lives to the end of main.
                    let _ = seen.send(number);
                }
            })
        },
    )?;

    // A sensor that never waits: a queue of 64 samples, and the oldest makes room.
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_messages: 64,
        ..framed
    };
    let sensor = io.connect(
        &display.local_address(),
        options,
        |_: &Link, _: &[u8], _: Received| {},
    )?;
    sensor.wait_open(Duration::from_secs(5))?;
    for number in 1..=SAMPLES {
        sensor.send(&number.to_be_bytes())?;
    }

    for peer in display.peers() {
        peer.resume_reading();
    }
    let (mut count, mut last) = (0, 0);
    while last < SAMPLES {
        last = shown.recv_timeout(Duration::from_secs(5))?;
        count += 1;
    }
    let sending = sensor.statistics().sending;
    println!("{SAMPLES} samples sent, {count} shown, the last one is {last}");
    println!(
        "{} evicted; accounting closes: {}",
        sending.discarded.evicted.messages,
        sending.closes()
    );
    Ok(())
}
