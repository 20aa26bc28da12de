//! A link to a server that counts, or echoes: the handshake before the messages, the counts behind them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tautline::{Address, Framing, IoThread, Link, LinkOptions, Strategy};

use crate::handshake::link::{Ears, LinkLine};
use crate::handshake::{COUNTS_LIMIT, MEETING_LIMIT, ask_counts, shake_hands};
use crate::ping::transport_of;
use crate::placement::{Register, Seat};
use crate::plan::Transport;
use crate::run::BenchError;
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
                Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
                    Framing::length_prefix()
                }
                Transport::Udp => Framing::Raw,
            },
            strategy: beginning.strategy,
            max_queue_delay: beginning.max_queue_delay,
            ..LinkOptions::default()
        };
        let message_bytes = hello.message_bytes as usize;
        let (ears, said) = Ears::new(beginning.seat, beginning.register, message_bytes);
        let link = io
            .connect(address, options, ears)
            .map_err(BenchError::setup)?;
        link.wait_open(MEETING_LIMIT).map_err(BenchError::setup)?;
        let mut line = LinkLine::new(link.clone(), said, stop);
        let until = Instant::now() + MEETING_LIMIT;
        let agreed = shake_hands(&mut line, transport, hello, until)
            .map_err(|why| BenchError::setup(format!("{address}: {why}")))?;
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
            Transport::Udp => MEETING_LIMIT,
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
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
