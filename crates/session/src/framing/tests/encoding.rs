//! What goes to the wire, and what does not.

use super::*;

const TWO_LITTLE: Framing = Framing::LengthPrefix {
    width: PrefixWidth::Two,
    order: ByteOrder::Little,
};

fn encoded(framing: &Framing, payload: &[u8]) -> Vec<u8> {
    let mut wire = b"before".to_vec();
    framing.encode(payload, &mut wire).unwrap();
    assert!(wire.len() - 6 <= framing.encoded_limit_bytes(payload.len()));
    wire.split_off(6)
}

fn refuses(framing: &Framing, payload: &[u8]) {
    let mut wire = b"before".to_vec();
    assert_eq!(framing.encode(payload, &mut wire), Err(Unframeable));
    assert_eq!(wire, b"before");
}

fn lines(delimiter: &[u8], strip_cr: bool) -> Framing {
    Framing::Lines(Lines {
        delimiter: delimiter.to_vec(),
        strip_cr,
    })
}

#[test]
fn headers_have_the_width_and_order_asked_for() {
    let one = Framing::LengthPrefix {
        width: PrefixWidth::One,
        order: ByteOrder::Big,
    };
    let two_big = Framing::LengthPrefix {
        width: PrefixWidth::Two,
        order: ByteOrder::Big,
    };
    assert_eq!(&*Framing::Raw.header(300), &[] as &[u8]);
    assert_eq!(&*one.header(255), &[255]);
    assert_eq!(&*two_big.header(0x0102), &[1, 2]);
    assert_eq!(&*TWO_LITTLE.header(0x0102), &[2, 1]);
    assert_eq!(&*Framing::length_prefix().header(0x0102), &[0, 0, 1, 2]);
}

#[test]
fn each_framing_puts_its_marks_where_they_belong() {
    assert_eq!(encoded(&Framing::Raw, b"abc"), b"abc");
    assert_eq!(encoded(&TWO_LITTLE, b"abc"), b"\x03\0abc");
    assert_eq!(encoded(&Framing::lines(), b"abc"), b"abc\n");
    assert_eq!(encoded(&Framing::lines(), b""), b"\n");
    assert_eq!(encoded(&Framing::lines(), b"abc\r"), b"abc\r\n");
    assert_eq!(encoded(&lines(b"\r\n", false), b"a\nb"), b"a\nb\r\n");
    assert_eq!(encoded(&Framing::pattern("<<", ">>"), b"a>b"), b"<<a>b>>");
    assert_eq!(encoded(&Framing::pattern("<<", ">>"), b"<<"), b"<<<<>>");
}

#[test]
fn a_payload_with_a_mark_in_it_is_refused() {
    refuses(&Framing::lines(), b"two\nlines");
    refuses(&lines(b"\r\n", false), b"a\r\nb");
    refuses(&Framing::pattern("<<", ">>"), b"a>>b");
}

/// The reader would find an end that begins in the payload and ends in the mark.
#[test]
fn a_payload_that_makes_a_mark_together_with_the_mark_is_refused() {
    refuses(&lines(b"abab", false), b"xab");
    refuses(&Framing::pattern("<", "=="), b"x=");
    assert_eq!(encoded(&lines(b"aab", false), b"xa"), b"xaaab");
    assert_eq!(encoded(&lines(b"\r\n", false), b"x\r"), b"x\r\r\n");
}

#[test]
fn a_carriage_return_that_the_reader_would_strip_is_refused() {
    refuses(&lines(b"\n", true), b"abc\r");
    assert_eq!(encoded(&lines(b"\n", true), b"a\rb"), b"a\rb\n");
}

#[test]
fn a_payload_longer_than_a_prefix_can_say_is_refused() {
    assert_eq!(encoded(&TWO_LITTLE, &[0; 65_535]).len(), 65_537);
    refuses(&TWO_LITTLE, &[0; 65_536]);
}

#[test]
fn marks_that_are_empty_or_too_long_are_named() {
    let why = |framing: Framing| framing.check().unwrap_err();
    assert_eq!(
        why(lines(b"", false)),
        "the delimiter of lines is empty: nothing would mark a frame"
    );
    assert_eq!(
        why(lines(b"123456789", false)),
        "the delimiter of lines has 9 bytes, 8 is the most"
    );
    assert_eq!(
        why(Framing::pattern("", ">")),
        "the start pattern is empty: nothing would mark a frame"
    );
    assert_eq!(
        why(Framing::pattern("<", [b'>'; 17])),
        "the end pattern has 17 bytes, 16 is the most"
    );
    for framing in [
        lines(b"12345678", true),
        Framing::pattern([b'<'; 16], [b'>'; 16]),
        Framing::cobs(),
        Framing::length_prefix(),
        Framing::Raw,
    ] {
        assert_eq!(framing.check(), Ok(()));
    }
}

#[test]
fn the_longest_payload_within_some_room_is_exact() {
    assert_eq!(Framing::Raw.payload_within(100), 100);
    assert_eq!(Framing::length_prefix().payload_within(100), 96);
    assert_eq!(Framing::length_prefix().payload_within(3), 0);
    assert_eq!(Framing::pattern("<<", ">").payload_within(100), 97);
    // One code for up to 254 bytes, checksum included, and the zero.
    assert_eq!(Framing::cobs().payload_within(256), 250);
    assert_eq!(Framing::cobs().payload_within(257), 250);
    assert_eq!(Framing::cobs().payload_within(258), 251);
    assert_eq!(
        Framing::length_prefix().payload_limit_bytes(),
        4_294_967_291
    );
    assert_eq!(TWO_LITTLE.payload_limit_bytes(), 65_535);
    assert_eq!(Framing::lines().payload_limit_bytes(), 4_294_967_294);
}
