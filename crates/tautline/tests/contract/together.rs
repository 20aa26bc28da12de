//! Options that work by themselves, together: what one of them keeps must not outlive what another ends.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tautline::{
    Found, Framer, Framing, Heartbeat, LinkOptions, OnLoss, Reconnect, ServerOptions, Unframeable,
};

use crate::common::*;

over! {
    what_a_pause_kept_is_not_told_after_the_connection_is_over: tcp tls uds serial;
    what_drivers_say_is_not_carried_to_the_next_connection: tcp uds serial;
    a_framing_that_panics_for_one_sender_holds_up_no_other: tcp uds;
    a_framing_that_panics_for_a_newcomer_harms_no_other_peer: tcp tls uds;
}

/// Comes back, but not within a test.
fn slowly() -> Option<Reconnect> {
    let slow = Duration::from_secs(36_000);
    Some(Reconnect {
        base: slow,
        cap: slow,
        ..Reconnect::default()
    })
}

fn what_a_pause_kept_is_not_told_after_the_connection_is_over(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder_that(|link, told| {
        if let Told::Message(..) = told {
            link.pause_reading();
        }
    });
    let options = LinkOptions {
        // What ends a connection though we do not read.
        send_idle_timeout: Some(Duration::from_millis(50)),
        reconnect: slowly(),
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
    let both = [frame(b"taken"), frame(b"kept by the pause")].concat();
    peer.write_all(&both).unwrap();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"taken");
    inbox.expect_closed();
    inbox.expect_retrying();
    // In the pause between two connections there is none that a message could be of.
    link.resume_reading();
    let_turn(&io);
    link.close(WATCHDOG);
    inbox.expect_ended();
    inbox.expect_gone();
}

fn what_drivers_say_is_not_carried_to_the_next_connection(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        queue_limit_bytes: 100_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        heartbeat: Some(Heartbeat {
            interval: Duration::from_secs(3600),
            missed_limit: 1,
        }),
        reconnect: Some(Reconnect {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(1),
            ..Reconnect::default()
        }),
        on_loss: OnLoss::Keep,
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
    let sender = link.clone();
    let message = vec![7; 996];
    let first = message.clone();
    // The kernel is full, and more waits.
    inside_callback(&io, move || {
        while sender.statistics().sending.waiting.messages < 40 {
            sender.send(&first).unwrap();
        }
    });
    until("the kernel is full", || {
        let waiting = link.statistics().sending.waiting.messages;
        let_turn(&io);
        waiting == link.statistics().sending.waiting.messages
    });
    // Between what waits stand our answers.
    for number in 1..=3 {
        let mut ping = vec![0xff; 4];
        ping.push(1);
        ping.extend(u64::to_be_bytes(number));
        peer.write_all(&ping).unwrap();
        until("it is answered", || {
            link.statistics().sending.heartbeats == number
        });
        link.send(&message).unwrap();
    }
    peer.vanish();
    inbox.skip_to_closed();
    let sending = link.statistics().sending;
    assert!(sending.closes());
    assert_eq!(sending.carried.bytes, 1000 * sending.carried.messages);
    assert!(sending.carried.messages >= 3);
    let mut peer = listener.accept();
    inbox.skip_to_opened();
    link.send(b"the last").unwrap();
    for _ in 0..sending.carried.messages {
        assert_eq!(peer.read_frame(), message);
    }
    assert_eq!(peer.read_frame(), b"the last");
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero());
}

/// A length of one byte; it panics when it is asked to.
#[derive(Debug, Default, Clone)]
struct Moody {
    /// How often it encodes what begins with `!` before it panics there.
    patience: Arc<AtomicUsize>,
    panics_when_asked_what_it_adds: Arc<AtomicBool>,
}

impl Framer for Moody {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        if payload.starts_with(b"!") {
            let left = self.patience.fetch_sub(1, Ordering::SeqCst);
            assert!(left > 0, "as the test wants it");
        }
        into.push(payload.len() as u8);
        into.extend(payload);
        Ok(())
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        let panics = self.panics_when_asked_what_it_adds.load(Ordering::SeqCst);
        assert!(!panics, "as the test wants it");
        1
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, _: &mut Vec<u8>) -> Found {
        let payload_bytes = usize::from(bytes[0]);
        if bytes.len() <= payload_bytes {
            return Found::Incomplete {
                needed_bytes: payload_bytes + 1,
            };
        }
        Found::Frame {
            header_bytes: 1,
            payload_bytes,
            trailer_bytes: 0,
        }
    }
}

fn moody(transport: Transport, framer: &Moody) -> LinkOptions {
    LinkOptions {
        framing: Framing::own(framer.clone()),
        queue_limit_bytes: 10_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..LinkOptions::default()
    }
}

fn a_framing_that_panics_for_one_sender_holds_up_no_other(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let (handler, _inbox) = recorder();
    let framer = Moody::default();
    framer.patience.store(1, Ordering::SeqCst);
    let (link, peer) = client_of_raw(&io, &listener, moody(transport, &framer), handler);
    let sender = link.clone();
    // Full to the last byte.
    inside_callback(&io, move || {
        while sender.send(&[7; 200]).is_ok() {}
        while sender.send(&[]).is_ok() {}
    });
    let waiting = |message: &'static [u8], waits| {
        let sender = link.clone();
        let sending = thread::spawn(move || sender.send(message));
        until("it waits", || link.statistics().sending.waits == waits);
        sending
    };
    // Encoded once to know what it weighs, and again when there is room.
    let panics = waiting(b"!", 1);
    let waits_behind_it = waiting(b"behind it", 2);
    let mut reader = peer.try_clone();
    let reading = thread::spawn(move || reader.read_to_the_end());
    assert!(panics.join().is_err(), "its panic is its sender's");
    assert_eq!(waits_behind_it.join().unwrap(), Ok(()));
    link.send(b"and others").unwrap();
    peer.end();
    link.close(WATCHDOG);
    let all = reading.join().unwrap();
    assert!(all.ends_with(b"\x09behind it\x0aand others"));
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero());
}

fn a_framing_that_panics_for_a_newcomer_harms_no_other_peer(transport: Transport) {
    let io = start();
    let framer = Moody::default();
    let options = ServerOptions {
        link: moody(transport, &framer),
        ..ServerOptions::default()
    };
    let (first, first_inbox) = recorder();
    let (second, second_inbox) = recorder();
    let served = Served::listen(&io, transport, options, vec![first, second]);
    let address = served.server.local_address();
    let mut before = RawStream::connect(&address);
    first_inbox.expect_opened();
    let panics = &framer.panics_when_asked_what_it_adds;
    panics.store(true, Ordering::SeqCst);
    RawStream::connect(&address).expect_cut_off();
    assert_eq!(served.server.statistics().turned_away, 1);
    panics.store(false, Ordering::SeqCst);
    let mut after = RawStream::connect(&address);
    second_inbox.expect_opened();
    for (peer, inbox) in [(&mut before, first_inbox), (&mut after, second_inbox)] {
        peer.write_all(b"\x05hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
    }
}
