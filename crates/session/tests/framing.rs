//! Framing, for any stream and any cut of it: the same frames come out, and the same faults.
//!
//! A connection hands us a stream in pieces that mean nothing, and the application may pause in the
//! middle of one. Neither may show.

use proptest::prelude::*;
use tautline_session::{
    ByteOrder, Encoded, Found, FrameFault, Framer, Framing, Inbound, Lines, OnBadFrame,
    PrefixWidth, Unframeable,
};

const FRAME_LIMIT: usize = 300;

/// What came out of a stream: frames and faults in order, and what is left.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    came: Vec<Result<Vec<u8>, FrameFault>>,
    untold: Option<FrameFault>,
    kept_bytes: usize,
    skipped_bytes: u64,
    /// The most that was kept between two reads, pauses aside.
    most_kept_bytes: usize,
}

impl Outcome {
    fn frames(&self) -> Vec<Vec<u8>> {
        self.came.iter().flatten().cloned().collect()
    }

    fn faults(&self) -> usize {
        self.came.iter().filter(|one| one.is_err()).count()
    }
}

/// Reads the stream in pieces of these lengths, whatever is left in one piece; where `pauses` says
/// so, keeps what is left of a read after a frame and goes on from there before the next read.
fn receive(case: &Case, stream: &[u8], pieces: &[usize], pauses: &[bool]) -> Outcome {
    let mut inbound = Inbound::new(case.framing.clone(), case.limit_bytes, case.on_bad_frame);
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
                outcome.came.push(frame.map(<[u8]>::to_vec));
                if outcome.faults() > 0 && case.closes() {
                    // What is kept by then depends on the cut, and is nobody's any more.
                    return outcome;
                }
                if pauses.next().unwrap_or(false) {
                    frames.keep();
                    // What was kept comes out without another read.
                    piece = Some(&[]);
                    break;
                }
            }
        }
        outcome.most_kept_bytes = outcome.most_kept_bytes.max(inbound.kept_bytes());
    }
    outcome.untold = inbound.end();
    outcome.kept_bytes = inbound.kept_bytes();
    outcome.skipped_bytes = inbound.skipped_bytes();
    outcome
}

/// A framing, and what to do with what it cannot read.
#[derive(Debug, Clone)]
struct Case {
    framing: Framing,
    on_bad_frame: Option<OnBadFrame>,
    limit_bytes: usize,
}

impl Case {
    fn closes(&self) -> bool {
        self.outcome() == OnBadFrame::Close
    }

    fn outcome(&self) -> OnBadFrame {
        let default = self.framing.default_on_bad_frame();
        self.on_bad_frame.unwrap_or(default)
    }
}

/// A sync byte, a length, the payload and their sum.
#[derive(Debug)]
struct Summed;

impl Framer for Summed {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        let length = u8::try_from(payload.len()).map_err(|_| Unframeable)?;
        into.extend([b'!', length]);
        into.extend(payload);
        into.push(sum(payload).wrapping_add(length));
        Ok(())
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        3
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, _: &mut Vec<u8>) -> Found {
        let bad = |fault| Found::Bad {
            fault,
            pass_bytes: 1,
        };
        match *bytes {
            [b'!', length, ref rest @ ..] => match rest.split_at_checked(usize::from(length)) {
                Some((payload, [check, ..])) if *check == sum(payload).wrapping_add(length) => {
                    Found::Frame {
                        header_bytes: 2,
                        payload_bytes: payload.len(),
                        trailer_bytes: 1,
                    }
                }
                Some((_, [_, ..])) => bad(FrameFault::BadChecksum),
                _ => Found::Incomplete {
                    needed_bytes: 3 + usize::from(length),
                },
            },
            [b'!'] => Found::Incomplete { needed_bytes: 2 },
            _ => bad(FrameFault::BadEncoding),
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Encodes what the framing can carry; returns that too.
fn encode(framing: &Framing, payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut stream = Vec::new();
    let carried = payloads
        .iter()
        .filter(|payload| framing.encode(payload, &mut stream).is_ok())
        .cloned()
        .collect();
    (stream, carried)
}

fn prefixes() -> impl Strategy<Value = Framing> {
    let widths = prop::sample::select(vec![PrefixWidth::One, PrefixWidth::Two, PrefixWidth::Four]);
    let orders = prop::sample::select(vec![ByteOrder::Big, ByteOrder::Little]);
    (widths, orders).prop_map(|(width, order)| Framing::LengthPrefix { width, order })
}

/// A few bytes of few kinds, so that they meet themselves, each other, and what they stand in.
fn mark(most_bytes: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 1..=most_bytes)
}

fn framings() -> impl Strategy<Value = Framing> {
    prop_oneof![
        prefixes(),
        (mark(8), any::<bool>()).prop_map(|(delimiter, strip_cr)| {
            Framing::Lines(Lines {
                delimiter,
                strip_cr,
            })
        }),
        (mark(16), mark(16)).prop_map(|(start, end)| Framing::pattern(start, end)),
        Just(Framing::lines()),
        Just(Framing::pattern("a", "b")),
        Just(Framing::cobs()),
        Just(Framing::own(Summed)),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let outcomes = vec![
        None,
        Some(OnBadFrame::Close),
        Some(OnBadFrame::Skip),
        Some(OnBadFrame::Resynchronise),
    ];
    (framings(), prop::sample::select(outcomes)).prop_map(|(framing, on_bad_frame)| Case {
        framing,
        on_bad_frame,
        limit_bytes: FRAME_LIMIT,
    })
}

/// With limits that noise passes.
fn cases_with_any_limit() -> impl Strategy<Value = Case> {
    let limits = prop::sample::select(vec![1, 2, 7, 60, FRAME_LIMIT]);
    (cases(), limits).prop_map(|(case, limit_bytes)| Case {
        limit_bytes,
        ..case
    })
}

/// Payloads that even a prefix of one byte can announce.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=255),
        prop::collection::vec(prop::sample::select(b"ab\r\n\0".to_vec()), 0..20),
    ];
    prop::collection::vec(bytes, 0..12)
}

/// Bytes among which every framing here finds its marks, and some frames.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        0..4_u8,
        any::<u8>(),
        prop::sample::select(b"ab\r\n!".to_vec())
    ];
    prop::collection::vec(byte, 0..900)
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..200_usize, 0..30)
}

fn pauses() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(any::<bool>(), 0..20)
}

proptest! {
    // A failing case is printed small; nobody has to keep it in a file.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 1000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_cut_of_a_stream_yields_the_frames_that_went_in(
        case in cases(),
        payloads in payloads(),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let (stream, carried) = encode(&case.framing, &payloads);
        let outcome = receive(&case, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames(), carried);
        prop_assert_eq!(outcome.faults(), 0);
        prop_assert_eq!((outcome.kept_bytes, outcome.skipped_bytes), (0, 0));
    }

    #[test]
    fn byte_by_byte_yields_the_frames_that_went_in(
        case in cases(),
        payloads in payloads(),
        pauses in pauses(),
    ) {
        let (stream, carried) = encode(&case.framing, &payloads);
        let outcome = receive(&case, &stream, &vec![1; stream.len()], &pauses);
        prop_assert_eq!(outcome.frames(), carried);
        prop_assert_eq!(outcome.faults(), 0);
    }

    #[test]
    fn what_weighs_what_it_was_said_to_weigh(framing in framings(), payloads in payloads()) {
        for payload in &payloads {
            let mut wire = Vec::new();
            if framing.encode(payload, &mut wire).is_ok() {
                prop_assert!(wire.len() <= framing.encoded_limit_bytes(payload.len()));
                prop_assert!(payload.len() <= framing.payload_limit_bytes());
                let mut encoded = Encoded::default();
                prop_assert_eq!(encoded.encode(&framing, payload), Ok(()));
                prop_assert_eq!(encoded.bytes(), &wire[..]);
                prop_assert_eq!(encoded.payload_bytes(), payload.len());
            } else {
                prop_assert_eq!(wire, b"");
            }
        }
    }

    #[test]
    fn a_stream_that_ends_early_yields_its_whole_frames_and_keeps_the_rest(
        case in cases(),
        payloads in payloads(),
        pieces in pieces(),
        pauses in pauses(),
        missing in 0..400_usize,
    ) {
        let (mut stream, carried) = encode(&case.framing, &payloads);
        stream.truncate(stream.len().saturating_sub(missing));
        let mut left = stream.len();
        let mut whole = Vec::new();
        for payload in carried {
            let mut wire = Vec::new();
            case.framing.encode(&payload, &mut wire).unwrap();
            if wire.len() > left {
                break;
            }
            left -= wire.len();
            whole.push(payload);
        }
        let outcome = receive(&case, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames(), whole);
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
        let case = Case {
            framing: Framing::LengthPrefix { width, order },
            on_bad_frame: None,
            limit_bytes: FRAME_LIMIT,
        };
        let (mut stream, _) = encode(&case.framing, &payloads);
        stream.extend_from_slice(&case.framing.header(announced));
        let outcome = receive(&case, &stream, &pieces, &pauses);
        prop_assert_eq!(outcome.frames(), payloads);
        prop_assert_eq!(outcome.came.last(), Some(&Err(FrameFault::TooLarge {
            announced_bytes: announced as u64,
            limit_bytes: 300,
        })));
    }

    #[test]
    fn bytes_of_no_meaning_yield_the_same_however_they_are_cut(
        case in cases_with_any_limit(),
        stream in noise(),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let mut whole = receive(&case, &stream, &[], &[]);
        let mut cut = receive(&case, &stream, &pieces, &pauses);
        let bound = case.framing.encoded_limit_bytes(case.limit_bytes);
        // One more may stand there where a carriage return is stripped.
        prop_assert!(whole.most_kept_bytes <= bound + 1);
        prop_assert!(cut.most_kept_bytes <= bound + 1);
        prop_assert!(cut.frames().iter().all(|frame| frame.len() <= case.limit_bytes));
        (whole.most_kept_bytes, cut.most_kept_bytes) = (0, 0);
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn frames_behind_noise_are_found_where_the_framing_can(
        case in cases(),
        noise in noise(),
        payloads in payloads(),
    ) {
        // Where one byte ends a frame, whatever came before: it is no part of another mark.
        let finds = match &case.framing {
            Framing::Lines(lines) => lines.delimiter.len() == 1,
            framing => *framing == Framing::Cobs,
        };
        let finds = finds && !case.closes();
        if finds {
            let end: &[u8] = match &case.framing {
                Framing::Lines(lines) => &lines.delimiter,
                _ => &[0],
            };
            let (stream, carried) = encode(&case.framing, &payloads);
            let joined = [&noise[..], end, &stream].concat();
            let frames = receive(&case, &joined, &[], &[]).frames();
            prop_assert!(frames.ends_with(&carried), "{frames:?} ends with {carried:?}");
        }
    }

    #[test]
    fn raw_delivers_every_byte_in_order_and_each_read_as_it_came(
        stream in prop::collection::vec(any::<u8>(), 0..600),
        pieces in pieces(),
        pauses in pauses(),
    ) {
        let raw = Case { framing: Framing::Raw, on_bad_frame: None, limit_bytes: FRAME_LIMIT };
        let outcome = receive(&raw, &stream, &pieces, &pauses);
        let mut expected = Vec::new();
        let mut left = &stream[..];
        for length in pieces.iter().copied().chain([usize::MAX]) {
            let (piece, rest) = left.split_at(length.min(left.len()));
            left = rest;
            if !piece.is_empty() {
                expected.push(piece.to_vec());
            }
        }
        prop_assert_eq!(outcome.frames(), expected);
        prop_assert_eq!(outcome.kept_bytes, 0);
    }

    #[test]
    fn a_header_is_read_back_as_the_length_it_was_made_of(
        framing in prefixes(),
        length in any::<u32>(),
    ) {
        use tautline_session::{Parser, Step};

        let length = (length as usize).min(framing.payload_limit_bytes());
        let header = framing.header(length);
        prop_assert_eq!(header.len(), framing.header_bytes());
        let step = Parser::new(framing, usize::MAX, None).next(&header);
        let expected = if length == 0 {
            Step::Frame { header_bytes: header.len(), payload_bytes: 0, trailer_bytes: 0 }
        } else {
            Step::Incomplete { needed_bytes: header.len() + length }
        };
        prop_assert_eq!(step, expected);
    }
}
