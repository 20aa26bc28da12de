//! What each error says.

use std::error::Error as _;

use super::*;

fn somewhere() -> Address {
    "tcp://10.0.0.5:9000".parse().unwrap()
}

#[test]
fn an_error_says_what_where_and_why() {
    let error = Error::connect(
        &somewhere(),
        io::Error::from_raw_os_error(libc::ECONNREFUSED),
    );
    assert_eq!(
        error.to_string(),
        "connect to tcp://10.0.0.5:9000: connection refused"
    );
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(
        error.io_error().unwrap().raw_os_error(),
        Some(libc::ECONNREFUSED)
    );
    assert!(error.source().unwrap().is::<io::Error>());
}

#[test]
fn an_address_in_use_is_explained() {
    let in_use = || io::Error::from_raw_os_error(libc::EADDRINUSE);
    let error = Error::in_use("bind", &somewhere(), "held by nginx (pid 7)", in_use());
    assert_eq!(
        error.to_string(),
        "listen on tcp://10.0.0.5:9000: bind: address in use: held by nginx (pid 7); \
         choose another port, or 0 for a free one"
    );
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    let error = Error::listen("listen", &somewhere(), in_use());
    assert!(
        error.to_string().contains(": listen: address in use: "),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
}

#[test]
fn the_kernels_own_timeout_counts_as_one() {
    let error = Error::connect(&somewhere(), io::Error::from_raw_os_error(libc::ETIMEDOUT));
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "connect to tcp://10.0.0.5:9000: connection timed out"
    );
}

#[test]
fn our_own_timeout_says_how_long_it_waited() {
    let error = Error::timed_out("connect to", &somewhere(), Duration::from_millis(250));
    assert_eq!(
        error.to_string(),
        "connect to tcp://10.0.0.5:9000: timed out after 250ms"
    );
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.source().is_none());
}

#[test]
fn an_option_error_begins_with_the_name() {
    let error = Error::option("queue_limit_bytes", "0 would never accept a message");
    assert_eq!(
        error.to_string(),
        "queue_limit_bytes: 0 would never accept a message"
    );
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[test]
fn an_address_error_is_not_wrapped_in_a_second_sentence() {
    let error = Error::from("can:///can0".parse::<Address>().unwrap_err());
    assert_eq!(
        error.to_string(),
        r#""can:///can0": can: the schemes are tcp, tls, udp, uds and serial"#
    );
    assert_eq!(error.kind(), ErrorKind::UnsupportedScheme);
}

#[test]
fn words_are_put_in_mid_sentence_and_abbreviations_are_left() {
    assert_eq!(decapitalised("Broken pipe"), "broken pipe");
    assert_eq!(decapitalised("I/O error"), "I/O error");
    assert_eq!(decapitalised(""), "");
}

#[test]
fn small_errors_say_what_the_caller_can_do_with_them() {
    assert_eq!(
        SendError::TooLarge { limit: 65507 }.to_string(),
        "the message is too large: the limit is 65507 bytes"
    );
    let broken = io::Error::from_raw_os_error(libc::ECONNRESET);
    assert_eq!(
        RecvError::Failed(broken).to_string(),
        "the connection failed: connection reset by peer"
    );
    let huge = FrameFault::TooLarge {
        announced_bytes: 4_294_967_295,
        limit_bytes: 1024,
    };
    assert_eq!(
        RecvError::BadFrame(huge).to_string(),
        "the peer sent no valid frame: a frame of 4294967295 bytes was announced, \
         the limit is 1024"
    );
}

#[test]
fn an_error_is_as_wide_as_a_pointer() {
    assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
}
