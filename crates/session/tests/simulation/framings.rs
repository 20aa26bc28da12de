//! Every framing, for lives to be lived with.

use tautline_session::{
    ByteOrder, Found, FrameFault, Framer, Framing, Lines, PrefixWidth, Unframeable,
};

use crate::random::Random;

/// One of them, the plain ones more often.
pub(crate) fn any(random: &mut Random) -> Framing {
    match random.up_to(11) {
        0..=1 => Framing::Raw,
        2..=3 => Framing::length_prefix(),
        4 => prefix(PrefixWidth::One, ByteOrder::Big),
        5 => prefix(PrefixWidth::Two, ByteOrder::Big),
        6 => prefix(PrefixWidth::Two, ByteOrder::Little),
        7 => prefix(PrefixWidth::Four, ByteOrder::Little),
        8 => Framing::Lines(Lines {
            delimiter: random.pick(&[&b"\n"[..], b"\r\n"]).to_vec(),
            strip_cr: random.one_in(2),
        }),
        9 => Framing::pattern([2], [3, 4]),
        10 => Framing::cobs(),
        _ => Framing::own(Doubled),
    }
}

const fn prefix(width: PrefixWidth, order: ByteOrder) -> Framing {
    Framing::LengthPrefix { width, order }
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
