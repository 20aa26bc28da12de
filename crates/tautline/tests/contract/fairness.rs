//! Promise 14 on one thread: whoever has more to read than it can be given has one share of each turn,
//! and between two of its shares everybody else is heard and answered.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc;

use socket2::SockRef;
use tautline::{Framing, IoThread, Link, LinkOptions, Received};

use crate::common::*;

over! {
    others_are_answered_between_two_shares_of_a_flood: tcp uds;
    a_flood_of_small_messages_has_a_share_of_fewer_bytes: tcp uds;
}

/// Bytes of a share; the last read of it may go beyond.
const SHARE: usize = 256 * 1024;
/// The I/O thread's read buffer.
const READ: usize = 68 * 1024;
const ROUNDS: usize = 300;

/// A peer that writes without waiting; what found no room goes first the next time.
struct Flood {
    stream: RawStream,
    owed: Vec<u8>,
}

impl Flood {
    /// From a stream into which as much was written as its kernel takes.
    fn begin(stream: RawStream, of: &[u8]) -> Self {
        set_nonblocking(&stream);
        let mut flood = Self {
            stream,
            owed: Vec::new(),
        };
        while flood.owed.is_empty() {
            flood.again(of);
        }
        flood
    }

    fn again(&mut self, bytes: &[u8]) {
        self.owed.extend_from_slice(bytes);
        match self.stream.write(&self.owed) {
            Ok(written) => drop(self.owed.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Peers that ask, all at once, and look for their answers.
struct Askers {
    streams: Vec<RawStream>,
    unanswered: Vec<bool>,
}

impl Askers {
    /// On links of this thread which answer everything.
    fn new(io: &IoThread, transport: Transport) -> (Self, Vec<Link>) {
        let listener = RawListener::bind(transport);
        let (mut streams, mut links) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let answer = |link: &Link, message: &[u8], _: Received| link.send(message).unwrap();
            let link = io.connect(&listener.address(), framed(transport), answer);
            let link = link.unwrap();
            link.wait_open(WATCHDOG).unwrap();
            let stream = listener.accept();
            set_nonblocking(&stream);
            links.push(link);
            streams.push(stream);
        }
        let unanswered = vec![false; streams.len()];
        let askers = Self {
            streams,
            unanswered,
        };
        (askers, links)
    }

    fn ask(&mut self) {
        for (stream, unanswered) in self.streams.iter_mut().zip(&mut self.unanswered) {
            stream.write_frame(b"well?");
            *unanswered = true;
        }
    }

    fn all_answered(&mut self) -> bool {
        for (stream, unanswered) in self.streams.iter_mut().zip(&mut self.unanswered) {
            if *unanswered && stream.read(&mut [0; 9]).is_ok() {
                *unanswered = false;
            }
        }
        !self.unanswered.contains(&true)
    }
}

fn set_nonblocking(stream: &RawStream) {
    let fd = stream.as_fd();
    SockRef::from(&fd).set_nonblocking(true).unwrap();
}

/// What was handed out of a flood each time until all others had their answers, as `count` counts it. The
/// flood is fed from inside its own callback, so that there is always more to read.
fn shares(
    transport: Transport,
    framing: Framing,
    of: &[u8],
    count: fn(&[u8]) -> usize,
) -> Vec<usize> {
    let io = start();
    let (mut askers, _links) = Askers::new(&io, transport);
    let listener = RawListener::bind(transport);
    let (give, given) = mpsc::channel::<Flood>();
    let (tell, told) = mpsc::channel();
    let (mut flood, mut since_asked, mut rounds) = (None, 0, 0);
    let is_framed = framing != Framing::Raw;
    let handler = move |_: &Link, message: &[u8], _: Received| {
        let flood = flood.get_or_insert_with(|| given.recv().unwrap());
        if rounds > ROUNDS {
            return;
        }
        since_asked += count(message);
        if askers.all_answered() {
            if rounds > 0 {
                tell.send(since_asked).unwrap();
            }
            (rounds, since_asked) = (rounds + 1, 0);
            askers.ask();
        }
        if is_framed {
            flood.again(&frame(message));
        } else {
            flood.again(message);
        }
    };
    let options = LinkOptions {
        framing,
        ..LinkOptions::default()
    };
    let link = io.connect(&listener.address(), options, handler).unwrap();
    link.wait_open(WATCHDOG).unwrap();
    give.send(Flood::begin(listener.accept(), of)).unwrap();
    let shares = (0..ROUNDS).map(|_| told.recv_timeout(WATCHDOG).unwrap());
    shares.collect()
}

/// A Unix socket hands over at once. Over TCP a busy machine may do it later, in a thread of the kernel.
fn expect_within(mut shares: Vec<usize>, most: usize, transport: Transport) {
    shares.sort_unstable();
    let judged = if transport == Transport::Uds {
        ROUNDS - 1
    } else {
        ROUNDS / 2
    };
    assert!(shares[judged] <= most, "{} of {shares:?}", shares[judged]);
}

/// Answers too: they leave before the next share begins, so that its first read finds them there.
fn others_are_answered_between_two_shares_of_a_flood(transport: Transport) {
    let shares = shares(transport, Framing::Raw, &[7; READ], <[u8]>::len);
    expect_within(shares, SHARE + 2 * READ, transport);
}

/// They take longer to hand out than their bytes tell: one read of them is a share.
fn a_flood_of_small_messages_has_a_share_of_fewer_bytes(transport: Transport) {
    let of = frame(&[7; 16]).repeat(100);
    let shares = shares(transport, Framing::length_prefix(), &of, |_| 1);
    expect_within(shares, 2 * READ / 20, transport);
}
