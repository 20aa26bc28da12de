//! Streams over tokio in the three ways in which its users write them, and one for datagrams.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use ::tokio::io::{AsyncWrite, AsyncWriteExt as _, BufWriter};
use ::tokio::net::UdpSocket;
use ::tokio::runtime::Runtime;
use ::tokio::sync::mpsc;
use ::tokio::task::{self, JoinHandle};
use tautline::LinkOptions;
use tautline_gauge::clock::now_ns;
use tautline_gauge::plan::Transport;

use super::super::rounds::{Block, Counts, Side};
use super::super::site::{Site, said};
use super::super::stream::{Judge, MARK, MOST_MARKS, Post, Receipt, number, sends_a_look};
use super::tokio_end::{FarEnd, Frames, TokioEnd, frame, runtime};

/// How a message comes to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `write_all` of each message, or `send` of each datagram.
    Each,
    /// A bounded channel to a task that writes all it finds there at once.
    Channel,
    /// A `BufWriter`, which promises nothing about when a message leaves.
    Buffered,
}

impl Way {
    pub(super) const OF_STREAMS: [Self; 3] = [Self::Each, Self::Channel, Self::Buffered];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Each => "tokio each",
            Self::Channel => "tokio mpsc",
            Self::Buffered => "tokio bufwr",
        }
    }
}

pub(super) fn start(site: &Site, way: Way) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let post = Post::new();
    let judge = Judge::new(Arc::clone(&post), site.payload_bytes);
    let (own, own_post) = (site.clone(), Arc::clone(&post));
    let receiver = FarEnd::start(site, server, move |end| async move {
        let outcome = receive(Frames::new(end, &own), judge).await;
        let why = outcome
            .as_ref()
            .map_or_else(said, |()| "the stream ended".to_owned());
        own_post.broken(why);
        outcome
    })?;
    let runtime = runtime().map_err(said)?;
    let client = {
        let _entered = runtime.enter();
        TokioEnd::adopt(client).map_err(said)?
    };
    let stream = Shared {
        runtime,
        receiver,
        post,
        frame: frame(site),
        prefix_bytes: site.transport.overhead_bytes(),
        sends_a_look: sends_a_look(site.payload_bytes),
        blocks: 0,
        may_lose: site.transport == Transport::Udp,
    };
    match client {
        TokioEnd::Tcp(socket) => stream.over(socket, way),
        TokioEnd::Uds(socket) => stream.over(socket, way),
        TokioEnd::Udp(socket) => Ok(stream.through(Datagrams(socket))),
    }
}

async fn receive(mut frames: Frames, mut judge: Judge<u64>) -> io::Result<()> {
    while frames.fill().await? {
        let at_ns = now_ns();
        while let Some(payload) = frames.next_payload()? {
            judge.judge(payload, at_ns, |at_ns| at_ns);
        }
    }
    Ok(())
}

/// The sending end, whatever takes the messages.
struct Shared {
    runtime: Runtime,
    receiver: FarEnd,
    post: Arc<Post>,
    frame: Vec<u8>,
    prefix_bytes: usize,
    sends_a_look: u64,
    blocks: u64,
    may_lose: bool,
}

impl Shared {
    fn over<W>(self, socket: W, way: Way) -> Result<Box<dyn Side>, String>
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let wire_bytes = self.frame.len();
        Ok(match way {
            Way::Each => self.through(Written(socket)),
            Way::Channel => self.through(Channel::new(socket, wire_bytes)),
            Way::Buffered => {
                self.through(Written(BufWriter::with_capacity(GATHERED_BYTES, socket)))
            }
        })
    }

    fn through<O: Outlet + 'static>(self, outlet: O) -> Box<dyn Side> {
        Box::new(TokioStream {
            shared: self,
            outlet,
        })
    }
}

/// What takes messages one after another.
trait Outlet {
    async fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Nothing is held back when it returns.
    async fn flush(&mut self) -> io::Result<()>;
}

/// A socket, or a `BufWriter` before it.
struct Written<W>(W);

impl<W: AsyncWrite + Unpin> Outlet for Written<W> {
    #[inline]
    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(frame).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.0.flush().await
    }
}

struct Datagrams(UdpSocket);

impl Outlet for Datagrams {
    #[inline]
    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).await.map(drop)
    }

    async fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A channel of as many messages as the product's queue holds, to a task that owns the socket.
struct Channel<W> {
    capacity: usize,
    state: State<W>,
}

enum State<W> {
    /// Between blocks nothing is under way.
    Idle(Option<W>),
    Running(mpsc::Sender<Vec<u8>>, JoinHandle<io::Result<W>>),
}

impl<W: AsyncWrite + Unpin + Send + 'static> Channel<W> {
    fn new(socket: W, wire_bytes: usize) -> Self {
        let queue = LinkOptions::default();
        let messages = queue.queue_limit_bytes / wire_bytes;
        Self {
            capacity: messages.clamp(1, queue.queue_limit_messages),
            state: State::Idle(Some(socket)),
        }
    }

    #[cold]
    fn begin(&mut self) -> io::Result<()> {
        if let State::Idle(socket) = &mut self.state {
            let socket = socket.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let (sender, messages) = mpsc::channel(self.capacity);
            self.state = State::Running(sender, task::spawn(write_batches(socket, messages)));
        }
        Ok(())
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outlet for Channel<W> {
    #[inline]
    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        loop {
            match &self.state {
                State::Running(sender, _) => {
                    let sent = sender.send(frame.to_vec()).await;
                    return sent.map_err(|_| io::ErrorKind::BrokenPipe.into());
                }
                State::Idle(_) => self.begin()?,
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if let State::Running(sender, writer) = mem::replace(&mut self.state, State::Idle(None)) {
            drop(sender);
            self.state = State::Idle(Some(writer.await??));
        }
        Ok(())
    }
}

/// The task: all that is there, copied behind each other, in one write of up to 64 KiB.
async fn write_batches<W: AsyncWrite + Unpin>(
    mut socket: W,
    mut messages: mpsc::Receiver<Vec<u8>>,
) -> io::Result<W> {
    let mut batch: Vec<Vec<u8>> = Vec::new();
    let mut gathered = Vec::with_capacity(2 * GATHERED_BYTES);
    while messages.recv_many(&mut batch, MOST_A_BATCH).await > 0 {
        for message in batch.drain(..) {
            if !gathered.is_empty() && gathered.len() + message.len() > GATHERED_BYTES {
                socket.write_all(&gathered).await?;
                gathered.clear();
            }
            gathered.extend_from_slice(&message);
        }
        socket.write_all(&gathered).await?;
        gathered.clear();
    }
    Ok(socket)
}

/// The measuring thread's side.
struct TokioStream<O> {
    shared: Shared,
    outlet: O,
}

impl<O: Outlet> TokioStream<O> {
    /// Sends without a pause until the time is over.
    async fn produce(
        outlet: &mut O,
        (frame, prefix_bytes): (&mut [u8], usize),
        sends_a_look: u64,
        end_ns: u64,
    ) -> io::Result<u64> {
        let mut sent = 0;
        while now_ns() < end_ns {
            for _ in 0..sends_a_look {
                number(&mut frame[prefix_bytes..], sent);
                outlet.send(frame).await?;
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Sends the mark behind everything else, and waits until it has come out at the other end.
    fn mark(&mut self) -> Result<Receipt, String> {
        let shared = &mut self.shared;
        shared.blocks += 1;
        number(
            &mut shared.frame[shared.prefix_bytes..],
            MARK | shared.blocks,
        );
        for attempt in 0..MOST_MARKS {
            if attempt == 0 || shared.may_lose {
                let sent = shared.runtime.block_on(async {
                    self.outlet.send(&shared.frame).await?;
                    self.outlet.flush().await
                });
                sent.map_err(said)?;
            }
            if let Some(receipt) = shared.post.wait(shared.blocks)? {
                return Ok(receipt);
            }
        }
        Err("the end of the block did not arrive".to_owned())
    }
}

impl<O: Outlet> Side for TokioStream<O> {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let start_ns = now_ns();
        let shared = &mut self.shared;
        let sent = shared.runtime.block_on(Self::produce(
            &mut self.outlet,
            (&mut shared.frame, shared.prefix_bytes),
            shared.sends_a_look,
            start_ns + length.as_nanos() as u64,
        ));
        let sent = sent.map_err(said)?;
        let receipt = self.mark()?;
        receipt.block_since(
            start_ns,
            Counts {
                sent,
                ..Counts::default()
            },
        )
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.shared.receiver.end().map(|()| None)
    }
}

/// As the product's writer takes at most.
const GATHERED_BYTES: usize = 64 * 1024;
/// As many as can be there: more than a write takes.
const MOST_A_BATCH: usize = 1024;
