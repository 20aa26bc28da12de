//! Round trips over tokio: one task at each end, a `write_all` a message and a reply.

use std::io;
use std::time::Duration;

use ::tokio::runtime::Runtime;
use tautline_gauge::clock::now_ns;
use tautline_gauge::probe;

use super::super::echo::{MOST_TIMES, WHOLE_MESSAGES, block_of};
use super::super::rounds::{Block, Counts, Side};
use super::super::site::{Site, said};
use super::tokio_end::{FarEnd, Frames, TokioEnd, frame, runtime, serve_echo};

pub(super) fn start(site: &Site) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let own = site.clone();
    let server = FarEnd::start(site, server, move |end| serve_echo(Frames::new(end, &own)))?;
    let runtime = runtime().map_err(said)?;
    let client = {
        let _entered = runtime.enter();
        TokioEnd::adopt(client).map_err(said)?
    };
    let mut task = Task {
        end: client,
        message: frame(site),
        reply: vec![0; site.wire_bytes()],
        prefix_bytes: site.transport.overhead_bytes(),
        payload_bytes: site.payload_bytes,
        sequence: 0,
        times_ns: Vec::with_capacity(MOST_TIMES),
    };
    runtime.block_on(task.compare_whole())?;
    Ok(Box::new(TokioEcho {
        runtime,
        task,
        server,
    }))
}

struct TokioEcho {
    runtime: Runtime,
    task: Task,
    server: FarEnd,
}

impl Side for TokioEcho {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let end_ns = now_ns() + length.as_nanos() as u64;
        self.task.times_ns.clear();
        let counts = self.runtime.block_on(self.task.exchange_until(end_ns))?;
        block_of(&mut self.task.times_ns, counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.server.end().map(|()| None)
    }
}

/// The client's.
struct Task {
    end: TokioEnd,
    message: Vec<u8>,
    reply: Vec<u8>,
    prefix_bytes: usize,
    payload_bytes: usize,
    sequence: u64,
    times_ns: Vec<f64>,
}

impl Task {
    async fn compare_whole(&mut self) -> Result<(), String> {
        for _ in 0..WHOLE_MESSAGES {
            probe::fill(&mut self.message[self.prefix_bytes..], self.sequence);
            self.exchange().await.map_err(said)?;
            let reply = &self.reply[self.prefix_bytes..];
            if !probe::is_filled(reply, self.payload_bytes, self.sequence) {
                return Err("a reply came back changed".to_owned());
            }
            self.sequence += 1;
        }
        Ok(())
    }

    async fn exchange_until(&mut self, end_ns: u64) -> Result<Counts, String> {
        let mut counts = Counts::default();
        while self.times_ns.len() < MOST_TIMES {
            probe::stamp(&mut self.message[self.prefix_bytes..], self.sequence);
            let sent_ns = now_ns();
            self.exchange().await.map_err(said)?;
            let received_ns = now_ns();
            let reply = &self.reply[self.prefix_bytes..];
            if probe::sequence_of(reply, self.payload_bytes) == Some(self.sequence) {
                self.times_ns.push((received_ns - sent_ns) as f64);
                counts.received += 1;
            } else {
                counts.wrong += 1;
            }
            self.sequence += 1;
            counts.sent += 1;
            if received_ns >= end_ns {
                break;
            }
        }
        Ok(counts)
    }

    #[inline]
    async fn exchange(&mut self) -> io::Result<()> {
        self.end.write_all(&self.message).await?;
        let mut filled = 0;
        while filled < self.reply.len() {
            match self.end.read(&mut self.reply[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => filled += bytes,
            }
        }
        Ok(())
    }
}
