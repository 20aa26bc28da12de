//! Clients at the other end of a serial line: one at a time, who come and go without the line telling.
//!
//! Each message is a frame of COBS with a checksum, so that whatever stood on the line before, half a
//! message of somebody who left or the boot words of a device, costs no more than itself. What is in
//! the frames is what datagrams are over UDP. A hello with a new number is a new client, and what an
//! earlier one had counts for it no more.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{Address, Closer, DirectLink, Framing, LinkOptions, RecvError};

use super::ServeError;
use super::clients::Clients;
use super::desk::{Answer, Desk};
use crate::clock::now_ns;
use crate::wire::{Header, Kind};

/// A line that is served.
#[derive(Debug)]
pub(super) struct SerialPort {
    asked: Address,
    effective: Address,
    link: Option<DirectLink>,
    hangup: Arc<Hangup>,
}

/// Ends the wait for a line's next byte.
#[derive(Debug, Default)]
pub(super) struct Hangup(Mutex<Option<Closer>>);

impl Hangup {
    /// Whoever receives comes back at once.
    pub(super) fn hang_up(&self) {
        if let Some(closer) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            closer.close();
        }
    }

    fn is_of(&self, link: &DirectLink) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.closer());
    }
}

impl SerialPort {
    /// Opens it, so that what cannot be had is known at once.
    pub(super) fn open(address: &Address) -> Result<Self, ServeError> {
        let link = connect(address)?;
        let hangup = Arc::<Hangup>::default();
        hangup.is_of(&link);
        Ok(Self {
            asked: address.clone(),
            effective: link.local_address().unwrap_or_else(|| address.clone()),
            link: Some(link),
            hangup,
        })
    }

    /// The line with the settings that are in effect.
    pub(super) fn address(&self) -> &Address {
        &self.effective
    }

    pub(super) fn hangup(&self) -> Arc<Hangup> {
        Arc::clone(&self.hangup)
    }
}

/// Answers until the responder is stopped, through as many lives of the port as it takes.
pub(super) fn serve(mut port: SerialPort, clients: &Arc<Clients>) {
    clients.sit_down();
    let mut desk = Desk::of_line(clients, port.asked.clone());
    let mut client = Caller::default();
    while !clients.is_stopping() {
        let Some(mut link) = port.link.take() else {
            reopen(&mut port, clients);
            continue;
        };
        let why = converse(&mut link, &mut desk, &mut client, clients);
        // Closed before it is opened again: the port is exclusive.
        drop(link);
        if !clients.is_stopping() {
            let address = &port.asked;
            clients
                .notices()
                .say(|| format!("{address}: {why}; waiting for it to come back"));
        }
    }
}

/// Tries once, and then waits a moment.
fn reopen(port: &mut SerialPort, clients: &Clients) {
    match connect(&port.asked) {
        Ok(link) => {
            port.hangup.is_of(&link);
            let address = &port.asked;
            clients.notices().say(|| format!("{address}: it is back"));
            port.link = Some(link);
        }
        Err(_) => {
            let until = Instant::now() + REOPEN_PAUSE;
            while Instant::now() < until && !clients.is_stopping() {
                thread::sleep(STOP_LOOK);
            }
        }
    }
}

fn connect(address: &Address) -> Result<DirectLink, tautline::Error> {
    let options = LinkOptions {
        framing: Framing::cobs(),
        ..LinkOptions::default()
    };
    DirectLink::connect(address, options)
}

/// One life of the port; why it ended.
fn converse(
    link: &mut DirectLink,
    desk: &mut Desk<'_>,
    client: &mut Caller,
    clients: &Clients,
) -> String {
    let delay = clients.plan().reply_delay;
    let mut held: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut buffer = Vec::new();
    let mut faults = 0;
    loop {
        while held.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            if let Some((_, reply)) = held.pop_front() {
                send(link, desk, &reply);
            }
        }
        // One wait for a line that says nothing, short ones while replies are held or a rest is to go.
        let until = held.front().map(|(due, _)| *due);
        let received = link.recv(until);
        let now = now_ns();
        let came = match received {
            Ok(message) => {
                buffer.clear();
                buffer.extend_from_slice(message);
                true
            }
            Err(RecvError::TimedOut) => false,
            Err(RecvError::Closed) => return "the line was hung up".to_owned(),
            Err(error) => return error.to_string(),
        };
        let found = link.statistics().receiving.faults;
        for _ in faults..found {
            desk.damaged(client.source(), now);
        }
        faults = found;
        if !came {
            continue;
        }
        client.calls(&buffer);
        let length = buffer.len();
        match desk.answer(&mut buffer, length, client.source(), now) {
            Answer::None => {}
            Answer::Reply if !delay.is_zero() => {
                if held.len() < MOST_HELD {
                    held.push_back((Instant::now() + delay, buffer.clone()));
                } else {
                    desk.drop_one();
                }
            }
            Answer::Reply => send(link, desk, &buffer),
            Answer::Bytes(bytes) => send(link, desk, &bytes),
        }
    }
}

/// What finds no room for so long is lost, as anywhere on the way: a client may have left, and flow
/// control hold its line.
fn send(link: &mut DirectLink, desk: &Desk<'_>, bytes: &[u8]) {
    if link.send_timeout(bytes, ROOM_LIMIT).is_err() {
        desk.drop_one();
    }
}

/// Who calls: a line has no addresses, so each hello that was not said before is somebody new. What the
/// desk takes for a source is their number.
#[derive(Debug, Default)]
struct Caller {
    hello: Option<u64>,
    number: u16,
}

impl Caller {
    fn calls(&mut self, message: &[u8]) {
        match Header::read(message) {
            Some(header) if header.kind == Kind::Hello && self.hello != Some(header.sequence) => {
                self.hello = Some(header.sequence);
                self.number = self.number.wrapping_add(1);
            }
            Some(_) | None => {}
        }
    }

    fn source(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0], self.number))
    }
}

/// Between two tries for a port that is gone: whoever plugs it in again waits no longer.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);
/// How soon a stop is noticed meanwhile.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// A reply that the line takes nothing of for so long is given up.
const ROOM_LIMIT: Duration = Duration::from_secs(5);
/// Most replies held.
const MOST_HELD: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind, sequence: u64) -> Vec<u8> {
        let mut message = vec![0; 40];
        Header {
            kind,
            word: 0,
            sequence,
        }
        .write(&mut message);
        message
    }

    #[test]
    fn a_hello_that_is_said_again_is_the_same_client_and_another_one_is_not() {
        let mut caller = Caller::default();
        caller.calls(&message(Kind::Hello, 7));
        let first = caller.source();
        caller.calls(&message(Kind::Hello, 7));
        caller.calls(&message(Kind::Request, 8));
        caller.calls(b"garbage");
        assert_eq!(caller.source(), first);
        caller.calls(&message(Kind::Hello, 9));
        assert_ne!(caller.source(), first);
    }
}
