//! UDP clients: one socket and one thread an address, and nothing kept of who has no cookie.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::clients::Clients;
use super::desk::{Answer, Desk};
use super::held::Held;
use super::udp::UdpSocket;
use crate::clock::now_ns;
use crate::sys::datagram::Origin;

/// Answers until the responder is stopped.
pub(super) fn serve(socket: &UdpSocket, clients: &Arc<Clients>) {
    clients.sit_down();
    let delay_ns = clients.plan().reply_delay.as_nanos() as u64;
    let mut desk = Desk::of_socket(clients);
    let mut held = Held::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let received = held.receive(socket, &mut buffer);
        if clients.is_stopping() {
            return;
        }
        match received {
            Ok(Some((length, origin))) => {
                let now_ns = now_ns();
                let Some(source) = origin.source() else {
                    continue;
                };
                match desk.answer(&mut buffer[..], length, source, now_ns) {
                    Answer::None => {}
                    Answer::Reply if delay_ns > 0 => {
                        let due_ns = now_ns.saturating_add(delay_ns);
                        if !held.hold(due_ns, &buffer[..length], origin) {
                            desk.drop_one();
                        }
                    }
                    Answer::Reply => send(&desk, socket, &buffer[..length], &origin),
                    Answer::Bytes(bytes) => send(&desk, socket, &bytes, &origin),
                }
            }
            Ok(None) => {}
            Err(error) => {
                clients
                    .notices()
                    .say(|| format!("receive on {}: {error}", socket.address()));
                thread::sleep(TROUBLE_PAUSE);
            }
        }
        while let Some((datagram, origin)) = held.due(now_ns()) {
            send(&desk, socket, &datagram, &origin);
        }
    }
}

fn send(desk: &Desk<'_>, socket: &UdpSocket, bytes: &[u8], origin: &Origin) {
    // No room, or nowhere to go: to the client it is lost, as anywhere on the way.
    if socket.answer(bytes, origin).is_err() {
        desk.drop_one();
    }
}

/// Holds any datagram.
const BUFFER_BYTES: usize = 65_536;

/// After an error of the socket that is not a datagram's.
const TROUBLE_PAUSE: Duration = Duration::from_millis(10);
