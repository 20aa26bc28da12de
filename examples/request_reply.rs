//! Requests and replies with a deadline each, on the caller's own thread: the fastest way there is.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use tautline::{DirectLink, DirectListener, Framing, LinkOptions, RecvError};

const PATIENCE: Duration = Duration::from_secs(5);
const REQUESTS: u32 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let options = LinkOptions {
        framing: Framing::length_prefix(),
        ..LinkOptions::default()
    };
    // An abstract name, of this process alone.
    let address = format!("uds://@request-reply-{}", std::process::id()).parse()?;
    let mut listener = DirectListener::bind(&address, options.clone())?;
    let service = thread::spawn(move || serve(listener.accept(in_time())?));

    let mut link = DirectLink::connect(&address, options)?;
    let started = Instant::now();
    for number in 0..REQUESTS {
        link.send(&number.to_be_bytes())?;
        let reply = link.recv(in_time())?;
        assert_eq!(reply, (u64::from(number) * 2).to_be_bytes());
    }
    let each = started.elapsed() / REQUESTS;
    println!("{REQUESTS} requests, {each:?} each");

    // The service ends with its peer.
    drop(link);
    let served = service.join().map_err(|_| "the service panicked")??;
    assert_eq!(served, REQUESTS);
    Ok(())
}

/// Doubles what it is asked, until the peer has gone.
fn serve(mut peer: DirectLink) -> Result<u32, tautline::Error> {
    let mut served = 0;
    loop {
        let reply = match peer.recv(in_time()) {
            Ok(request) => doubled(request),
            Err(RecvError::Closed) => return Ok(served),
            Err(other) => panic!("{other}"),
        };
        if let Err(refused) = peer.send(&reply) {
            println!("no reply: {refused}");
        }
        served += 1;
    }
}

fn doubled(request: &[u8]) -> [u8; 8] {
    let number = request
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    (u64::from(number) * 2).to_be_bytes()
}

fn in_time() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}
