//! How direct links begin on the side that listens.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use super::connecting::secure;
use super::receiving::DATAGRAM_ROOM;
use super::{DirectLink, passed};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::{LinkOptions, ServerOptions};
use crate::transport::{self, Listener, PollInterest, Remote, Socket, TlsSetup, is_icmp};

/// Listens for [`DirectLink`]s.
#[derive(Debug)]
pub struct DirectListener {
    listening: Listening,
    address: Address,
    options: LinkOptions,
    tls: Option<TlsSetup>,
}

#[derive(Debug)]
enum Listening {
    Stream(Listener),
    /// Until its one peer has come.
    Datagram(Option<Socket>),
}

impl DirectListener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn bind(address: &Address, options: LinkOptions) -> Result<Self, Error> {
        let server = ServerOptions {
            link: options,
            ..ServerOptions::default()
        };
        Self::bind_with(address, &server)
    }

    /// Listens on `address` with what only servers have, such as `client_certificates` or `uds_mode`. What
    /// counts or expires peers is for servers that hold them: whoever accepts does that here.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn bind_with(address: &Address, server: &ServerOptions) -> Result<Self, Error> {
        server.validate(address)?;
        refuse_counting(server)?;
        let mut options = server.link.clone();
        options.refuse_threads_work()?;
        options.validate_listener(address)?;
        let tls = TlsSetup::server(address, server)?;
        options.tls.forget_secrets();
        let (listening, address) = match address {
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
                let listener = transport::listen(address, server)?;
                let address = listener.local_address();
                (Listening::Stream(listener), address)
            }
            Address::Udp { .. } => {
                // Its membership, if it listens on a group, lasts as long as the socket.
                let (socket, _) = transport::bind_datagram(address, server)?;
                let address = socket.local_address().unwrap_or_else(|| address.clone());
                (Listening::Datagram(Some(socket)), address)
            }
        };
        Ok(Self {
            listening,
            address,
            options,
            tls,
        })
    }

    /// Where it listens: with the port that the kernel chose.
    pub fn local_address(&self) -> Address {
        self.address.clone()
    }

    /// Waits for a stream peer as [`accept`](Self::accept) does, but not for its handshake: that is the
    /// [`Newcomer`]'s, which may do it on another thread, so that one who is slow holds up nobody else.
    ///
    /// # Errors
    /// Not in time, a listener of datagrams, or the system's refusal.
    pub fn accept_newcomer(&mut self, deadline: Option<Instant>) -> Result<Newcomer, Error> {
        match &self.listening {
            Listening::Stream(listener) => Ok(Newcomer {
                socket: accept_stream(listener, &self.address, deadline)?,
                address: self.address.clone(),
                options: self.options.clone(),
                tls: self.tls.clone(),
            }),
            Listening::Datagram(_) => Err(Error::because(
                ErrorKind::InvalidAddress,
                "accept on",
                &self.address,
                "datagrams have no newcomers; use accept",
            )),
        }
    }

    /// Waits for a peer until the deadline, or without one for ever. Over UDP the peer is whoever sends
    /// the first datagram, and the only one.
    ///
    /// Over TLS it also waits for the newcomer's handshake, at most `tls.handshake_timeout`: one that fails
    /// is an error, after which the next may be accepted.
    ///
    /// # Errors
    /// Not in time; over UDP, that the one peer has come before; or the system's refusal.
    pub fn accept(&mut self, deadline: Option<Instant>) -> Result<DirectLink, Error> {
        match &mut self.listening {
            Listening::Stream(listener) => {
                let socket = accept_stream(listener, &self.address, deadline)?;
                let (place, setup) = (("accept on", &self.address), self.tls.as_ref());
                let socket = secure(socket, setup, place, &self.options, deadline)?;
                DirectLink::new(&self.address, socket, &self.options)
            }
            Listening::Datagram(socket) => {
                let socket = socket
                    .take()
                    .ok_or_else(|| Error::closed("accept on", Some(&self.address)))?;
                let mut early = VecDeque::new();
                let remote = match first_datagram(&socket, &self.address, deadline, &mut early) {
                    Ok(remote) => remote,
                    Err(error) => {
                        self.listening = Listening::Datagram(Some(socket));
                        return Err(error);
                    }
                };
                let narrowed = socket.connected_to(&remote, &self.address, &self.options)?;
                keep_early(&socket, &remote, &mut early);
                let socket = narrowed.unwrap_or(socket);
                let mut link = DirectLink::new(&self.address, socket, &self.options)?;
                link.receiving.came_early(early);
                Ok(link)
            }
        }
    }
}

/// Refuses, by its name, what a listener without peers of its own cannot do.
fn refuse_counting(server: &ServerOptions) -> Result<(), Error> {
    let unused = ServerOptions::default();
    let set = [
        (
            "connection_limit",
            server.connection_limit != unused.connection_limit,
        ),
        (
            "total_queue_limit_bytes",
            server.total_queue_limit_bytes != unused.total_queue_limit_bytes,
        ),
        ("peer_expiry", server.peer_expiry != unused.peer_expiry),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((name, _)) => {
            let why = "a DirectListener holds no peers; whoever accepts them counts them";
            Err(Error::option(name, why))
        }
        None => Ok(()),
    }
}

/// A stream peer that has connected to a [`DirectListener`], and over TLS not shaken hands yet. Dropping
/// it closes the connection.
#[derive(Debug)]
pub struct Newcomer {
    socket: Socket,
    address: Address,
    options: LinkOptions,
    tls: Option<TlsSetup>,
}

impl Newcomer {
    /// The peer's address, where it has one.
    pub fn peer_address(&self) -> Option<Address> {
        self.socket.peer_address()
    }

    /// Its link. Over TLS this waits for the handshake, at most `tls.handshake_timeout`; elsewhere it does
    /// not wait.
    ///
    /// # Errors
    /// Why the handshake failed, or the system's refusal.
    pub fn open(self) -> Result<DirectLink, Error> {
        let (place, setup) = (("accept on", &self.address), self.tls.as_ref());
        let socket = secure(self.socket, setup, place, &self.options, None)?;
        DirectLink::new(&self.address, socket, &self.options)
    }
}

fn accept_stream(
    listener: &Listener,
    address: &Address,
    deadline: Option<Instant>,
) -> Result<Socket, Error> {
    let failed = |cause| Error::io("accept on", address, cause);
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok(accepted) => return Ok(accepted.socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(cause) => return Err(failed(cause)),
        }
        let ready = listener.wait_ready(READABLE, deadline).map_err(failed)?;
        if !ready.read && passed(deadline) {
            return Err(Error::timed_out("accept on", address, start.elapsed()));
        }
    }
}

/// Waits for the datagram that says who the peer is.
fn first_datagram(
    socket: &Socket,
    address: &Address,
    deadline: Option<Instant>,
    early: &mut VecDeque<Vec<u8>>,
) -> Result<Remote, Error> {
    let failed = |cause| Error::io("accept on", address, cause);
    let start = Instant::now();
    let mut buffer = vec![0; DATAGRAM_ROOM];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((arrived, remote)) => {
                early.push_back(buffer[..arrived.bytes].to_vec());
                return Ok(remote);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_icmp(&error) => {}
            Err(cause) => return Err(failed(cause)),
        }
        let ready = socket.wait_ready(READABLE, deadline).map_err(failed)?;
        if !ready.read && passed(deadline) {
            return Err(Error::timed_out("accept on", address, start.elapsed()));
        }
    }
}

/// What came between the first datagram and connecting: the peer's is kept, others' is not ours.
fn keep_early(socket: &Socket, remote: &Remote, early: &mut VecDeque<Vec<u8>>) {
    let mut buffer = vec![0; DATAGRAM_ROOM];
    while early.len() < EARLY_DATAGRAMS
        && let Ok((arrived, from)) = socket.recv_from(&mut buffer)
    {
        if from.address == remote.address {
            early.push_back(buffer[..arrived.bytes].to_vec());
        }
    }
}

const READABLE: PollInterest = PollInterest {
    read: true,
    write: false,
};
/// Most datagrams kept from the moment before the socket was connected.
const EARLY_DATAGRAMS: usize = 64;
