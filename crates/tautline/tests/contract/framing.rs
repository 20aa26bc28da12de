//! Promise 13: the same frames come out wherever the input is cut, and a bad one is a counted event
//! with a defined outcome.

use std::io::Write;

use tautline::{
    DirectLink, DirectListener, Found, FrameFault, Framer, Framing, Lines, Link, LinkOptions,
    OnBadFrame, Reason, ReceiveStatistics, RecvError, SendError, ServerOptions, Strategy,
    Unframeable,
};

use crate::common::*;

over! {
    every_framing_carries_messages_of_every_length_both_ways: tcp tls uds serial;
    direct_links_speak_every_framing_with_links_that_have_a_thread: tcp uds;
    a_stream_that_comes_byte_by_byte_is_understood_in_every_framing: tcp tls uds;
    what_a_framing_cannot_carry_is_refused_and_harms_nothing: tcp uds;
    a_bad_frame_has_the_outcome_that_was_chosen: tcp tls uds;
    a_bad_frame_has_the_outcome_that_was_chosen_on_a_direct_link_too: tcp uds;
    a_stream_joined_in_mid_frame_costs_one_fault: tcp tls uds;
    junk_at_the_end_of_a_stream_is_told_before_the_end: tcp tls uds;
    a_peer_of_endless_frames_is_held_to_the_limit: tcp tls uds;
    keeplatest_evicts_whole_messages_of_every_framing: tcp uds serial;
    the_payload_written_is_counted_exactly_in_every_framing: tcp tls uds serial;
    a_handler_that_closes_on_a_bad_frame_hears_of_no_other: tcp tls uds;
}

/// An own framing: a sync byte, a length, the payload, their sum.
#[derive(Debug)]
struct Summed;

impl Framer for Summed {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        let length = u16::try_from(payload.len()).map_err(|_| Unframeable)?;
        into.push(b'!');
        into.extend(length.to_be_bytes());
        into.extend(payload);
        into.push(sum(payload));
        Ok(())
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        4
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, _: &mut Vec<u8>) -> Found {
        let bad = |fault| Found::Bad {
            fault,
            pass_bytes: 1,
        };
        if bytes[0] != b'!' {
            return bad(FrameFault::BadEncoding);
        }
        let Some(&[_, high, low]) = bytes.first_chunk() else {
            return Found::Incomplete { needed_bytes: 3 };
        };
        let payload_bytes = usize::from(u16::from_be_bytes([high, low]));
        match bytes.get(3..payload_bytes + 4) {
            None => Found::Incomplete {
                needed_bytes: payload_bytes + 4,
            },
            Some(rest) if rest[payload_bytes] != sum(&rest[..payload_bytes]) => {
                bad(FrameFault::BadChecksum)
            }
            Some(_) => Found::Frame {
                header_bytes: 3,
                payload_bytes,
                trailer_bytes: 1,
            },
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn framings() -> Vec<Framing> {
    vec![
        Framing::length_prefix(),
        Framing::lines(),
        Framing::Lines(Lines {
            delimiter: b"\r\n".to_vec(),
            strip_cr: false,
        }),
        Framing::Lines(Lines {
            strip_cr: true,
            ..Lines::default()
        }),
        Framing::pattern([2], [3]),
        Framing::pattern("<begin>", "<end>"),
        Framing::cobs(),
        Framing::own(Summed),
    ]
}

/// With room for the frames of these tests and no more.
fn options(framing: &Framing, on_bad_frame: Option<OnBadFrame>) -> LinkOptions {
    LinkOptions {
        framing: framing.clone(),
        on_bad_frame,
        frame_limit_bytes: 60_000,
        ..LinkOptions::default()
    }
}

/// Of every length, and of bytes that no framing here takes for a mark.
fn messages() -> Vec<Vec<u8>> {
    [0, 1, 2, 253, 254, 255, 256, 1000, 59_999, 60_000]
        .into_iter()
        .map(|length| (0..length).map(|at| b'A' + (at % 26) as u8).collect())
        .collect()
}

fn encoded(framing: &Framing, payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    framing.encode(payload, &mut wire).unwrap();
    wire
}

/// Every byte that came is payload, framing, passed over, or the start of a frame.
fn expect_accounted(framing: &Framing, receiving: &ReceiveStatistics, frames: &[&[u8]]) {
    let framed: usize = frames
        .iter()
        .map(|frame| encoded(framing, frame).len())
        .sum();
    assert_eq!(
        receiving.wire_bytes,
        framed as u64 + receiving.skipped_bytes,
        "{framing:?}: {receiving:?}"
    );
    let payload: usize = frames.iter().map(|frame| frame.len()).sum();
    assert_eq!(receiving.payload_bytes, payload as u64);
    assert_eq!(receiving.messages, frames.len() as u64);
}

fn every_framing_carries_messages_of_every_length_both_ways(transport: Transport) {
    for framing in framings() {
        let pair = Pair::open(transport, &options(&framing, None));
        for message in messages() {
            pair.client.send(&message).unwrap();
            assert_eq!(pair.peer_inbox.skip_to_message(), message, "{framing:?}");
            pair.peer.send(&message).unwrap();
            assert_eq!(pair.client_inbox.skip_to_message(), message);
        }
        // Many at once, queued and gathered.
        let many = numbered_text(500);
        for message in &many {
            pair.client.send(message).unwrap();
        }
        for message in &many {
            assert_eq!(&pair.peer_inbox.skip_to_message(), message);
        }
        let all = [messages(), many].concat();
        let receiving = received(&pair.peer, all.len());
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        expect_accounted(&framing, &receiving, &all);
        assert_eq!((receiving.faults, receiving.skipped_bytes), (0, 0));
    }
}

fn numbered_text(count: usize) -> Vec<Vec<u8>> {
    let text = |number| format!("message {number} {}", "x".repeat(number % 300));
    (0..count).map(|number| text(number).into_bytes()).collect()
}

fn direct_links_speak_every_framing_with_links_that_have_a_thread(transport: Transport) {
    let io = start();
    for framing in framings() {
        let options = options(&framing, None);
        let place = fresh(transport);
        let mut listener = DirectListener::bind(&place.address, options.clone()).unwrap();
        let (handler, inbox) = recorder();
        let link = io
            .connect(&listener.local_address(), options, handler)
            .unwrap();
        let mut direct = listener.accept(None).unwrap();
        link.wait_open(WATCHDOG).unwrap();
        for message in messages() {
            link.send(&message).unwrap();
            assert_eq!(direct.recv(None).unwrap(), message, "{framing:?}");
            direct.send(&message).unwrap();
            assert_eq!(inbox.skip_to_message(), message);
            link.send(&message).unwrap();
            let request = direct.request(None).unwrap();
            request.replies.send(request.message).unwrap();
            assert_eq!(inbox.skip_to_message(), message);
        }
        let counted = direct.statistics();
        assert!(counted.sending.closes());
        let written = counted.sending.written;
        let receiving = received(&link, written.messages as usize);
        assert_eq!(written.bytes, receiving.wire_bytes);
        let payload_bytes = counted.sending.written_payload_bytes;
        assert_eq!(payload_bytes, receiving.payload_bytes);
    }
}

/// What a link has counted once so many messages are in: they are counted after they were handed out.
fn received(link: &Link, messages: usize) -> ReceiveStatistics {
    until("all messages are counted", || {
        link.statistics().receiving.messages == messages as u64
    });
    link.statistics().receiving
}

fn a_stream_that_comes_byte_by_byte_is_understood_in_every_framing(transport: Transport) {
    let io = start();
    for framing in framings() {
        let (handler, inbox) = recorder();
        let options = ServerOptions {
            link: options(&framing, None),
            ..ServerOptions::default()
        };
        let (served, mut raw) = server_of_raw(&io, transport, options, handler);
        let frames: [&[u8]; 4] = [b"one", b"", b"another one", b"x"];
        for byte in frames.iter().flat_map(|frame| encoded(&framing, frame)) {
            raw.write_all(&[byte]).unwrap();
        }
        for frame in frames {
            assert_eq!(inbox.skip_to_message(), frame, "{framing:?}");
        }
        let receiving = received(&served.peer(), frames.len());
        expect_accounted(&framing, &receiving, &frames);
    }
}

fn what_a_framing_cannot_carry_is_refused_and_harms_nothing(transport: Transport) {
    for (framing, payload) in [
        (Framing::lines(), &b"two\nlines"[..]),
        (Framing::pattern("<", "/>"), b"<a/>"),
        (Framing::own(Summed), &[0; 65_536]),
    ] {
        let options = LinkOptions {
            frame_limit_bytes: 100_000,
            ..options(&framing, None)
        };
        let pair = Pair::open(transport, &options);
        let refused = Err(SendError::Unframeable);
        assert_eq!(pair.client.send(payload), refused, "{framing:?}");
        assert_eq!(pair.client.try_send(payload), refused);
        assert_eq!(pair.client.send_timeout(payload, WATCHDOG), refused);
        pair.client.send(b"fine").unwrap();
        assert_eq!(pair.peer_inbox.skip_to_message(), b"fine");
        let sending = pair.client.statistics().sending;
        assert_eq!(
            (sending.accepted.messages, sending.refused.messages),
            (1, 0)
        );

        let place = fresh(transport);
        let listener = DirectListener::bind(&place.address, options.clone()).unwrap();
        let mut direct = DirectLink::connect(&listener.local_address(), options).unwrap();
        assert_eq!(direct.send(payload), refused);
        assert_eq!(direct.statistics().sending.accepted.messages, 0);
    }
}

/// A stream with something bad in its middle: what comes of it under each outcome.
struct Bad {
    framing: Framing,
    wire: Vec<u8>,
    fault: FrameFault,
    /// What passing over it comes to.
    skipped_bytes: u64,
    outcomes: &'static [(Option<OnBadFrame>, &'static [&'static [u8]])],
}

const CLOSE: Option<OnBadFrame> = Some(OnBadFrame::Close);
const SKIP: Option<OnBadFrame> = Some(OnBadFrame::Skip);
const RESYNCHRONISE: Option<OnBadFrame> = Some(OnBadFrame::Resynchronise);

fn bad_streams() -> Vec<Bad> {
    const BOTH: &[&[u8]] = &[b"before", b"after"];
    const ONE: &[&[u8]] = &[b"before"];
    let join = |framing: &Framing, bad: &[u8]| {
        [
            &encoded(framing, b"before")[..],
            bad,
            &encoded(framing, b"after"),
        ]
        .concat()
    };
    let prefix = Framing::length_prefix();
    let cobs = Framing::cobs();
    let pattern = Framing::pattern("<", ">");
    let own = Framing::own(Summed);
    let mut garbled = encoded(&cobs, b"garbled");
    garbled[3] ^= 1;
    let too_large = FrameFault::TooLarge {
        announced_bytes: 60_001,
        limit_bytes: 60_000,
    };
    let too_long = FrameFault::TooLong {
        limit_bytes: 60_000,
    };
    let oversize = [&60_001_u32.to_be_bytes()[..], &[b'x'; 60_001]].concat();
    let line = [&[b'x'; 200_000][..], b"\n"].concat();
    // Its end is missing: whoever skips it loses what ends where it does.
    let no_end = [b"<", &[b'x'; 100_000][..]].concat();
    vec![
        Bad {
            wire: join(&prefix, &oversize),
            framing: prefix,
            fault: too_large,
            skipped_bytes: 60_005,
            outcomes: &[(None, ONE), (CLOSE, ONE), (SKIP, BOTH)],
        },
        Bad {
            wire: join(&Framing::lines(), &line),
            framing: Framing::lines(),
            fault: too_long,
            skipped_bytes: 200_001,
            outcomes: &[
                (None, BOTH),
                (CLOSE, ONE),
                (SKIP, BOTH),
                (RESYNCHRONISE, BOTH),
            ],
        },
        Bad {
            wire: join(&pattern, b"junk"),
            framing: pattern.clone(),
            fault: FrameFault::Junk { bytes: 4 },
            skipped_bytes: 4,
            outcomes: &[
                (None, BOTH),
                (CLOSE, ONE),
                (SKIP, BOTH),
                (RESYNCHRONISE, BOTH),
            ],
        },
        Bad {
            wire: join(&pattern, &no_end),
            framing: pattern.clone(),
            fault: too_long,
            skipped_bytes: 100_001,
            outcomes: &[(None, BOTH), (CLOSE, ONE), (RESYNCHRONISE, BOTH)],
        },
        Bad {
            wire: join(&pattern, &no_end),
            framing: pattern,
            fault: too_long,
            // With the frame behind it.
            skipped_bytes: 100_001 + 7,
            outcomes: &[(SKIP, ONE)],
        },
        Bad {
            wire: join(&cobs, &garbled),
            framing: cobs,
            fault: FrameFault::BadChecksum,
            skipped_bytes: 13,
            outcomes: &[
                (None, BOTH),
                (CLOSE, ONE),
                (SKIP, BOTH),
                (RESYNCHRONISE, BOTH),
            ],
        },
        Bad {
            wire: join(&own, b"?"),
            framing: own,
            fault: FrameFault::BadEncoding,
            skipped_bytes: 1,
            outcomes: &[
                (None, ONE),
                (CLOSE, ONE),
                (SKIP, BOTH),
                (RESYNCHRONISE, BOTH),
            ],
        },
    ]
}

fn closes(framing: &Framing, outcome: Option<OnBadFrame>) -> bool {
    outcome.unwrap_or_else(|| framing.default_on_bad_frame()) == OnBadFrame::Close
}

fn a_bad_frame_has_the_outcome_that_was_chosen(transport: Transport) {
    let io = start();
    for bad in bad_streams() {
        for (outcome, frames) in bad.outcomes {
            let what = format!("{:?}, {outcome:?}", bad.framing);
            let (handler, inbox) = recorder();
            let options = ServerOptions {
                link: options(&bad.framing, *outcome),
                ..ServerOptions::default()
            };
            let (served, mut raw) = server_of_raw(&io, transport, options, handler);
            let peer = served.peer();
            // It may be cut off in the middle.
            let _ = raw.write_all(&bad.wire);
            let _ = raw.try_end();
            let told = inbox.all_to_the_end();
            let came: Vec<_> = told
                .iter()
                .filter_map(|one| match one {
                    Told::Message(message, _) => Some(message.as_slice()),
                    _ => None,
                })
                .collect();
            let events: Vec<_> = told
                .iter()
                .filter_map(|one| match one {
                    Told::Event(happened) => Some(happened.clone()),
                    _ => None,
                })
                .collect();
            let Some(Told::Closed(closed)) = told.iter().find(|one| one.kind() == "closed") else {
                panic!("{what}: {told:?}");
            };
            assert_eq!(came, *frames, "{what}");
            assert_eq!(events, [Happened::BadFrame(bad.fault)], "{what}");
            let receiving = peer.statistics().receiving;
            assert_eq!(receiving.faults, 1, "{what}");
            if closes(&bad.framing, *outcome) {
                assert!(
                    matches!(closed.reason, Reason::BadFrame(fault) if fault == bad.fault),
                    "{what}: {closed:?}"
                );
            } else {
                assert!(
                    matches!(closed.reason, Reason::PeerEnded),
                    "{what}: {closed:?}"
                );
                assert_eq!(receiving.skipped_bytes, bad.skipped_bytes, "{what}");
                expect_accounted(&bad.framing, &receiving, frames);
            }
        }
    }
}

fn a_bad_frame_has_the_outcome_that_was_chosen_on_a_direct_link_too(transport: Transport) {
    for bad in bad_streams() {
        for (outcome, frames) in bad.outcomes {
            let what = format!("{:?}, {outcome:?}", bad.framing);
            let listener = RawListener::bind(transport);
            let options = options(&bad.framing, *outcome);
            let mut link = DirectLink::connect(&listener.address(), options).unwrap();
            let mut raw = listener.accept();
            let wire = bad.wire.clone();
            let writing = std::thread::spawn(move || {
                // It may be cut off in the middle.
                let _ = raw.write_all(&wire);
            });
            for frame in *frames {
                assert_eq!(link.recv(None).unwrap(), *frame, "{what}");
            }
            if closes(&bad.framing, *outcome) {
                for _ in 0..2 {
                    match link.recv(None) {
                        Err(RecvError::BadFrame(fault)) => assert_eq!(fault, bad.fault, "{what}"),
                        other => panic!("{what}: {other:?}"),
                    }
                }
                assert_eq!(link.statistics().receiving.faults, 1, "{what}");
            } else {
                assert!(matches!(link.recv(None), Err(RecvError::Closed)), "{what}");
                let receiving = link.statistics().receiving;
                assert_eq!(
                    (receiving.faults, receiving.skipped_bytes),
                    (1, bad.skipped_bytes)
                );
                expect_accounted(&bad.framing, &receiving, frames);
            }
            drop(link);
            writing.join().unwrap();
        }
    }
}

fn a_stream_joined_in_mid_frame_costs_one_fault(transport: Transport) {
    let io = start();
    let framing = Framing::cobs();
    let (handler, inbox) = recorder();
    let options = ServerOptions {
        link: options(&framing, None),
        ..ServerOptions::default()
    };
    let (_served, mut raw) = server_of_raw(&io, transport, options, handler);
    inbox.expect_opened();
    let first = encoded(&framing, b"nobody hears the beginning of this");
    raw.write_all(&first[10..]).unwrap();
    assert!(matches!(inbox.expect_event(), Happened::BadFrame(_)));
    for message in numbered(20, 300) {
        raw.write_all(&encoded(&framing, &message)).unwrap();
        assert_eq!(inbox.expect_message(), message);
    }
}

fn junk_at_the_end_of_a_stream_is_told_before_the_end(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = ServerOptions {
        link: options(&Framing::pattern("<<", ">>"), None),
        ..ServerOptions::default()
    };
    let (served, mut raw) = server_of_raw(&io, transport, options, handler);
    let peer = served.peer();
    raw.write_all(b"<<a>>xyz<").unwrap();
    raw.end();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"a");
    let junk = FrameFault::Junk { bytes: 3 };
    assert_eq!(inbox.expect_event(), Happened::BadFrame(junk));
    assert_eq!(inbox.expect_event(), Happened::CutFrame(1));
    assert!(matches!(inbox.expect_end().reason, Reason::PeerEnded));
    let receiving = peer.statistics().receiving;
    assert_eq!((receiving.faults, receiving.skipped_bytes), (2, 4));
}

/// Sixty-four megabytes without an end, and then a good frame. Told once, and kept never.
fn a_peer_of_endless_frames_is_held_to_the_limit(transport: Transport) {
    let io = start();
    for framing in [
        Framing::lines(),
        Framing::pattern("<", ">"),
        Framing::cobs(),
    ] {
        let (handler, inbox) = recorder();
        let options = ServerOptions {
            link: LinkOptions {
                frame_limit_bytes: 1000,
                ..options(&framing, None)
            },
            ..ServerOptions::default()
        };
        let (_served, mut raw) = server_of_raw(&io, transport, options, handler);
        inbox.expect_opened();
        raw.write_all(b"<").unwrap();
        let before = reserved_bytes();
        for _ in 0..64 {
            raw.write_all(&[b'x'; 1 << 20]).unwrap();
        }
        raw.write_all(b"\n\0").unwrap();
        let too_long = FrameFault::TooLong { limit_bytes: 1000 };
        assert_eq!(inbox.expect_event(), Happened::BadFrame(too_long));
        raw.write_all(&encoded(&framing, b"good")).unwrap();
        let good = inbox.skip_to_message();
        // The zero that ends COBS' is the first byte of the next line.
        assert!(good.ends_with(b"good"), "{framing:?}: {good:?}");
        // Other tests run beside this one.
        let grown = reserved_bytes().saturating_sub(before);
        assert!(grown < 1 << 30, "{grown} bytes more");
    }
}

fn keeplatest_evicts_whole_messages_of_every_framing(transport: Transport) {
    let io = start();
    for framing in framings() {
        let listener = RawListener::bind(transport).with_receive_buffer(4096);
        let (handler, _inbox) = recorder();
        let options = LinkOptions {
            strategy: Strategy::KeepLatest,
            queue_limit_bytes: 20_000,
            send_buffer_bytes: transport.send_buffer(16 * 1024),
            ..options(&framing, None)
        };
        let (link, mut raw) = client_of_raw(&io, &listener, options, handler);
        let sent = numbered_text(3000);
        for message in &sent {
            link.send(message).unwrap();
        }
        let reading = std::thread::spawn(move || raw.read_to_the_end());
        let unsent = link.close(WATCHDOG);
        assert_eq!(unsent.queued.messages, 0, "{framing:?}");
        let wire = reading.join().unwrap();
        let sending = link.statistics().sending;
        assert!(sending.discarded.evicted.messages > 0, "{framing:?}");
        assert!(sending.closes());
        // Read back by the other half: no frame is torn, and all that came are of those sent, in order.
        let mut left = sent.iter();
        let mut came = 0;
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let message = left
                .find(|message| rest.starts_with(&encoded(&framing, message)))
                .expect("one of those sent, and later than the one before");
            rest = &rest[encoded(&framing, message).len()..];
            came += 1;
        }
        assert_eq!(came, sending.written.messages);
        assert_eq!(left.len(), 0, "the latest is among them");
    }
}

fn the_payload_written_is_counted_exactly_in_every_framing(transport: Transport) {
    for framing in framings() {
        let pair = Pair::open(transport, &options(&framing, None));
        // Until `opened` has returned the first words are its own, and all others wait.
        let_turn(&pair.client_io);
        let mut payload_bytes = 0;
        let mut wire_bytes = 0;
        // Some written by their sender, some gathered by the driver.
        for message in numbered_text(2000) {
            payload_bytes += message.len() as u64;
            wire_bytes += encoded(&framing, &message).len() as u64;
            pair.client.send(&message).unwrap();
        }
        pair.client.flush(WATCHDOG).unwrap();
        let sending = pair.client.statistics().sending;
        assert_eq!(sending.written.bytes, wire_bytes, "{framing:?}");
        assert_eq!(sending.written_payload_bytes, payload_bytes, "{framing:?}");
        assert!(sending.direct_writes > 0);
    }
}

fn a_handler_that_closes_on_a_bad_frame_hears_of_no_other(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Event(_)) {
            link.abort();
        }
    });
    let options = ServerOptions {
        link: options(&Framing::pattern("<", ">"), None),
        ..ServerOptions::default()
    };
    let (_served, mut raw) = server_of_raw(&io, transport, options, handler);
    raw.write_all(b"<a>x<b>y<c>").unwrap();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"a");
    let junk = FrameFault::Junk { bytes: 1 };
    assert_eq!(inbox.expect_event(), Happened::BadFrame(junk));
    assert!(matches!(inbox.expect_end().reason, Reason::Aborted));
}
