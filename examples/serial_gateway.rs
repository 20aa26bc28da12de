//! A gateway between a serial line and a TCP server: every byte goes across, both ways.
//!
//! A side may be slow or away: then the other is not read, memory stays bounded, and what was read
//! waits for the next connection. A real line needs `flow=hardware` to make its device wait too.
//! `cargo run -p tautline --features futures,serial --example serial_gateway -- LINE SERVER`

use std::time::Duration;
use std::{env, process};

use smol::future;
use tautline::{AsyncReceiver, AsyncRecvError, AsyncSender, SendError};
use tautline::{InboxOptions, IoThread, LinkOptions, Reconnect};

type Failure = Box<dyn std::error::Error>;

/// Carries what comes from the one side, `name`, to the other, through all their connections.
async fn carry(name: &str, mut from: AsyncReceiver, to: AsyncSender) -> Result<(), Failure> {
    loop {
        match from.recv().await {
            Ok(bytes) => {
                while let Err(error) = to.send(&bytes).await {
                    if error != SendError::NotConnected {
                        return Err(error.into());
                    }
                    to.opened().await?; // Nothing of it was sent: the next connection gets all.
                }
            }
            Err(AsyncRecvError::Closed(end)) => {
                let lost = from.link().statistics().sending.discarded.total().bytes;
                let kernel = end.unsent.kernel_bytes;
                println!("{name}: connection {}: {}", end.generation, end.reason);
                println!("{name}: {lost} B were lost so far; this time the kernel had {kernel:?}");
            }
            Err(error) => return Err(format!("{name}: {error}").into()),
        }
    }
}

fn main() -> Result<(), Failure> {
    let [_, serial, tcp] = &env::args().collect::<Vec<_>>()[..] else {
        eprintln!("usage: serial_gateway serial:///dev/ttyUSB0?baud=115200 tcp://HOST:PORT");
        process::exit(2);
    };
    let options = LinkOptions {
        reconnect: Some(Reconnect {
            cap: Duration::from_secs(1),
            ..Reconnect::default()
        }),
        ..LinkOptions::default()
    };
    let io = IoThread::shared()?;
    let serial = io.connect_async(&serial.parse()?, options.clone(), InboxOptions::default())?;
    let tcp = io.connect_async(&tcp.parse()?, options, InboxOptions::default())?;
    let (to_serial, from_serial) = serial.split();
    let (to_tcp, from_tcp) = tcp.split();
    let there = carry("serial", from_serial, to_tcp);
    let back = carry("tcp", from_tcp, to_serial);
    smol::block_on(future::or(there, back))
}
