//! A fixed number of messages and nothing else, for tools that count what a program does: no rounds, no
//! control, no clock.

use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::{self, Sender};

use tautline::{Handler, Link, Opened, Received, Refusal, Strategy};
use tautline_gauge::plan::Transport;

use super::list::{Condition, SMALL};
use super::options::Options;
use super::place;
use super::site::{SETUP_LIMIT, Site, said};

/// What is done with the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Once {
    /// A thread sends them on a link, a server's callback counts them.
    Stream,
    /// One after the other goes to a callback server and back to a callback.
    Echo,
}

impl FromStr for Once {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stream" => Ok(Self::Stream),
            "echo" => Ok(Self::Echo),
            _ => Err("stream or echo"),
        }
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stream => "stream",
            Self::Echo => "echo",
        })
    }
}

/// Does it over the first transport that was asked for; says what was done.
pub(crate) fn run(once: Once, options: &Options) -> Result<String, String> {
    let transport = options.kept_transports().first().copied();
    let transport = transport.ok_or("--once takes one of --transports tcp uds udp")?;
    if (once, transport) == (Once::Stream, Transport::Udp) {
        return Err("--once stream: over udp nothing says which message is the last".to_owned());
    }
    let messages = options.messages;
    place::at(Condition::Free, transport, SMALL, move |site| {
        match once {
            Once::Stream => stream(site, messages)?,
            Once::Echo => echo(site, messages)?,
        }
        Ok(format!(
            "{once} {transport}: {messages} messages of {SMALL} B"
        ))
    })
}

fn stream(site: &Site, messages: u64) -> Result<(), String> {
    let io = site.io_thread(site.seats.server("server-io"))?;
    let (over, is_over) = mpsc::channel();
    let count = move |_peer: &Link| {
        Ok::<_, Refusal>(Count {
            left: messages,
            over: over.clone(),
        })
    };
    let options = site.server_options(Strategy::Reliable);
    let server = io.listen(&site.address(), options, count).map_err(said)?;
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let options = site.link_options(Strategy::Reliable);
    let silent = |_: &Link, _: &[u8], _: Received| {};
    let link = client_io.connect(&server.local_address(), options, silent);
    let link = link.map_err(said)?;
    link.wait_open(SETUP_LIMIT).map_err(said)?;
    for _ in 0..messages {
        link.send(&[7; SMALL]).map_err(said)?;
    }
    is_over.recv().map_err(|_| "the stream ended".to_owned())
}

fn echo(site: &Site, messages: u64) -> Result<(), String> {
    let io = site.io_thread(site.seats.server("server-io"))?;
    let options = site.server_options(Strategy::Reliable);
    let answer = |_peer: &Link| {
        Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
            // One message is under way at a time, so there is always room.
            let _ = peer.send(message);
        })
    };
    let server = io.listen(&site.address(), options, answer).map_err(said)?;
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let (over, is_over) = mpsc::channel();
    let client = Ask {
        left: messages,
        over,
    };
    let options = site.link_options(Strategy::Reliable);
    let link = client_io.connect(&server.local_address(), options, client);
    let _link = link.map_err(said)?;
    is_over.recv().map_err(|_| "the echo ended".to_owned())
}

/// Tells when everything has come.
struct Count {
    left: u64,
    over: Sender<()>,
}

impl Handler for Count {
    fn message(&mut self, _link: &Link, _message: &[u8], _received: Received) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            // Its receiver waits for this, or has given up.
            let _ = self.over.send(());
        }
    }
}

/// Sends the next when the reply has come.
struct Ask {
    left: u64,
    over: Sender<()>,
}

impl Handler for Ask {
    fn opened(&mut self, link: &Link, _opened: &Opened) {
        // A queue that is empty has room; were it refused, the other end would wait for ever.
        let _ = link.send(&[7; SMALL]);
    }

    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            let _ = self.over.send(());
        } else {
            let _ = link.send(message);
        }
    }
}
