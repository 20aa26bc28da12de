//! The library: a link and a server on I/O threads of their own, replies handed to the application's
//! thread.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tautline::{IoThread, Link, LinkOptions, Received, Refusal, Server, ServerOptions, Strategy};

use super::classify::Path;
use super::{Counters, Exchange};
use crate::plan::Transport;
use crate::report::{EndStatistics, SmokeRuntime};
use crate::run::Broken;
use crate::run::site::{SETUP_LIMIT, Site};

pub(super) struct Echo {
    link: Link,
    replies: Receiver<Vec<u8>>,
    timeout: Duration,
    /// The server's end of the link, once its first datagram has come.
    peer: Arc<Mutex<Option<Link>>>,
    server: Server,
    _threads: [IoThread; 2],
}

impl Echo {
    pub(super) fn start(site: &Site, timeout: Duration, path: Path) -> Result<Self, Broken> {
        let setup = |error: tautline::Error| Broken::Setup(error.to_string());
        let strategy = match path {
            Path::BestEffort => Strategy::BestEffort,
            Path::Raw | Path::Reliable => Strategy::Reliable,
        };
        let asked = site.addresses.asked(Transport::Udp);
        let asked = asked.expect("over udp somebody listens");
        let options: LinkOptions = site.link_options(strategy)?;
        let server_io = site.io_thread(site.seats.server("server-io"))?;
        let peer = Arc::new(Mutex::new(None));
        let newcomer = Arc::clone(&peer);
        let server = server_io
            .listen(
                &asked,
                ServerOptions {
                    link: options.clone(),
                    ..ServerOptions::default()
                },
                move |peer: &Link| {
                    *newcomer.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer.clone());
                    Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
                        // Refused or not: the link's own counters say so.
                        let _ = peer.try_send(message);
                    })
                },
            )
            .map_err(setup)?;
        let client_io = site.io_thread(site.seats.client("client-io"))?;
        let (reply, replies) = mpsc::channel();
        let link = client_io
            .connect(
                &server.local_address(),
                options,
                move |_: &Link, message: &[u8], _: Received| {
                    // Nobody waits any more once the run is over.
                    let _ = reply.send(message.to_vec());
                },
            )
            .map_err(setup)?;
        link.wait_open(SETUP_LIMIT).map_err(setup)?;
        let closing = link.clone();
        site.pulse.on_close(move || closing.abort());
        Ok(Self {
            link,
            replies,
            timeout,
            peer,
            server,
            _threads: [server_io, client_io],
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.link.abort();
        self.server.abort();
    }
}

impl Exchange for Echo {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        self.link.send(message).map_err(|error| error.to_string())
    }

    fn recv(&mut self, reply: &mut Vec<u8>) -> Result<bool, Broken> {
        match self.replies.recv_timeout(self.timeout) {
            Ok(message) => {
                *reply = message;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Broken::Partial("library: the link ended".to_owned()))
            }
        }
    }

    fn counters(&self) -> Counters {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let server = peer.as_ref().map(Link::statistics).unwrap_or_default();
        Counters {
            server_received: server.receiving.messages,
            runtime: Some(SmokeRuntime {
                client: EndStatistics::of(&self.link.statistics()),
                server: EndStatistics::of(&server),
            }),
        }
    }
}
