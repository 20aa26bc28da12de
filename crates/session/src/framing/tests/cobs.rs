//! COBS against another implementation: python's `cobs` package and `zlib.crc32`.

use super::super::crc::crc32;
use super::*;

fn encoded(payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    Framing::cobs().encode(payload, &mut wire).unwrap();
    wire
}

#[test]
fn short_frames_are_those_of_another_implementation() {
    let vectors: [(&[u8], &[u8]); 4] = [
        (b"", &[1, 1, 1, 1, 1, 0]),
        (b"\0", &[1, 5, 0x8d, 0xef, 0x02, 0xd2, 0]),
        (b"123456789", b"\x0e123456789\x26\x39\xf4\xcb\0"),
        (b"\0\0a\0", &[1, 1, 2, 0x61, 5, 0xfa, 0x85, 0xa2, 0x5d, 0]),
    ];
    for (payload, wire) in vectors {
        assert_eq!(encoded(payload), wire, "{payload:?}");
    }
}

/// Length and CRC-32 of the whole frame, for payloads around the border of a piece.
#[test]
fn long_frames_are_those_of_another_implementation() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let vectors: [(Vec<u8>, usize, u32); 6] = [
        // With its checksum just one piece: no empty piece follows.
        (vec![0x11; 250], 256, 0x4b53_787d),
        (vec![0x11; 254], 261, 0x272e_e831),
        // A zero behind a full piece.
        ([vec![0x11; 254], vec![0]].concat(), 262, 0x5099_2241),
        (all_bytes.clone(), 263, 0x4ed8_45a4),
        (all_bytes.repeat(3), 777, 0xf746_a3f8),
        (vec![0x7f; 1000], 1009, 0x3659_ffed),
    ];
    for (payload, wire_bytes, checksum) in vectors {
        let wire = encoded(&payload);
        assert_eq!((wire.len(), crc32(&wire)), (wire_bytes, checksum));
        assert_eq!(all(&Framing::cobs(), 1000, None, &wire), [frame(&payload)]);
    }
}

#[test]
fn an_empty_piece_behind_a_full_last_one_is_understood() {
    let payload = [0x11; 250];
    let mut wire = encoded(&payload);
    wire.insert(255, 1);
    assert_eq!(all(&Framing::cobs(), 300, None, &wire), [frame(&payload)]);
}

#[test]
fn zeros_between_frames_mean_nothing() {
    let wire = [
        vec![0, 0],
        encoded(b"one"),
        vec![0],
        encoded(b"two"),
        vec![0],
    ]
    .concat();
    let mut stream = Stream::new(&Framing::cobs(), 100, None);
    stream.read(&wire);
    assert_eq!(stream.came, [frame(b"one"), frame(b"two")]);
    assert_eq!(stream.parser.skipped_bytes(), 0);
    assert_eq!(all(&Framing::cobs(), 100, None, &wire), stream.came);
}

#[test]
fn a_stream_joined_in_mid_frame_yields_one_fault_and_then_every_frame() {
    let first = encoded(b"this one is cut");
    let wire = [&first[..], &encoded(b"two"), &encoded(b"")].concat();
    for joined in 1..first.len() - 1 {
        let came = all(&Framing::cobs(), 100, None, &wire[joined..]);
        assert!(matches!(came[0], Came::Fault(_)), "{joined}: {came:?}");
        assert_eq!(came[1..], [frame(b"two"), frame(b"")], "{joined}");
    }
}

#[test]
fn every_single_bit_that_flips_is_noticed() {
    let good = [encoded(b"first"), encoded(b"second"), encoded(b"third")].concat();
    let from = encoded(b"first").len();
    for bit in 0..8 * encoded(b"second").len() {
        let mut wire = good.clone();
        wire[from + bit / 8] ^= 1 << (bit % 8);
        let came = all(&Framing::cobs(), 100, None, &wire);
        assert_eq!(came[0], frame(b"first"));
        // The zero at its end may be gone, and the third with it.
        let frames = came.iter().filter(|one| matches!(one, Came::Frame(_)));
        assert!(frames.count() <= 2, "{came:?}");
        assert!(!came.contains(&frame(b"second")), "{came:?}");
        assert!(came.iter().any(|one| matches!(one, Came::Fault(_))));
    }
}

#[test]
fn bad_frames_are_told_apart() {
    let checksum = [b"\x06abcde"[..].to_vec(), vec![0]].concat();
    let fault = |wire: &[u8]| all(&Framing::cobs(), 10, None, wire);
    assert_eq!(fault(&checksum), [Came::Fault(FrameFault::BadChecksum)]);
    let bad_encoding = [Came::Fault(FrameFault::BadEncoding)];
    assert_eq!(
        fault(b"\x09abc\0"),
        bad_encoding,
        "a code that leads past the end"
    );
    assert_eq!(
        fault(b"\x04abc\0"),
        bad_encoding,
        "too short for a checksum"
    );
    assert_eq!(fault(&encoded(b"elevenbytes")), [too_long(10)]);
    assert_eq!(fault(&encoded(b"ten bytes!")), [frame(b"ten bytes!")]);
    assert_eq!(fault(&[7; 40]), [too_long(10)], "no end in sight");
}
