//! Frames and faults out of streams: where a frame ends, and what follows a bad one.

use super::super::marks::LOOKED_AT;
use super::*;

const CLOSE: Option<OnBadFrame> = Some(OnBadFrame::Close);
const SKIP: Option<OnBadFrame> = Some(OnBadFrame::Skip);

fn two_little() -> Framing {
    Framing::LengthPrefix {
        width: PrefixWidth::Two,
        order: ByteOrder::Little,
    }
}

fn crlf(strip_cr: bool) -> Framing {
    Framing::Lines(Lines {
        delimiter: if strip_cr {
            b"\n".to_vec()
        } else {
            b"\r\n".to_vec()
        },
        strip_cr,
    })
}

const fn too_large(announced_bytes: u64, limit_bytes: usize) -> Came {
    Came::Fault(FrameFault::TooLarge {
        announced_bytes,
        limit_bytes,
    })
}

#[test]
fn an_announced_length_above_the_limit_is_a_fault_before_any_payload_came() {
    let mut stream = Stream::new(&Framing::length_prefix(), 1 << 20, None);
    stream.read(&[0xff, 0xff, 0xff, 0xff]);
    assert_eq!(stream.came, [too_large(4_294_967_295, 1_048_576)]);
    stream.read(b"and more");
    assert_eq!(stream.came.len(), 2, "the same again");
    assert_eq!(stream.came[0], stream.came[1]);
}

#[test]
fn a_frame_of_exactly_the_limit_passes() {
    let parse = |limit, bytes: &[u8], framing: &Framing| all(framing, limit, None, bytes);
    assert_eq!(parse(3, b"\x03\0abc", &two_little()), [frame(b"abc")]);
    assert_eq!(parse(3, b"\0\0", &two_little()), [frame(b"")]);
    assert_eq!(parse(3, b"abc\n", &Framing::lines()), [frame(b"abc")]);
    assert_eq!(parse(3, b"abc\r\n", &crlf(false)), [frame(b"abc")]);
    assert_eq!(parse(3, b"abc\r\n", &crlf(true)), [frame(b"abc")]);
    let pattern = Framing::pattern("<<", ">>");
    assert_eq!(parse(3, b"<<abc>>", &pattern), [frame(b"abc")]);
}

#[test]
fn what_is_needed_of_a_length_prefixed_frame_is_known() {
    let mut parser = Parser::new(two_little(), 9, None);
    assert_eq!(parser.next(&[5]), Step::Incomplete { needed_bytes: 2 });
    assert_eq!(
        parser.next(&[5, 0, 1]),
        Step::Incomplete { needed_bytes: 7 }
    );
}

#[test]
fn skipping_an_oversize_frame_passes_over_exactly_what_it_announced() {
    let wire = b"\x01\0a\x05\0bcdef\x01\0g";
    let came = all(&two_little(), 4, SKIP, wire);
    assert_eq!(came, [frame(b"a"), too_large(5, 4), frame(b"g")]);
    let mut stream = Stream::new(&two_little(), 4, SKIP);
    stream.read(wire);
    assert_eq!(stream.parser.skipped_bytes(), 7);
}

#[test]
fn empty_lines_are_messages_and_an_unfinished_one_is_not() {
    let came = all(&Framing::lines(), 10, None, b"one\n\ntwo\r\n\nthre");
    assert_eq!(
        came,
        [frame(b"one"), frame(b""), frame(b"two\r"), frame(b"")]
    );
}

#[test]
fn one_carriage_return_is_stripped_where_asked_for() {
    let came = all(&crlf(true), 10, None, b"one\r\ntwo\n\r\n\r\r\na\rb\n");
    assert_eq!(
        came,
        [
            frame(b"one"),
            frame(b"two"),
            frame(b""),
            frame(b"\r"),
            frame(b"a\rb")
        ]
    );
}

#[test]
fn a_line_beyond_the_limit_is_one_fault_and_the_next_line_is_fine() {
    for outcome in [None, SKIP, Some(OnBadFrame::Resynchronise)] {
        let came = all(
            &Framing::lines(),
            3,
            outcome,
            b"abc\nabcd\nx\nabcdefghijkl\ny\n",
        );
        let expected = [
            frame(b"abc"),
            too_long(3),
            frame(b"x"),
            too_long(3),
            frame(b"y"),
        ];
        assert_eq!(came, expected);
        let came = all(
            &crlf(false),
            3,
            outcome,
            b"abc\r\nabcdefghi\r\r\nx\r\nabc\r\r\ny\r\n",
        );
        assert_eq!(
            came,
            [
                frame(b"abc"),
                too_long(3),
                frame(b"x"),
                too_long(3),
                frame(b"y")
            ]
        );
        let came = all(&crlf(true), 3, outcome, b"abc\r\nabcd\nx\n");
        assert_eq!(came, [frame(b"abc"), too_long(3), frame(b"x")]);
    }
    let came = all(&Framing::lines(), 3, CLOSE, b"abc\nabcd\nx\n");
    assert_eq!(came, [frame(b"abc"), too_long(3)]);
}

#[test]
fn bytes_before_a_start_are_one_fault() {
    let pattern = Framing::pattern("<<", ">>");
    let came = all(&pattern, 10, None, b"ab<c<<one>>><<two>>< <<three>>");
    let expected = [
        junk(4),
        frame(b"one"),
        junk(1),
        frame(b"two"),
        junk(2),
        frame(b"three"),
    ];
    assert_eq!(came, expected);
    assert_eq!(all(&pattern, 10, SKIP, b"x<<a>>"), [junk(1), frame(b"a")]);
    assert_eq!(
        all(&pattern, 10, CLOSE, b"<<a>>xy<<b>>"),
        [frame(b"a"), junk(2)]
    );
}

#[test]
fn a_long_run_of_junk_is_told_every_4096_bytes() {
    let wire = [&[b'x'; 10_000][..], b"<a>", &[b'x'; 4096], b"<b>"].concat();
    let expected = [
        junk(4096),
        junk(4096),
        junk(1808),
        frame(b"a"),
        junk(4096),
        frame(b"b"),
    ];
    let pattern = Framing::pattern("<", ">");
    for piece in [1, 7, 4096, 20_000] {
        let mut stream = Stream::new(&pattern, 100, None);
        wire.chunks(piece).for_each(|piece| stream.read(piece));
        assert_eq!(stream.came, expected);
        assert_eq!(stream.parser.skipped_bytes(), 14_096);
    }
}

#[test]
fn junk_at_the_end_of_a_stream_is_told_there() {
    let mut stream = Stream::new(&Framing::pattern("<<", ">>"), 100, None);
    stream.read(b"<<a>>xyz<");
    assert_eq!(stream.came, [frame(b"a")]);
    assert_eq!(stream.parser.end(), Some(FrameFault::Junk { bytes: 3 }));
    assert_eq!(stream.left, b"<", "it may have been a start");
}

#[test]
fn behind_a_start_that_has_no_end_the_next_start_is_found_or_the_next_end() {
    let pattern = Framing::pattern("<", ">");
    let wire = b"<abc<ok>......<12345678><y>";
    // The first start is within the limit of its end: nobody can tell.
    assert_eq!(all(&pattern, 8, None, b"<abc<ok>")[0], frame(b"abc<ok"));
    let resynchronised = all(&pattern, 5, None, wire);
    assert_eq!(
        resynchronised,
        [too_long(5), frame(b"ok"), junk(6), too_long(5), frame(b"y")]
    );
    let skipped = all(&pattern, 5, SKIP, wire);
    assert_eq!(skipped, [too_long(5), junk(6), too_long(5), frame(b"y")]);
    assert_eq!(all(&pattern, 5, CLOSE, wire), [too_long(5)]);
}

#[test]
fn a_start_and_an_end_may_be_the_same() {
    let came = all(&Framing::pattern("~", "~"), 10, None, b"~a~~b~x~~");
    assert_eq!(came, [frame(b"a"), frame(b"b"), junk(1), frame(b"")]);
}

#[test]
fn patterns_of_which_one_begins_in_the_other_are_not_confused() {
    // The end may not begin in the start.
    let came = all(&Framing::pattern("ab", "b"), 10, None, b"ab1babb");
    assert_eq!(came, [frame(b"1"), frame(b"")]);
    let came = all(&Framing::pattern("aab", "ba"), 10, None, b"aaab1ba");
    assert_eq!(came, [junk(1), frame(b"1")]);
}

/// Bytes that searches look at while the wire comes byte by byte.
fn looked_at(framing: &Framing, limit_bytes: usize, wire: &[u8]) -> usize {
    let mut stream = Stream::new(framing, limit_bytes, None);
    LOOKED_AT.set(0);
    wire.chunks(1).for_each(|byte| stream.read(byte));
    LOOKED_AT.get()
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_looked_at_once() {
    let payload = vec![b'x'; 20_000];
    for (framing, mark_bytes) in [
        (Framing::lines(), 1),
        (crlf(false), 2),
        (Framing::pattern("<", ">"), 1),
        (Framing::pattern("<<<", ">>>>"), 4),
        (Framing::cobs(), 1),
    ] {
        let mut wire = Vec::new();
        framing.encode(&payload, &mut wire).unwrap();
        // Each new byte, with the few before it in which a mark may have begun.
        let looked_at = looked_at(&framing, 20_000, &wire);
        assert!(
            (wire.len() - 8..=(wire.len() + 8) * mark_bytes).contains(&looked_at),
            "{framing:?}: {looked_at} for {}",
            wire.len()
        );
    }
}

#[test]
fn a_frame_without_an_end_is_looked_at_a_few_times_at_most() {
    let wire = [b"<".to_vec(), vec![b'x'; 20_000]].concat();
    for framing in [
        Framing::lines(),
        Framing::pattern("<", ">"),
        Framing::cobs(),
    ] {
        let looked_at = looked_at(&framing, 1000, &wire);
        assert!(looked_at < 3 * wire.len(), "{framing:?}: {looked_at}");
    }
}

#[test]
fn starts_without_an_end_cost_a_step_each_and_keep_no_more_than_a_frame() {
    let pattern = Framing::pattern("<", ">>");
    assert!(looked_at(&pattern, 1000, &[b'<'; 20_000]) < 3 * 20_000);
    let mut stream = Stream::new(&pattern, 1000, None);
    for _ in 0..100 {
        stream.read(&[b'<'; 100]);
        assert!(stream.left.len() < 1003);
    }
    assert_eq!(stream.came, [too_long(1000)], "one loss of step");
    stream.read(b"x>>");
    assert_eq!(stream.came.len(), 2);
    stream.read(b"<y>>");
    assert_eq!(stream.came[2], frame(b"y"));
}

#[test]
fn what_is_kept_of_an_endless_frame_never_passes_the_limit_and_its_marks() {
    for outcome in [None, SKIP] {
        for (framing, marks) in [
            (Framing::lines(), 1),
            (Framing::pattern("<", ">"), 2),
            (Framing::cobs(), 6),
        ] {
            let mut stream = Stream::new(&framing, 100, outcome);
            stream.read(b"<");
            for _ in 0..1000 {
                stream.read(&[b'x'; 7]);
            }
            assert!(stream.most_left_bytes <= 100 + marks, "{framing:?}");
            assert!(stream.parser.decoded().len() <= 106);
            assert_eq!(stream.came, [too_long(100)], "{framing:?}");
        }
    }
}
