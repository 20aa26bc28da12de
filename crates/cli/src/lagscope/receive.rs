//! The receiver's course: listen, say so, serve until a signal comes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tautline_gauge::lagscope::{Client, Receiver, Watch};

use super::console::Console;
use super::options::Options;
use super::resolve::resolve;
use super::signals::{Signal, Signals};
use super::{background, complain, note_buffers};
use crate::exit::Exit;

/// Serves, and says how it ended.
pub(super) fn run(options: &Options, address: &str, console: Console, signals: &Signals) -> Exit {
    let addresses = match resolve(address, options.port, options.ipv6) {
        Ok(addresses) => addresses,
        Err(error) => {
            console.error(format_args!("cannot get address info for receiver"));
            complain(format_args!("resolve {address}: {error}"));
            return Exit::Unavailable;
        }
    };
    let receiver = match bind(&addresses, options) {
        Ok(receiver) => receiver,
        Err(error) => {
            console.error(format_args!("cannot bind the socket on address: {address}"));
            console.error(format_args!("listen error at port: {}", options.port));
            complain(format_args!(
                "listen on {address} port {}: {error}",
                options.port
            ));
            return Exit::Unavailable;
        }
    };
    note_buffers(options, receiver.buffers());
    if options.verbose {
        let port = receiver
            .address()
            .map_or(options.port, |address| address.port());
        console.debug(format_args!(
            "lagscope server is listening on {address}:{port}"
        ));
    }
    if let Err(exit) = background(options, &console) {
        return exit;
    }
    let watch = Arc::new(Told {
        console: console.clone(),
        verbose: options.verbose,
        message_bytes: options.message_bytes,
        refused: AtomicUsize::new(0),
    });
    let over = || signals.came().is_some() || console.is_broken();
    let served = receiver.run(options.message_bytes, &watch, over);
    match (signals.came(), served) {
        (Some(signal), _) => {
            if signal == Signal::Interrupt {
                console.info(format_args!("Interrupted by Ctrl+C"));
            }
            signal.into()
        }
        (None, Err(error)) => {
            console.error(format_args!("error happened when waiting for clients"));
            complain(format_args!("wait for clients: {error}"));
            Exit::Partial
        }
        (None, Ok(())) => Exit::Good,
    }
}

/// Listens on the first address that can be had.
fn bind(addresses: &[SocketAddr], options: &Options) -> io::Result<Receiver> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for &address in addresses {
        match Receiver::bind(address, options.buffers()) {
            Ok(receiver) => return Ok(receiver),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Puts on the console what happens.
#[derive(Debug)]
struct Told {
    console: Console,
    verbose: bool,
    message_bytes: usize,
    refused: AtomicUsize,
}

impl Watch for Told {
    fn opened(&self, client: &Client) {
        self.console.info(format_args!(
            "New connection: {}:{} --> local:{} [socket {}]",
            client.peer.ip(),
            client.peer.port(),
            client.local_port,
            client.socket
        ));
    }

    fn echoed(&self, client: &Client, messages: usize) {
        if self.verbose {
            let (peer, bytes) = (client.peer.ip(), self.message_bytes);
            let line = format_args!("Received from {peer}: bytes={bytes}");
            self.console.debug_times(messages, line);
        }
    }

    fn closed(&self, client: &Client) {
        if self.verbose {
            self.console
                .debug(format_args!("socket closed: {}", client.socket));
        }
    }

    fn refused(&self, reason: &str) {
        // The first says it; a thousand more would only fill a log.
        if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
            complain(format_args!("note: a client could not be served: {reason}"));
        }
    }
}
