//! sockperf's ping-pong: its own protocol with as many bytes, over blocking sockets.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tautline_gauge::plan::Transport;

use super::super::rounds::{Block, Counts, Side};
use super::super::site::Site;
use super::process::{ROUNDS, ServerProcess, find, free_port, run};

pub(super) const PROGRAM: &str = "sockperf";

pub(super) fn start(site: &Site) -> Result<Box<dyn Side>, String> {
    let program = find(PROGRAM).ok_or("not on this machine")?;
    let port = free_port(site.transport)?;
    let mut serve = Command::new(&program);
    serve.args(["server", "--ip", "127.0.0.1", "--port", &port.to_string()]);
    serve.args(transport_option(site.transport));
    Ok(Box::new(PingPong {
        program,
        port,
        transport: site.transport,
        payload_bytes: site.payload_bytes,
        _server: ServerProcess::start(site, serve, port)?,
    }))
}

struct PingPong {
    program: PathBuf,
    port: u16,
    transport: Transport,
    payload_bytes: usize,
    _server: ServerProcess,
}

impl Side for PingPong {
    /// A second, whatever is asked for: it takes no less, and warms up by itself.
    fn block(&mut self, _length: Duration) -> Result<Block, String> {
        let mut client = Command::new(&self.program);
        client.args([
            "ping-pong",
            "--ip",
            "127.0.0.1",
            "--full-rtt",
            "--time",
            "1",
        ]);
        client.args(["--port", &self.port.to_string()]);
        client.args(["--msg-size", &self.payload_bytes.to_string()]);
        client.args(transport_option(self.transport));
        block_of(&run(client)?)
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

fn transport_option(transport: Transport) -> Option<&'static str> {
    (transport == Transport::Tcp).then_some("--tcp")
}

/// Reads what its client prints.
pub(crate) fn block_of(text: &str) -> Result<Block, String> {
    let us = |label: &str| {
        let line = text.lines().find(|line| line.contains(label))?;
        line.rsplit('=').next()?.trim().parse::<f64>().ok()
    };
    let count = |label: &str| {
        let line = text
            .lines()
            .find(|line| line.contains("[Valid Duration]"))?;
        let (_, rest) = line.split_once(label)?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<u64>()
            .ok()
    };
    let said_nothing = |what: &str| format!("it did not say {what}");
    Ok(Block {
        figure: us("percentile 50.000").ok_or_else(|| said_nothing("its median"))? * 1_000.0,
        worst_ns: us("<MAX> observation").ok_or_else(|| said_nothing("its maximum"))? * 1_000.0,
        counts: Counts {
            sent: count("SentMessages=").ok_or_else(|| said_nothing("what it sent"))?,
            received: count("ReceivedMessages=").ok_or_else(|| said_nothing("what it received"))?,
            ..Counts::default()
        },
    })
}
