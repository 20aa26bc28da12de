//! Receives a multicast stream, and says who sent what.
//! `cargo run -p tautline --example multicast_receiver -- udp://239.1.2.3:5000 eth0`
//!
//! Without arguments it sends to itself, on the loopback interface.

use std::sync::mpsc;
use std::time::Duration;

use tautline::{
    Address, Interface, IoOptions, IoThread, Link, LinkOptions, Multicast, Received, ServerOptions,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let group: Option<Address> = arguments.next().map(|text| text.parse()).transpose()?;
    let interface = arguments.next().unwrap_or_else(|| "lo".to_owned());
    let on_interface = LinkOptions {
        multicast: Multicast {
            interface: Interface::Name(interface),
            ..Multicast::default()
        },
        ..LinkOptions::default()
    };

    // To listen on a group is to join it; other programs that listen there get the same datagrams.
    let io = IoThread::start(IoOptions::default())?;
    let listen_on = match &group {
        Some(group) => group.clone(),
        None => "udp://239.255.42.1:0".parse()?,
    };
    let options = ServerOptions {
        link: on_interface.clone(),
        ..ServerOptions::default()
    };
    let (tell, heard) = mpsc::channel();
    let server = io.listen(&listen_on, options, move |_: &Link| {
        let tell = tell.clone();
        Ok(move |peer: &Link, message: &[u8], _: Received| {
            let text = String::from_utf8_lossy(message).into_owned();
            // The receiver lives to the end of main.
            let _ = tell.send((peer.peer_address(), text));
        })
    })?;
    println!("receiving {}", server.local_address());
    if group.is_some() {
        for (sender, text) in heard {
            print_heard(sender, &text);
        }
        return Ok(());
    }

    let ignore = |_: &Link, _: &[u8], _: Received| {};
    let link = io.connect(&server.local_address(), on_interface, ignore)?;
    link.wait_open(Duration::from_secs(5))?;
    for reading in ["21.5 C", "21.6 C", "21.4 C"] {
        link.send(reading.as_bytes())?;
        let (sender, text) = heard.recv_timeout(Duration::from_secs(5))?;
        print_heard(sender, &text);
    }
    Ok(())
}

fn print_heard(sender: Option<Address>, text: &str) {
    match sender {
        Some(sender) => println!("{sender}: {text}"),
        None => println!("somebody: {text}"),
    }
}
