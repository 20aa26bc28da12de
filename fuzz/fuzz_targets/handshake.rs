//! What a client and a server hear before the first message: a body is refused with a reason, or it reads
//! as something that is written and read again as the same; a datagram's header likewise.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_gauge::wire::{Counts, HEADER_BYTES, Header, Hello, Welcome, is_lagscope};

fuzz_target!(|bytes: &[u8]| {
    let _ = is_lagscope(bytes);
    if let Ok(hello) = Hello::decode(bytes)
        && hello.message_bytes != 0
    {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }
    if let Ok(counts) = Counts::decode(bytes) {
        assert_eq!(Counts::decode(&counts.encode()), Ok(counts));
    }
    if let Some(header) = Header::read(bytes) {
        let mut written = bytes.to_vec();
        header.write(&mut written);
        assert_eq!(&written[..HEADER_BYTES], &bytes[..HEADER_BYTES]);
    }
});
