//! What a task sends: it waits in the same line as threads do, and gives its place up when it is dropped.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use tautline::{
    AcceptOptions, AsyncSender, InboxOptions, Link, LinkOptions, SendError, ServerOptions, Strategy,
};

use crate::executor::{Executor, over};
use crate::rig::{Pair, framed, numbered, start, until};
use crate::transport::{Transport, fresh};

over! {
    a_send_that_waits_is_woken_when_there_is_room: tcp uds;
    a_send_given_up_sends_nothing_and_lets_the_next_one_in: tcp uds;
    a_send_given_up_a_thousand_times_loses_and_repeats_nothing: tcp uds;
    a_send_that_waits_is_told_the_end: tcp uds;
    tasks_and_threads_are_served_in_one_line: tcp uds;
    besteffort_and_keeplatest_never_wait: tcp uds;
    a_sink_sends_all_and_ends_our_side: tcp uds;
    a_flush_waits_until_the_queue_is_empty: tcp uds;
    a_waker_must_not_wait: tcp uds;
    a_task_that_waits_for_the_servers_total_is_woken_when_another_peer_gives_it_back: tcp uds;
}

/// A pair whose link has a full queue: its peer does not receive.
async fn stalled(executor: Executor, transport: Transport) -> Pair {
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: Some(16 * 1024),
        receive_buffer_bytes: Some(16 * 1024),
        ..framed(transport)
    };
    let inbox = InboxOptions {
        limit_messages: 1,
        ..InboxOptions::default()
    };
    let pair = Pair::with(transport, options, inbox).await;
    let sender = pair.link.link();
    // The peer pauses after its first message.
    until(executor, || {
        while sender.try_send(&[7; 996]).is_ok() {}
        pair.peer.link().statistics().receiving.messages > 0
    })
    .await;
    fill(executor, sender).await;
    pair
}

/// Fills the queue of a link whose peer reads nothing, until it stays full: for a while the kernel moves
/// bytes from one buffer to the other, and there is room again and again.
async fn fill(executor: Executor, link: &Link) {
    let mut full_in_a_row = 0;
    until(executor, || {
        let is_full = link.try_send(&[7; 996]) == Err(SendError::Full);
        full_in_a_row = if is_full { full_in_a_row + 1 } else { 0 };
        full_in_a_row == 50
    })
    .await;
}

/// Receives up to this message; returns how many came before it.
async fn skip_to(pair: &mut Pair, wanted: &[u8]) -> usize {
    let mut before = 0;
    loop {
        let message = pair.peer.recv().await.unwrap();
        if *message == *wanted {
            return before;
        }
        assert_eq!(*message, [7; 996]);
        before += 1;
    }
}

async fn a_send_that_waits_is_woken_when_there_is_room(executor: Executor, transport: Transport) {
    let mut pair = stalled(executor, transport).await;
    let sender = pair.link.sender();
    let sending = executor.spawn(async move { sender.send(&[8; 996]).await });
    skip_to(&mut pair, &[8; 996]).await;
    assert_eq!(sending.join().await, Ok(()));
    assert!(pair.link.link().statistics().sending.peak.bytes <= 10_000);
}

async fn a_send_given_up_sends_nothing_and_lets_the_next_one_in(
    executor: Executor,
    transport: Transport,
) {
    let mut pair = stalled(executor, transport).await;
    let accepted = |pair: &Pair| pair.link.link().statistics().sending.accepted;
    let before = accepted(&pair);
    // Too large for what is left and first in line; a small one waits behind it.
    let mut given_up = Box::pin({
        let sender = pair.link.sender();
        async move { sender.send(&[1; 9_000]).await }
    });
    assert!(
        given_up
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    let sender = pair.link.sender();
    let mut small = Box::pin(async move { sender.send(b"small").await });
    let is_pending = small
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending();
    let sending = executor.spawn(small);
    drop(given_up);
    assert!(is_pending);
    skip_to(&mut pair, b"small").await;
    assert_eq!(sending.join().await, Ok(()));
    assert_eq!(accepted(&pair).messages, before.messages + 1);
}

async fn a_send_given_up_a_thousand_times_loses_and_repeats_nothing(
    executor: Executor,
    transport: Transport,
) {
    let options = LinkOptions {
        queue_limit_messages: 2,
        ..framed(transport)
    };
    let small = InboxOptions {
        limit_messages: 2,
        ..InboxOptions::default()
    };
    let pair = Pair::with(transport, options, small).await;
    let (link, mut peer, _server) = (pair.link, pair.peer, pair.server);
    let receiving = executor.spawn(async move {
        let mut received = Vec::new();
        while let Ok(message) = peer.recv().await {
            received.push(u32::from_be_bytes(message[..4].try_into().unwrap()));
            // Slower than the sender, so that it waits.
            executor.moment().await;
        }
        received
    });
    let (mut number, mut given_up, mut sent) = (0_u32, 0, Vec::new());
    while given_up < 1000 {
        let mut message = vec![0; 20_000];
        message[..4].copy_from_slice(&number.to_be_bytes());
        // Each is tried once: accepted whole, or nothing of it.
        match executor.before_a_moment(link.send(&message)).await {
            Some(accepted) => {
                accepted.unwrap();
                sent.push(number);
            }
            None => given_up += 1,
        }
        number += 1;
    }
    link.close(crate::executor::WATCHDOG).await;
    assert_eq!(receiving.join().await, sent);
}

async fn a_send_that_waits_is_told_the_end(executor: Executor, transport: Transport) {
    let pair = stalled(executor, transport).await;
    let sender = pair.link.sender();
    let waits = pair.link.link().statistics().sending.waits;
    let sending = executor.spawn(async move { sender.send(&[8; 996]).await });
    until(executor, || {
        pair.link.link().statistics().sending.waits > waits
    })
    .await;
    pair.link.sender().abort().await;
    assert_eq!(sending.join().await, Err(SendError::Closed));
}

async fn tasks_and_threads_are_served_in_one_line(executor: Executor, transport: Transport) {
    let mut pair = stalled(executor, transport).await;
    let mut sending = Vec::new();
    let mut threads = Vec::new();
    let waits = |pair: &Pair| pair.link.link().statistics().sending.waits;
    for number in 0..6_u8 {
        let before = waits(&pair);
        if number % 2 == 0 {
            let sender = pair.link.sender();
            let send = async move { sender.send(&[number; 4000]).await };
            sending.push(executor.spawn(send));
        } else {
            let link = pair.link.link().clone();
            threads.push(std::thread::spawn(move || link.send(&[number; 4000])));
        }
        until(executor, || waits(&pair) > before).await;
    }
    for number in 0..6 {
        skip_to(&mut pair, &[number; 4000]).await;
    }
    for send in sending {
        send.join().await.unwrap();
    }
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

async fn besteffort_and_keeplatest_never_wait(executor: Executor, transport: Transport) {
    for strategy in [Strategy::BestEffort, Strategy::KeepLatest] {
        let options = LinkOptions {
            strategy,
            queue_limit_messages: 4,
            ..framed(transport)
        };
        let pair = Pair::with(transport, options, InboxOptions::default()).await;
        pair.peer.link().pause_reading();
        // Woken right there, this runs inside `opened`, whose own words are not evicted. They are written
        // when it has returned.
        pair.link.send(b"first words").await.unwrap();
        pair.link.flush().await.unwrap();
        let sending = || pair.link.link().statistics().sending;
        loop {
            let sent = executor.before_a_moment(pair.link.send(&[1; 60_000])).await;
            let refused = sending().refused.messages > 0;
            match sent.expect("it does not wait") {
                Ok(()) if strategy == Strategy::BestEffort => assert!(!refused),
                Ok(()) if sending().discarded.evicted.messages > 0 => break,
                Ok(()) => {}
                Err(error) => {
                    assert_eq!((error, strategy), (SendError::Full, Strategy::BestEffort));
                    break;
                }
            }
        }
    }
}

async fn a_sink_sends_all_and_ends_our_side(executor: Executor, transport: Transport) {
    let options = LinkOptions {
        queue_limit_bytes: 100_000,
        ..framed(transport)
    };
    let pair = Pair::with(transport, options, InboxOptions::default()).await;
    let (mut link, peer, _server) = (pair.link, pair.peer, pair.server);
    let receiving = executor.spawn(peer.map(Result::unwrap).collect::<Vec<_>>());
    let messages = stream::iter(numbered(1000, 5000)).map(|message| Ok(Bytes::from(message)));
    messages.forward(&mut link).await.unwrap();
    let received = receiving.join().await;
    assert_eq!(received.len(), 1000);
    for (received, sent) in received.iter().zip(numbered(1000, 5000)) {
        assert_eq!(**received, sent);
    }
    let late = SinkExt::send(&mut link, Bytes::from_static(b"too late")).await;
    assert_eq!(late, Err(SendError::Closed));
}

async fn a_flush_waits_until_the_queue_is_empty(executor: Executor, transport: Transport) {
    let mut pair = stalled(executor, transport).await;
    let sender = pair.link.sender();
    let flushing = executor.spawn(async move { sender.flush().await });
    assert_eq!(executor.before_a_moment(pair.link.flush()).await, None);
    let waiting = |pair: &Pair| pair.link.link().statistics().sending.waiting;
    while !waiting(&pair).is_zero() {
        // The last one may be here before its writer is back to count it.
        if let Some(message) = executor.before_a_moment(pair.peer.recv()).await {
            message.unwrap();
        }
    }
    assert_eq!(flushing.join().await, Ok(()));
    assert_eq!(pair.link.flush().await, Ok(()));
    drop(pair.peer);
    pair.link.ended().await;
    assert!(pair.link.flush().await.is_err());
}

/// Calls its link as an executor may that runs tasks inside `wake`.
struct Caller {
    sender: AsyncSender,
    answers: Mutex<Vec<Result<(), SendError>>>,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        let link = self.sender.link();
        let mut answers = self.answers.lock().unwrap();
        while answers.last().is_none_or(Result::is_ok) {
            answers.push(link.send(&[7; 996]));
        }
    }
}

/// A wait in there would be for a thread that is inside this very call.
async fn a_waker_must_not_wait(executor: Executor, transport: Transport) {
    let mut pair = stalled(executor, transport).await;
    let sender = pair.link.sender();
    let caller = Arc::new(Caller {
        sender: sender.clone(),
        answers: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&caller));
    {
        let mut waiting = pin!(sender.send(&[7; 996]));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
        // Dropping the peer's pause makes room; the waker is called by whoever finds it.
        until(executor, || pair.link.link().statistics().sending.waits > 0).await;
        while caller.answers.lock().unwrap().is_empty() {
            pair.peer.recv().await.unwrap();
        }
    }
    let answers = caller.answers.lock().unwrap().clone();
    assert_eq!(answers.last(), Some(&Err(SendError::WouldDeadlock)));
}

async fn a_task_that_waits_for_the_servers_total_is_woken_when_another_peer_gives_it_back(
    executor: Executor,
    transport: Transport,
) {
    let place = fresh(transport);
    let options = ServerOptions {
        link: LinkOptions {
            send_buffer_bytes: Some(16 * 1024),
            ..framed(transport)
        },
        total_queue_limit_bytes: 100_000,
        ..ServerOptions::default()
    };
    let server = start().listen_async(&place.address, options, AcceptOptions::default());
    let mut server = server.unwrap();
    let address = server.local_address();
    let connect = || {
        let link = framed(transport);
        start()
            .connect_async(&address, link, InboxOptions::default())
            .unwrap()
    };
    let slow = connect();
    slow.link().pause_reading();
    let holds = server.accept().await.unwrap();
    let mut link = connect();
    let peer = server.accept().await.unwrap();
    // It holds nearly half, and more than half is never free to one that holds nothing.
    fill(executor, holds.link()).await;
    let sender = peer.sender();
    let sending = executor.spawn(async move { sender.send(&[8; 60_000]).await });
    until(executor, || peer.link().statistics().sending.waits == 1).await;
    drop(holds);
    assert_eq!(sending.join().await, Ok(()));
    assert_eq!(*link.recv().await.unwrap(), [8; 60_000]);
}
