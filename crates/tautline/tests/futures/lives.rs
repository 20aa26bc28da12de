//! How links and servers begin and end in the hands of tasks: nothing blocks, nothing is left behind.

use std::time::Duration;

use futures_util::StreamExt;
use tautline::{AcceptOptions, AsyncRecvError, ErrorKind, InboxOptions, Reason, ServerOptions};

use crate::executor::{Executor, WATCHDOG, over};
use crate::rig::{Pair, framed, listen, numbered, start, until};
use crate::transport::{Transport, fresh};

over! {
    a_link_dropped_in_a_task_ends: tcp uds udp;
    an_accepted_peer_ends_when_it_is_dropped: tcp uds udp;
    a_server_dropped_in_a_task_ends_its_peers: tcp uds udp;
    a_close_writes_what_waits: tcp uds;
    everybody_who_waits_for_the_end_is_told: tcp uds udp;
    a_closed_server_has_no_more_peers: tcp uds udp;
    one_more_than_the_backlog_holds_is_turned_away: tcp uds udp;
    a_thousand_links_at_once: tcp uds;
    limits_of_nothing_are_refused_by_name: tcp;
}

/// The reason why the connection ended, told by the next thing received.
async fn closed(link: &mut tautline::AsyncLink) -> Reason {
    match link.recv().await {
        Err(AsyncRecvError::Closed(closed)) => closed.reason,
        other => panic!("{other:?}"),
    }
}

async fn a_link_dropped_in_a_task_ends(executor: Executor, transport: Transport) {
    let Pair {
        link,
        mut peer,
        server,
        ..
    } = Pair::open(transport).await;
    let dropped = link.link().clone();
    link.send(b"last words").await.unwrap();
    assert_eq!(&*peer.recv().await.unwrap(), b"last words");
    // Not the last handle: a clone outlives it, for as long as the test looks.
    executor.spawn(async move { drop(link) }).join().await;
    assert!(!dropped.is_ended());
    let watched = (transport.is_stream(), dropped.statistics());
    drop(dropped);
    if watched.0 {
        let reason = closed(&mut peer).await;
        assert!(
            matches!(reason, Reason::PeerEnded | Reason::Lost(_)),
            "{reason:?}"
        );
    }
    drop(server);
}

async fn an_accepted_peer_ends_when_it_is_dropped(executor: Executor, transport: Transport) {
    let Pair {
        mut link,
        peer,
        server,
        ..
    } = Pair::open(transport).await;
    peer.send(b"last words").await.unwrap();
    executor.spawn(async move { drop(peer) }).join().await;
    assert_eq!(&*link.recv().await.unwrap(), b"last words");
    until(executor, || server.server().statistics().connected == 0).await;
    if transport.is_stream() {
        assert!(matches!(closed(&mut link).await, Reason::PeerEnded));
    }
}

async fn a_server_dropped_in_a_task_ends_its_peers(executor: Executor, transport: Transport) {
    let Pair {
        link,
        mut peer,
        server,
        ..
    } = Pair::open(transport).await;
    executor.spawn(async move { drop(server) }).join().await;
    assert!(matches!(closed(&mut peer).await, Reason::Aborted));
    assert!(matches!(peer.ended().await.reason, Reason::Aborted));
    drop(link);
}

async fn a_close_writes_what_waits(executor: Executor, transport: Transport) {
    let Pair {
        link,
        mut peer,
        server: _server,
        ..
    } = Pair::open(transport).await;
    let receiving = executor.spawn(async move {
        for message in numbered(500, 1000) {
            assert_eq!(&*peer.recv().await.unwrap(), message);
        }
        closed(&mut peer).await
    });
    for message in numbered(500, 1000) {
        link.send(&message).await.unwrap();
    }
    assert!(link.close(WATCHDOG).await.queued.is_zero());
    assert!(matches!(receiving.join().await, Reason::PeerEnded));
}

async fn everybody_who_waits_for_the_end_is_told(executor: Executor, transport: Transport) {
    let pair = Pair::open(transport).await;
    let link = &pair.link;
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let sender = link.sender();
            executor.spawn(async move { sender.ended().await.reason })
        })
        .collect();
    // One that gave up is not missed.
    assert!(executor.before_a_moment(link.ended()).await.is_none());
    link.sender().abort().await;
    for task in waiting {
        assert!(matches!(task.join().await, Reason::Aborted));
    }
    assert!(link.link().is_ended());
}

async fn a_closed_server_has_no_more_peers(executor: Executor, transport: Transport) {
    let Pair {
        link,
        mut peer,
        mut server,
        place: _place,
    } = Pair::open(transport).await;
    let ended = executor.spawn(async move { closed(&mut peer).await });
    // Over streams it waits for the peer to end its own side.
    let unsent = server.close(Duration::from_millis(100)).await;
    assert!(unsent.queued.is_zero());
    assert!(matches!(
        ended.join().await,
        Reason::Closed | Reason::PeerEnded
    ));
    assert!(server.accept().await.is_none());
    assert!(server.next().await.is_none());
    // Its address is free.
    let again = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let address = server.local_address();
    start()
        .listen_async(&address, again, AcceptOptions::default())
        .unwrap();
    drop(link);
}

async fn one_more_than_the_backlog_holds_is_turned_away(executor: Executor, transport: Transport) {
    let accept = AcceptOptions {
        backlog_limit: 2,
        ..AcceptOptions::default()
    };
    let (mut server, _place) = listen(transport, framed(transport), accept);
    let io = start();
    let mut links = Vec::new();
    for number in 0..3_u8 {
        let address = server.local_address();
        let link = io
            .connect_async(&address, framed(transport), InboxOptions::default())
            .unwrap();
        // One that is turned away may have ended again before it is looked at.
        let opened = link.opened().await;
        let sent = link.send(&[number]).await;
        assert!(number == 2 || (opened.is_ok() && sent.is_ok()));
        links.push(link);
        let seen = || {
            let statistics = server.server().statistics();
            statistics.accepted + statistics.turned_away
        };
        until(executor, || seen() > u64::from(number)).await;
    }
    let statistics = server.server().statistics();
    assert_eq!((statistics.accepted, statistics.turned_away), (2, 1));
    for number in 0..2 {
        let mut peer = server.accept().await.unwrap();
        assert_eq!(*peer.recv().await.unwrap(), [number]);
    }
    assert!(executor.before_a_moment(server.accept()).await.is_none());
}

async fn a_thousand_links_at_once(executor: Executor, transport: Transport) {
    let (mut server, _place) = listen(transport, framed(transport), AcceptOptions::default());
    let address = server.local_address();
    let serving = executor.spawn(async move {
        let mut echoes = Vec::new();
        while echoes.len() < 1000 {
            let mut peer = server.accept().await.unwrap();
            echoes.push(executor.spawn(async move {
                while let Ok(message) = peer.recv().await {
                    peer.send(&message).await.unwrap();
                }
            }));
        }
        for echo in echoes {
            echo.join().await;
        }
    });
    let io = start();
    let asking: Vec<_> = (0..1000_u32)
        .map(|number| {
            let options = framed(transport);
            let mut link = io
                .connect_async(&address, options, InboxOptions::default())
                .unwrap();
            executor.spawn(async move {
                link.opened().await.unwrap();
                for round in 0..3_u32 {
                    let question = [number.to_be_bytes(), round.to_be_bytes()].concat();
                    link.send(&question).await.unwrap();
                    assert_eq!(&*link.recv().await.unwrap(), question);
                }
            })
        })
        .collect();
    for task in asking {
        task.join().await;
    }
    serving.join().await;
}

async fn limits_of_nothing_are_refused_by_name(_: Executor, transport: Transport) {
    let place = fresh(transport);
    let default = InboxOptions::default();
    let messages = InboxOptions {
        limit_messages: 0,
        ..default
    };
    let bytes = InboxOptions {
        limit_bytes: 0,
        ..default
    };
    let io = start();
    let expected = [
        (messages, "limit_messages: 0 would never take a message"),
        (bytes, "limit_bytes: 0 would never take a message"),
    ];
    for (inbox, why) in expected {
        let refused = io
            .connect_async(&place.address, framed(transport), inbox)
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidOption);
        assert_eq!(refused.to_string(), why);
        let accept = AcceptOptions {
            inbox,
            ..AcceptOptions::default()
        };
        let refused = io.listen_async(&place.address, ServerOptions::default(), accept);
        assert_eq!(refused.unwrap_err().to_string(), why);
    }
    let accept = AcceptOptions {
        backlog_limit: 0,
        ..AcceptOptions::default()
    };
    let refused = io.listen_async(&place.address, ServerOptions::default(), accept);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "backlog_limit: 0 would turn every peer away"
    );
}
