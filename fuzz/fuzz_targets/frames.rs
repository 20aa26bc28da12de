//! Bytes from a peer, read whole and read in pieces with pauses: the same frames come out, or the
//! same fault, and what is kept never passes one frame of the limit.
//!
//! An input is `[framing, limit, pieces, a byte for each piece…, the stream…]`. A piece's byte is its
//! length in the low seven bits; the high bit pauses the link at its first frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_session::{ByteOrder, FrameFault, Framing, Inbound, PrefixWidth};

fuzz_target!(|input: &[u8]| {
    let Some((&[framing, limit, pieces], rest)) = input.split_first_chunk::<3>() else {
        return;
    };
    let Some((pieces, stream)) = rest.split_at_checked(usize::from(pieces)) else {
        return;
    };
    let framing = FRAMINGS[usize::from(framing) % FRAMINGS.len()];
    let limit_bytes = usize::from(limit);
    let whole = receive(framing, limit_bytes, stream, &[]);
    let cut = receive(framing, limit_bytes, stream, pieces);
    if framing == Framing::Raw {
        // There a frame is what one read returned.
        assert_eq!(whole.frames.concat(), stream);
        assert_eq!(cut.frames.concat(), stream);
    } else {
        assert_eq!(whole, cut);
        assert!(cut.kept_bytes < framing.header_bytes() + limit_bytes.max(1));
        assert!(cut.frames.iter().all(|frame| frame.len() <= limit_bytes));
    }
});

#[derive(Debug, PartialEq, Default)]
struct Outcome {
    frames: Vec<Vec<u8>>,
    fault: Option<FrameFault>,
    kept_bytes: usize,
}

fn receive(framing: Framing, limit_bytes: usize, stream: &[u8], pieces: &[u8]) -> Outcome {
    let mut inbound = Inbound::new(framing, limit_bytes);
    let mut outcome = Outcome::default();
    let mut left = stream;
    let lengths = pieces
        .iter()
        .map(|piece| (usize::from(piece & 0x7f), piece & 0x80 != 0));
    for (length, pauses) in lengths.chain([(usize::MAX, false)]) {
        let (piece, rest) = left.split_at(length.min(left.len()));
        left = rest;
        if pauses {
            let mut frames = inbound.frames(piece);
            if !take(&mut outcome, frames.next()) {
                return outcome;
            }
            frames.keep();
        }
        let mut frames = inbound.frames(if pauses { &[] } else { piece });
        loop {
            let frame = frames.next();
            let last = frame.is_none();
            if !take(&mut outcome, frame) {
                return outcome;
            }
            if last {
                break;
            }
        }
    }
    outcome.kept_bytes = inbound.kept_bytes();
    outcome
}

/// False when the stream is over.
fn take(outcome: &mut Outcome, frame: Option<Result<&[u8], FrameFault>>) -> bool {
    match frame {
        Some(Ok(frame)) => outcome.frames.push(frame.to_vec()),
        Some(Err(fault)) => outcome.fault = Some(fault),
        None => {}
    }
    outcome.fault.is_none()
}

const FRAMINGS: [Framing; 7] = [
    Framing::Raw,
    prefix(PrefixWidth::One, ByteOrder::Big),
    prefix(PrefixWidth::One, ByteOrder::Little),
    prefix(PrefixWidth::Two, ByteOrder::Big),
    prefix(PrefixWidth::Two, ByteOrder::Little),
    prefix(PrefixWidth::Four, ByteOrder::Big),
    prefix(PrefixWidth::Four, ByteOrder::Little),
];

const fn prefix(width: PrefixWidth, order: ByteOrder) -> Framing {
    Framing::LengthPrefix { width, order }
}
