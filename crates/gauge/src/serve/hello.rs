//! How a stream client begins: what it wants, and whether it gets it.

use tautline::{DirectLink, RecvError};

use crate::wire::{
    self, HELLO_LIMIT_BYTES, Hello, MESSAGE_LIMIT_BYTES, Mode, PeerRecord, Refusal, Welcome,
};

/// What a client wants, and the bytes that came behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Everything echoed as it comes, these bytes first.
    Lagscope(Vec<u8>),
    Hello(Box<Hello>, Vec<u8>),
}

/// Reads until it is clear what the client wants; `None` if it left before, or we closed it. Whoever
/// watches bounds the time, and the limit of a hello the memory.
///
/// # Errors
///
/// Why it is nothing of ours, in words for both sides.
pub(super) fn read(link: &mut DirectLink) -> Result<Option<Beginning>, String> {
    let mut bytes = Vec::new();
    loop {
        match link.recv(None) {
            Ok(chunk) => bytes.extend_from_slice(chunk),
            Err(RecvError::Closed | RecvError::Failed(_)) if bytes.is_empty() => return Ok(None),
            Err(RecvError::Closed) => return Err("it ended in the middle of its hello".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        if let Some(beginning) = parse(&bytes)? {
            return Ok(Some(beginning));
        }
    }
}

/// What the first bytes say; `None` if more are needed.
fn parse(bytes: &[u8]) -> Result<Option<Beginning>, String> {
    if wire::is_lagscope(bytes) {
        return Ok(Some(Beginning::Lagscope(bytes.to_vec())));
    }
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    if wire::is_tls(length) {
        return Err("it speaks TLS, and this address does not".to_owned());
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > HELLO_LIMIT_BYTES {
        return Err(format!(
            "it is no client of `tautline serve`: it began with a length of {length} bytes, and a \
             hello has {HELLO_LIMIT_BYTES} at most"
        ));
    }
    if rest.len() < length {
        return Ok(None);
    }
    let (hello, rest) = rest.split_at(length);
    let hello = Hello::decode(hello).map_err(|error| error.to_string())?;
    Ok(Some(Beginning::Hello(Box::new(hello), rest.to_vec())))
}

/// Whether messages of this size can be had.
///
/// # Errors
///
/// Why not, in words for both sides.
pub(super) fn check_size(hello: &Hello, most_echoed_bytes: usize) -> Result<usize, String> {
    let bytes = hello.message_bytes as usize;
    let (least, most, what) = match hello.mode {
        Mode::Echo => (1, most_echoed_bytes, "echoed"),
        Mode::Sink => (
            crate::probe::HEADER_BYTES,
            MESSAGE_LIMIT_BYTES,
            "sent one way",
        ),
    };
    if (least..=most).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!(
        "messages of {bytes} bytes: those that are {what} have {least} to {most} here"
    ))
}

/// The answer as it goes out.
pub(super) fn welcome(record: &PeerRecord, refusal: Option<String>) -> Vec<u8> {
    let welcome = Welcome {
        refusal: refusal.map(|reason| Refusal { reason }),
        record: record.clone(),
    };
    frame(welcome.encode())
}

/// A body behind its length.
pub(super) fn frame(body: Vec<u8>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(mode: Mode, message_bytes: u32) -> Hello {
        Hello {
            mode,
            message_bytes,
            record: PeerRecord::default(),
        }
    }

    #[test]
    fn a_hello_is_known_wherever_it_is_cut() {
        let hello = hello(Mode::Echo, 64);
        let mut bytes = frame(hello.encode());
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), Ok(None), "{length}");
        }
        bytes.extend(b"more");
        let expected = Beginning::Hello(Box::new(hello), b"more".to_vec());
        assert_eq!(parse(&bytes), Ok(Some(expected)));
    }

    #[test]
    fn lagscope_is_known_by_its_first_byte() {
        let expected = Beginning::Lagscope(vec![0xd0]);
        assert_eq!(parse(&[0xd0]), Ok(Some(expected)));
    }

    #[test]
    fn foreign_bytes_are_refused_in_words() {
        let why = parse(b"GET / HTTP/1.1\r\n").unwrap_err();
        assert!(why.contains("a length of 1195725856 bytes"), "{why}");
        assert!(parse(&[0xff; 4]).is_err());
        assert_eq!(
            parse(&[0x16, 3, 1, 2]),
            Err("it speaks TLS, and this address does not".to_owned())
        );
        assert_eq!(
            parse(&[0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
            Err("it does not speak the protocol of `tautline serve`".to_owned())
        );
    }

    #[test]
    fn sizes_have_bounds() {
        let check = |mode, bytes| check_size(&hello(mode, bytes), MESSAGE_LIMIT_BYTES);
        assert_eq!(check(Mode::Echo, 1), Ok(1));
        assert_eq!(check(Mode::Sink, 16), Ok(16));
        assert_eq!(check(Mode::Echo, 64 * 1024 * 1024), Ok(67_108_864));
        assert_eq!(
            check(Mode::Echo, 0),
            Err("messages of 0 bytes: those that are echoed have 1 to 67108864 here".to_owned())
        );
        assert!(check(Mode::Echo, 67_108_865).is_err());
        assert_eq!(
            check(Mode::Sink, 15),
            Err(
                "messages of 15 bytes: those that are sent one way have 16 to 67108864 here"
                    .to_owned()
            )
        );
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            ours: bool,
        ) {
            if ours && bytes.len() > 8 {
                // Far enough to reach what is behind length and magic.
                let length = bytes.len() as u32 - 4;
                bytes[..4].copy_from_slice(&length.to_be_bytes());
                bytes[4..8].copy_from_slice(&wire::MAGIC);
            }
            let _ = parse(&bytes);
        }
    }
}
