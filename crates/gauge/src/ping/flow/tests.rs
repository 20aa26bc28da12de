//! What a flow makes of a peer that leaves no room.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::super::live::Live;
use super::*;

/// A flow of messages that no socket buffer takes whole, and the end that nobody reads.
fn flow() -> (Flow, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let flow = Flow::new(
        Carrier::Socket(OwnedFd::from(ours).into()),
        Transport::Uds,
        0,
        Message::new(Transport::Uds, 16 << 20, 0),
        0,
        Outstanding::new(1, false, 1_000_000_000),
        1_000_000_000,
    );
    (flow, theirs)
}

// A server that was stopped in the middle of a long ping, and one that answered everything twice until
// its own writes blocked, kept a run with a duration of two seconds alive for ever.
#[test]
fn a_peer_that_leaves_no_room_for_longer_than_the_silence_limit_is_stuck() {
    let (mut flow, _theirs) = flow();
    let record = Record::new(false, Arc::new(Live::new()), None);
    assert_eq!(flow.send(None, &record).unwrap(), Sent::Blocked);
    let blocked_ns = now_ns();
    assert!(flow.expire(blocked_ns + 4_000_000_000).is_ok());
    let end = flow.expire(blocked_ns + 5_000_000_001).unwrap_err();
    assert_eq!(end.explain(), "the server reads no more of what it is sent");
}

#[test]
fn a_peer_that_makes_a_little_room_now_and_then_is_not_stuck() {
    let (mut flow, mut theirs) = flow();
    let record = Record::new(false, Arc::new(Live::new()), None);
    assert_eq!(flow.send(None, &record).unwrap(), Sent::Blocked);
    let first_ns = flow.blocked_ns;
    theirs.read_exact(&mut vec![0; 128 << 10]).unwrap();
    assert_eq!(flow.send(None, &record).unwrap(), Sent::Blocked);
    assert!(flow.blocked_ns > first_ns);
    assert!(flow.expire(first_ns + 5_000_000_000).is_ok());
}
