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
    /// A thread sends them on a link, a server's callback counts them. Under a tool that makes everything
    /// slow no sender is ever hot: each writes its message itself.
    Stream,
    /// A server's callback sends a thousand at a time, a client's counts them: what is queued first
    /// leaves together, however slow the tool.
    Burst,
    /// One after the other goes to a callback server and back to a callback.
    Echo,
}

impl FromStr for Once {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stream" => Ok(Self::Stream),
            "burst" => Ok(Self::Burst),
            "echo" => Ok(Self::Echo),
            _ => Err("stream, burst or echo"),
        }
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stream => "stream",
            Self::Burst => "burst",
            Self::Echo => "echo",
        })
    }
}

/// Does it over the first transport that was asked for; says what was done.
pub(crate) fn run(once: Once, options: &Options) -> Result<String, String> {
    let transport = options.kept_transports().first().copied();
    let transport = transport.ok_or("--once takes one of --transports tcp uds udp")?;
    if once != Once::Echo && transport == Transport::Udp {
        return Err(
            "--once stream, burst: over udp nothing says which message is the last".to_owned(),
        );
    }
    let messages = options.messages;
    place::at(Condition::Free, transport, SMALL, move |site| {
        match once {
            Once::Stream => stream(site, messages)?,
            Once::Burst => ask(site, messages, A_BURST)?,
            Once::Echo => ask(site, messages, 1)?,
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

/// Asks again and again, each time for so many answers.
fn ask(site: &Site, messages: u64, answers: u64) -> Result<(), String> {
    let io = site.io_thread(site.seats.server("server-io"))?;
    let options = site.server_options(Strategy::Reliable);
    let answer = move |_peer: &Link| {
        Ok::<_, Refusal>(move |peer: &Link, message: &[u8], _: Received| {
            for _ in 0..answers {
                // The queue holds them all, so there is always room.
                let _ = peer.send(message);
            }
        })
    };
    let server = io.listen(&site.address(), options, answer).map_err(said)?;
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let (over, is_over) = mpsc::channel();
    let client = Ask {
        left: messages,
        answers,
        until_asked: answers,
        over,
    };
    let options = site.link_options(Strategy::Reliable);
    let link = client_io.connect(&server.local_address(), options, client);
    let _link = link.map_err(said)?;
    is_over.recv().map_err(|_| "the answers ended".to_owned())
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

/// Asks again when every answer has come.
struct Ask {
    left: u64,
    answers: u64,
    until_asked: u64,
    over: Sender<()>,
}

impl Handler for Ask {
    fn opened(&mut self, link: &Link, _opened: &Opened) {
        // A queue that is empty has room; were it refused, the other end would wait for ever.
        let _ = link.send(&[7; SMALL]);
    }

    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        self.left = self.left.saturating_sub(1);
        self.until_asked -= 1;
        if self.left == 0 {
            let _ = self.over.send(());
        } else if self.until_asked == 0 {
            self.until_asked = self.answers;
            let _ = link.send(message);
        }
    }
}

const A_BURST: u64 = 1_000;
