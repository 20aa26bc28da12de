//! The receiver: sends every byte back as it comes, to each client on a thread of its own.
//!
//! It never looks at the bytes, so it answers messages of any size, and a client that stalls,
//! floods or goes away in the middle of a message costs nobody but itself.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::Buffers;
use super::traffic::{PIECE_BYTES, catch_up, send_now};
use crate::sys;

/// A listening socket.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    buffers: Buffers,
}

/// One client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// The port it asked for.
    pub local_port: u16,
    /// The number of its socket.
    pub socket: i32,
}

/// Is told what happens. Called from the clients' threads, several at once.
pub trait Watch: Send + Sync + 'static {
    /// A client is there.
    fn opened(&self, client: &Client);
    /// So many more of its messages have been sent back whole.
    fn echoed(&self, client: &Client, messages: usize);
    /// It has gone.
    fn closed(&self, client: &Client);
    /// A client could not be served, for this reason.
    fn refused(&self, reason: &str);
}

impl Receiver {
    /// Listens.
    ///
    /// # Errors
    ///
    /// When the address is not ours or in use.
    pub fn bind(address: SocketAddr, buffers: Buffers) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // A receiver that was killed can be started again at once.
        socket.set_reuse_address(true)?;
        buffers.set(&socket)?;
        let given = Buffers::effective(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(MOST_CLIENTS as i32)?;
        Ok(Self {
            listener: TcpListener::from(socket),
            buffers: given,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The buffers that the kernel gave.
    pub fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// Serves until `stop` says so; it is asked after a signal and twice a second. Messages are
    /// taken to have `message_bytes`, at least 1: only the count of them depends on it, and that
    /// they may be sent whole before the first byte of the reply is fetched.
    ///
    /// # Errors
    ///
    /// When the listening socket fails. That clients fail, or are too many, is no error.
    pub fn run(
        &self,
        message_bytes: usize,
        watch: &Arc<impl Watch>,
        stop: impl Fn() -> bool,
    ) -> io::Result<()> {
        let clients = Arc::new(AtomicUsize::new(0));
        while !stop() {
            match sys::poll::poll(self.listener.as_fd(), true, false, TICK) {
                Ok(ready) if ready.readable => {}
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match self.listener.accept() {
                Ok((stream, peer)) => serve(stream, peer, message_bytes, &clients, watch),
                Err(error) if is_lack(&error) => {
                    watch.refused(&format!("accept: {error}"));
                    // Until somebody goes there is nothing to take it with.
                    sys::poll::pause(TICK);
                }
                // The client's own fault: it went while it waited.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Gives a client its thread.
fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    message_bytes: usize,
    clients: &Arc<AtomicUsize>,
    watch: &Arc<impl Watch>,
) {
    if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
        clients.fetch_sub(1, Ordering::Relaxed);
        watch.refused(&format!(
            "{peer}: {MOST_CLIENTS} clients are connected already"
        ));
        return;
    }
    let present = Present {
        client: Client {
            peer,
            local_port: stream.local_addr().map_or(0, |address| address.port()),
            socket: stream.as_raw_fd(),
        },
        clients: clients.clone(),
        watch: watch.clone(),
    };
    watch.opened(&present.client);
    let limit_bytes = message_bytes.max(WAITING_LIMIT_BYTES);
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let started = thread.spawn(move || {
        // However it ended, the client is gone, and that is told by `present`.
        let mut rest_bytes = 0;
        let _ = echo(&stream, limit_bytes, |bytes| {
            rest_bytes += bytes;
            let messages = rest_bytes / message_bytes;
            rest_bytes %= message_bytes;
            present.watch.echoed(&present.client, messages);
        });
        // In this order, so that the number of the socket is not yet that of another when it is
        // told.
        drop(present);
        drop(stream);
    });
    if let Err(error) = started {
        watch.refused(&format!("{peer}: no thread for it: {error}"));
    }
}

/// Sends back what comes until the client ends or fails.
fn echo(stream: &TcpStream, limit_bytes: usize, mut told: impl FnMut(usize)) -> io::Result<()> {
    // The reply's last piece is not to wait for an acknowledgement of the one before.
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 6)
        .with_retries(6);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let count = match { stream }.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let sent = send_now(stream, &buffer[..count])?;
        let mut echoed = count;
        if sent < count {
            echoed += catch_up(stream, &buffer[sent..count], limit_bytes, PATIENCE)?;
        }
        told(echoed);
    }
}

/// A client that has been counted: is told and uncounted when it is over, also by a panic.
struct Present<W: Watch> {
    client: Client,
    clients: Arc<AtomicUsize>,
    watch: Arc<W>,
}

impl<W: Watch> Drop for Present<W> {
    fn drop(&mut self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
        self.watch.closed(&self.client);
    }
}

/// We have too few descriptors or too little memory: it may pass.
fn is_lack(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Clients at a time; each has a thread.
const MOST_CLIENTS: usize = 1_024;
/// What a client may leave unfetched before nothing more is read from it.
const WAITING_LIMIT_BYTES: usize = 1024 * 1024;
/// A client that fetches nothing for so long, while something waits for it, is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of silence, before a client is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(500);
/// The buffers are on the heap.
const STACK_BYTES: usize = 128 * 1024;
