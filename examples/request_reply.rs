//! Request and reply without an I/O thread: each end is one thread that sends and receives.
//! `cargo run --release -p tautline --example request_reply`

use std::thread;
use std::time::{Duration, Instant};

use tautline::{DirectLink, DirectListener, Framing, LinkOptions, RecvError};

const REQUESTS: u32 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = LinkOptions {
        framing: Framing::length_prefix(),
        ..LinkOptions::default()
    };
    let mut listener = DirectListener::bind(&"tcp://127.0.0.1:0".parse()?, options.clone())?;
    let address = listener.local_address();

    let server = thread::spawn(move || -> Result<u32, tautline::Error> {
        let mut link = listener.accept(Some(Instant::now() + Duration::from_secs(5)))?;
        let mut served = 0;
        loop {
            // The message stays in the receive buffer while it is answered: nothing is copied.
            match link.request(None) {
                Ok(request) => match request.replies.send(request.message) {
                    Ok(()) => served += 1,
                    Err(_) => return Ok(served),
                },
                Err(RecvError::Closed | RecvError::Failed(_)) => return Ok(served),
                Err(other) => panic!("the client speaks our framing: {other}"),
            }
        }
    });

    let mut link = DirectLink::connect(&address, options)?;
    let start = Instant::now();
    for number in 0..REQUESTS {
        link.send(&number.to_be_bytes())?;
        let reply = link.recv(Some(Instant::now() + Duration::from_secs(1)))?;
        assert_eq!(reply, number.to_be_bytes());
    }
    let elapsed = start.elapsed();
    drop(link);

    let served = server.join().expect("the server did not panic")?;
    println!("{served} requests served, {:?} each", elapsed / REQUESTS);
    Ok(())
}
