use std::os::fd::AsRawFd;

use super::*;
use crate::options::LinkOptions;
use crate::transport::{Connecting, Wait, resolve, start_connect};

/// Something that has settings: what they are to be comes from the tests.
fn settings() -> Settings {
    let (_master, slave) = SerialPort::pair().unwrap();
    slave.get_configuration().unwrap()
}

fn set(line: &SerialLine) -> Settings {
    let mut settings = settings();
    make_settings(line, &mut settings).unwrap();
    settings
}

fn device() -> SerialLine {
    SerialLine::new("/dev/ttyX0")
}

#[test]
fn what_was_asked_for_is_what_is_compared() {
    for line in [
        device(),
        SerialLine {
            baud: 31_250,
            data_bits: 7,
            parity: Parity::Odd,
            stop_bits: 2,
            flow: FlowControl::Hardware,
            ..device()
        },
        SerialLine {
            baud: 4_000_000,
            data_bits: 5,
            parity: Parity::Even,
            flow: FlowControl::Software,
            ..device()
        },
        SerialLine {
            data_bits: 6,
            ..device()
        },
    ] {
        assert_eq!(compare(&line, &set(&line)).unwrap(), line);
    }
}

#[test]
fn a_driver_that_sets_something_else_is_told_by_the_settings_name() {
    let refused = |line: SerialLine, driver: SerialLine| {
        let error = compare(&line, &set(&driver)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    };
    let baud = |baud| SerialLine { baud, ..device() };
    assert_eq!(
        refused(baud(12_345), baud(9_600)),
        "baud: /dev/ttyX0: the driver sets 9600 of 12345"
    );
    let stop_bits = SerialLine {
        stop_bits: 2,
        ..device()
    };
    assert_eq!(
        refused(stop_bits, device()),
        "stop_bits: /dev/ttyX0: the driver sets 1 of 2"
    );
    let flow = SerialLine {
        flow: FlowControl::Hardware,
        ..device()
    };
    assert_eq!(
        refused(flow, device()),
        "flow: /dev/ttyX0: the driver sets None of Hardware"
    );
}

/// 115,384 is what an FT232R makes of 115,200, and 2.5 % of that are 2,880.
#[test]
fn a_baud_a_little_off_is_taken_and_told() {
    let of_driver = |baud| compare(&device(), &set(&SerialLine { baud, ..device() }));
    assert_eq!(of_driver(115_384).unwrap().baud, 115_384);
    assert_eq!(of_driver(112_320).unwrap().baud, 112_320);
    assert!(of_driver(112_319).is_err());
    assert!(of_driver(118_081).is_err());
}

#[test]
fn a_line_is_raw_whatever_it_was_before() {
    let mut settings = settings();
    let termios = settings.as_termios_mut();
    termios.c_iflag = !0;
    termios.c_oflag = !0;
    termios.c_lflag = !0;
    termios.c_cflag |= libc::CMSPAR;
    termios.c_cflag &= !(libc::CREAD | libc::CLOCAL);
    termios.c_cc[libc::VMIN] = 0;
    termios.c_cc[libc::VTIME] = 5;
    termios.c_cc[libc::VSTART] = 0;
    make_settings(&device(), &mut settings).unwrap();
    let termios = settings.as_termios();
    assert_eq!(
        termios.c_lflag & (libc::ICANON | libc::ECHO | libc::ISIG | libc::IEXTEN),
        0
    );
    assert_eq!(termios.c_oflag & libc::OPOST, 0);
    let changes_bytes = libc::ISTRIP
        | libc::INLCR
        | libc::IGNCR
        | libc::ICRNL
        | libc::IXON
        | libc::IXOFF
        | libc::IXANY
        | libc::IUCLC
        | libc::PARMRK
        | libc::INPCK
        | libc::BRKINT;
    assert_eq!(termios.c_iflag & changes_bytes, 0);
    let hears = libc::CREAD | libc::CLOCAL;
    assert_eq!(termios.c_cflag & (hears | libc::CMSPAR), hears);
    let (least, tenths) = (termios.c_cc[libc::VMIN], termios.c_cc[libc::VTIME]);
    assert_eq!((least, tenths), (1, 0));
}

#[test]
fn parity_is_checked_and_software_flow_control_has_its_bytes() {
    let line = SerialLine {
        parity: Parity::Even,
        flow: FlowControl::Software,
        ..device()
    };
    let settings = set(&line);
    let termios = settings.as_termios();
    let checked = libc::INPCK | libc::IGNPAR | libc::IXON | libc::IXOFF;
    assert_eq!(termios.c_iflag & (checked | libc::IXANY), checked);
    let bytes = (termios.c_cc[libc::VSTART], termios.c_cc[libc::VSTOP]);
    assert_eq!(bytes, (0x11, 0x13));
}

#[test]
fn a_bus_is_told_to_the_driver_and_back() {
    for rts_on_send in [true, false] {
        for receive_while_sending in [true, false] {
            let rs485 = Rs485 {
                rts_on_send,
                delay_before_send_ms: 3,
                delay_after_send_ms: 100,
                receive_while_sending,
            };
            assert_eq!(bus_of(&bus_config(&rs485).into()), Some(rs485));
        }
    }
    assert_eq!(bus_of(&TransceiverMode::Default), None);
    assert_eq!(bus_of(&TransceiverMode::Rs422), None);
}

fn open_pair() -> (SerialPort, Socket) {
    let (master, slave) = SerialPort::pair().unwrap();
    let path = fs::read_link(format!("/proc/self/fd/{}", slave.as_raw_fd())).unwrap();
    let address = Address::Serial(SerialLine::new(path));
    let target = resolve(&address).unwrap().remove(0);
    let (socket, how_far) = start_connect(&address, &target, &LinkOptions::default()).unwrap();
    assert_eq!(how_far, Connecting::Done);
    (master, socket)
}

#[test]
fn a_shut_line_sends_nothing_and_waits_for_nothing() {
    let (_master, socket) = open_pair();
    assert_eq!(socket.send(b"ab", b"c", Wait::No).unwrap(), 3);
    socket.shutdown();
    socket.shutdown();
    let error = socket.send(b"", b"c", Wait::No).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    // Without the end it would wait for ever.
    let error = socket.recv(&mut [0; 8], Wait::Block).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_receive_waits_as_long_as_it_may() {
    let (master, socket) = open_pair();
    let timeout = Duration::from_millis(20);
    socket.set_receive_timeout(timeout).unwrap();
    let begun = std::time::Instant::now();
    let error = socket.recv(&mut [0; 8], Wait::Block).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert!(begun.elapsed() >= timeout);
    master.write_all(b"abc").unwrap();
    assert_eq!(socket.recv(&mut [0; 8], Wait::Block).unwrap().bytes, 3);
}

#[test]
fn a_pseudo_terminal_does_not_say_what_it_holds() {
    let (_master, socket) = open_pair();
    socket.send(b"", &[0; 1000], Wait::No).unwrap();
    assert_eq!(socket.unsent_bytes(), None);
}
