//! The framings, one by one; any stream and any cut of it is `tests/framing.rs`'s.

mod cobs;
mod encoding;
mod own;
mod parsing;

use super::*;

/// What comes out of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Frame(Vec<u8>),
    Fault(FrameFault),
}

fn frame(payload: &[u8]) -> Came {
    Came::Frame(payload.to_vec())
}

const fn junk(bytes: usize) -> Came {
    Came::Fault(FrameFault::Junk { bytes })
}

const fn too_long(limit_bytes: usize) -> Came {
    Came::Fault(FrameFault::TooLong { limit_bytes })
}

/// A parser with what it has not passed over yet.
struct Stream {
    parser: Parser,
    left: Vec<u8>,
    came: Vec<Came>,
    /// The most that was ever left.
    most_left_bytes: usize,
}

impl Stream {
    fn new(framing: &Framing, limit_bytes: usize, on_bad_frame: Option<OnBadFrame>) -> Self {
        Self {
            parser: Parser::new(framing.clone(), limit_bytes, on_bad_frame),
            left: Vec::new(),
            came: Vec::new(),
            most_left_bytes: 0,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.left.extend_from_slice(bytes);
        loop {
            let passed = match self.parser.next(&self.left) {
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                    trailer_bytes,
                } => {
                    let to = header_bytes + payload_bytes;
                    self.came.push(frame(&self.left[header_bytes..to]));
                    to + trailer_bytes
                }
                Step::Decoded { frame_bytes } => {
                    self.came.push(frame(self.parser.decoded()));
                    frame_bytes
                }
                Step::Pass { bytes } => bytes,
                Step::Incomplete { .. } => break,
                Step::Fault(fault) => {
                    self.came.push(Came::Fault(fault));
                    if self.parser.closes() {
                        break;
                    }
                    0
                }
            };
            self.left.drain(..passed);
        }
        self.most_left_bytes = self.most_left_bytes.max(self.left.len());
    }
}

/// All that comes out of a stream, the same however it is cut: whole, byte by byte, and in two.
fn all(
    framing: &Framing,
    limit_bytes: usize,
    on_bad_frame: Option<OnBadFrame>,
    bytes: &[u8],
) -> Vec<Came> {
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut stream = Stream::new(framing, limit_bytes, on_bad_frame);
        for piece in pieces {
            stream.read(piece);
            if stream.parser.closes() && matches!(stream.came.last(), Some(Came::Fault(_))) {
                break;
            }
        }
        stream
    };
    let whole = read(&mut std::iter::once(bytes));
    let single = read(&mut bytes.chunks(1));
    assert_eq!(whole.came, single.came, "byte by byte");
    assert_eq!(whole.parser.skipped_bytes(), single.parser.skipped_bytes());
    for cut in 0..bytes.len() {
        let (one, two) = bytes.split_at(cut);
        let cut_once = read(&mut [one, two].into_iter());
        assert_eq!(whole.came, cut_once.came, "cut at {cut}");
    }
    whole.came
}
