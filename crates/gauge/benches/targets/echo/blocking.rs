//! The controls that wait in the kernel: raw blocking sockets, and raw level-triggered epoll.
//!
//! Both ends are raw and sit where the product's ends do; send and receive buffers are apart at the
//! client, and the server answers from its receive buffer, as a direct link and its `Replies` do.

use std::io;
use std::thread::JoinHandle;

use tautline_gauge::control::{
    Closer, EchoClient, End, EpollClient, serve_echo, serve_echo_by_epoll,
};

use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Echo, Exchange};

/// A thread at each end, one system call a send and one a receive.
pub(crate) fn start_blocking(site: &Site) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let wire_bytes = site.wire_bytes();
    let server = Server::start(site, server, move |end| serve_echo(&end, wire_bytes))?;
    let client = EchoClient::new(client, site.transport, site.payload_bytes);
    Echo::start(Blocking { client, server }, site)
}

/// A loop at each end: wait, read, answer inline.
pub(crate) fn start_epoll(site: &Site) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let wire_bytes = site.wire_bytes();
    let server = Server::start(site, server, move |end| {
        serve_echo_by_epoll(end, wire_bytes)
    })?;
    let client = EpollClient::new(client, site.transport, site.payload_bytes).map_err(said)?;
    Echo::start(Epoll { client, server }, site)
}

struct Blocking {
    client: EchoClient,
    server: Server,
}

impl Exchange for Blocking {
    fn payload_mut(&mut self) -> &mut [u8] {
        self.client.payload_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.client.send().map_err(said)
    }

    #[inline]
    fn recv(&mut self) -> Result<&[u8], String> {
        self.client.recv().map_err(said)
    }

    fn finish(self, _messages: u64) -> Result<Option<String>, String> {
        self.server.end().map(|()| None)
    }
}

struct Epoll {
    client: EpollClient,
    server: Server,
}

impl Exchange for Epoll {
    fn payload_mut(&mut self) -> &mut [u8] {
        self.client.payload_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.client.send().map_err(said)
    }

    #[inline]
    fn recv(&mut self) -> Result<&[u8], String> {
        self.client.recv().map_err(said)
    }

    fn finish(self, _messages: u64) -> Result<Option<String>, String> {
        self.server.end().map(|()| None)
    }
}

/// A raw server's thread, ended by shutting its socket down.
struct Server {
    closer: Closer,
    thread: JoinHandle<Option<io::Result<()>>>,
}

impl Server {
    fn start(
        site: &Site,
        end: End,
        serve: impl FnOnce(End) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, String> {
        let closer = end.closer().map_err(said)?;
        let thread = site.spawn(site.seats.server("raw-server"), move || serve(end))?;
        Ok(Self { closer, thread })
    }

    fn end(self) -> Result<(), String> {
        self.closer.shutdown();
        match self.thread.join() {
            Ok(Some(outcome)) => outcome.map_err(|cause| format!("server: {cause}")),
            Ok(None) | Err(_) => Err("the server panicked".to_owned()),
        }
    }
}
