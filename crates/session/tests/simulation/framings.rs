//! Every framing, for lives to be lived with.

use tautline_session::{
    ByteOrder, Found, FrameFault, Framer, Framing, Lines, PrefixWidth, Unframeable,
};

use crate::random::Random;

/// What each is called in a table of lives.
pub(crate) const NAMES: [&str; 11] = [
    "raw",
    "prefix",
    "prefix of 1",
    "prefix of 2",
    "prefix of 2, little",
    "prefix of 4, little",
    "lines",
    "lines, CR LF",
    "pattern",
    "cobs",
    "own",
];

/// One of them and its name, the plain ones more often.
pub(crate) fn any(random: &mut Random) -> (&'static str, Framing) {
    let name = NAMES[random.up_to(NAMES.len() + 1) % NAMES.len()];
    let framing = match name {
        "raw" => Framing::Raw,
        "prefix" => Framing::length_prefix(),
        "prefix of 1" => prefix(PrefixWidth::One, ByteOrder::Big),
        "prefix of 2" => prefix(PrefixWidth::Two, ByteOrder::Big),
        "prefix of 2, little" => prefix(PrefixWidth::Two, ByteOrder::Little),
        "prefix of 4, little" => prefix(PrefixWidth::Four, ByteOrder::Little),
        "lines" => lines(b"\n", random),
        "lines, CR LF" => lines(b"\r\n", random),
        "pattern" => Framing::pattern([2], [3, 4]),
        "cobs" => Framing::cobs(),
        _ => Framing::own(Doubled),
    };
    (name, framing)
}

const fn prefix(width: PrefixWidth, order: ByteOrder) -> Framing {
    Framing::LengthPrefix { width, order }
}

fn lines(delimiter: &[u8], random: &mut Random) -> Framing {
    Framing::Lines(Lines {
        delimiter: delimiter.to_vec(),
        strip_cr: random.one_in(2),
    })
}

/// Each zero in a payload is doubled, and a zero and a one end it: how long it gets depends on it.
#[derive(Debug)]
struct Doubled;

impl Framer for Doubled {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        for byte in payload {
            into.push(*byte);
            if *byte == 0 {
                into.push(0);
            }
        }
        into.extend([0, 1]);
        Ok(())
    }

    fn overhead_limit_bytes(&self, payload_bytes: usize) -> usize {
        payload_bytes + 2
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, decoded: &mut Vec<u8>) -> Found {
        let mut left = bytes;
        loop {
            left = match left {
                [0, 1, ..] => {
                    let frame_bytes = bytes.len() - left.len() + 2;
                    return Found::Decoded { frame_bytes };
                }
                [0, 0, rest @ ..] => {
                    decoded.push(0);
                    rest
                }
                [] | [0] => {
                    let needed_bytes = bytes.len() + 1;
                    return Found::Incomplete { needed_bytes };
                }
                [0, ..] => {
                    let fault = FrameFault::BadEncoding;
                    return Found::Bad {
                        fault,
                        pass_bytes: 1,
                    };
                }
                [byte, rest @ ..] => {
                    decoded.push(*byte);
                    rest
                }
            };
        }
    }
}
