//! Messages that their sender owns: large ones are queued without a copy, and keep every promise.

use std::time::Duration;

use bytes::Bytes;
use tautline::{LinkOptions, SendError, Strategy, Tally};

use crate::common::*;

over! {
    a_large_owned_message_is_shared_until_it_is_written: tcp tls uds udp serial;
    owned_and_copied_messages_leave_in_the_order_of_their_sends: tcp tls uds udp serial;
    the_limit_counts_owned_messages_to_the_byte: tcp tls uds udp serial;
    keeplatest_gives_the_buffer_of_an_evicted_message_back: tcp tls uds udp serial;
    an_abort_gives_the_buffers_back: tcp tls uds udp serial;
    large_frames_come_out_whole_whatever_came_before: tcp tls uds serial;
}

fn a_large_owned_message_is_shared_until_it_is_written(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    let messages = [owned(1, 16_384), owned(2, 16_383)];
    let (sender, queued) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        queued
            .into_iter()
            .try_for_each(|message| sender.try_send_bytes(message))
    });
    assert_eq!(sent, Ok(()));
    assert!(!messages[0].is_unique(), "the queue shares it");
    assert!(messages[1].is_unique(), "the queue has a copy");
    drop(gate);
    for message in &messages {
        assert!(*message == peer.read_message());
    }
    until("the buffer is given back", || messages[0].is_unique());
}

fn owned_and_copied_messages_leave_in_the_order_of_their_sends(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    let lengths = [20_000, 10, 16_384, 0, 30_000, 100, 17_000];
    let messages: Vec<Bytes> = (0..7).map(|at| owned(at as u8, lengths[at])).collect();
    let (sender, queued) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        queued
            .into_iter()
            .enumerate()
            .try_for_each(|(at, message)| match at % 3 {
                0 => sender.send_bytes(message),
                1 => sender.send(&message),
                _ => sender.send_bytes_timeout(message, Duration::ZERO),
            })
    });
    assert_eq!(sent, Ok(()));
    drop(gate);
    for message in &messages {
        assert!(*message == peer.read_message());
    }
    let all = |statistics: tautline::SendStatistics| {
        let bytes = lengths
            .iter()
            .map(|&length| transport.encoded(length) as u64);
        let whole = Tally {
            messages: 7,
            bytes: bytes.sum(),
        };
        statistics.accepted == whole && statistics.written == whole
    };
    until("all is counted as written", || {
        all(link.statistics().sending)
    });
}

fn the_limit_counts_owned_messages_to_the_byte(transport: Transport) {
    let io = start();
    let options = LinkOptions {
        queue_limit_bytes: 3 * transport.encoded(20_000),
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, recorder().0);
    let messages: Vec<Bytes> = (0..3).map(|at| owned(at, 20_000)).collect();
    let (sender, queued) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        queued
            .into_iter()
            .try_for_each(|message| sender.try_send_bytes(message))
    });
    assert_eq!(sent, Ok(()));
    assert_eq!(link.try_send_bytes(owned(9, 1)), Err(SendError::Full));
    let sending = link.statistics().sending;
    assert_eq!(sending.waiting.bytes, 3 * transport.encoded(20_000) as u64);
    let too_large = link.send_bytes(owned(9, 70_000));
    assert!(matches!(too_large, Err(SendError::TooLarge { .. })));
    drop(gate);
    for message in &messages {
        assert!(*message == peer.read_message());
    }
}

fn keeplatest_gives_the_buffer_of_an_evicted_message_back(transport: Transport) {
    let io = start();
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_bytes: 2 * transport.encoded(20_000),
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, recorder().0);
    let messages: Vec<Bytes> = (0..3).map(|at| owned(at, 20_000)).collect();
    let (sender, queued) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        queued
            .into_iter()
            .try_for_each(|message| sender.send_bytes(message))
    });
    assert_eq!(sent, Ok(()));
    let evicted = link.statistics().sending.discarded.evicted;
    let bytes = transport.encoded(20_000) as u64;
    assert_eq!(evicted, Tally { messages: 1, bytes });
    drop(gate);
    for message in &messages[1..] {
        assert!(*message == peer.read_message());
    }
    until("all buffers are given back", || {
        messages.iter().all(Bytes::is_unique)
    });
}

fn an_abort_gives_the_buffers_back(transport: Transport) {
    let io = start();
    let (link, _peer) = reach(&io, transport, framed(transport), recorder().0);
    let messages: Vec<Bytes> = (0..3).map(|at| owned(at, 20_000)).collect();
    let (sender, queued) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        let sent = queued
            .into_iter()
            .try_for_each(|message| sender.try_send_bytes(message));
        sender.abort();
        sent
    });
    assert_eq!(sent, Ok(()));
    drop(gate);
    link.abort();
    until("all buffers are given back", || {
        messages.iter().all(Bytes::is_unique)
    });
    assert!(link.statistics().sending.closes());
}

fn large_frames_come_out_whole_whatever_came_before(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let lengths = [
        70_000, 3, 65_536, 200_000, 0, 65_536, 5_000, 140_000, 65_536,
    ];
    let messages: Vec<Bytes> = (0..lengths.len())
        .map(|at| owned(at as u8, lengths[at]))
        .collect();
    for message in &messages {
        pair.client.send_bytes(message.clone()).unwrap();
    }
    for message in &messages {
        assert!(*message == pair.peer_inbox.expect_message());
    }
}

/// A message unlike those with other numbers.
fn owned(number: u8, length: usize) -> Bytes {
    (0..length)
        .map(|at| (at / 5) as u8 ^ number)
        .collect::<Vec<u8>>()
        .into()
}
