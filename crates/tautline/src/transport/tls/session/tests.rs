//! A session against one of rustls' own in memory, over a wire that takes as little as a test wants.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::LazyLock;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::*;

/// Takes so many bytes and then no more.
#[derive(Debug, Default)]
struct Narrow {
    room_bytes: usize,
    sent: VecDeque<u8>,
    came: VecDeque<u8>,
    ended: bool,
    /// What the next send fails of, once.
    fails: Option<i32>,
}

impl Wire for Narrow {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        assert!(!self.ended, "nothing is sent behind the end");
        if let Some(number) = self.fails.take() {
            return Err(io::Error::from_raw_os_error(number));
        }
        let mut taken = 0;
        for slice in slices {
            let now = slice.len().min(self.room_bytes);
            self.sent.extend(&slice[..now]);
            self.room_bytes -= now;
            taken += now;
        }
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.came.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.came.read(buffer)
    }

    fn is_writable(&mut self) -> io::Result<bool> {
        // As TCP: a third of the buffer, or so, is free.
        Ok(self.room_bytes >= 100)
    }

    fn end(&mut self) -> io::Result<()> {
        self.ended = true;
        Ok(())
    }
}

static CONFIGS: LazyLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = LazyLock::new(|| {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["peer".to_owned()]).unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (Arc::new(client), Arc::new(server))
});

const WITHHOLDING: RecordRules = RecordRules {
    limit_bytes: 16 * 1024,
    withhold: true,
};

/// Our session, secured, its wire, and the peer.
struct Secured {
    session: Session,
    wire: Narrow,
    peer: ServerConnection,
}

impl Secured {
    fn with(rules: RecordRules) -> Self {
        let (client, server) = &*CONFIGS;
        let name = ServerName::try_from("peer").unwrap();
        let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
        let session = Session::new(connection.into(), rules, Arc::default());
        let peer = ServerConnection::new(Arc::clone(server)).unwrap();
        let mut secured = Self {
            session,
            wire: Narrow {
                room_bytes: usize::MAX,
                ..Narrow::default()
            },
            peer,
        };
        while !secured.session.handshake(&mut secured.wire).unwrap() {
            secured.carry();
        }
        secured.carry();
        secured.wire.room_bytes = 0;
        secured
    }

    /// What each has sent reaches the other; returns what the peer could read.
    fn carry(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        while !self.wire.sent.is_empty() {
            self.peer.read_tls(&mut self.wire.sent).unwrap();
            self.peer.process_new_packets().unwrap();
            // It ends with `WouldBlock`, or with the end.
            let _ = self.peer.reader().read_to_end(&mut read);
        }
        while self.peer.wants_write() {
            self.peer.write_tls(&mut self.wire.came).unwrap();
        }
        read
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.send(&[IoSlice::new(bytes)], &mut self.wire)
    }
}

fn would_block<T: fmt::Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn wherever_the_wire_is_full_all_but_the_last_byte_counts_and_nothing_is_repeated() {
    let message: Vec<u8> = (0..50).collect();
    // The record: a head of 5, the message, its kind, and a tag of 16.
    for room_bytes in 0..72 {
        let mut it = Secured::with(WITHHOLDING);
        it.wire.room_bytes = room_bytes;
        // Even with no room at all it is encrypted, and so begun.
        assert_eq!(it.send(&message).unwrap(), 49, "room for {room_bytes}");
        assert_eq!(it.session.pending_bytes(), 72 - room_bytes as u64);
        assert!(it.session.owes());
        // Whoever asks again has to wait as long as the wire is full.
        would_block(it.send(&message[49..]));
        it.wire.room_bytes = usize::MAX;
        let rest = [&message[49..], b"and more"].concat();
        assert_eq!(it.send(&rest).unwrap(), rest.len());
        assert_eq!(it.carry(), [&message[..], b"and more"].concat());
    }
}

#[test]
fn a_record_that_left_meanwhile_still_has_its_byte_counted_once() {
    let mut it = Secured::with(WITHHOLDING);
    it.wire.room_bytes = 10;
    assert_eq!(it.send(b"abc").unwrap(), 2);
    it.wire.room_bytes = usize::MAX;
    assert!(it.session.flush(&mut it.wire).unwrap());
    assert_eq!(it.session.pending_bytes(), 0);
    assert_eq!(it.carry(), b"abc");
    // The byte alone: nothing is sent for it.
    assert_eq!(it.send(b"c").unwrap(), 1);
    assert_eq!(it.carry(), b"");
}

#[test]
fn of_one_byte_nothing_is_encrypted_before_there_is_room() {
    let mut it = Secured::with(WITHHOLDING);
    would_block(it.send(b"a"));
    assert!(!it.session.owes());
    it.wire.room_bytes = 100;
    assert_eq!(it.send(b"a").unwrap(), 1);
    // Also as the rest behind a whole record.
    it.wire.room_bytes = 16_384 + 22;
    let long = vec![7; 16_385];
    assert_eq!(it.send(&long).unwrap(), 16_384);
    assert!(!it.session.owes());
    it.wire.room_bytes = usize::MAX;
    assert_eq!(it.send(&long[16_384..]).unwrap(), 1);
    assert_eq!(it.carry().len(), 1 + 16_385);
}

#[test]
fn no_more_than_one_record_is_encrypted_beyond_what_is_taken() {
    let message = vec![7; 100_000];
    let mut it = Secured::with(WITHHOLDING);
    let mut left = &message[..];
    let mut calls = 0;
    while !left.is_empty() {
        it.wire.room_bytes = 1000;
        match it.send(left) {
            Ok(bytes) => left = &left[bytes..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        assert!(it.session.pending_bytes() <= 16_384 + 22);
        calls += 1;
        assert!(calls < 1000);
    }
    assert!(it.carry() == message);
}

#[test]
fn where_no_byte_may_be_withheld_a_record_counts_whole() {
    let mut it = Secured::with(RecordRules {
        limit_bytes: 100,
        withhold: false,
    });
    it.wire.room_bytes = 130;
    assert_eq!(it.send(&[1; 150]).unwrap(), 150);
    would_block(it.send(b"more"));
    it.wire.room_bytes = usize::MAX;
    assert_eq!(it.send(b"more").unwrap(), 4);
    assert_eq!(it.carry(), [&[1; 150][..], b"more"].concat());
}

#[test]
fn a_header_is_in_the_same_record_wherever_the_two_are_cut() {
    for payload_bytes in [0, 1, 30, 2040, 2048, 5000, 16_380, 16_381, 40_000] {
        let payload = vec![9; payload_bytes];
        let mut it = Secured::with(WITHHOLDING);
        it.wire.room_bytes = usize::MAX;
        let sent = it
            .session
            .send(
                &[IoSlice::new(b"head"), IoSlice::new(&payload)],
                &mut it.wire,
            )
            .unwrap();
        assert_eq!(sent, 4 + payload_bytes);
        assert!(it.carry() == [b"head", &payload[..]].concat());
    }
}

#[test]
fn a_kernel_without_memory_leaves_the_record_begun() {
    let mut it = Secured::with(WITHHOLDING);
    it.wire.room_bytes = usize::MAX;
    it.wire.fails = Some(libc::ENOBUFS);
    assert_eq!(it.send(b"abc").unwrap(), 2);
    // It is said to whoever comes next, who waits by the clock.
    it.wire.fails = Some(libc::ENOBUFS);
    let error = it.send(b"c").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
    assert_eq!(it.send(b"c").unwrap(), 1);
    assert_eq!(it.carry(), b"abc");
}

#[test]
fn why_a_write_broke_is_said_once_to_whoever_comes_next() {
    let mut it = Secured::with(RecordRules {
        limit_bytes: 10,
        ..WITHHOLDING
    });
    it.wire.room_bytes = usize::MAX;
    it.wire.fails = Some(libc::ECONNRESET);
    let error = it.send(b"at once").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn the_goodbye_leaves_behind_what_was_sent_and_before_the_end() {
    let mut it = Secured::with(WITHHOLDING);
    it.wire.room_bytes = 10;
    assert_eq!(it.send(b"the last").unwrap(), 7);
    assert!(!it.session.say_goodbye(&mut it.wire).unwrap());
    assert!(!it.wire.ended && it.session.owes());
    it.wire.room_bytes = usize::MAX;
    assert!(it.session.flush(&mut it.wire).unwrap());
    assert!(it.wire.ended && !it.session.owes());
    assert_eq!(it.carry(), b"the last");
    assert!(it.peer.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn new_keys_on_either_side_change_nothing() {
    let mut it = Secured::with(WITHHOLDING);
    for _ in 0..3 {
        it.peer.refresh_traffic_keys().unwrap();
        it.peer.writer().write_all(b"with new keys").unwrap();
        it.carry();
        let mut buffer = [0; 100];
        let read = it.session.recv(&mut buffer, false, &mut it.wire);
        assert_eq!(&buffer[..read.unwrap()], b"with new keys");
        it.session.connection.refresh_traffic_keys().unwrap();
        // TLS itself has something to say, and there is no room.
        assert!(it.session.owes());
        would_block(it.send(b"later"));
        it.wire.room_bytes = 1000;
        assert_eq!(it.send(b"now").unwrap(), 3);
        assert_eq!(it.carry(), b"now");
        it.wire.room_bytes = 0;
    }
}

#[test]
fn what_was_decrypted_is_received_before_the_end_and_in_any_portions() {
    let mut it = Secured::with(WITHHOLDING);
    let message: Vec<u8> = (0..200).collect();
    it.peer.writer().write_all(&message).unwrap();
    it.peer.send_close_notify();
    it.carry();
    let mut received: Vec<u8> = Vec::new();
    let mut buffer = [0; 7];
    loop {
        match it.session.recv(&mut buffer, false, &mut it.wire).unwrap() {
            0 => break,
            bytes => received.extend(&buffer[..bytes]),
        }
        assert!(it.session.has_news());
    }
    assert_eq!(received, message);
    // The end stays the end.
    let again = it.session.recv(&mut buffer, false, &mut it.wire);
    assert_eq!(again.unwrap(), 0);
}
