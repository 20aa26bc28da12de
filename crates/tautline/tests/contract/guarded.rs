//! Promises 3, 7 and 8: inside a callback nothing waits, whichever callback it is; and who blocks there all
//! the same holds up nobody but its own thread.

use std::sync::mpsc;

use tautline::{FlushError, Link, Received, SendError, ServerOptions, Unsent};

use crate::common::*;

over! {
    in_every_callback_what_would_wait_says_so: tcp uds;
    in_the_accept_callback_what_would_wait_says_so: tcp tls uds udp;
    who_blocks_in_a_callback_holds_up_its_own_thread_alone: tcp tls uds udp serial;
}

/// All that waits elsewhere, on a link whose queue is full.
fn expect_no_wait(full: &Link) {
    assert_eq!(full.send(&[0; 996]), Err(SendError::WouldDeadlock));
    let timed = full.send_timeout(&[0; 996], WATCHDOG);
    assert_eq!(timed, Err(SendError::WouldDeadlock));
    assert_eq!(full.try_send(&[0; 996]), Err(SendError::Full));
    assert_eq!(full.flush(WATCHDOG), Err(FlushError::WouldDeadlock));
}

fn in_every_callback_what_would_wait_says_so(transport: Transport) {
    for wanted in CALLBACKS {
        let (io, elsewhere) = (start(), start());
        let own_thread = stalled(&io, transport, recorder().0);
        let other_thread = stalled(&elsewhere, transport, recorder().0);
        let links = [own_thread.0.clone(), other_thread.0.clone()];
        let told = live_through_all(&io, transport, move |_, told| {
            if told.kind() == wanted {
                links.iter().for_each(expect_no_wait);
            }
        });
        // Had it panicked, it would have ended early.
        expect_order(&told, wanted);
        let panicked = |told: &Told| matches!(told, Told::Closed(closed) if matches!(closed.reason, tautline::Reason::Panicked));
        assert!(!told.iter().any(panicked), "{wanted}: {told:?}");
        drop((own_thread, other_thread));
    }
}

fn in_the_accept_callback_what_would_wait_says_so(transport: Transport) {
    let io = start();
    let (full, _peer) = stalled(&io, Transport::Tcp, recorder().0);
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let (tell, told) = mpsc::channel();
    let accept = move |_: &Link| {
        expect_no_wait(&full);
        // It only starts.
        assert_eq!(full.close(WATCHDOG), Unsent::default());
        tell.send(()).unwrap();
        Ok(|_: &Link, _: &[u8], _: Received| {})
    };
    let server = io.listen(&place.address, options, accept).unwrap();
    let link = io
        .connect(&server.local_address(), framed(transport), recorder().0)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    // It may be refused where the server has failed already.
    let _ = link.send(b"hello");
    told.recv_timeout(WATCHDOG).unwrap();
    assert_eq!(server.statistics().turned_away, 0);
}

fn who_blocks_in_a_callback_holds_up_its_own_thread_alone(transport: Transport) {
    let blocked = start();
    let pair = Pair::open(transport, &framed(transport));
    let _gate = hold(&blocked);
    for message in numbered(100, 100) {
        pair.client.send(&message).unwrap();
        assert_eq!(pair.peer_inbox.expect_message(), message);
    }
}
