//! Framing, for any stream and any cut of it: the same frames come out.
//!
//! A connection hands us a stream in pieces that mean nothing, and the application may pause in the
//! middle of one. Neither may show.

use proptest::prelude::*;
use tautline_session::{ByteOrder, FrameFault, Framing, Inbound, PrefixWidth};

const FRAME_LIMIT: usize = 300;

/// What came out of a stream: frames, and the fault that ended it.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    frames: Vec<Vec<u8>>,
    fault: Option<FrameFault>,
    kept_bytes: usize,
}

/// Reads the stream in pieces of these lengths, whatever is left in one piece; where `pauses` says
/// so, keeps what is left of a read after a frame and goes on from there before the next read.
fn receive(framing: Framing, stream: &[u8], pieces: &[usize], pauses: &[bool]) -> Outcome {
    let mut inbound = Inbound::new(framing, FRAME_LIMIT);
    let mut outcome = Outcome::default();
    let mut pauses = pauses.iter().copied();
    let mut left = stream;
    for length in pieces.iter().copied().chain([usize::MAX]) {
        let (piece, rest) = left.split_at(length.min(left.len()));
        left = rest;
        let mut piece = Some(piece);
        while let Some(bytes) = piece.take() {
            let mut frames = inbound.frames(bytes);
            while let Some(frame) = frames.next() {
                match frame {
                    Ok(frame) => outcome.frames.push(frame.to_vec()),
                    Err(fault) => {
                        outcome.fault = Some(fault);
                        return outcome;
                    }
                }
                if pauses.next().unwrap_or(false) {
                    frames.keep();
                    // What was kept comes out without another read.
                    piece = Some(&[]);
                    break;
                }
            }
        }
    }
    outcome.kept_bytes = inbound.kept_bytes();
    outcome
}

fn encode(framing: Framing, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for payload in payloads {
        stream.extend_from_slice(&framing.header(payload.len()));
        stream.extend_from_slice(payload);
    }
    stream
}

fn prefixes() -> impl Strategy<Value = Framing> {
    let widths = prop::sample::select(vec![PrefixWidth::One, PrefixWidth::Two, PrefixWidth::Four]);
    let orders = prop::sample::select(vec![ByteOrder::Big, ByteOrder::Little]);
    (widths, orders).prop_map(|(width, order)| Framing::LengthPrefix { width, order })
}

/// Payloads that even a prefix of one byte can announce.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=255), 0..12)
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..200_usize, 0..30)
}

fn pauses() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), 0..20)
}

proptest! {
    // A failing case is printed small; nobody has to keep it in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_of_a_stream_yields_the_frames_that_went_in(
        framing in prefixes(),
        payloads in payloads(),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let stream = encode(framing, &payloads);
        let outcome = receive(framing, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames, payloads);
        prop_assert_eq!(outcome.fault, None);
        prop_assert_eq!(outcome.kept_bytes, 0);
    }

    #[test]
    fn byte_by_byte_yields_the_frames_that_went_in(
        framing in prefixes(),
        payloads in payloads(),
        pauses in pauses(),
    ) {
        let stream = encode(framing, &payloads);
        let outcome = receive(framing, &stream, &vec![1; stream.len()], &pauses);
        prop_assert_eq!(outcome.frames, payloads);
    }

    #[test]
    fn a_stream_that_ends_early_yields_its_whole_frames_and_keeps_the_rest(
        framing in prefixes(),
        payloads in payloads(),
        pieces in pieces(),
        pauses in pauses(),
        missing in 0..400_usize,
    ) {
        let mut stream = encode(framing, &payloads);
        stream.truncate(stream.len().saturating_sub(missing));
        let mut left = stream.len();
        let whole: Vec<Vec<u8>> = payloads
            .into_iter()
            .take_while(|payload| {
                let encoded_bytes = framing.header_bytes() + payload.len();
                let fits = encoded_bytes <= left;
                left -= if fits { encoded_bytes } else { 0 };
                fits
            })
            .collect();
        let outcome = receive(framing, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames, whole);
        prop_assert_eq!(outcome.kept_bytes, left);
    }

    #[test]
    fn an_oversize_frame_ends_the_stream_wherever_it_was_cut(
        order in prop::sample::select(vec![ByteOrder::Big, ByteOrder::Little]),
        width in prop::sample::select(vec![PrefixWidth::Two, PrefixWidth::Four]),
        payloads in payloads(),
        announced in FRAME_LIMIT + 1..=65_535,
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let framing = Framing::LengthPrefix { width, order };
        let mut stream = encode(framing, &payloads);
        stream.extend_from_slice(&framing.header(announced));
        let outcome = receive(framing, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames, payloads);
        prop_assert_eq!(outcome.fault, Some(FrameFault::TooLarge {
            announced_bytes: announced as u64,
            limit_bytes: 300,
        }));
    }

    #[test]
    fn bytes_of_no_meaning_yield_the_same_however_they_are_cut(
        framing in prefixes(),
        stream in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..600),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let whole = receive(framing, &stream, &[], &[]);
        let cut = receive(framing, &stream, &pieces, &pauses);
        prop_assert!(cut.kept_bytes < framing.header_bytes() + FRAME_LIMIT);
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn raw_delivers_every_byte_in_order_and_each_read_as_it_came(
        stream in prop::collection::vec(any::<u8>(), 0..600),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let outcome = receive(Framing::Raw, &stream, &pieces, &pauses);
        let mut expected = Vec::new();
        let mut left = &stream[..];
        for length in pieces.iter().copied().chain([usize::MAX]) {
            let (piece, rest) = left.split_at(length.min(left.len()));
            left = rest;
            if !piece.is_empty() {
                expected.push(piece.to_vec());
            }
        }
        prop_assert_eq!(outcome.frames, expected);
        prop_assert_eq!(outcome.kept_bytes, 0);
    }

    #[test]
    fn a_header_is_read_back_as_the_length_it_was_made_of(
        framing in prefixes(),
        length in any::<u32>(),
    ) {
        let length = (length as usize).min(framing.payload_limit_bytes());
        let header = framing.header(length);
        prop_assert_eq!(header.len(), framing.header_bytes());
        let step = framing.parse(&header, usize::MAX);
        let expected = if length == 0 {
            tautline_session::Step::Frame { header_bytes: header.len(), payload_bytes: 0 }
        } else {
            tautline_session::Step::Incomplete { needed_bytes: header.len() + length }
        };
        prop_assert_eq!(step, expected);
    }
}
