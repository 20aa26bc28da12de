//! A framing of the user's own, good and bad.

use super::*;

/// RFC 1055: an end byte, and escapes for it.
#[derive(Debug)]
struct Slip;

impl Framer for Slip {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        for byte in payload {
            match byte {
                0xc0 => into.extend([0xdb, 0xdc]),
                0xdb => into.extend([0xdb, 0xdd]),
                byte => into.push(*byte),
            }
        }
        into.push(0xc0);
        Ok(())
    }

    fn overhead_limit_bytes(&self, payload_bytes: usize) -> usize {
        payload_bytes + 1
    }

    fn parse(&self, bytes: &[u8], examined: usize, _: usize, decoded: &mut Vec<u8>) -> Found {
        let Some(end) = bytes[examined..].iter().position(|byte| *byte == 0xc0) else {
            return Found::Incomplete {
                needed_bytes: bytes.len() + 1,
            };
        };
        let frame_bytes = examined + end + 1;
        let mut escaped = false;
        for byte in &bytes[..frame_bytes - 1] {
            match (escaped, byte) {
                (true, 0xdc) => decoded.push(0xc0),
                (true, 0xdd) => decoded.push(0xdb),
                (true, _) => {
                    let fault = FrameFault::BadEncoding;
                    let pass_bytes = frame_bytes;
                    return Found::Bad { fault, pass_bytes };
                }
                (false, 0xdb) => {}
                (false, byte) => decoded.push(*byte),
            }
            escaped = !escaped && *byte == 0xdb;
        }
        Found::Decoded { frame_bytes }
    }
}

#[test]
fn a_framing_that_escapes_is_decoded_into_the_parsers_buffer() {
    let slip = Framing::own(Slip);
    let mut wire = Vec::new();
    for payload in [&b"one"[..], b"\xc0\xdb", b""] {
        slip.encode(payload, &mut wire).unwrap();
    }
    assert_eq!(wire, b"one\xc0\xdb\xdc\xdb\xdd\xc0\xc0");
    let came = all(&slip, 10, None, &wire);
    assert_eq!(came, [frame(b"one"), frame(b"\xc0\xdb"), frame(b"")]);
    assert_eq!(slip.payload_within(21), 10);
}

#[test]
fn without_a_choice_a_bad_frame_of_an_own_framing_closes() {
    let wire = b"a\xdbb\xc0ok\xc0";
    let slip = Framing::own(Slip);
    let bad = Came::Fault(FrameFault::BadEncoding);
    assert_eq!(all(&slip, 10, None, wire), [bad]);
    let bad = || Came::Fault(FrameFault::BadEncoding);
    for outcome in [OnBadFrame::Skip, OnBadFrame::Resynchronise] {
        assert_eq!(all(&slip, 10, Some(outcome), wire), [bad(), frame(b"ok")]);
    }
}

/// Says whatever it is told to.
#[derive(Debug)]
struct Liar(Found);

impl Framer for Liar {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        match payload {
            b"truncates" => into.clear(),
            b"exaggerates" => into.extend([0; 1000]),
            b"fails" => {
                into.push(1);
                return Err(Unframeable);
            }
            payload => into.extend_from_slice(payload),
        }
        Ok(())
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        2
    }

    fn parse(&self, _: &[u8], _: usize, _: usize, decoded: &mut Vec<u8>) -> Found {
        decoded.extend([0; 50]);
        self.0
    }
}

#[test]
fn a_framer_that_says_what_cannot_be_is_not_believed() {
    let nonsense = [
        Found::Frame {
            header_bytes: usize::MAX,
            payload_bytes: 1,
            trailer_bytes: 1,
        },
        Found::Frame {
            header_bytes: 0,
            payload_bytes: 0,
            trailer_bytes: 0,
        },
        Found::Decoded { frame_bytes: 0 },
        Found::Decoded { frame_bytes: 9 },
        Found::Decoded { frame_bytes: 1 },
        Found::Incomplete { needed_bytes: 0 },
        Found::Incomplete {
            needed_bytes: usize::MAX,
        },
        Found::Bad {
            fault: FrameFault::BadChecksum,
            pass_bytes: 0,
        },
        Found::Bad {
            fault: FrameFault::BadChecksum,
            pass_bytes: usize::MAX,
        },
    ];
    for found in nonsense {
        for outcome in [
            OnBadFrame::Close,
            OnBadFrame::Skip,
            OnBadFrame::Resynchronise,
        ] {
            let mut stream = Stream::new(&Framing::own(Liar(found)), 4, Some(outcome));
            for _ in 0..20 {
                stream.read(b"a");
            }
            let faults = stream.came.iter().all(|one| matches!(one, Came::Fault(_)));
            assert!(faults && !stream.came.is_empty(), "{found:?}");
            assert!(outcome == OnBadFrame::Close || stream.left.len() < 7);
            if outcome == OnBadFrame::Resynchronise {
                assert_eq!(stream.came.len(), 1, "one loss of step: {found:?}");
            }
        }
    }
}

#[test]
fn a_framer_that_encodes_more_than_it_promised_is_not_believed() {
    let liar = Framing::own(Liar(Found::Decoded { frame_bytes: 0 }));
    for payload in [&b"exaggerates"[..], b"fails", b"truncates"] {
        let mut wire = b"before".to_vec();
        assert_eq!(liar.encode(payload, &mut wire), Err(Unframeable));
        let kept = if payload == b"truncates" {
            &b""[..]
        } else {
            b"before"
        };
        assert_eq!(wire, kept);
    }
}

#[test]
fn own_framings_are_equal_if_they_are_clones() {
    let slip = Framing::own(Slip);
    assert_eq!(slip, slip.clone());
    assert_ne!(slip, Framing::own(Slip));
    assert_eq!(format!("{slip:?}"), "Own(Slip)");
}
