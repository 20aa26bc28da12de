//! The controls: a raw writer, a raw reader in a thread of its own, a raw echo server; one call a
//! message each.

use std::sync::Arc;
use std::thread::JoinHandle;

use tautline_gauge::control::{Closer, EchoClient, End, EpollClient};
use tautline_gauge::control::{serve_echo, serve_echo_by_epoll};

use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Clerk, Paced, Sender, Tray};

/// How both readers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// In `recv`.
    Blocking,
    /// In a level-triggered epoll.
    Epoll,
}

pub(crate) fn start_raw(site: &Site, wait: Wait, rate_hz: u64) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let closers = [&client, &server].map(|end| end.closer().map_err(said));
    let [client_closer, server_closer] = closers;
    let wire_bytes = site.wire_bytes();
    let server = site.spawn(site.seats.server("raw-server"), move || match wait {
        Wait::Blocking => serve_echo(&server, wire_bytes),
        Wait::Epoll => serve_echo_by_epoll(server, wire_bytes),
    })?;
    let tray = Tray::new();
    let reading = match &client {
        End::Tcp(stream) => End::Tcp(stream.try_clone().map_err(said)?),
        End::Uds(stream) => End::Uds(stream.try_clone().map_err(said)?),
        End::Udp(_) | End::Tls(_) | End::Serial(_) => return Err("not over this".to_owned()),
    };
    let (transport, payload_bytes) = (site.transport, site.payload_bytes);
    let mut clerk = Clerk::new(Arc::clone(&tray), site);
    let reader = site.spawn(site.seats.client("raw-reader"), move || {
        let why = match wait {
            Wait::Blocking => {
                let mut end = EchoClient::new(reading, transport, payload_bytes);
                loop {
                    match end.recv() {
                        Ok(payload) => clerk.reply(payload),
                        Err(cause) => break said(cause),
                    }
                }
            }
            Wait::Epoll => match EpollClient::new(reading, transport, payload_bytes) {
                Ok(mut end) => loop {
                    match end.recv() {
                        Ok(payload) => clerk.reply(payload),
                        Err(cause) => break said(cause),
                    }
                },
                Err(cause) => said(cause),
            },
        };
        clerk.tray.broken(why);
    })?;
    let sender = RawSender {
        end: EchoClient::new(client, transport, payload_bytes),
        closers: [client_closer?, server_closer?],
        server,
        reader,
    };
    Ok(Paced::start(sender, tray, rate_hz))
}

struct RawSender {
    end: EchoClient,
    closers: [Closer; 2],
    server: JoinHandle<Option<std::io::Result<()>>>,
    reader: JoinHandle<Option<()>>,
}

impl Sender for RawSender {
    fn payload_mut(&mut self) -> &mut [u8] {
        self.end.payload_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.end.send().map_err(said)
    }

    fn finish(self, _sent: u64) -> Result<Option<String>, String> {
        self.closers.iter().for_each(Closer::shutdown);
        // Both end with whatever the shutdown tells them.
        match (self.server.join(), self.reader.join()) {
            (Ok(_), Ok(_)) => Ok(None),
            (Err(_), _) | (_, Err(_)) => Err("an end panicked".to_owned()),
        }
    }
}
