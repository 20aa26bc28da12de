//! A life of a link in which every callback comes.

use std::io::Write;

use tautline::{IoThread, Link, LinkOptions};

use super::{
    RawListener, Told, Transport, client_of_raw, frame, framed, inside_callback, recorder_that,
};

/// One life of a link in which each kind of callback comes, unless one of them ends it.
pub(crate) fn live_through_all(
    io: &IoThread,
    transport: Transport,
    act: impl FnMut(&Link, &Told) + Send + 'static,
) -> Vec<Told> {
    let (handler, inbox) = recorder_that(act);
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: Some(16 * 1024),
        half_open: true,
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(io, &listener, options, handler);
    // What it says may come too late.
    let _ = peer.write_all(&frame(b"message"));
    let sender = link.clone();
    // What the kernel takes meanwhile makes room again: more than once, so that it is full.
    for _ in 0..3 {
        let sender = sender.clone();
        inside_callback(io, move || while sender.send(&[0; 996]).is_ok() {});
    }
    drop(sender);
    let _ = peer.try_end();
    let mut told = inbox.all_up_to(|told| matches!(told, Told::Event(_)));
    if matches!(told.last(), Some(Told::Event(_))) {
        peer.vanish();
        told.append(&mut inbox.all_up_to(|_| false));
    }
    assert!(matches!(told.pop(), Some(Told::Dropped)));
    told
}

/// Every callback of a handler.
pub(crate) const CALLBACKS: [&str; 6] =
    ["opened", "message", "pressure", "event", "closed", "ended"];

/// That the calls came as promised, the one acted in among them.
pub(crate) fn expect_order(told: &[Told], acted_in: &str) {
    let kinds: Vec<_> = told.iter().map(Told::kind).collect();
    assert_eq!(kinds[0], "opened", "{acted_in}: {kinds:?}");
    assert_eq!(
        kinds[kinds.len() - 2..],
        ["closed", "ended"],
        "{acted_in}: {kinds:?}"
    );
    let pressure = kinds.iter().filter(|kind| **kind == "pressure").count();
    assert_eq!(pressure % 2, 0, "On and Off: {acted_in}: {kinds:?}");
    for once in ["opened", "closed", "ended"] {
        let times = kinds.iter().filter(|kind| **kind == once).count();
        assert_eq!(times, 1, "{acted_in}: {kinds:?}");
    }
    assert!(kinds.contains(&acted_in), "{acted_in}: {kinds:?}");
}
