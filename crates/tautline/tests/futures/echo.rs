//! Messages there and back, and what a task that gives up in between leaves behind.

use crate::executor::{Executor, over};
use crate::rig::{Pair, numbered};
use crate::transport::Transport;

over! {
    messages_go_there_and_back: tcp tls uds udp;
    a_receive_given_up_a_thousand_times_loses_and_repeats_nothing: tcp uds udp;
}

async fn messages_go_there_and_back(executor: Executor, transport: Transport) {
    let Pair {
        mut link,
        mut peer,
        server,
        ..
    } = Pair::open(transport).await;
    let echo = executor.spawn(async move {
        while let Ok(message) = peer.recv().await {
            peer.send(&message).await.unwrap();
        }
    });
    for message in numbered(500, 100) {
        link.send(&message).await.unwrap();
        assert_eq!(&*link.recv().await.unwrap(), message);
    }
    drop((link, server));
    echo.join().await;
}

async fn a_receive_given_up_a_thousand_times_loses_and_repeats_nothing(
    executor: Executor,
    transport: Transport,
) {
    let Pair {
        mut link,
        mut peer,
        server,
        ..
    } = Pair::open(transport).await;
    let echo = executor.spawn(async move {
        while let Ok(message) = peer.recv().await {
            // Later than whoever waits for it is ready to wait.
            executor.moment().await;
            peer.send(&message).await.unwrap();
        }
    });
    let (mut number, mut given_up) = (0_u32, 0);
    while given_up < 1000 {
        link.send(&number.to_be_bytes()).await.unwrap();
        let reply = loop {
            match executor.before_a_moment(link.recv()).await {
                Some(message) => break message.unwrap(),
                None => given_up += 1,
            }
        };
        assert_eq!(*reply, number.to_be_bytes());
        number += 1;
    }
    drop((link, server));
    echo.join().await;
}
