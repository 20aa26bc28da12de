//! Bytes from a peer, read whole and read in pieces with pauses: the same frames come out, and the
//! same faults, and what is kept never passes one frame of the limit.
//!
//! An input is `[framing, outcome, limit, pieces, a byte for each piece…, the stream…]`. A piece's byte
//! is its length in the low seven bits; the high bit pauses the link at its first frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_session::{
    ByteOrder, Found, FrameFault, Framer, Framing, Inbound, Lines, OnBadFrame, PrefixWidth,
    Unframeable,
};

fuzz_target!(|input: &[u8]| {
    let Some((&[framing, outcome, limit, pieces], rest)) = input.split_first_chunk::<4>() else {
        return;
    };
    let Some((pieces, stream)) = rest.split_at_checked(usize::from(pieces)) else {
        return;
    };
    let case = Case {
        framing: framing_of(framing),
        on_bad_frame: OUTCOMES[usize::from(outcome) % OUTCOMES.len()],
        limit_bytes: usize::from(limit),
    };
    let whole = receive(&case, stream, &[]);
    let cut = receive(&case, stream, pieces);
    if case.framing == Framing::Raw {
        // There a frame is what one read returned.
        let frames = |read: Read| read.came.into_iter().flatten().collect::<Vec<_>>().concat();
        assert_eq!(frames(whole), stream);
        assert_eq!(frames(cut), stream);
        return;
    }
    // One more may stand there where a carriage return is stripped.
    let most_bytes = case.framing.encoded_limit_bytes(case.limit_bytes) + 1;
    assert!(whole.kept_bytes <= most_bytes && cut.kept_bytes <= most_bytes);
    let frames = cut.came.iter().flatten();
    assert!({ frames }.all(|frame| frame.len() <= case.limit_bytes));
    assert_eq!(whole, cut);
    encoded_again(&case, &whole);
});

struct Case {
    framing: Framing,
    on_bad_frame: Option<OnBadFrame>,
    limit_bytes: usize,
}

#[derive(Debug, PartialEq, Default)]
struct Read {
    came: Vec<Result<Vec<u8>, FrameFault>>,
    untold: Option<FrameFault>,
    kept_bytes: usize,
    skipped_bytes: u64,
}

fn receive(case: &Case, stream: &[u8], pieces: &[u8]) -> Read {
    let mut inbound = Inbound::new(case.framing.clone(), case.limit_bytes, case.on_bad_frame);
    let mut read = Read::default();
    let mut left = stream;
    let lengths = pieces
        .iter()
        .map(|piece| (usize::from(piece & 0x7f), piece & 0x80 != 0));
    for (length, pauses) in lengths.chain([(usize::MAX, false)]) {
        let (piece, rest) = left.split_at(length.min(left.len()));
        left = rest;
        if pauses {
            let mut frames = inbound.frames(piece);
            read.came
                .extend(frames.next().map(|frame| frame.map(<[u8]>::to_vec)));
            frames.keep();
        }
        let closed = |read: &Read| matches!(read.came.last(), Some(Err(_)));
        if inbound.closes() && closed(&read) {
            return read;
        }
        let mut frames = inbound.frames(if pauses { &[] } else { piece });
        while let Some(frame) = frames.next() {
            read.came.push(frame.map(<[u8]>::to_vec));
            if closed(&read) && closes(case) {
                return read;
            }
        }
    }
    read.untold = inbound.end();
    read.kept_bytes = inbound.kept_bytes();
    read.skipped_bytes = inbound.skipped_bytes();
    read
}

fn closes(case: &Case) -> bool {
    let default = case.framing.default_on_bad_frame();
    case.on_bad_frame.unwrap_or(default) == OnBadFrame::Close
}

/// What came out goes in again, and comes out again.
fn encoded_again(case: &Case, read: &Read) {
    let mut stream = Vec::new();
    let mut frames = Vec::new();
    for frame in read.came.iter().flatten() {
        // A line may hold what only a reader understands: a carriage return before a stripped one.
        if case.framing.encode(frame, &mut stream).is_ok() {
            frames.push(Ok(frame.clone()));
        }
    }
    assert_eq!(receive(case, &stream, &[]).came, frames);
}

const OUTCOMES: [Option<OnBadFrame>; 4] = [
    None,
    Some(OnBadFrame::Close),
    Some(OnBadFrame::Skip),
    Some(OnBadFrame::Resynchronise),
];

fn framing_of(byte: u8) -> Framing {
    match byte % 17 {
        0 => Framing::Raw,
        1 => prefix(PrefixWidth::One, ByteOrder::Big),
        2 => prefix(PrefixWidth::One, ByteOrder::Little),
        3 => prefix(PrefixWidth::Two, ByteOrder::Big),
        4 => prefix(PrefixWidth::Two, ByteOrder::Little),
        5 => prefix(PrefixWidth::Four, ByteOrder::Big),
        6 => prefix(PrefixWidth::Four, ByteOrder::Little),
        7 => Framing::lines(),
        8 => lines(b"\n", true),
        9 => lines(b"\r\n", false),
        10 => lines(b"abab", true),
        11 => Framing::pattern("<", ">"),
        12 => Framing::pattern("ab", "ba"),
        13 => Framing::pattern("~", "~"),
        14 => Framing::pattern("aab", "aaab"),
        15 => Framing::cobs(),
        _ => Framing::own(Summed),
    }
}

const fn prefix(width: PrefixWidth, order: ByteOrder) -> Framing {
    Framing::LengthPrefix { width, order }
}

fn lines(delimiter: &[u8], strip_cr: bool) -> Framing {
    Framing::Lines(Lines {
        delimiter: delimiter.to_vec(),
        strip_cr,
    })
}

/// A user's own: a sync byte, a length, the payload and their sum.
#[derive(Debug)]
struct Summed;

impl Framer for Summed {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        let length = u8::try_from(payload.len()).map_err(|_| Unframeable)?;
        into.extend([b'!', length]);
        into.extend(payload);
        into.push(sum(payload));
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
        let payload_bytes = match *bytes {
            [b'!'] => return Found::Incomplete { needed_bytes: 2 },
            [b'!', length, ..] => usize::from(length),
            _ => return bad(FrameFault::BadEncoding),
        };
        match bytes.get(2..payload_bytes + 3) {
            None => Found::Incomplete {
                needed_bytes: payload_bytes + 3,
            },
            Some(rest) if rest[payload_bytes] != sum(&rest[..payload_bytes]) => {
                bad(FrameFault::BadChecksum)
            }
            Some(_) => Found::Frame {
                header_bytes: 2,
                payload_bytes,
                trailer_bytes: 1,
            },
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
