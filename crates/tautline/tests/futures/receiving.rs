//! What a task receives: bounded, in order, with the end of each connection in its place.

use futures_util::StreamExt;
use futures_util::stream::FusedStream;
use tautline::{AsyncRecvError, InboxOptions, LinkOptions, Reason};

use crate::executor::{Executor, over};
use crate::rig::{Pair, framed, nobody, numbered, start, until};
use crate::transport::Transport;

over! {
    a_slow_task_stops_its_peer_and_loses_nothing: tcp uds;
    what_a_slow_peer_of_a_datagram_server_has_no_room_for_is_dropped_and_counted: udp;
    the_end_of_the_peers_stream_comes_after_its_messages: tcp uds;
    a_stream_is_over_when_the_peer_has_ended: tcp uds;
    a_link_that_cannot_connect_says_so: tcp uds;
    a_pause_of_the_application_outlasts_that_of_the_inbox: tcp uds;
    without_a_receiver_the_link_lives_on: tcp uds;
    a_task_hears_whoever_answers_and_is_told_who: udp;
}

/// An inbox of ten small messages.
const SMALL: InboxOptions = InboxOptions {
    limit_messages: 10,
    limit_bytes: 100_000,
};

async fn a_slow_task_stops_its_peer_and_loses_nothing(executor: Executor, transport: Transport) {
    let options = LinkOptions {
        queue_limit_bytes: 100_000,
        ..framed(transport)
    };
    let pair = Pair::with(transport, options, SMALL).await;
    let (mut link, peer) = (pair.link, pair.peer);
    // More than all buffers of the kernel hold, and a hundred times what queue and inbox do.
    let (count, length) = (2000, 10_000);
    let sender = peer.sender();
    let sending = executor.spawn(async move {
        for message in numbered(count, length) {
            sender.send(&message).await.unwrap();
        }
        sender.flush().await.unwrap();
    });
    // It waits for room: nothing takes any.
    until(executor, || peer.link().statistics().sending.waits > 0).await;
    assert!(link.link().statistics().receiving.messages <= 10);
    assert!(link.link().is_open());
    for message in numbered(count, length) {
        assert_eq!(&*link.recv().await.unwrap(), message);
        assert!(link.link().is_open());
    }
    sending.join().await;
    assert!(peer.link().statistics().sending.peak.bytes <= 100_000);
    // Counted after each batch of messages.
    let received = || link.link().statistics().receiving.messages;
    until(executor, || received() == u64::from(count)).await;
}

async fn what_a_slow_peer_of_a_datagram_server_has_no_room_for_is_dropped_and_counted(
    executor: Executor,
    transport: Transport,
) {
    let pair = Pair::with(transport, framed(transport), SMALL).await;
    let (link, mut peer, _server) = (pair.link, pair.peer, pair.server);
    for message in numbered(15, 100) {
        link.send(&message).await.unwrap();
    }
    let received = || peer.link().statistics().receiving;
    until(executor, || received().dropped_while_paused == 5).await;
    for message in numbered(10, 100) {
        assert_eq!(&*peer.recv().await.unwrap(), message);
    }
    // It reads again.
    link.send(b"fresh").await.unwrap();
    assert_eq!(&*peer.recv().await.unwrap(), b"fresh");
}

async fn the_end_of_the_peers_stream_comes_after_its_messages(_: Executor, transport: Transport) {
    let Pair {
        mut link,
        peer,
        server: _server,
        ..
    } = Pair::open(transport).await;
    for message in numbered(100, 1000) {
        peer.send(&message).await.unwrap();
    }
    peer.flush().await.unwrap();
    peer.sender().finish();
    for message in numbered(100, 1000) {
        let received = link.recv().await.unwrap();
        assert_eq!(&*received, message);
        assert_eq!(received.generation, 1);
    }
    match link.recv().await {
        Err(AsyncRecvError::Closed(closed)) => {
            assert!(matches!(closed.reason, Reason::PeerEnded), "{closed:?}");
            assert_eq!(closed.generation, 1);
        }
        other => panic!("{other:?}"),
    }
    // Then the end of the link, as often as it is asked for.
    for _ in 0..2 {
        match link.recv().await {
            Err(AsyncRecvError::Ended(ended)) => {
                assert!(matches!(ended.reason, Reason::PeerEnded), "{ended:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(link.ended().await.reason, Reason::PeerEnded));
}

async fn a_stream_is_over_when_the_peer_has_ended(_: Executor, transport: Transport) {
    let Pair {
        mut link,
        peer,
        server: _server,
        ..
    } = Pair::open(transport).await;
    for message in numbered(10, 100) {
        peer.send(&message).await.unwrap();
    }
    peer.sender().finish();
    let mut expected = numbered(10, 100);
    while let Some(message) = link.next().await {
        assert_eq!(&*message.unwrap(), expected.next().unwrap());
    }
    assert_eq!(expected.next(), None);
    assert!(link.is_terminated());
    assert!(link.next().await.is_none());
}

async fn a_link_that_cannot_connect_says_so(_: Executor, transport: Transport) {
    let mut link = start()
        .connect_async(&nobody(transport), framed(transport), SMALL)
        .unwrap();
    let refused = link.opened().await.unwrap_err();
    assert!(
        refused.to_string().contains("connection refused"),
        "{refused}"
    );
    assert!(matches!(link.ended().await.reason, Reason::NotConnected(_)));
    match link.next().await {
        Some(Err(AsyncRecvError::Ended(ended))) => {
            assert_eq!(ended.reason.to_string(), refused.to_string());
        }
        other => panic!("{other:?}"),
    }
    assert!(link.next().await.is_none());
    assert!(link.send(b"nobody hears").await.is_err());
}

async fn a_pause_of_the_application_outlasts_that_of_the_inbox(
    executor: Executor,
    transport: Transport,
) {
    let pair = Pair::with(transport, framed(transport), SMALL).await;
    let (mut link, peer, _server) = (pair.link, pair.peer, pair.server);
    for message in numbered(30, 100) {
        peer.send(&message).await.unwrap();
    }
    let received = || link.link().statistics().receiving.messages;
    until(executor, || received() == 10).await;
    link.link().pause_reading();
    let mut expected = numbered(30, 100);
    for message in expected.by_ref().take(10) {
        assert_eq!(&*link.recv().await.unwrap(), message);
    }
    // The inbox is empty, and the application has the last word.
    assert_eq!(
        executor.before_a_moment(link.recv()).await.map(|_| ()),
        None
    );
    link.link().resume_reading();
    for message in expected {
        assert_eq!(&*link.recv().await.unwrap(), message);
    }
}

async fn without_a_receiver_the_link_lives_on(executor: Executor, transport: Transport) {
    let pair = Pair::with(transport, framed(transport), SMALL).await;
    let (sender, receiver) = pair.link.split();
    let (mut peer, _server) = (pair.peer, pair.server);
    for message in numbered(20, 100) {
        peer.send(&message).await.unwrap();
    }
    let received = || sender.link().statistics().receiving.messages;
    until(executor, || received() == 10).await;
    drop(receiver);
    until(executor, || received() == 20).await;
    sender.send(b"still here").await.unwrap();
    assert_eq!(&*peer.recv().await.unwrap(), b"still here");
    drop(sender);
    assert!(peer.recv().await.is_err());
}

async fn a_task_hears_whoever_answers_and_is_told_who(executor: Executor, _: Transport) {
    let io = start();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = LinkOptions {
        unconnected: true,
        ..LinkOptions::default()
    };
    let to = tautline::Address::udp(peer.local_addr().unwrap());
    let mut link = io.connect_async(&to, options, SMALL).unwrap();
    link.opened().await.unwrap();
    link.send(b"who answers?").await.unwrap();
    peer.set_nonblocking(true).unwrap();
    let mut asked = None;
    until(executor, || {
        asked = peer.recv_from(&mut [0; 16]).ok();
        asked.is_some()
    })
    .await;
    let (_, from) = asked.unwrap();
    for socket in [&stranger, &peer] {
        socket.send_to(b"I", from).unwrap();
        let message = link.recv().await.unwrap();
        assert_eq!(&*message.bytes, b"I");
        assert_eq!(message.received.from, socket.local_addr().ok());
    }
}
