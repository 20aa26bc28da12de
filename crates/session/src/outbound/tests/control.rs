//! Control frames among messages.

use super::*;
use crate::control::Control;

fn rig(limit_bytes: usize) -> Rig {
    let mut rig = Rig::with(&OutboundOptions {
        framing: Framing::length_prefix(),
        queue_limit_bytes: limit_bytes,
        ..options()
    });
    rig.outbound.opened();
    rig
}

const PING: [u8; 13] = [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 7];

#[test]
fn a_ping_goes_out_marked_and_is_counted_as_what_it_is() {
    let mut rig = rig(100);
    assert!(rig.outbound.offer_control(Control::Ping(7), &rig.desk));
    assert_eq!(rig.drain(), [PING.to_vec()]);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.heartbeats, 1);
    assert_eq!(statistics.written, tally(1, 13));
    assert_eq!(statistics.written_payload_bytes, 9);
    assert!(statistics.closes());
}

#[test]
fn a_ping_is_needless_while_anything_is_on_its_way_but_a_pong_is_not() {
    let mut rig = rig(100);
    rig.queue(b"abc");
    let taken = rig.take();
    assert!(!rig.outbound.offer_control(Control::Ping(7), &rig.desk));
    assert!(rig.outbound.offer_control(Control::Pong(7), &rig.desk));
    // Behind the message that the writer has begun, not in the middle of it.
    rig.settle(taken, 2);
    let written = rig.drain().concat();
    assert_eq!(written[..5], *b"\0\x03abc");
    assert_eq!(written[5..9], [0xff; 4]);
    assert_eq!(rig.outbound.statistics().heartbeats, 1);
}

#[test]
fn there_is_none_without_room_or_connection() {
    let mut full = rig(20);
    full.queue(b"abcdef");
    assert!(!full.outbound.offer_control(Control::Pong(7), &full.desk));
    let mut closed = rig(100);
    closed.outbound.closing(Discard::Closed);
    assert!(
        !closed
            .outbound
            .offer_control(Control::Ping(7), &closed.desk)
    );
    closed.end(Discard::Closed);
    assert!(
        !closed
            .outbound
            .offer_control(Control::Ping(7), &closed.desk)
    );
    assert_eq!(closed.outbound.statistics().heartbeats, 0);
}
