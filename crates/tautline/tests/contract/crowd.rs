//! Promises 3, 4 and 6 under load: many threads on one link, and a peer that pauses at random.

use std::io::{BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tautline::{Link, LinkOptions};

use crate::common::*;

over! {
    eight_threads_and_a_peer_that_pauses_lose_nothing_and_repeat_nothing: tcp tls uds;
}

const THREADS: usize = 8;
const MESSAGES: u32 = 100_000;
/// Small messages reach the limit of messages first, large ones that of bytes.
const QUEUE_BYTES: u64 = 20_000;
const QUEUE_MESSAGES: u64 = 1000;
/// Several segments of loopback: below that the kernel's own avoidance of small windows decides how fast
/// it goes, a segment for each of its timers.
const RECEIVE_BYTES: usize = 128 * 1024;
/// Thread, number, a check on both, and then some.
const LENGTHS: std::ops::Range<usize> = 12..41;

fn eight_threads_and_a_peer_that_pauses_lose_nothing_and_repeat_nothing(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(RECEIVE_BYTES);
    let options = LinkOptions {
        queue_limit_bytes: QUEUE_BYTES as usize,
        queue_limit_messages: QUEUE_MESSAGES as usize,
        send_buffer_bytes: Some(32 * 1024),
        ..framed(transport)
    };
    let (link, peer) = client_of_raw(&io, &listener, options, recorder().0);
    let finished = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (link, finished) = (&link, &finished);
            scope.spawn(move || {
                send_all(link, thread as u32);
                finished.fetch_add(1, Ordering::SeqCst);
            });
        }
        let reading = scope.spawn(|| read_all(&peer, &link, &finished));
        reading.join().unwrap();
    });
    // All was read; the last writes may still be on their way back.
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    let total = THREADS as u64 * u64::from(MESSAGES);
    assert_eq!(sending.written.messages, total);
    assert_eq!(sending.accepted, sending.written);
    assert!(sending.waits > 0, "the limits were reached");
    assert!(sending.peak.bytes <= QUEUE_BYTES, "{sending:?}");
    assert!(sending.peak.messages <= QUEUE_MESSAGES, "{sending:?}");
    link.abort();
    assert!(link.statistics().sending.closes());
}

fn send_all(link: &Link, thread: u32) {
    for number in 0..MESSAGES {
        let mut message = [thread as u8; LENGTHS.end];
        message[..4].copy_from_slice(&thread.to_be_bytes());
        message[4..8].copy_from_slice(&number.to_be_bytes());
        message[8..12].copy_from_slice(&(!thread ^ number).to_be_bytes());
        link.send(&message[..length(thread, number)]).unwrap();
    }
}

/// Long stretches of small messages, and of large ones.
const fn length(thread: u32, number: u32) -> usize {
    if (number / 5000 + thread).is_multiple_of(2) {
        LENGTHS.start
    } else {
        LENGTHS.start + (number as usize % (LENGTHS.end - LENGTHS.start))
    }
}

/// Reads every frame; now and then it reads no more until everybody has to wait for it.
fn read_all(peer: &RawStream, link: &Link, finished: &AtomicUsize) {
    let mut next = [0; THREADS];
    let mut random = Random::new(0x7a57);
    let mut until_pause = 0;
    let mut buffered = BufReader::with_capacity(16 * 1024, peer.try_clone());
    for _ in 0..THREADS as u64 * u64::from(MESSAGES) {
        if until_pause == 0 {
            until_pause = 1 + random.below(40_000);
            until("the queue is full, or all is sent", || {
                let waiting = link.statistics().sending.waiting;
                let full = waiting.bytes + 4 + LENGTHS.end as u64 > QUEUE_BYTES
                    || waiting.messages == QUEUE_MESSAGES;
                full || finished.load(Ordering::SeqCst) == THREADS
            });
        }
        until_pause -= 1;
        let mut prefix = [0; 4];
        buffered.read_exact(&mut prefix).unwrap();
        let mut message = [0; LENGTHS.end];
        let message = &mut message[..u32::from_be_bytes(prefix) as usize];
        buffered.read_exact(message).unwrap();
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        let (thread, number) = (word(0), word(4));
        assert_eq!(word(8), !thread ^ number);
        assert_eq!(message.len(), length(thread, number));
        assert!(message[12..].iter().all(|byte| *byte == thread as u8));
        // Nothing is lost, nothing comes twice, and each thread's own order is kept.
        let expected = &mut next[thread as usize];
        assert_eq!(number, *expected, "of thread {thread}");
        *expected += 1;
    }
}
