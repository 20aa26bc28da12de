//! A sensor that is faster than its reader: `keeplatest` drops what is stale and never waits.
//!
//! The reader pauses while twenty thousand samples are sent, and then sees the freshest.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tautline::{
    Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions, Strategy,
};

const PATIENCE: Duration = Duration::from_secs(5);
const SAMPLES: u32 = 20_000;
const SAMPLE_BYTES: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let io = IoThread::start(IoOptions::default())?;
    let options = LinkOptions {
        framing: Framing::length_prefix(),
        strategy: Strategy::KeepLatest,
        // What waits is at most sixteen samples old; so that the kernel holds little too, its buffers
        // are small.
        queue_limit_messages: 16,
        send_buffer_bytes: Some(64 * 1024),
        receive_buffer_bytes: Some(64 * 1024),
        ..LinkOptions::default()
    };

    let (readers, reader) = mpsc::channel();
    let (samples, inbox) = mpsc::channel();
    let serving = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    let server = io.listen(
        &"tcp://127.0.0.1:0".parse()?,
        serving,
        move |peer: &Link| {
            peer.pause_reading();
            drop(readers.send(peer.clone()));
            let samples = samples.clone();
            Ok(move |_: &Link, sample: &[u8], _: Received| {
            // Once the newest is there, nobody listens any more.
            let _ = samples.send(number_of(sample));
        })
        },
    )?;

    let ignore = |_: &Link, _: &[u8], _: Received| {};
    let sensor = io.connect(&server.local_address(), options, ignore)?;
    sensor.wait_open(PATIENCE)?;
    let reader = reader.recv_timeout(PATIENCE)?;
    for number in 1..=SAMPLES {
        // Never waits: the oldest that waits makes room.
        sensor.send(&sample(number))?;
    }
    reader.resume_reading();

    let mut received = 0;
    let newest = loop {
        let number = inbox.recv_timeout(PATIENCE)?;
        received += 1;
        if number == SAMPLES {
            break number;
        }
    };
    let sending = sensor.statistics().sending;
    let evicted = sending.discarded.evicted.messages;
    println!("sent {SAMPLES}, received {received}, evicted {evicted}; newest received: {newest}");
    assert_eq!(received + evicted, u64::from(SAMPLES));
    Ok(())
}

fn sample(number: u32) -> [u8; SAMPLE_BYTES] {
    let mut sample = [0; SAMPLE_BYTES];
    sample[..4].copy_from_slice(&number.to_be_bytes());
    sample
}

fn number_of(sample: &[u8]) -> u32 {
    sample
        .first_chunk()
        .map_or(0, |number| u32::from_be_bytes(*number))
}
