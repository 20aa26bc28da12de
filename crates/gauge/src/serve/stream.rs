//! Stream clients: accepting them, and what becomes of each.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, ErrorKind, LinkOptions, Newcomer, ServerOptions, Tls,
};

use super::clients::{Client, Clients};
use super::echo::{self, Echo};
use super::hello::{self, Beginning};
use super::{ServePlan, sink};
use crate::secured;
use crate::wire::{MESSAGE_LIMIT_BYTES, Mode};

/// Raw: what comes is handed out as it came.
pub(super) fn options(plan: &ServePlan, address: &Address) -> ServerOptions {
    let is_tls = matches!(address, Address::Tls { .. });
    let mut options = ServerOptions {
        link: LinkOptions {
            spin: plan.spin,
            ..LinkOptions::default()
        },
        ..ServerOptions::default()
    };
    if is_tls {
        options.link.tls = Tls {
            handshake_timeout: plan.limits.hello.min(HANDSHAKE_LIMIT),
            ..plan.tls.clone()
        };
        options.client_certificates = plan.client_certificates;
    }
    options
}

/// Accepts until the responder is stopped.
pub(super) fn accept(mut listener: DirectListener, clients: &Arc<Clients>) {
    while !clients.is_stopping() {
        match listener.accept_newcomer(Some(Instant::now() + LOOK)) {
            Ok(_) if clients.is_stopping() => {}
            Ok(newcomer) => receive(newcomer, clients),
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => {
                // Out of descriptors, most likely: it passes when somebody leaves.
                clients.notices().say(|| error.to_string());
                thread::sleep(SHORTAGE_PAUSE);
            }
        }
    }
}

/// Wakes a thread that accepts there: it looks by itself only once a second.
pub(super) fn wake(address: &Address) {
    match address {
        // A connection is enough: whoever wakes up looks first whether it is to end.
        Address::Tls { host, port } => {
            let plain = Address::Tcp {
                host: host.clone(),
                port: *port,
            };
            wake(&plain);
        }
        Address::Tcp { .. } | Address::Uds(_) => {
            let options = LinkOptions {
                connect_timeout: LOOK,
                ..LinkOptions::default()
            };
            // Where we cannot reach ourselves it is awake soon anyway.
            drop(DirectLink::connect(address, options));
        }
        Address::Udp { .. } | Address::Serial(_) => {}
    }
}

/// Gives a new client its thread. Over TLS it shakes hands there: that takes as long as the client wants,
/// up to a limit, and nobody else waits for it.
fn receive(newcomer: Newcomer, clients: &Arc<Clients>) {
    let address = newcomer.peer_address();
    let ip = address.as_ref().and_then(ip_of);
    let allowed = ip.is_none_or(|ip| clients.allows(ip));
    let shakes_hands = matches!(address, Some(Address::Tls { .. }));
    let named = address.map(|address| address.to_string());
    let peer = named.clone().unwrap_or_else(|| "a client".to_owned());
    let outcome = if shakes_hands {
        let Some(shaking) = clients.shake_hands() else {
            return refuse(&peer, "too many clients in the TLS handshake", clients);
        };
        clients.spawn("serve-client", move |clients| {
            let opened = newcomer.open();
            drop(shaking);
            match opened {
                Ok(link) => serve(link, named, allowed, clients),
                Err(_) if clients.is_stopping() => {}
                Err(error) => refuse(&peer, &secured::in_options(&error.to_string()), clients),
            }
        })
    } else {
        let link = match newcomer.open() {
            Ok(link) => link,
            Err(error) => return refuse(&peer, &error.to_string(), clients),
        };
        let Some(entered) = enter(&link, named, allowed, clients) else {
            return;
        };
        clients.spawn("serve-client", move |clients| {
            clients.sit_down();
            converse(link, &entered.client, allowed, clients);
        })
    };
    if let Err(error) = outcome {
        refuse("a client", &format!("start a thread: {error}"), clients);
    }
}

/// A client that has shaken hands, on its own thread.
fn serve(link: DirectLink, named: Option<String>, allowed: bool, clients: &Arc<Clients>) {
    if let Some(entered) = enter(&link, named, allowed, clients) {
        clients.sit_down();
        converse(link, &entered.client, allowed, clients);
    }
}

/// Enters a client on the roster, if there is room for as much as a refusal.
fn enter(
    link: &DirectLink,
    named: Option<String>,
    allowed: bool,
    clients: &Arc<Clients>,
) -> Option<Entered> {
    let peer = named.unwrap_or_else(|| {
        link.local_address()
            .map_or_else(|| "a client".to_owned(), |at| format!("a client of {at}"))
    });
    let Some(client) = clients.enter(link.closer(), peer.clone(), allowed) else {
        refuse(&peer, "far too many clients", clients);
        return None;
    };
    Some(Entered {
        client,
        clients: Arc::clone(clients),
    })
}

/// Says here why a client is not served; there is no way to tell it.
fn refuse(peer: &str, why: &str, clients: &Clients) {
    clients.totals().refused.fetch_add(1, Ordering::Relaxed);
    clients.notices().say(|| format!("refused {peer}: {why}"));
}

/// A client on the roster, until this is dropped.
struct Entered {
    client: Arc<Client>,
    clients: Arc<Clients>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.clients.leave(&self.client);
    }
}

/// The whole life of one client.
fn converse(mut link: DirectLink, client: &Client, allowed: bool, clients: &Clients) {
    let begun = hello::read(&mut link);
    let wanted = match begun {
        Ok(None) => return,
        Ok(Some(beginning)) => agree(beginning, client, allowed, clients),
        Err(reason) => Err(reason),
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => return turn_away(&mut link, client, &reason, clients),
    };
    client.served(clients.totals());
    match wanted {
        Wanted::Lagscope(first) => echo(&mut link, client, &first, None, clients),
        Wanted::Echo(first, message_bytes) => {
            if link.send(&hello::welcome(clients.record(), None)).is_ok() {
                echo(&mut link, client, &first, Some(message_bytes), clients);
            }
        }
        Wanted::Sink(first, message_bytes) => {
            if link.send(&hello::welcome(clients.record(), None)).is_ok() {
                let counted = sink::count(&mut link, client, &first, message_bytes);
                if let Err(reason) = counted {
                    clients
                        .notices()
                        .say(|| format!("closed {}: {reason}", client.peer));
                }
            }
        }
    }
}

/// What a client gets: with the bytes that came already, and the size of its messages.
enum Wanted {
    Lagscope(Vec<u8>),
    Echo(Vec<u8>, usize),
    Sink(Vec<u8>, usize),
}

/// Whether a client gets what it wants, or why not.
fn agree(
    beginning: Beginning,
    client: &Client,
    allowed: bool,
    clients: &Clients,
) -> Result<Wanted, String> {
    let plan = clients.plan();
    if !allowed {
        return Err("its address is not among those that may use this server (--allow)".to_owned());
    }
    if !client.admitted {
        let most = plan.limits.clients;
        return Err(format!("no more than {most} clients at a time"));
    }
    match beginning {
        Beginning::Lagscope(first) => Ok(Wanted::Lagscope(first)),
        Beginning::Hello(hello, first) => {
            let most_echoed = if plan.reply_delay.is_zero() {
                MESSAGE_LIMIT_BYTES
            } else {
                echo::HELD_MESSAGE_LIMIT_BYTES
            };
            let message_bytes = hello::check_size(&hello, most_echoed)?;
            Ok(match hello.mode {
                Mode::Echo => Wanted::Echo(first, message_bytes),
                Mode::Sink => Wanted::Sink(first, message_bytes),
            })
        }
    }
}

fn echo(
    link: &mut DirectLink,
    client: &Client,
    first: &[u8],
    message_bytes: Option<usize>,
    clients: &Clients,
) {
    let delay = clients.plan().reply_delay;
    let mut echo = Echo::new(client, message_bytes);
    if delay.is_zero() {
        echo.run(link, first);
    } else {
        echo.run_held(link, first, delay);
    }
}

/// Says why to both sides, and waits a moment for the other one to read it: closing with bytes unread
/// would take the answer away again.
fn turn_away(link: &mut DirectLink, client: &Client, reason: &str, clients: &Clients) {
    clients.totals().refused.fetch_add(1, Ordering::Relaxed);
    clients
        .notices()
        .say(|| format!("refused {}: {reason}", client.peer));
    let answer = hello::welcome(clients.record(), Some(reason.to_owned()));
    if link.send_timeout(&answer, LOOK).is_ok() {
        let deadline = Instant::now() + LOOK;
        while Instant::now() < deadline && link.recv(Some(deadline)).is_ok() {}
    }
}

fn ip_of(address: &Address) -> Option<IpAddr> {
    match address {
        Address::Tcp { host, .. } | Address::Tls { host, .. } | Address::Udp { host, .. } => {
            let literal = host.split('%').next().unwrap_or(host);
            literal.parse().ok()
        }
        Address::Uds(_) | Address::Serial(_) => None,
    }
}

/// Between two looks of a thread that accepts whether it is to end; and how long somebody who is
/// turned away is given to read why.
const LOOK: Duration = Duration::from_secs(1);

/// Most that a handshake may take, whatever a hello may: stopping waits for those that are under way.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Before the next try when the system is short of something.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
