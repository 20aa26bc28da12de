//! Promise 10: who is at the other end of a Unix socket, and to whom its file belongs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::parent_id;
use std::process;
use std::sync::{Arc, Mutex};

use tautline::{
    Address, Credentials, DirectLink, DirectListener, ErrorKind, Link, LinkOptions, Server,
    ServerOptions,
};

use crate::common::*;

over! {
    both_ends_are_told_who_the_other_is: uds;
    direct_links_know_it_too: uds;
    where_the_kernel_does_not_vouch_nobody_is_named: tcp udp;
    a_server_refuses_by_user: uds;
    the_file_belongs_to_whom_it_was_given: uds;
    a_file_that_may_not_be_given_away_fails_the_start_and_is_gone: uds;
    what_the_kernel_granted_can_be_read: tcp uds udp;
}

/// Whoever runs this test.
fn expect_us(credentials: Option<Credentials>) {
    let us = credentials.expect("the kernel vouches");
    let folder = tempfile::tempdir().unwrap();
    let ours = fs::metadata(folder.path()).unwrap();
    assert_eq!(us.pid, Some(process::id()));
    assert_eq!((us.uid, us.gid), (ours.uid(), ours.gid()));
}

fn both_ends_are_told_who_the_other_is(transport: Transport) {
    let (client, client_inbox) = recorder();
    let (peer, peer_inbox) = recorder();
    let options = framed(transport);
    let pair = Pair::connect(
        transport,
        &options,
        &options,
        (client, client_inbox),
        (peer, peer_inbox),
    );
    expect_us(pair.client_inbox.expect_opened().credentials);
    expect_us(pair.peer_inbox.expect_opened().credentials);
    expect_us(pair.client.peer_credentials());
    expect_us(pair.peer.peer_credentials());
}

fn direct_links_know_it_too(transport: Transport) {
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
    let client = DirectLink::connect(&place.address, framed(transport)).unwrap();
    expect_us(client.peer_credentials());
    expect_us(listener.accept(None).unwrap().peer_credentials());
}

fn where_the_kernel_does_not_vouch_nobody_is_named(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    assert_eq!(pair.client.peer_credentials(), None);
    assert_eq!(pair.peer.peer_credentials(), None);
}

const NOBODY: u32 = 65_534;
const AS_NOBODY: &str =
    r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0" --exact "$1" --nocapture;"#;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A name that another user may use, whatever the folders of this one.
fn shared_name(owner: u32) -> Address {
    format!("uds://@tautline-credentials-{owner}")
        .parse()
        .unwrap()
}

/// The accept callback sees who it is, before any handler is made.
fn a_server_refuses_by_user(transport: Transport) {
    let test = name_of("credentials::a_server_refuses_by_user", transport);
    if in_child(&test) {
        let mut link = DirectLink::connect(&shared_name(parent_id()), framed(transport)).unwrap();
        assert!(link.recv(None).is_err(), "it is refused");
        return;
    }
    let io = start();
    let seen: Arc<Mutex<Vec<Credentials>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let server = io.listen(&shared_name(process::id()), options, move |peer: &Link| {
        let who = peer.peer_credentials().ok_or("nobody vouches for you")?;
        noted.lock().unwrap().push(who);
        if who.uid == NOBODY {
            return Err("not for nobody".into());
        }
        Ok(recorder().0)
    });
    let server = server.unwrap();
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    until("it was accepted", || server.statistics().accepted == 1);
    drop(link);
    if !is_root() {
        println!("skipped the half of {test} that needs another user: not run as root");
        return;
    }
    child(&test, AS_NOBODY);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[1].uid, seen[1].gid), (2, NOBODY, NOBODY));
    assert_ne!(seen[1].pid, Some(process::id()));
    let statistics = server.statistics();
    assert_eq!((statistics.accepted, statistics.turned_away), (1, 1));
}

fn listen(place: &Place, options: ServerOptions) -> Result<Server, tautline::Error> {
    start().listen(&place.address, options, |_: &Link| Ok(recorder().0))
}

fn the_file_belongs_to_whom_it_was_given(transport: Transport) {
    let place = fresh(transport);
    let folder = fs::metadata(place.path().parent().unwrap()).unwrap();
    let (owner, group) = if is_root() {
        (NOBODY, NOBODY - 1)
    } else {
        println!("gave the file to this user alone: not run as root");
        (folder.uid(), folder.gid())
    };
    for (uds_owner, uds_group) in [
        (Some(owner), Some(group)),
        (Some(owner), None),
        (None, Some(group)),
    ] {
        let options = ServerOptions {
            uds_mode: Some(0o660),
            uds_owner,
            uds_group,
            ..ServerOptions::default()
        };
        let server = listen(&place, options).unwrap();
        let found = fs::symlink_metadata(place.path()).unwrap();
        assert_eq!(found.uid(), uds_owner.unwrap_or_else(|| folder.uid()));
        assert_eq!(found.gid(), uds_group.unwrap_or_else(|| folder.gid()));
        assert_eq!(found.mode() & 0o7777, 0o660);
        drop(server);
        assert!(!place.path().exists());
    }
}

fn a_file_that_may_not_be_given_away_fails_the_start_and_is_gone(transport: Transport) {
    let test = "credentials::a_file_that_may_not_be_given_away_fails_the_start_and_is_gone";
    let test = name_of(test, transport);
    if is_root() && !in_child(&test) {
        return child(&test, AS_NOBODY);
    }
    let place = fresh(transport);
    for (name, options) in [
        (
            "uds_owner",
            ServerOptions {
                uds_owner: Some(0),
                ..ServerOptions::default()
            },
        ),
        (
            "uds_group",
            ServerOptions {
                uds_group: Some(0),
                ..ServerOptions::default()
            },
        ),
    ] {
        let error = listen(&place, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bind);
        let why = format!("set {name}: operation not permitted");
        assert!(error.to_string().ends_with(&why), "{error}");
        assert!(!place.path().exists());
    }
}

fn what_the_kernel_granted_can_be_read(transport: Transport) {
    let options = LinkOptions {
        send_buffer_bytes: Some(20_000),
        receive_buffer_bytes: Some(30_000),
        ..framed(transport)
    };
    let pair = Pair::open(transport, &options);
    let expect = |buffers: Option<tautline::SocketBuffers>| {
        let granted = buffers.expect("a connection is open");
        assert_eq!(
            (granted.send_bytes, granted.receive_bytes),
            (20_000, 30_000)
        );
    };
    expect(pair.client.socket_buffers());
    expect(pair.peer.socket_buffers());
    expect(pair.server().socket_buffers());
    pair.client.close(WATCHDOG);
    assert_eq!(pair.client.socket_buffers(), None);
    let direct = DirectLink::connect(&pair.server().local_address(), options);
    expect(direct.unwrap().socket_buffers());
    // Not asked for, it is the system's choice.
    let chosen = Pair::open(transport, &framed(transport))
        .client
        .socket_buffers();
    assert!(chosen.is_some_and(|chosen| chosen.send_bytes > 0 && chosen.receive_bytes > 0));
}
