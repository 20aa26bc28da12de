//! One end of a pair of sockets in tokio's hands, and the thread that turns the other end's runtime.

use std::io;
use std::thread::JoinHandle;

use ::tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use ::tokio::net::{TcpStream, UdpSocket, UnixStream};
use ::tokio::runtime::{self, Runtime};
use ::tokio::sync::oneshot;
use ::tokio::task;
use tautline_gauge::control::End;

use super::super::site::Site;

/// A socket that tokio waits for.
pub(crate) enum TokioEnd {
    Tcp(TcpStream),
    Uds(UnixStream),
    Udp(UdpSocket),
}

impl TokioEnd {
    /// Needs the context of the runtime that is to wait for it.
    pub(crate) fn adopt(end: End) -> io::Result<Self> {
        match end {
            End::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream).map(Self::Tcp)
            }
            End::Uds(stream) => {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream).map(Self::Uds)
            }
            End::Udp(socket) => {
                socket.set_nonblocking(true)?;
                UdpSocket::from_std(socket).map(Self::Udp)
            }
            End::Tls(_) | End::Serial(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What has arrived, at most as much as fits; 0 is the end.
    #[inline]
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer).await,
            Self::Uds(stream) => stream.read(buffer).await,
            Self::Udp(socket) => socket.recv(buffer).await,
        }
    }

    /// All of `bytes`; one datagram on UDP.
    #[inline]
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes).await,
            Self::Uds(stream) => stream.write_all(bytes).await,
            Self::Udp(socket) => socket.send(bytes).await.map(drop),
        }
    }
}

/// A runtime on the calling thread, wherever that sits.
pub(crate) fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_io().build()
}

type Serving = task::JoinHandle<io::Result<()>>;

/// The far end: a thread in the server's seat with a runtime of its own and one task.
pub(crate) struct FarEnd {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Option<io::Result<()>>>,
}

impl FarEnd {
    /// Runs `serve` as a task of the far end's runtime, until its socket or we end it.
    pub(crate) fn start<F: Future<Output = io::Result<()>> + Send + 'static>(
        site: &Site,
        end: End,
        serve: impl FnOnce(TokioEnd) -> F + Send + 'static,
    ) -> Result<Self, String> {
        Self::run(site, move || {
            Ok(vec![task::spawn(serve(TokioEnd::adopt(end)?))])
        })
    }

    /// The same with a task for each of `ends`.
    pub(crate) fn start_all<F: Future<Output = io::Result<()>> + Send + 'static>(
        site: &Site,
        ends: Vec<End>,
        serve: impl Fn(TokioEnd) -> F + Send + 'static,
    ) -> Result<Self, String> {
        Self::run(site, move || {
            let start = |end| Ok(task::spawn(serve(TokioEnd::adopt(end)?)));
            ends.into_iter().map(start).collect()
        })
    }

    fn run(
        site: &Site,
        start: impl FnOnce() -> io::Result<Vec<Serving>> + Send + 'static,
    ) -> Result<Self, String> {
        let (stop, stopped) = oneshot::channel();
        let thread = site.spawn(site.seats.server("tokio-server"), move || {
            runtime()?.block_on(async {
                let tasks = start()?;
                // Sent or dropped, it is over. Nothing else would end a datagram socket's task: shut
                // down, it reports readiness for ever and has nothing to read.
                let _ = stopped.await;
                for task in tasks {
                    if task.is_finished() {
                        task.await??;
                    } else {
                        task.abort();
                    }
                }
                Ok(())
            })
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn end(self) -> Result<(), String> {
        drop(self.stop);
        match self.thread.join() {
            Ok(Some(outcome)) => outcome.map_err(|cause| format!("server: {cause}")),
            Ok(None) | Err(_) => Err("the server panicked".to_owned()),
        }
    }
}

/// Reads as much as there is, up to 64 KiB, and hands out whole messages as they stand on the wire, as
/// the product's receiver and the raw one do.
pub(crate) struct Frames {
    end: TokioEnd,
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    wire_bytes: usize,
    prefix_bytes: usize,
}

impl Frames {
    pub(crate) fn new(end: TokioEnd, site: &Site) -> Self {
        let wire_bytes = site.wire_bytes();
        Self {
            end,
            buffer: vec![0; READ_BYTES.max(wire_bytes) + wire_bytes],
            taken: 0,
            filled: 0,
            wire_bytes,
            prefix_bytes: site.transport.overhead_bytes(),
        }
    }

    /// Waits for more; false at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        let room = READ_BYTES.min(self.buffer.len() - self.filled);
        let room = &mut self.buffer[self.filled..self.filled + room];
        match self.end.read(room).await? {
            0 if self.filled == 0 => Ok(false),
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.filled += bytes;
                Ok(true)
            }
        }
    }

    pub(crate) async fn write_all(&mut self, wire: &[u8]) -> io::Result<()> {
        self.end.write_all(wire).await
    }

    /// The next message that is whole, without its prefix.
    #[inline]
    pub(crate) fn next_payload(&mut self) -> io::Result<Option<&[u8]>> {
        let prefix_bytes = self.prefix_bytes;
        Ok(self
            .next_range()?
            .map(|(start, end)| &self.buffer[start + prefix_bytes..end]))
    }

    /// Sends the next message that is whole back as it is; false if there is none.
    #[inline]
    pub(crate) async fn answer(&mut self) -> io::Result<bool> {
        let Some((start, end)) = self.next_range()? else {
            return Ok(false);
        };
        self.end.write_all(&self.buffer[start..end]).await?;
        Ok(true)
    }

    #[inline]
    fn next_range(&mut self) -> io::Result<Option<(usize, usize)>> {
        let start = self.taken;
        if self.prefix_bytes == 0 {
            // Datagrams have borders: what one read brought is one message.
            let whole = (start < self.filled).then_some((start, self.filled));
            self.taken = self.filled;
            return Ok(whole);
        }
        let Some(prefix) = self.buffer[start..self.filled].first_chunk() else {
            return Ok(None);
        };
        if u32::from_be_bytes(*prefix) as usize + prefix.len() != self.wire_bytes {
            let why = "the prefix is not the length of the message";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if self.filled - start < self.wire_bytes {
            return Ok(None);
        }
        self.taken = start + self.wire_bytes;
        Ok(Some((start, self.taken)))
    }
}

/// Answers every message until the client ends.
pub(crate) async fn serve_echo(mut frames: Frames) -> io::Result<()> {
    while frames.fill().await? {
        while frames.answer().await? {}
    }
    Ok(())
}

/// One message as it goes over the wire: the product's prefix, where there is one, and the payload.
pub(crate) fn frame(site: &Site) -> Vec<u8> {
    let length = u32::try_from(site.payload_bytes).expect("payloads are small");
    let mut frame = length.to_be_bytes()[..site.transport.overhead_bytes()].to_vec();
    frame.resize(site.wire_bytes(), 0);
    frame
}

/// As the library reads by default.
const READ_BYTES: usize = 64 * 1024;
