//! iperf3's TCP stream: bytes without messages, written so many at a time.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use tautline_gauge::plan::Transport;

use super::super::rounds::{Block, Counts, Side};
use super::super::site::{Site, said};
use super::process::{ROUNDS, ServerProcess, find, free_port, run};

pub(super) const PROGRAM: &str = "iperf3";

pub(super) fn start(site: &Site) -> Result<Box<dyn Side>, String> {
    let program = find(PROGRAM).ok_or("not on this machine")?;
    let port = free_port(Transport::Tcp)?;
    let mut serve = Command::new(&program);
    serve.args([
        "--server",
        "--bind",
        "127.0.0.1",
        "--port",
        &port.to_string(),
    ]);
    Ok(Box::new(Throughput {
        program,
        port,
        payload_bytes: site.payload_bytes,
        _server: ServerProcess::start(site, serve, port)?,
    }))
}

struct Throughput {
    program: PathBuf,
    port: u16,
    payload_bytes: usize,
    _server: ServerProcess,
}

impl Side for Throughput {
    /// A second, whatever is asked for: it takes no less.
    fn block(&mut self, _length: Duration) -> Result<Block, String> {
        let mut client = Command::new(&self.program);
        client.args(["--client", "127.0.0.1", "--port", &self.port.to_string()]);
        client.args(["--length", &self.payload_bytes.to_string()]);
        client.args(["--time", "1", "--json"]);
        block_of(&run(client)?, self.payload_bytes)
    }

    fn warm(&mut self, _length: Duration) -> Result<(), String> {
        Ok(())
    }

    fn most_rounds(&self) -> usize {
        ROUNDS
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// Reads what its client prints; a message is as many bytes as one write takes.
pub(crate) fn block_of(text: &str, payload_bytes: usize) -> Result<Block, String> {
    let report: Report = serde_json::from_str(text).map_err(said)?;
    if let Some(why) = report.error {
        return Err(why);
    }
    let (sent, received) = report
        .end
        .sum_sent
        .zip(report.end.sum_received)
        .ok_or("it did not say what it sent and received")?;
    let messages = |bytes: u64| bytes / payload_bytes as u64;
    if received.bytes == 0 || received.seconds <= 0.0 {
        return Err("nothing arrived".to_owned());
    }
    Ok(Block {
        figure: received.bytes as f64 / payload_bytes as f64 / received.seconds,
        worst_ns: 0.0,
        counts: Counts {
            sent: messages(sent.bytes),
            received: messages(received.bytes),
            ..Counts::default()
        },
    })
}

#[derive(Debug, Deserialize)]
struct Report {
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Debug, Deserialize)]
struct Sum {
    seconds: f64,
    bytes: u64,
}
