//! One socket: sending, receiving, ending, and what it says about itself.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, SockRef};

use super::tls::{TlsSetup, TlsStream};
use super::tty::Tty;
use super::udp::Bulk;
use super::{Kind, plain, tcp, uds};
use crate::address::Address;
use crate::handler::Credentials;
use crate::secured::{Secured, TlsCounters};
use crate::statistics::SocketBuffers;
use crate::sys;

/// A connected socket of any kind, or a UDP socket that serves many peers.
///
/// It is created non-blocking and closed on exec; no send raises `SIGPIPE`.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    kind: Kind,
    /// Whether datagrams come with the local address they were sent to.
    tells_local_end: bool,
    /// Where a datagram socket that hears anybody sends: it is not connected.
    target: Option<SocketAddr>,
    /// What the kernel does with several datagrams at once.
    bulk: Bulk,
    /// The session of a TLS socket, from the start of its handshake. Without one nothing is sent or
    /// received on such a socket: it never speaks plain text.
    tls: Option<Box<TlsStream>>,
    /// What a serial line is besides its descriptor, which is no socket.
    tty: Option<Box<Tty>>,
}

/// Whether a call may wait. [`Wait::Block`] waits only on a socket that was
/// [set to block](Socket::set_blocking).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    Block,
}

/// What a receive brought. On a stream no bytes are the end; a datagram may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) bytes: usize,
    /// The datagram was longer than the buffer, and the rest is gone.
    pub(crate) truncated: bool,
    /// Who sent it, where that may be anybody.
    pub(crate) from: Option<SocketAddr>,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PollInterest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// What is ready; nothing when the deadline came first.
///
/// An error or a hang-up makes ready whatever was asked for: the next call tells which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PollReady {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, kind: Kind) -> Self {
        Self {
            fd,
            kind,
            tells_local_end: false,
            target: None,
            bulk: Bulk::default(),
            tls: None,
            tty: None,
        }
    }

    /// A connected stream socket that somebody else made.
    pub(crate) fn adopt(fd: OwnedFd, address: &Address) -> io::Result<Self> {
        SockRef::from(&fd).set_nonblocking(true)?;
        Ok(Self::new(fd, Kind::of(address)))
    }

    /// A serial line that was opened and set.
    #[cfg(feature = "serial")]
    pub(super) fn of_line(fd: OwnedFd, tty: Tty) -> Self {
        let mut socket = Self::new(fd, Kind::Serial);
        socket.tty = Some(Box::new(tty));
        socket
    }

    pub(super) fn create(kind: Kind, domain: Domain) -> io::Result<Self> {
        let typed = kind.socket_type().nonblocking();
        let socket = socket2::Socket::new(domain, typed, None)?;
        Ok(Self::new(socket.into(), kind))
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn tells_local_end(&self) -> bool {
        self.tells_local_end
    }

    pub(super) fn set_tells_local_end(&mut self) {
        self.tells_local_end = true;
    }

    pub(super) fn target(&self) -> Option<SocketAddr> {
        self.target
    }

    pub(super) fn bulk(&self) -> &Bulk {
        &self.bulk
    }

    pub(super) fn set_target(&mut self, target: SocketAddr) {
        self.target = Some(target);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends header and payload in one call; a stream may take only some of the bytes.
    ///
    /// A TLS socket never waits here.
    pub(crate) fn send(&self, header: &[u8], payload: &[u8], wait: Wait) -> io::Result<usize> {
        if let Some(tls) = self.session() {
            return tls.send(self, &[IoSlice::new(header), IoSlice::new(payload)]);
        }
        if let Some(tty) = &self.tty {
            let slices = [IoSlice::new(header), IoSlice::new(payload)];
            let from = usize::from(header.is_empty());
            return tty.send(self.as_fd(), &slices[from..]);
        }
        let flags = libc::MSG_NOSIGNAL | wait.flag();
        if let Some(target) = self.target {
            // Datagrams have no header: they are framed by nature.
            return sys::datagram::sendto(self.as_fd(), payload, target, flags);
        }
        if header.is_empty() {
            return sys::socket::send(self.as_fd(), payload, flags);
        }
        if header.len() + payload.len() <= sys::socket::GATHER_LIMIT_BYTES {
            return sys::socket::send_gathered(self.as_fd(), header, payload, flags);
        }
        let slices = [IoSlice::new(header), IoSlice::new(payload)];
        sys::socket::sendmsg(self.as_fd(), &slices, flags)
    }

    /// Sends some of a stream's bytes that lie in several places, without a wait.
    pub(crate) fn send_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(tls) = self.session() {
            return tls.send(self, slices);
        }
        if let Some(tty) = &self.tty {
            return tty.send(self.as_fd(), slices);
        }
        sys::socket::sendmsg(self.as_fd(), slices, libc::MSG_NOSIGNAL | Wait::No.flag())
    }

    /// Receives some of a stream, or one datagram.
    ///
    /// A signal handler ends a wait with `WouldBlock`, as the
    /// [receive timeout](Self::set_receive_timeout) does: whoever has a deadline looks at it then.
    ///
    /// `Interrupted` means on a TLS socket that something came which holds nothing to read, and that
    /// more may be there.
    pub(crate) fn recv(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Arrived> {
        if let Some(tty) = &self.tty {
            let bytes = tty.recv(self.as_fd(), buffer, wait)?;
            return Ok(Arrived::new(bytes, buffer.len()));
        }
        if self.target.is_some() {
            return match self.recv_from_anybody(buffer, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                result => result,
            };
        }
        if let Some(tls) = self.session() {
            return tls.recv(self, buffer, wait);
        }
        let room = buffer.len();
        self.recv_unsecured(buffer, wait)
            .map(|bytes| Arrived::new(bytes, room))
    }

    /// Receives some of a stream without a wait, first into `room` and what is left into `buffer`. Where
    /// that takes two calls, it fills only one of them.
    pub(crate) fn recv_split(&self, room: &mut [u8], buffer: &mut [u8]) -> io::Result<Arrived> {
        if room.is_empty() {
            return self.recv(buffer, Wait::No);
        }
        if self.tls.is_some() || self.tty.is_some() {
            return self.recv(room, Wait::No);
        }
        let room_bytes = room.len() + buffer.len();
        let mut slices = [IoSliceMut::new(room), IoSliceMut::new(buffer)];
        sys::socket::recvmsg(self.as_fd(), &mut slices, Wait::No.flag())
            .map(|bytes| Arrived::new(bytes, room_bytes))
    }

    /// What the kernel has, as it is.
    pub(super) fn recv_unsecured(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        // On a datagram MSG_TRUNC asks for its real length; on TCP it would throw bytes away.
        let flags = match self.kind {
            Kind::Tcp | Kind::Tls | Kind::Uds | Kind::Serial => wait.flag(),
            Kind::Udp => wait.flag() | libc::MSG_TRUNC,
        };
        match wait {
            Wait::No => sys::socket::recv(self.as_fd(), buffer, flags),
            Wait::Block => match sys::socket::recv_once(self.as_fd(), buffer, flags) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                result => result,
            },
        }
    }

    /// Begins a TLS session: from here on this socket speaks nothing else.
    pub(crate) fn secure(
        &mut self,
        setup: &TlsSetup,
        counters: Arc<TlsCounters>,
    ) -> io::Result<()> {
        self.tls = Some(Box::new(setup.begin(counters)?));
        Ok(())
    }

    /// Goes on with the TLS handshake as far as that needs no wait; whether it is done. At once where
    /// there is none.
    ///
    /// Not done, it goes on when the socket is readable, or where it [owes](Self::owes) writable.
    pub(crate) fn handshake(&self) -> io::Result<bool> {
        self.session().map_or(Ok(true), |tls| tls.handshake(self))
    }

    /// What the TLS handshake came to.
    pub(crate) fn secured(&self) -> Option<Secured> {
        self.session()?.secured()
    }

    /// What TLS counts here.
    pub(crate) fn tls_counters(&self) -> Option<Arc<TlsCounters>> {
        self.session().map(|tls| Arc::clone(tls.counters()))
    }

    /// Whether bytes that are sent wait in this process for room in the kernel: only those that TLS has
    /// encrypted already do.
    pub(crate) fn owes(&self) -> bool {
        self.session().is_some_and(|tls| tls.owes())
    }

    /// Writes such bytes, as far as the kernel takes them; whether none are left.
    pub(crate) fn flush_owed(&self) -> io::Result<bool> {
        self.session().map_or(Ok(true), |tls| tls.flush_owed(self))
    }

    #[inline]
    fn session(&self) -> Option<&TlsStream> {
        let plain = self.tls.is_none() && self.kind == Kind::Tls;
        assert!(!plain, "a TLS socket is secured before it is used");
        self.tls.as_deref()
    }

    /// Ends our side: the peer reads the end of the stream once it has read the rest. Not for a serial
    /// line, which has no end that could be told.
    ///
    /// TLS says goodbye first, which may have to wait for room: then this says false, and
    /// [`flush_owed`](Self::flush_owed) ends it.
    pub(crate) fn shutdown_write(&self) -> io::Result<bool> {
        match self.session() {
            Some(tls) => tls.say_goodbye(self),
            None => self.shutdown_write_unsecured().map(|()| true),
        }
    }

    /// Ends our side of what the kernel has.
    pub(super) fn shutdown_write_unsecured(&self) -> io::Result<()> {
        SockRef::from(&self.fd).shutdown(Shutdown::Write)
    }

    /// Ends both sides at once, which also wakes whoever waits on the socket.
    pub(crate) fn shutdown(&self) {
        if let Some(tty) = &self.tty {
            return tty.shut();
        }
        // It fails only where there is nothing left to end: never connected, or reset by the peer.
        let _ = SockRef::from(&self.fd).shutdown(Shutdown::Both);
    }

    /// Reads off what TLS may have sent that nobody asked for, such as session tickets: unread, it would
    /// turn the close that follows into a reset, which costs the peer what it has not read.
    pub(crate) fn read_off_tickets(&self) {
        if self.kind != Kind::Tls {
            return;
        }
        let mut unread = [0; 4096];
        for _ in 0..TICKET_READS {
            match self.recv_unsecured(&mut unread, Wait::No) {
                Ok(bytes) if bytes > 0 => {}
                _ => return,
            }
        }
    }

    /// Throws away what the kernel holds of what was written: on a serial line, where it would go on
    /// sending after the end, and into the next connection. Of a socket it is the kernel's to send.
    pub(crate) fn discard_unsent(&self) {
        if let Some(tty) = &self.tty {
            tty.discard_unsent(self.as_fd());
        }
    }

    /// What the kernel still holds of what was written: on TCP, bytes that the peer's kernel has
    /// not acknowledged. With TLS they are encrypted ones, and those that wait here are among them.
    ///
    /// Unix and UDP sockets count buffers with their bookkeeping, not bytes. There only zero means
    /// anything: everything was read, or has left. Otherwise it is unknown, as after a failure. A serial
    /// line's driver counts bytes that are not sent; a pseudo-terminal says nothing but zero.
    pub(crate) fn unsent_bytes(&self) -> Option<u64> {
        if self.tty.as_ref().is_some_and(|tty| tty.is_pseudo()) {
            return None;
        }
        let held = sys::socket::ioctl_siocoutq(self.as_fd()).ok()?;
        match self.kind {
            Kind::Tcp => Some(tcp::without_fin(self, held)),
            Kind::Tls => {
                let pending = self.session().map_or(0, |tls| tls.pending_bytes());
                Some(tcp::without_fin(self, held) + pending)
            }
            Kind::Serial => Some(held),
            Kind::Uds | Kind::Udp => (held == 0).then_some(0),
        }
    }

    /// `SO_ERROR`: the error that the socket holds for us, which this clears.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        match SockRef::from(&self.fd).take_error() {
            Ok(held) => held,
            Err(error) => Some(error),
        }
    }

    /// Our end. `None` for a Unix socket without a name, as every connecting one is.
    pub(crate) fn local_address(&self) -> Option<Address> {
        if let Some(tty) = &self.tty {
            return Some(tty.address());
        }
        self.to_address(&SockRef::from(&self.fd).local_addr().ok()?)
    }

    /// The peer's end, or where a socket that hears anybody sends. `None` for a Unix socket without a
    /// name, and when there is no peer. Of a serial line both ends are the line.
    pub(crate) fn peer_address(&self) -> Option<Address> {
        if let Some(tty) = &self.tty {
            return Some(tty.address());
        }
        if let Some(target) = self.target {
            return Some(Address::udp(target));
        }
        self.to_address(&SockRef::from(&self.fd).peer_addr().ok()?)
    }

    pub(super) fn to_address(&self, found: &SockAddr) -> Option<Address> {
        match self.kind {
            Kind::Tcp => found.as_socket().map(plain).map(Address::tcp),
            Kind::Udp => found.as_socket().map(plain).map(Address::udp),
            Kind::Uds => uds::address(found),
            Kind::Tls => found.as_socket().map(plain).map(Address::tls),
            Kind::Serial => None,
        }
    }

    /// Who is at the other end of a Unix socket.
    pub(crate) fn peer_credentials(&self) -> Option<Credentials> {
        match self.kind {
            Kind::Uds => sys::socket::peercred(self.as_fd()).ok().map(Into::into),
            Kind::Tcp | Kind::Tls | Kind::Udp | Kind::Serial => None,
        }
    }

    /// What the kernel has granted; it reports twice that (`socket(7)`).
    pub(crate) fn buffers(&self) -> Option<SocketBuffers> {
        let socket = SockRef::from(&self.fd);
        Some(SocketBuffers {
            send_bytes: socket.send_buffer_size().ok()? / 2,
            receive_bytes: socket.recv_buffer_size().ok()? / 2,
        })
    }

    /// Waits until something asked for is ready, or the deadline; without one, for ever.
    pub(crate) fn wait_ready(
        &self,
        interest: PollInterest,
        deadline: Option<Instant>,
    ) -> io::Result<PollReady> {
        if interest.read && self.tls.as_ref().is_some_and(|tls| tls.has_news()) {
            return Ok(PollReady {
                read: true,
                write: false,
            });
        }
        self.poll_kernel(interest, deadline)
    }

    /// The same, of the kernel alone.
    pub(super) fn poll_kernel(
        &self,
        interest: PollInterest,
        deadline: Option<Instant>,
    ) -> io::Result<PollReady> {
        let mut events = 0;
        if interest.read {
            events |= libc::POLLIN;
        }
        if interest.write {
            events |= libc::POLLOUT;
        }
        let ready = match &self.tty {
            Some(tty) => tty.ppoll(self.as_fd(), events, deadline)?,
            None => sys::poll::ppoll(self.as_fd(), events, deadline)?,
        };
        let ended = ready & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        Ok(PollReady {
            read: interest.read && (ended || ready & libc::POLLIN != 0),
            write: interest.write && (ended || ready & libc::POLLOUT != 0),
        })
    }

    /// Whether [`Wait::Block`] waits.
    pub(crate) fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        if self.tty.is_some() {
            // Its own wait can be called off, and a write to it must not wait.
            return Ok(());
        }
        SockRef::from(&self.fd).set_nonblocking(!blocking)
    }

    /// `SO_RCVTIMEO`: how long a blocking receive waits before it says `WouldBlock`.
    ///
    /// Rounded up to the option's microseconds, of which none would mean for ever.
    pub(crate) fn set_receive_timeout(&self, timeout: Duration) -> io::Result<()> {
        if let Some(tty) = &self.tty {
            tty.set_receive_timeout(timeout);
            return Ok(());
        }
        let micros = timeout.as_nanos().div_ceil(1_000).max(1);
        let timeout = Duration::from_micros(micros.try_into().unwrap_or(u64::MAX));
        SockRef::from(&self.fd).set_read_timeout(Some(timeout))
    }

    /// `TCP_NOTSENT_LOWAT`: how many unsent bytes the kernel takes before it says "not writable".
    pub(crate) fn set_notsent_lowat(&self, bytes: u32) -> io::Result<()> {
        debug_assert!(matches!(self.kind, Kind::Tcp | Kind::Tls));
        SockRef::from(&self.fd).set_tcp_notsent_lowat(bytes)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(tty) = self.tty.take() {
            tty.close(&mut self.fd);
        }
    }
}

impl Wait {
    pub(super) fn flag(self) -> libc::c_int {
        match self {
            Self::No => libc::MSG_DONTWAIT,
            Self::Block => 0,
        }
    }
}

impl Arrived {
    /// `bytes` is the datagram's real length where it is longer than the buffer's `room`.
    pub(super) fn new(bytes: usize, room: usize) -> Self {
        Self {
            bytes: bytes.min(room),
            truncated: bytes > room,
            from: None,
        }
    }
}

/// Reads for tickets at most: a peer that sends on is not waited for.
const TICKET_READS: usize = 4;
