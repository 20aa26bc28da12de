//! Messages that were encoded before, and those that a sender is handed encoded, on a channel without
//! sockets. Orders of events are the models'; what happens on sockets is the contract suite's.

use std::cell::Cell;
use std::sync::Mutex as StdMutex;

use std::task::Waker;

use tautline_session::{
    BLOCK_BYTES, Block, Framing, OnLoss, OutboundOptions, SendStatistics, Strategy,
};

use super::*;

/// Takes so many bytes, then is full.
#[derive(Debug)]
struct Shelf {
    room_bytes: usize,
    written: StdMutex<Vec<u8>>,
}

impl Outlet for Shelf {
    fn is_datagram(&self) -> bool {
        false
    }

    fn write(&self, header: &[u8], payload: &[u8], _: PeerId) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap();
        let free = self.room_bytes - written.len();
        if free == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let all = [header, payload].concat();
        let taken = all.len().min(free);
        written.extend_from_slice(&all[..taken]);
        Ok(taken)
    }

    fn write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter())
            .copied()
            .collect();
        self.write(&[], &all, PeerId::SOLE)
    }
}

/// One thread: an application's.
#[derive(Debug, Default)]
struct Desk {
    now_ns: Cell<u64>,
    calls: Cell<usize>,
}

impl Surroundings for Desk {
    fn now_ns(&self) -> u64 {
        // Far enough apart that no sender is hot.
        self.now_ns.set(self.now_ns.get() + 10_000);
        self.now_ns.get()
    }

    fn block(&self) -> Block {
        Block::with_room(BLOCK_BYTES)
    }

    fn recycle(&self, _: Block) {}
}

impl Home for Desk {
    fn caller(&self) -> Caller {
        Caller::Thread
    }

    fn call_driver(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    fn wake(&self, task: Waker) {
        task.wake();
    }
}

fn channel(framing: &Framing, room_bytes: usize) -> (Channel<Shelf, Desk>, Arc<Shelf>) {
    let outbound = Outbound::new(&OutboundOptions {
        strategy: Strategy::BestEffort,
        framing: framing.clone(),
        queue_limit_bytes: 100,
        queue_limit_messages: 10,
        frame_limit_bytes: 90,
        copy_limit_bytes: usize::MAX,
        max_queue_delay_ns: None,
        on_loss: OnLoss::Discard,
        shared: false,
        budget: None,
    });
    let channel = Channel::new(outbound, Desk::default());
    let shelf = Arc::new(Shelf {
        room_bytes,
        written: StdMutex::default(),
    });
    channel.opened(Arc::clone(&shelf), false).unwrap();
    (channel, shelf)
}

fn statistics(channel: &Channel<Shelf, Desk>) -> SendStatistics {
    let statistics = channel.read(Outbound::statistics);
    assert!(statistics.closes(), "{statistics:?}");
    statistics
}

#[test]
fn a_message_encoded_once_goes_to_every_link_as_if_each_had_encoded_it() {
    for framing in [
        Framing::Raw,
        Framing::length_prefix(),
        Framing::lines(),
        Framing::cobs(),
    ] {
        let mut encoded = Encoded::default();
        encoded.encode(&framing, b"to all").unwrap();
        let (own, own_shelf) = channel(&framing, 1000);
        own.send(b"to all", PeerId::SOLE, Call::Send, None).unwrap();
        for _ in 0..3 {
            let (channel, shelf) = channel(&framing, 1000);
            let sent = channel.send_encoded(&encoded, PeerId::SOLE, Call::Send, None);
            assert_eq!(sent, Ok(()));
            assert_eq!(
                *shelf.written.lock().unwrap(),
                *own_shelf.written.lock().unwrap()
            );
            let (one, other) = (statistics(&channel), statistics(&own));
            assert_eq!(one, other, "{framing:?}");
            assert_eq!((one.written.messages, one.written_payload_bytes), (1, 6));
        }
    }
}

#[test]
fn what_the_kernel_does_not_take_of_a_senders_own_block_is_the_drivers() {
    for encode in [false, true] {
        let framing = Framing::pattern("<<", ">>");
        let mut encoded = Encoded::default();
        encoded.encode(&framing, b"0123456789").unwrap();
        let (channel, shelf) = channel(&framing, 20);
        let send = || {
            if encode {
                channel.send_encoded(&encoded, PeerId::SOLE, Call::Send, None)
            } else {
                channel.send(b"0123456789", PeerId::SOLE, Call::Send, None)
            }
        };
        assert_eq!((send(), channel.home().calls.get()), (Ok(()), 0));
        assert_eq!((send(), channel.home().calls.get()), (Ok(()), 1));
        assert_eq!(*shelf.written.lock().unwrap(), b"<<0123456789>><<0123");
        let counted = statistics(&channel);
        assert_eq!(
            counted.waiting,
            Tally {
                messages: 1,
                bytes: 8
            }
        );
        assert_eq!(counted.direct_writes, 2);
        // Of the first message; the second's framing counts in until it is whole.
        assert_eq!(counted.written_payload_bytes, 20 - 4);
        // Queued now, and refused when the queue is full.
        for _ in 0..6 {
            assert_eq!(send(), Ok(()));
        }
        assert_eq!(send(), Err(SendError::Full));
        assert!(matches!(channel.drain(Caller::Driver, 1), Drained::Blocked));
        assert_eq!(statistics(&channel).accepted.messages, 8);
    }
}

#[test]
fn what_a_framing_cannot_carry_is_refused_and_counts_nowhere() {
    let (channel, shelf) = channel(&Framing::lines(), 1000);
    let sent = channel.send(b"two\nlines", PeerId::SOLE, Call::Send, None);
    assert_eq!(sent, Err(SendError::Unframeable));
    assert_eq!(statistics(&channel), SendStatistics::default());
    assert!(shelf.written.lock().unwrap().is_empty());
}

#[test]
fn what_was_encoded_is_judged_by_its_length_on_the_wire_and_off_it() {
    let (channel, _) = channel(&Framing::cobs(), 1000);
    let mut encoded = Encoded::default();
    // The frame limit is 90; the queue takes 100 bytes.
    encoded.encode(&Framing::cobs(), &[1; 91]).unwrap();
    let sent = channel.send_encoded(&encoded, PeerId::SOLE, Call::Send, None);
    assert_eq!(sent, Err(SendError::TooLarge { limit: 90 }));
    encoded.encode(&Framing::cobs(), &[1; 90]).unwrap();
    let sent = channel.send_encoded(&encoded, PeerId::SOLE, Call::Send, None);
    assert_eq!(sent, Ok(()));
}
