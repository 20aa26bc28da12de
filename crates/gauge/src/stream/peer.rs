//! A link to a server that counts, or echoes: the handshake before the messages, the counts behind them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tautline::{Address, ErrorKind, Framing, IoThread, Link, LinkOptions, Strategy, Tls};

use crate::handshake::link::{Ears, LinkLine};
use crate::handshake::{AGAIN, COUNTS_LIMIT, Line as _, MEETING_LIMIT, ask_counts, shake_hands};
use crate::line;
use crate::ping::transport_of;
use crate::placement::{Register, Seat};
use crate::plan::Transport;
use crate::run::BenchError;
use crate::secured::in_options;
use crate::stamp::Stamp;
use crate::wire::{Counts, Hello, PeerRecord};

/// A server that has agreed.
#[derive(Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) link: Link,
    pub(crate) record: PeerRecord,
    /// How every message is marked.
    pub(crate) stamp: Stamp,
    /// Speaks with the server beside the stream.
    pub(crate) line: LinkLine<'a>,
    transport: Transport,
    cookie: u64,
}

/// How a link to a server begins.
pub(crate) struct Beginning<'a> {
    pub(crate) address: &'a Address,
    pub(crate) strategy: Strategy,
    pub(crate) max_queue_delay: Option<Duration>,
    pub(crate) tls: &'a Tls,
    pub(crate) hello: &'a Hello,
    pub(crate) seat: Seat,
    pub(crate) register: &'a Arc<Register>,
}

impl<'a> Peer<'a> {
    /// Connects and agrees. `stop` cuts every wait short, then and later.
    pub(crate) fn meet(
        io: &IoThread,
        beginning: &Beginning<'_>,
        stop: &'a AtomicBool,
    ) -> Result<Self, BenchError> {
        let Beginning { address, hello, .. } = *beginning;
        let transport = transport_of(address);
        let options = LinkOptions {
            framing: match transport {
                Transport::Tcp | Transport::Tls | Transport::Uds => Framing::length_prefix(),
                Transport::Udp => Framing::Raw,
                Transport::Serial => Framing::cobs(),
            },
            tls: match transport {
                Transport::Tls => beginning.tls.clone(),
                Transport::Tcp | Transport::Udp | Transport::Uds | Transport::Serial => {
                    Tls::default()
                }
            },
            strategy: beginning.strategy,
            max_queue_delay: beginning.max_queue_delay,
            queue_limit_bytes: match address {
                Address::Serial(line) => line::queue_bytes(line, hello.message_bytes as usize),
                Address::Tcp { .. }
                | Address::Tls { .. }
                | Address::Udp { .. }
                | Address::Uds(_) => LinkOptions::default().queue_limit_bytes,
            },
            ..LinkOptions::default()
        };
        let message_bytes = hello.message_bytes as usize;
        let (ears, said) = Ears::new(beginning.seat, beginning.register, message_bytes);
        let link = io
            .connect(address, options, ears)
            .map_err(|error| in_words(address, &error))?;
        let mut line = LinkLine::new(link.clone(), said, stop).with_patience(patience_at(address));
        link.wait_open(MEETING_LIMIT)
            .map_err(|error| in_words(address, &error))?;
        let until = Instant::now() + MEETING_LIMIT.max(line.patience() * TRIES);
        let agreed = shake_hands(&mut line, transport, hello, until)
            .map_err(|why| BenchError::setup(in_options(&format!("{address}: {why}"))))?;
        Ok(Self {
            link,
            record: agreed.peer,
            stamp: Stamp::agreed(transport, hello.mode, agreed.cookie),
            line,
            transport,
            cookie: agreed.cookie,
        })
    }

    /// What the server has counted, once all that was sent has reached it.
    ///
    /// # Errors
    ///
    /// Why it cannot be known.
    pub(crate) fn counts(&mut self) -> Result<Counts, String> {
        let limit = match self.transport {
            Transport::Udp | Transport::Serial => MEETING_LIMIT.max(self.line.patience() * TRIES),
            Transport::Tcp | Transport::Tls | Transport::Uds => {
                self.link.finish();
                COUNTS_LIMIT
            }
        };
        let until = Instant::now() + limit;
        ask_counts(
            &mut self.line,
            self.transport,
            self.cookie,
            until,
            &mut |_| {},
        )
    }

    /// Why the connection is over, if it is known by now.
    pub(crate) fn why_lost(&self) -> String {
        self.line.why_lost()
    }
}

fn patience_at(address: &Address) -> Duration {
    match address {
        Address::Serial(line) => line::patience(line),
        Address::Tcp { .. } | Address::Tls { .. } | Address::Udp { .. } | Address::Uds(_) => AGAIN,
    }
}

fn in_words(address: &Address, error: &tautline::Error) -> BenchError {
    let words = in_options(&error.to_string());
    BenchError::setup(match error.kind() {
        // It names the option, and not the address.
        ErrorKind::InvalidOption => format!("{address}: {words}"),
        _ => words,
    })
}

/// A line loses bytes: a question is asked so often.
const TRIES: u32 = 6;
