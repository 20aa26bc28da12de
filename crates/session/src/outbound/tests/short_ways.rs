//! The short ways in do what the long one does, or nothing.

use super::*;

fn framed(limit_bytes: usize, limit_messages: usize) -> OutboundOptions {
    OutboundOptions {
        framing: Framing::length_prefix(),
        queue_limit_bytes: limit_bytes,
        queue_limit_messages: limit_messages,
        ..options()
    }
}

fn opened(options: &OutboundOptions) -> Rig {
    let mut rig = Rig::with(options);
    rig.outbound.opened();
    rig
}

#[test]
fn what_joins_is_counted_and_written_as_what_is_offered() {
    let options = framed(10_000, 100);
    let (mut joining, mut offering) = (opened(&options), opened(&options));
    let mut joined = 0;
    for length in (0..100).map(|number| number % 7) {
        let message = vec![length as u8; length];
        offering.queue(&message);
        match joining.outbound.join(&message) {
            Some(wake) => {
                joined += 1;
                assert!(!wake, "the first one told the driver");
                joining.check();
            }
            None => joining.queue(&message),
        }
    }
    assert!(joined > 90, "{joined} joined");
    assert_eq!(joining.outbound.join(&[1]), None, "full");
    let (one, other) = (
        joining.outbound.statistics(),
        offering.outbound.statistics(),
    );
    assert_eq!((one.accepted, one.peak), (other.accepted, other.peak));
    assert_eq!(one.pressure_crossings, 1);
    assert_eq!(joining.drain().concat(), offering.drain().concat());
    let (one, other) = (
        joining.outbound.statistics(),
        offering.outbound.statistics(),
    );
    assert_eq!(one.written_payload_bytes, other.written_payload_bytes);
    assert_eq!(one.written, other.written);
}

#[test]
fn nothing_joins_where_something_has_to_be_decided() {
    let options = framed(1_000, 100);
    let joins = |rig: &mut Rig| rig.outbound.join(b"message").is_some();
    let with_one = |options: &OutboundOptions| {
        let mut rig = opened(options);
        rig.queue(b"waits");
        rig
    };
    assert!(joins(&mut with_one(&options)));
    assert!(!joins(&mut opened(&options)), "nothing waits");
    let mut closing = with_one(&options);
    closing.outbound.closing(Discard::Closed);
    assert!(!joins(&mut closing), "closing");
    let mut lost = with_one(&options);
    lost.end(Discard::ConnectionLost);
    assert!(!joins(&mut lost), "no connection");
    let mut in_line = opened(&framed(1_000, 1));
    in_line.queue(b"waits");
    in_line.wait(b"waits for room");
    assert!(!joins(&mut in_line), "somebody is before it");
    assert!(!joins(&mut with_one(&framed(15, 100))), "no room in bytes");
    assert!(!joins(&mut with_one(&framed(1_000, 1))), "none in messages");
    for changed in [
        OutboundOptions {
            max_queue_delay_ns: Some(1),
            ..options.clone()
        },
        OutboundOptions {
            frame_limit_bytes: 6,
            ..options.clone()
        },
        OutboundOptions {
            framing: Framing::lines(),
            ..options.clone()
        },
    ] {
        assert!(!joins(&mut with_one(&changed)), "{changed:?}");
    }
}

#[test]
fn what_is_sent_alone_is_counted_as_what_is_offered_and_written() {
    let options = framed(1_000, 1);
    let (mut short, mut long) = (opened(&options), opened(&options));
    for message in [&b"one"[..], b"", b"and more"] {
        let header = short.outbound.alone(message).expect("nothing waits");
        short.outbound.sent_alone(&header, message.len());
        short.check();
        let offer = long.offer(message, Call::Send, Caller::Direct);
        let Offer::WriteNow(token) = offer else {
            panic!("{offer:?}");
        };
        assert_eq!(**token.header(), *header);
        long.settle_direct(token, message, DirectWrite::Whole);
    }
    assert_eq!(short.outbound.statistics(), long.outbound.statistics());
    assert!(short.outbound.alone(&[0; 997]).is_none(), "too large");
    short.queue(b"waits");
    assert!(short.outbound.alone(b"behind it").is_none());
    let mut closed = opened(&options);
    closed.end(Discard::Closed);
    assert!(closed.outbound.alone(b"too late").is_none());
}
