//! Promise 11: serial lines. What every transport promises runs over them in the other files; here
//! stands what is theirs alone. All on pseudo-terminals.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tautline::serial::{FlowControl, Parity, Rs485, SerialLine};
use tautline::{
    Address, Closed, DirectLink, DirectListener, Error, ErrorKind, Link, LinkOptions, Opened,
    Reason, Reconnect, RecvError, SendError, ServerOptions, Strategy,
};

use crate::common::*;

over! {
    a_line_opens_and_carries_both_ways: serial;
    every_byte_passes_as_it_is: serial;
    with_software_flow_control_all_but_two_bytes_pass: serial;
    what_came_before_it_was_set_is_thrown_away: serial;
    opened_tells_the_line_as_it_is_set: serial;
    a_setting_that_the_driver_does_not_take_is_refused_by_name: serial;
    what_is_no_serial_device_is_refused_in_words: serial;
    nobody_listens_on_a_line: serial;
    a_second_opener_is_refused_and_told_who_has_it: serial;
    a_line_that_is_not_exclusive_is_shared: serial;
    the_device_is_free_once_the_link_has_ended: serial;
    a_device_that_goes_is_a_loss_with_a_reason: serial;
    a_device_that_comes_back_under_its_name_is_opened_again: serial;
    a_link_that_leads_elsewhere_is_followed: serial;
    a_device_that_is_not_there_yet_is_waited_for: serial;
    a_busy_device_is_tried_again: serial;
    a_silent_device_is_opened_anew: serial;
    a_line_that_nobody_reads_loses_nothing: serial;
    a_besteffort_line_that_nobody_reads_is_full: serial;
    an_abort_throws_away_what_the_kernel_holds: serial;
    what_a_dropped_link_wrote_is_sent: serial;
    a_closer_ends_a_direct_receive_at_once: serial;
    a_closer_ends_a_direct_send_that_waits: serial;
    a_direct_receive_keeps_its_deadline: serial;
    a_direct_link_hears_that_the_device_has_gone: serial;
    socat_carries_both_ways: serial;
}

fn open(listener: &RawListener, options: LinkOptions) -> (Link, Inbox, RawStream) {
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&start(), listener, options, handler);
    (link, inbox, peer)
}

fn bind() -> RawListener {
    RawListener::bind(Transport::Serial)
}

/// The line behind an address, to be changed.
fn line(address: &Address) -> SerialLine {
    match address {
        Address::Serial(line) => line.clone(),
        other => panic!("{other} is no line"),
    }
}

fn why_not(address: &Address) -> Error {
    DirectLink::connect(address, LinkOptions::default()).unwrap_err()
}

fn quick() -> Option<Reconnect> {
    Some(Reconnect {
        base: Duration::from_millis(1),
        cap: Duration::from_millis(20),
        ..Reconnect::default()
    })
}

fn comes_back(transport: Transport) -> LinkOptions {
    LinkOptions {
        reconnect: quick(),
        ..framed(transport)
    }
}

fn a_line_opens_and_carries_both_ways(transport: Transport) {
    let listener = bind();
    let (link, inbox, mut peer) = open(&listener, framed(transport));
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(peer.read_frame(), b"hello");
    peer.write_frame(b"world");
    assert_eq!(inbox.expect_message(), b"world");

    let address = listener.address();
    let opening = thread::spawn(move || DirectLink::connect(&address, framed(transport)));
    let mut peer = listener.accept();
    let mut link = opening.join().unwrap().unwrap();
    link.send(b"hello").unwrap();
    assert_eq!(peer.read_frame(), b"hello");
    peer.write_frame(b"world");
    assert_eq!(link.recv(None).unwrap(), b"world");
}

/// 4,096 is the size of the line discipline's buffer: more than that goes in parts.
fn every_byte_passes_as_it_is(_: Transport) {
    let all: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    for flow in [FlowControl::None, FlowControl::Hardware] {
        let listener = bind();
        let address = Address::Serial(SerialLine {
            flow,
            ..line(&listener.address())
        });
        pass(&listener, &address, &all);
    }
}

fn with_software_flow_control_all_but_two_bytes_pass(_: Transport) {
    let passing: Vec<u8> = (0..=255)
        .filter(|byte| ![0x11, 0x13].contains(byte))
        .collect();
    let listener = bind();
    let flow = FlowControl::Software;
    let address = Address::Serial(SerialLine {
        flow,
        ..line(&listener.address())
    });
    pass(&listener, &address, &passing);
}

/// Both ways, with both drivers.
fn pass(listener: &RawListener, address: &Address, bytes: &[u8]) {
    let io = start();
    let (handler, inbox) = recorder();
    let link = io
        .connect(address, LinkOptions::default(), handler)
        .unwrap();
    let mut peer = listener.accept();
    inbox.expect_opened();
    link.send(bytes).unwrap();
    assert_eq!(peer.read_exactly(bytes.len()), bytes);
    peer.write_all(bytes).unwrap();
    let mut came = Vec::new();
    while came.len() < bytes.len() {
        came.extend(inbox.expect_message());
    }
    assert!(came == bytes);
    drop(link);

    let opening = {
        let address = address.clone();
        thread::spawn(move || DirectLink::connect(&address, LinkOptions::default()))
    };
    let mut peer = listener.accept();
    let mut link = opening.join().unwrap().unwrap();
    // What the kernel does not take at once would wait for the next call.
    for part in bytes.chunks(4000) {
        link.send(part).unwrap();
        assert_eq!(peer.read_exactly(part.len()), part);
    }
    let mut writing = peer.try_clone();
    let all = bytes.to_vec();
    let writing = thread::spawn(move || writing.write_all(&all));
    let mut came = Vec::new();
    while came.len() < bytes.len() {
        came.extend_from_slice(link.recv(None).unwrap());
    }
    writing.join().unwrap().unwrap();
    assert!(came == bytes);
}

fn what_came_before_it_was_set_is_thrown_away(_: Transport) {
    let (mut master, slave) = sys::openpt();
    master.write_all(b"old\n").unwrap();
    let address = Address::Serial(SerialLine::new(slave));
    let mut link = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    master.write_all(b"new").unwrap();
    assert_eq!(link.recv(None).unwrap(), b"new");
}

fn opened_tells_the_line_as_it_is_set(transport: Transport) {
    let listener = bind();
    let asked = SerialLine {
        baud: 31_250,
        stop_bits: 2,
        flow: FlowControl::Hardware,
        ..line(&listener.address())
    };
    let address = Address::Serial(asked);
    let io = start();
    let (handler, inbox) = recorder();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    let _peer = listener.accept();
    let Opened { local, peer, .. } = inbox.expect_opened();
    assert_eq!(local.as_ref(), Some(&address));
    assert_eq!(peer.as_ref(), Some(&address));
    assert_eq!(link.local_address().as_ref(), Some(&address));
    assert!(
        address
            .to_string()
            .ends_with("?baud=31250&stop_bits=2&flow=hardware")
    );
}

/// A pseudo-terminal has eight bits and no parity, no modem lines, no bus and no latency.
fn a_setting_that_the_driver_does_not_take_is_refused_by_name(_: Transport) {
    let (_master, slave) = sys::openpt();
    let new = || SerialLine::new(&slave);
    let table = [
        (
            "data_bits",
            "the driver sets 8 of 7",
            SerialLine {
                data_bits: 7,
                ..new()
            },
        ),
        (
            "parity",
            "the driver sets None of Even",
            SerialLine {
                parity: Parity::Even,
                ..new()
            },
        ),
        (
            "dtr",
            "the driver does not take it",
            SerialLine {
                dtr: Some(true),
                ..new()
            },
        ),
        (
            "rts",
            "the driver does not take it",
            SerialLine {
                rts: Some(false),
                ..new()
            },
        ),
        (
            "low_latency",
            "the driver does not take it",
            SerialLine {
                low_latency: true,
                ..new()
            },
        ),
        (
            "rs485",
            "the driver does not take it",
            SerialLine {
                rs485: Some(Rs485::default()),
                ..new()
            },
        ),
    ];
    for (setting, why, line) in table {
        let error = why_not(&Address::Serial(line));
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        let start = format!("{setting}: {}: {why}", slave.display());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
    // And for good: it would not be otherwise the next time.
    let io = start();
    let (handler, inbox) = recorder();
    let parity = Address::Serial(SerialLine {
        parity: Parity::Odd,
        ..new()
    });
    let options = LinkOptions {
        reconnect: quick(),
        ..LinkOptions::default()
    };
    let _link = io.connect(&parity, options, handler).unwrap();
    assert!(inbox.expect_ended().to_string().starts_with("parity: "));
}

fn what_is_no_serial_device_is_refused_in_words(_: Transport) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    File::create(&file).unwrap();
    let table = [
        (folder.path(), "this is a directory, no serial device"),
        (&file, "this is a regular file, no serial device"),
        (
            Path::new("/dev/null"),
            "this is a character device that is no terminal, no serial device",
        ),
        (
            Path::new("/dev/ttyNONE7"),
            "no such file or directory; is it plugged in?",
        ),
    ];
    for (path, why) in table {
        let address = Address::Serial(SerialLine::new(path));
        let error = why_not(&address);
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert_eq!(error.to_string(), format!("open {address}: {why}"));
    }
}

fn nobody_listens_on_a_line(_: Transport) {
    let (_master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(slave));
    let why = format!("listen on {address}: a serial line has no servers: both ends connect");
    let accept = |_: &Link| Ok(recorder().0);
    let error = start().listen(&address, ServerOptions::default(), accept);
    assert_eq!(error.unwrap_err().to_string(), why);
    let error = DirectListener::bind(&address, LinkOptions::default());
    assert_eq!(error.unwrap_err().to_string(), why);
}

fn a_second_opener_is_refused_and_told_who_has_it(_: Transport) {
    let (_master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(&slave));
    let first = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    let error = why_not(&address);
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    let why = "the device is in use: held by this process itself; stop it first";
    assert_eq!(error.to_string(), format!("open {address}: {why}"));
    drop(first);

    // Another program that asks for the lock, as we do.
    let Some(mut other) = spawn("flock", &["--exclusive", &slave.to_string_lossy(), "cat"]) else {
        return;
    };
    let mut error = None;
    until("the other has it", || {
        error = DirectLink::connect(&address, LinkOptions::default()).err();
        error.is_some()
    });
    let error = error.unwrap();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(error.to_string().contains("(pid "), "{error}");
    other.kill().unwrap();
    other.wait().unwrap();
}

fn a_line_that_is_not_exclusive_is_shared(_: Transport) {
    let (mut master, slave) = sys::openpt();
    let shared = Address::Serial(SerialLine {
        exclusive: false,
        ..SerialLine::new(slave)
    });
    let mut first = DirectLink::connect(&shared, LinkOptions::default()).unwrap();
    let mut second = DirectLink::connect(&shared, LinkOptions::default()).unwrap();
    first.send(b"a").unwrap();
    second.send(b"b").unwrap();
    let mut both = [0; 2];
    master.read_exact(&mut both).unwrap();
    assert_eq!(&both, b"ab");
}

fn the_device_is_free_once_the_link_has_ended(transport: Transport) {
    let (_master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(slave));
    let io = start();
    let ends: [fn(&Link); 3] = [
        |link| _ = link.close(WATCHDOG),
        |link| _ = link.abort(),
        Link::finish,
    ];
    for _ in 0..20 {
        for end in ends {
            let (handler, inbox) = recorder();
            let link = io.connect(&address, framed(transport), handler).unwrap();
            link.wait_open(WATCHDOG).unwrap();
            end(&link);
            inbox.skip_to_closed();
        }
        drop(DirectLink::connect(&address, framed(transport)).unwrap());
    }
}

fn a_device_that_goes_is_a_loss_with_a_reason(transport: Transport) {
    let listener = bind();
    let (_link, inbox, peer) = open(&listener, framed(transport));
    inbox.expect_opened();
    let address = listener.address();
    drop(peer);
    let Closed { reason, .. } = inbox.expect_end();
    assert!(matches!(reason, Reason::Lost(_)), "{reason:?}");
    let why = "the line is gone: unplugged, or its other end closed";
    assert_eq!(
        reason.to_string(),
        format!("exchange with {address}: {why}")
    );
}

fn a_device_that_comes_back_under_its_name_is_opened_again(transport: Transport) {
    let listener = bind();
    let (link, inbox, mut peer) = open(&listener, comes_back(transport));
    for generation in 1..=10 {
        assert_eq!(inbox.skip_to_opened().generation, generation);
        link.send(b"ping").unwrap();
        assert_eq!(peer.read_frame(), b"ping");
        peer.write_frame(b"pong");
        assert_eq!(inbox.expect_message(), b"pong");
        drop(peer);
        assert_eq!(inbox.expect_closed().generation, generation);
        peer = listener.accept();
    }
}

fn a_link_that_leads_elsewhere_is_followed(transport: Transport) {
    let folder = tempfile::tempdir().unwrap();
    let by_id = folder.path().join("usb-Instrument_0042-if00");
    let point_to = |slave: &Path| {
        let fresh = folder.path().join("fresh");
        symlink(slave, &fresh).unwrap();
        fs::rename(fresh, &by_id).unwrap();
    };
    let (one, slave) = sys::openpt();
    point_to(&slave);
    let io = start();
    let (handler, inbox) = recorder();
    let address = Address::Serial(SerialLine::new(&by_id));
    let link = io
        .connect(&address, comes_back(transport), handler)
        .unwrap();
    inbox.expect_opened();
    // The instrument is plugged into another port: its old name may stay, or be somebody else's.
    let (mut two, slave) = sys::openpt();
    point_to(&slave);
    drop(one);
    assert_eq!(inbox.skip_to_opened().generation, 2);
    link.send(b"x").unwrap();
    let mut came = [0; 5];
    two.read_exact(&mut came).unwrap();
    assert_eq!(came, *b"\0\0\0\x01x");
}

fn a_device_that_is_not_there_yet_is_waited_for(transport: Transport) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ttyUSB0");
    let io = start();
    let (handler, inbox) = recorder();
    let address = Address::Serial(SerialLine::new(&path));
    let _link = io
        .connect(&address, comes_back(transport), handler)
        .unwrap();
    for _ in 0..3 {
        inbox.expect_retrying();
    }
    let (_master, slave) = sys::openpt();
    symlink(slave, &path).unwrap();
    inbox.skip_to_opened();
}

fn a_busy_device_is_tried_again(transport: Transport) {
    let (_master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(&slave));
    let holder = DirectLink::connect(&address, framed(transport)).unwrap();
    let io = start();
    let (handler, inbox) = recorder();
    let _link = io
        .connect(&address, comes_back(transport), handler)
        .unwrap();
    for _ in 0..3 {
        inbox.expect_retrying();
    }
    drop(holder);
    inbox.skip_to_opened();
}

/// The receive watchdog: a device that hangs says nothing, and often wakes when it is opened anew.
fn a_silent_device_is_opened_anew(transport: Transport) {
    let listener = bind();
    let options = LinkOptions {
        receive_idle_timeout: Some(Duration::from_millis(20)),
        ..comes_back(transport)
    };
    let (_link, inbox, _silent) = open(&listener, options);
    let Closed { reason, .. } = inbox.skip_to_closed();
    assert!(matches!(reason, Reason::Idle(_)), "{reason:?}");
    let mut awake = listener.accept();
    inbox.skip_to_opened();
    awake.write_frame(b"awake");
    assert_eq!(inbox.skip_to_message(), b"awake");
}

fn a_line_that_nobody_reads_loses_nothing(transport: Transport) {
    let messages = numbered(1000, 1000);
    let listener = bind();
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        ..framed(transport)
    };
    let (link, _inbox, mut peer) = open(&listener, options);
    let sender = {
        let (link, messages) = (link.clone(), messages.clone());
        thread::spawn(move || messages.iter().try_for_each(|message| link.send(message)))
    };
    until("it is full", || {
        link.statistics().sending.waiting.bytes > 8_000
    });
    for message in &messages {
        assert_eq!(peer.read_frame(), *message);
    }
    sender.join().unwrap().unwrap();
}

fn a_besteffort_line_that_nobody_reads_is_full(transport: Transport) {
    let listener = bind();
    let options = LinkOptions {
        strategy: Strategy::BestEffort,
        queue_limit_bytes: 10_000,
        ..framed(transport)
    };
    let (link, _inbox, mut peer) = open(&listener, options);
    let mut accepted = 0_u32;
    let refused = loop {
        match link.send(&accepted.to_be_bytes()) {
            Ok(()) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, SendError::Full);
    for number in 0..accepted {
        assert_eq!(peer.read_frame(), number.to_be_bytes());
    }
    until("there is room", || link.send(b"last").is_ok());
    assert_eq!(peer.read_frame(), b"last");
}

fn an_abort_throws_away_what_the_kernel_holds(transport: Transport) {
    let (link, mut peer) = stalled(&start(), transport, recorder().0);
    let written = link.statistics().sending.written.bytes;
    assert!(written > 8192, "{written}");
    link.abort();
    let mut left = Vec::new();
    peer.read_to_end(&mut left).unwrap();
    // What the master's own line discipline has taken is no longer ours to take back.
    assert!((left.len() as u64) < written, "{} of {written}", left.len());
}

fn what_a_dropped_link_wrote_is_sent(transport: Transport) {
    let listener = bind();
    let (link, inbox, mut peer) = open(&listener, framed(transport));
    // As much as the kernel takes at once.
    let messages = numbered(7, 1000);
    for message in &messages {
        link.send(message).unwrap();
    }
    drop(link);
    inbox.skip_to_closed();
    for message in &messages {
        assert_eq!(peer.read_frame(), *message);
    }
    assert!(peer.read_to_the_end().is_empty());

    let address = listener.address();
    let opening = thread::spawn(move || DirectLink::connect(&address, framed(transport)));
    let mut peer = listener.accept();
    opening
        .join()
        .unwrap()
        .unwrap()
        .send(b"last words")
        .unwrap();
    assert_eq!(peer.read_frame(), b"last words");
}

fn a_closer_ends_a_direct_receive_at_once(transport: Transport) {
    for deadline in [None, Some(Instant::now() + 10 * WATCHDOG)] {
        let (_master, slave) = sys::openpt();
        let address = Address::Serial(SerialLine::new(slave));
        let mut link = DirectLink::connect(&address, framed(transport)).unwrap();
        let closer = link.closer();
        let (tell, told) = mpsc::channel();
        let receiving = thread::spawn(move || {
            tell.send(own_thread_id()).unwrap();
            let outcome = link.recv(deadline).map(<[u8]>::to_vec);
            (outcome, link.send(b"too late"))
        });
        let id = told.recv().unwrap();
        until("it waits", || is_asleep(id));
        closer.close();
        let (received, sent) = receiving.join().unwrap();
        assert!(matches!(received, Err(RecvError::Closed)), "{received:?}");
        assert_eq!(sent, Err(SendError::Closed));
    }
}

fn a_closer_ends_a_direct_send_that_waits(transport: Transport) {
    let (_master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(slave));
    let mut link = DirectLink::connect(&address, framed(transport)).unwrap();
    let closer = link.closer();
    let (tell, told) = mpsc::channel();
    let sending = thread::spawn(move || {
        tell.send(own_thread_id()).unwrap();
        // What is full may have room again a moment later: the kernel moves it on behind our back.
        loop {
            if let Err(error) = link.send(&[0; 1000]) {
                return error;
            }
        }
    });
    let id = told.recv().unwrap();
    until("it waits", || is_asleep(id));
    closer.close();
    assert_eq!(sending.join().unwrap(), SendError::Closed);
}

fn a_direct_receive_keeps_its_deadline(transport: Transport) {
    let (mut master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(slave));
    let mut link = DirectLink::connect(&address, framed(transport)).unwrap();
    // Both below and above the tick of a direct link.
    for timeout in [Duration::from_millis(5), Duration::from_millis(250)] {
        let begun = Instant::now();
        // A part of a frame is no message.
        master.write_all(&[0]).unwrap();
        let received = link.recv(Some(begun + timeout)).map(<[u8]>::to_vec);
        assert!(matches!(received, Err(RecvError::TimedOut)), "{received:?}");
        assert!(begun.elapsed() >= timeout);
    }
    master.write_all(b"\0\x01x").unwrap();
    assert_eq!(link.recv(Some(Instant::now() + WATCHDOG)).unwrap(), b"x");
}

fn a_direct_link_hears_that_the_device_has_gone(transport: Transport) {
    let (master, slave) = sys::openpt();
    let address = Address::Serial(SerialLine::new(slave));
    let mut link = DirectLink::connect(&address, framed(transport)).unwrap();
    drop(master);
    let received = link.recv(None).map(<[u8]>::to_vec);
    match received {
        Err(RecvError::Failed(why)) => {
            assert!(why.to_string().contains("the line is gone"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

/// A peer that neither side of which is ours: two pseudo-terminals that it joins.
fn socat_carries_both_ways(transport: Transport) {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|end| folder.path().join(end));
    let end = |path: &Path| format!("PTY,raw,echo=0,link={}", path.display());
    let Some(mut socat) = spawn("socat", &[&end(&a), &end(&b)]) else {
        return;
    };
    until("socat has made both", || a.exists() && b.exists());
    let io = start();
    let ((one, one_inbox), (two, two_inbox)) = (recorder(), recorder());
    let connect = |path, handler| {
        let address = Address::Serial(SerialLine::new(path));
        io.connect(&address, framed(transport), handler).unwrap()
    };
    let (one, two) = (connect(&a, one), connect(&b, two));
    one.wait_open(WATCHDOG).unwrap();
    two.wait_open(WATCHDOG).unwrap();
    for message in numbered(300, 3000) {
        one.send(&message).unwrap();
        two.send(&message).unwrap();
        assert_eq!(two_inbox.skip_to_message(), message);
        assert_eq!(one_inbox.skip_to_message(), message);
    }
    socat.kill().unwrap();
    socat.wait().unwrap();
    assert!(matches!(one_inbox.expect_end().reason, Reason::Lost(_)));
    assert!(matches!(two_inbox.expect_end().reason, Reason::Lost(_)));
}

/// A program that may be missing here: said loudly, and the rest of the test left out.
fn spawn(program: &str, arguments: &[&str]) -> Option<Child> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    if let Err(error) = &spawned {
        eprintln!("SKIPPED, WITHOUT {program}: {error}");
    }
    spawned.ok()
}
