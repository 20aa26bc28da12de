//! Pipelined echoes: the client writes a batch in one call and reads until all replies are there. It
//! is the same raw client for both servers, so that only the servers differ: the callback server is
//! to flush once a batch of events, the raw one writes each reply as soon as it has read the request.

use std::io;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline::{Address, Link, Received, Refusal, Server, Strategy, UdsName};
use tautline_gauge::clock::now_ns;
use tautline_gauge::control::{End, receive_stream};
use tautline_gauge::statistics::median;

use super::rounds::{Block, Counts, Side};
use super::site::{Site, said};

/// Over a callback server.
pub(crate) fn start_callback(site: &Site) -> Result<Box<dyn Side>, String> {
    let server_io = site.io_thread(site.seats.server("server-io"))?;
    let server = server_io
        .listen(
            &site.address(),
            site.server_options(Strategy::Reliable),
            |_peer: &Link| {
                Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
                    // The queue holds several batches; what is refused all the same is missed.
                    let _ = peer.send(message);
                })
            },
        )
        .map_err(said)?;
    let client = connect(&server.local_address()).map_err(said)?;
    Ok(Box::new(Batches::new(
        site,
        client,
        Echoing::Callback(server),
    )))
}

/// Over a raw server that writes each reply.
pub(crate) fn start_each(site: &Site) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let payload_bytes = site.payload_bytes;
    let thread = site.spawn(site.seats.server("raw-server"), move || {
        let mut reply = frame(payload_bytes, 0);
        let mut failed = None;
        let read = receive_stream(&server, payload_bytes, |message, _at_ns| {
            reply[PREFIX_BYTES..].copy_from_slice(message);
            if let Err(cause) = server.write_all(&reply) {
                failed.get_or_insert(cause);
            }
        });
        failed.map_or(read, Err)
    })?;
    Ok(Box::new(Batches::new(site, client, Echoing::Raw(thread))))
}

struct Batches {
    client: End,
    /// The whole batch as it goes over the wire, and comes back.
    batch: Vec<u8>,
    replies: Vec<u8>,
    frame_bytes: usize,
    sequence: u64,
    times_ns: Vec<f64>,
    server: Echoing,
}

enum Echoing {
    Callback(Server),
    Raw(JoinHandle<Option<io::Result<()>>>),
}

impl Batches {
    fn new(site: &Site, client: End, server: Echoing) -> Self {
        let batch: Vec<u8> = (0..MESSAGES)
            .flat_map(|number| frame(site.payload_bytes, number))
            .collect();
        Self {
            client,
            replies: vec![0; batch.len()],
            batch,
            frame_bytes: site.wire_bytes(),
            sequence: 0,
            times_ns: Vec::with_capacity(MOST_TIMES),
            server,
        }
    }

    /// One batch there and back.
    fn exchange(&mut self) -> io::Result<f64> {
        let sent_ns = now_ns();
        self.client.write_all(&self.batch)?;
        let mut filled = 0;
        while filled < self.replies.len() {
            match self.client.read(&mut self.replies[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => filled += bytes,
            }
        }
        Ok((now_ns() - sent_ns) as f64)
    }

    /// Every message of the next batch gets a number that it has never had.
    fn renumber(&mut self) {
        for frame in self.batch.chunks_mut(self.frame_bytes) {
            frame[PREFIX_BYTES..PREFIX_BYTES + 8].copy_from_slice(&self.sequence.to_le_bytes());
            self.sequence += 1;
        }
    }
}

impl Side for Batches {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let end_ns = now_ns() + length.as_nanos() as u64;
        self.times_ns.clear();
        let mut counts = Counts::default();
        while self.times_ns.is_empty() || now_ns() < end_ns && self.times_ns.len() < MOST_TIMES {
            self.renumber();
            let time_ns = self.exchange().map_err(said)?;
            self.times_ns.push(time_ns);
            counts.sent += MESSAGES;
            // After the stamp: whole contents, in order.
            let chunks = self.batch.chunks(self.frame_bytes);
            let intact = chunks.zip(self.replies.chunks(self.frame_bytes));
            let intact = intact.filter(|(sent, reply)| sent == reply).count() as u64;
            counts.received += intact;
            counts.wrong += MESSAGES - intact;
        }
        let figure = median(&mut self.times_ns).ok_or("no batch came back")?;
        Ok(Block {
            figure,
            worst_ns: self.times_ns.iter().copied().fold(0.0, f64::max),
            counts,
        })
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        let messages = self.sequence;
        if let Ok(closer) = self.client.closer() {
            closer.shutdown();
        }
        match self.server {
            Echoing::Callback(server) => {
                let counted = server.statistics().peers;
                server.abort();
                let (sending, receiving) = (&counted.sending, &counted.receiving);
                if sending.accepted.messages != messages || receiving.messages != messages {
                    return Err(format!(
                        "{messages} messages were sent; counted: {counted:?}"
                    ));
                }
                let batch = |calls: u64| (calls * MESSAGES) as f64 / messages as f64;
                Ok(Some(format!(
                    "server: {:.2} reads, {:.2} writes a batch",
                    batch(receiving.read_calls),
                    batch(sending.write_calls)
                )))
            }
            Echoing::Raw(thread) => match thread.join() {
                Ok(Some(outcome)) => outcome.map(|()| None).map_err(said),
                Ok(None) | Err(_) => Err("the server panicked".to_owned()),
            },
        }
    }
}

/// A raw client of a stream server.
fn connect(address: &Address) -> io::Result<End> {
    match address {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            Ok(End::Tcp(stream))
        }
        Address::Uds(UdsName::Abstract(name)) => {
            let address = SocketAddr::from_abstract_name(name)?;
            Ok(End::Uds(UnixStream::connect_addr(&address)?))
        }
        Address::Uds(UdsName::Path(_))
        | Address::Udp { .. }
        | Address::Tls { .. }
        | Address::Serial(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn frame(payload_bytes: usize, number: u64) -> Vec<u8> {
    let length = u32::try_from(payload_bytes).expect("payloads are small");
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(PREFIX_BYTES + payload_bytes, 0);
    frame[PREFIX_BYTES..PREFIX_BYTES + 8].copy_from_slice(&number.to_le_bytes());
    frame
}

/// In one batch.
const MESSAGES: u64 = 256;
const PREFIX_BYTES: usize = 4;
const MOST_TIMES: usize = 1 << 14;
