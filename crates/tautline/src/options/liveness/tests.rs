//! Each rule, by the name of its option.

use tautline_session::{ByteOrder, OnLoss, PrefixWidth, Reconnect};

use super::*;
use crate::options::ServerOptions;

const TCP: &str = "tcp://127.0.0.1:1";

fn refused(address: &str, change: impl FnOnce(&mut LinkOptions)) -> String {
    let mut options = LinkOptions::default();
    change(&mut options);
    let result = options.validate(&address.parse().unwrap());
    result.unwrap_err().to_string()
}

fn keepalive(idle_ms: u64, interval_ms: u64, count: u32) -> Option<Keepalive> {
    Some(Keepalive {
        idle: Duration::from_millis(idle_ms),
        interval: Duration::from_millis(interval_ms),
        count,
    })
}

fn batch(messages: usize, bytes: usize, age: Duration) -> Option<Batch> {
    Some(Batch {
        messages,
        bytes,
        age,
    })
}

#[test]
fn a_timeout_of_nothing_is_refused_by_name() {
    let zero = Some(Duration::ZERO);
    let why = "0 would end every connection at once; None is for ever";
    assert_eq!(
        refused(TCP, |o| o.idle_timeout = zero),
        format!("idle_timeout: {why}")
    );
    assert_eq!(
        refused(TCP, |o| o.receive_idle_timeout = zero),
        format!("receive_idle_timeout: {why}")
    );
    assert_eq!(
        refused(TCP, |o| o.send_idle_timeout = zero),
        format!("send_idle_timeout: {why}")
    );
}

#[test]
fn a_batch_of_nothing_is_refused() {
    let (second, zero) = (Duration::from_secs(1), Duration::ZERO);
    assert_eq!(
        refused(TCP, |o| o.batch = batch(0, 1, second)),
        "batch: 0 messages would never hand anything out"
    );
    assert_eq!(
        refused(TCP, |o| o.batch = batch(1, 0, second)),
        "batch: 0 bytes would never hand anything out"
    );
    assert_eq!(
        refused(TCP, |o| o.batch = batch(1, 1, zero)),
        "batch: an age of 0 gathers nothing; leave it None"
    );
}

#[test]
fn keepalive_takes_what_the_kernel_can_say_and_nothing_else() {
    for (value, expected) in [
        (
            keepalive(0, 1000, 1),
            "keepalive: idle 0ns is not in whole seconds from 1 to 32767",
        ),
        (
            keepalive(1500, 1000, 1),
            "keepalive: idle 1.5s is not in whole seconds from 1 to 32767",
        ),
        (
            keepalive(1000, 32_768_000, 1),
            "keepalive: interval 32768s is not in whole seconds from 1 to 32767",
        ),
        (
            keepalive(1000, 1000, 0),
            "keepalive: a count of 0 is outside 1 to 127",
        ),
        (
            keepalive(1000, 1000, 128),
            "keepalive: a count of 128 is outside 1 to 127",
        ),
    ] {
        assert_eq!(refused(TCP, |o| o.keepalive = value), expected);
    }
    let most = LinkOptions {
        keepalive: keepalive(32_767_000, 32_767_000, 127),
        tcp_user_timeout: Some(Duration::from_millis(i32::MAX as u64)),
        ..LinkOptions::default()
    };
    most.validate(&TCP.parse().unwrap()).unwrap();
}

#[test]
fn a_user_timeout_is_in_whole_milliseconds() {
    for timeout in [
        Duration::ZERO,
        Duration::from_micros(1500),
        Duration::from_millis(i32::MAX as u64 + 1),
    ] {
        assert_eq!(
            refused(TCP, |o| o.tcp_user_timeout = Some(timeout)),
            format!(
                "tcp_user_timeout: {timeout:?} is not in whole milliseconds from 1 to 2147483647"
            )
        );
    }
}

#[test]
fn what_only_tcp_has_is_refused_elsewhere() {
    for (address, scheme) in [("udp://127.0.0.1:1", "udp"), ("uds:///run/x", "uds")] {
        assert_eq!(
            refused(address, |o| o.keepalive = keepalive(1000, 1000, 1)),
            format!("keepalive: {scheme} has no such thing, only tcp")
        );
        assert_eq!(
            refused(address, |o| o.tcp_user_timeout =
                Some(Duration::from_secs(1))),
            format!("tcp_user_timeout: {scheme} has no such thing, only tcp")
        );
    }
}

#[test]
fn a_heartbeat_needs_a_framing_and_room() {
    let heartbeat = |ms, missed_limit| {
        Some(Heartbeat {
            interval: Duration::from_millis(ms),
            missed_limit,
        })
    };
    let why = "heartbeat: only a length prefix can tell heartbeats from messages";
    for address in [TCP, "udp://127.0.0.1:1"] {
        assert_eq!(refused(address, |o| o.heartbeat = heartbeat(1, 1)), why);
    }
    for (value, expected) in [
        (
            heartbeat(0, 1),
            "heartbeat: an interval of 0 would never stop asking",
        ),
        (
            heartbeat(1, 0),
            "heartbeat: a missed_limit of 0 would lose every peer at once",
        ),
    ] {
        let change = |o: &mut LinkOptions| {
            o.framing = Framing::length_prefix();
            o.heartbeat = value;
        };
        assert_eq!(refused(TCP, change), expected);
    }
    let small = |o: &mut LinkOptions| {
        o.framing = Framing::length_prefix();
        o.heartbeat = heartbeat(1, 1);
        o.queue_limit_bytes = 12;
    };
    assert_eq!(
        refused(TCP, small),
        "queue_limit_bytes: 12 has no room for a heartbeat: 13 bytes"
    );
    // An eighth is what `opened` sends.
    let kept = |o: &mut LinkOptions| {
        small(o);
        o.queue_limit_bytes = 13;
        o.reconnect = Some(Reconnect::default());
        o.on_loss = OnLoss::Keep;
    };
    assert_eq!(
        refused(TCP, kept),
        "queue_limit_bytes: 12 has no room for a heartbeat: 13 bytes"
    );
    let mut server = ServerOptions {
        total_queue_limit_bytes: 12,
        ..ServerOptions::default()
    };
    small(&mut server.link);
    server.link.queue_limit_bytes = 13;
    assert_eq!(
        server
            .validate(&TCP.parse().unwrap())
            .unwrap_err()
            .to_string(),
        "total_queue_limit_bytes: 12 has no room for a heartbeat: 13 bytes"
    );
    let byte = |frame_limit_bytes| {
        move |o: &mut LinkOptions| {
            o.framing = Framing::LengthPrefix {
                width: PrefixWidth::One,
                order: ByteOrder::Big,
            };
            o.frame_limit_bytes = frame_limit_bytes;
            o.heartbeat = heartbeat(1, 1);
        }
    };
    assert_eq!(
        refused(TCP, byte(255)),
        "frame_limit_bytes: 255 is what marks heartbeats: 254 at most"
    );
    let mut fits = LinkOptions::default();
    byte(254)(&mut fits);
    fits.validate(&TCP.parse().unwrap()).unwrap();
}
