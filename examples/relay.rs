//! A relay between two TCP connections, with callbacks: while much waits to go down, nothing is read from
//! upstream. `cargo run -p tautline --example relay`

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tautline::{
    Address, Closed, Ended, Handler, IoOptions, IoThread, Link, LinkOptions, Opened, Pressure,
    Received, ServerOptions,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sink = TcpListener::bind("127.0.0.1:0")?;
    let to = Address::tcp(sink.local_addr()?);
    // A turn reads at most 32 times this before pressure is told: less than a quarter of the queue.
    let options = IoOptions {
        read_buffer_bytes: 16 * 1024,
        ..IoOptions::default()
    };
    let queue = LinkOptions {
        queue_limit_bytes: 4 << 20,
        ..LinkOptions::default()
    };
    let io = Arc::new(IoThread::start(options)?);
    let own = Arc::clone(&io);
    let from = Address::tcp(([127, 0, 0, 1], 0).into());
    let relay = io.listen(&from, ServerOptions::default(), move |up: &Link| {
        up.pause_reading(); // Until there is somewhere to send it.
        let down = own.connect(&to, queue.clone(), Down(up.clone()));
        Ok(Up(down.map_err(|error| error.to_string())?))
    })?;

    let address = relay.local_address().to_string().replace("tcp://", "");
    let source = thread::spawn(move || TcpStream::connect(address)?.write_all(&vec![7; 32 << 20]));
    let mut received = Vec::new();
    sink.accept()?.0.read_to_end(&mut received)?;
    source.join().expect("the source did not panic")?;
    println!("{} MiB received", received.len() >> 20);
    Ok(())
}

struct Up(Link);

impl Handler for Up {
    fn message(&mut self, up: &Link, message: &[u8], _: Received) {
        if let Err(error) = self.0.try_send(message) {
            eprintln!("relay: downstream is gone: {error}");
            up.abort();
        }
    }

    fn closed(&mut self, _: &Link, _: &Closed) {
        // What waits is still written. Not `finish`: with this handler goes the last handle of the link,
        // and without a close that is an abort.
        self.0.close(Duration::from_secs(30));
    }
}

struct Down(Link);

impl Handler for Down {
    fn opened(&mut self, _: &Link, _: &Opened) {
        self.0.resume_reading();
    }

    fn message(&mut self, _: &Link, _: &[u8], _: Received) {}

    fn pressure(&mut self, _: &Link, pressure: Pressure) {
        match pressure {
            Pressure::On => self.0.pause_reading(),
            Pressure::Off => self.0.resume_reading(),
        }
    }

    fn ended(&mut self, _: &Link, _: &Ended) {
        self.0.abort(); // Nowhere to send it.
    }
}
