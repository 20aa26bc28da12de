//! Consistent Overhead Byte Stuffing around a payload and its CRC-32; a zero byte ends each frame.
//!
//! The wire format is written down at [`Framing::Cobs`](super::Framing::Cobs).

use super::Weight;
use super::crc::crc32;
use super::fault::FrameFault;
use super::marks;
use super::parser::Sighting;

/// The most that is added to a payload of this length: when no byte of it is a zero.
pub(super) const fn overhead_limit_bytes(payload_bytes: usize) -> usize {
    let pieces = payload_bytes
        .saturating_add(CHECKSUM_BYTES)
        .div_ceil(PIECE_BYTES);
    CHECKSUM_BYTES + pieces + 1
}

/// How long the frame of this payload will be, to the byte.
pub(super) fn weigh(payload: &[u8]) -> Weight {
    let checksum = crc32(payload);
    let mut codes = Codes::default();
    codes.pass(payload);
    codes.pass(&checksum.to_le_bytes());
    Weight {
        encoded_bytes: payload.len() + CHECKSUM_BYTES + codes.added() + 1,
        checksum,
    }
}

/// Appends the frame of this payload and its checksum.
pub(super) fn encode(payload: &[u8], checksum: u32, into: &mut Vec<u8>) {
    let mut stuffing = Stuffing::begin(into);
    stuffing.stuff(payload);
    stuffing.stuff(&checksum.to_le_bytes());
    stuffing.end();
}

/// Looks for one frame at the start of `bytes`, of which the first were searched already. What is in
/// it goes to `decoded`.
pub(super) fn find(
    bytes: &[u8],
    examined_bytes: usize,
    limit_bytes: usize,
    decoded: &mut Vec<u8>,
) -> Sighting {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    if zeros > 0 {
        return Sighting::Padding { bytes: zeros };
    }
    let longest = limit_bytes.saturating_add(overhead_limit_bytes(limit_bytes));
    let near = &bytes[..bytes.len().min(longest)];
    let from = examined_bytes.min(near.len());
    let Some(stuffed_bytes) = marks::find_from(near, &[0], from) else {
        return if bytes.len() >= longest {
            Sighting::Endless {
                examined_bytes: longest,
            }
        } else {
            Sighting::Incomplete {
                needed_bytes: marks::more_than(bytes.len(), longest),
            }
        };
    };
    let frame_bytes = stuffed_bytes + 1;
    let fault = match unstuff(&near[..stuffed_bytes], decoded) {
        Err(fault) => fault,
        // A limit that is no multiple of a piece leaves room for a little more.
        Ok(()) if decoded.len() > limit_bytes => FrameFault::TooLong { limit_bytes },
        Ok(()) => return Sighting::Decoded { frame_bytes },
    };
    Sighting::Bad {
        fault,
        pass_bytes: frame_bytes,
    }
}

/// Puts the payload of a frame, which has no zero in it, into `payload`.
fn unstuff(stuffed: &[u8], payload: &mut Vec<u8>) -> Result<(), FrameFault> {
    payload.clear();
    let mut left = stuffed;
    while let Some((&code, rest)) = left.split_first() {
        let piece_bytes = usize::from(code) - 1;
        let Some((piece, rest)) = rest.split_at_checked(piece_bytes) else {
            return Err(FrameFault::BadEncoding);
        };
        payload.extend_from_slice(piece);
        if piece_bytes < PIECE_BYTES && !rest.is_empty() {
            payload.push(0);
        }
        left = rest;
    }
    let Some((_, checksum)) = payload.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(FrameFault::BadEncoding);
    };
    let checksum = u32::from_le_bytes(*checksum);
    payload.truncate(payload.len() - CHECKSUM_BYTES);
    if crc32(payload) == checksum {
        Ok(())
    } else {
        Err(FrameFault::BadChecksum)
    }
}

/// Counts the pieces of what will be stuffed.
#[derive(Debug, Default)]
struct Codes {
    /// Codes that stand for no zero, besides the first: a piece went on behind its 254th byte.
    more: usize,
    /// Bytes since the last code.
    piece_bytes: usize,
}

impl Codes {
    fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let run_bytes = marks::find_byte(bytes, 0).unwrap_or(bytes.len());
            // A full piece gets a successor only when something follows.
            if run_bytes > 0 {
                let last = self.piece_bytes + run_bytes - 1;
                self.more += last / PIECE_BYTES;
                self.piece_bytes = last % PIECE_BYTES + 1;
            }
            if run_bytes == bytes.len() {
                return;
            }
            // The next code stands in the zero's place, unless that ends a piece of none.
            self.more += usize::from(self.piece_bytes == PIECE_BYTES);
            self.piece_bytes = 0;
            bytes = &bytes[run_bytes + 1..];
        }
    }

    /// Bytes more than went in.
    const fn added(&self) -> usize {
        self.more + 1
    }
}

/// Stuffs bytes behind what is in a vector already.
struct Stuffing<'a> {
    into: &'a mut Vec<u8>,
    /// Where the code of the piece goes that is not over yet.
    code_at: usize,
}

impl<'a> Stuffing<'a> {
    fn begin(into: &'a mut Vec<u8>) -> Self {
        let code_at = into.len();
        into.push(0);
        Self { into, code_at }
    }

    fn stuff(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room_bytes = PIECE_BYTES - self.piece_bytes();
            if room_bytes == 0 {
                self.next_piece();
                continue;
            }
            let near = &bytes[..bytes.len().min(room_bytes)];
            let run_bytes = marks::find_byte(near, 0).unwrap_or(near.len());
            self.into.extend_from_slice(&near[..run_bytes]);
            bytes = &bytes[run_bytes..];
            if run_bytes < near.len() {
                self.next_piece();
                bytes = &bytes[1..];
            }
        }
    }

    fn end(mut self) {
        self.write_code();
        self.into.push(0);
    }

    fn next_piece(&mut self) {
        self.write_code();
        self.code_at = self.into.len();
        self.into.push(0);
    }

    fn write_code(&mut self) {
        self.into[self.code_at] = self.piece_bytes() as u8 + 1;
    }

    fn piece_bytes(&self) -> usize {
        self.into.len() - self.code_at - 1
    }
}

/// Bytes without a zero that one code can stand before.
const PIECE_BYTES: usize = 254;
const CHECKSUM_BYTES: usize = 4;
