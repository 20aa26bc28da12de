//! The responder as its clients meet it: over sockets, good ones and bad ones.

mod bad_clients;
mod datagrams;
mod streams;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use tautline::Address;

use super::*;
use crate::wire::{
    Counts, HEADER_BYTES, HELLO_DATAGRAM_BYTES, Header, Hello, Kind, Mode, Welcome, WireError,
};

/// A watchdog, not a bound: nothing here takes so long.
const WATCHDOG: Duration = Duration::from_secs(60);

fn plan(addresses: &[&str]) -> ServePlan {
    ServePlan {
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        ..ServePlan::default()
    }
}

fn start(addresses: &[&str]) -> Server {
    Server::start(plan(addresses)).unwrap()
}

fn port_of(address: &Address) -> u16 {
    match address {
        Address::Tcp { port, .. } | Address::Tls { port, .. } | Address::Udp { port, .. } => *port,
        Address::Uds(_) | Address::Serial(_) => panic!("{address} has no port"),
    }
}

/// A raw client: what it is sent and what it reads is up to the test.
fn connect(server: &Server) -> TcpStream {
    let port = port_of(&server.addresses()[0]);
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn hello(mode: Mode, message_bytes: u32) -> Hello {
    Hello {
        mode,
        message_bytes,
        record: PeerRecord::default(),
    }
}

/// Says hello and reads the answer.
fn greet(stream: &mut (impl Read + Write), mode: Mode, message_bytes: u32) -> Welcome {
    let frame = hello::frame(hello(mode, message_bytes).encode());
    stream.write_all(&frame).unwrap();
    Welcome::decode(&read_frame(stream)).unwrap()
}

fn read_frame(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

fn refusal(welcome: Welcome) -> String {
    welcome.refusal.expect("a refusal").reason
}

/// Sends and reads back.
fn exchange(stream: &mut (impl Read + Write), bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes, "another {} bytes came back", bytes.len());
}

/// Waits until the server has closed: the end, or a reset where we sent what nobody read.
fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    bytes
}

/// The next line that users would be told.
fn notice(server: &Server) -> String {
    match server.events.recv_timeout(WATCHDOG).unwrap() {
        Event::Notice(text) => text,
        Event::End => panic!("it ended"),
    }
}

/// A UDP client.
struct Caller {
    socket: UdpSocket,
}

impl Caller {
    fn new(server: &Server) -> Self {
        let address = server.addresses().last().unwrap();
        Self::to(SocketAddr::from(([127, 0, 0, 1], port_of(address))))
    }

    fn to(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        Self { socket }
    }

    fn send(&self, kind: Kind, word: u64, sequence: u64, length: usize) {
        let mut datagram = vec![0x5a; length];
        Header {
            kind,
            word,
            sequence,
        }
        .write(&mut datagram);
        self.socket.send(&datagram).unwrap();
    }

    fn receive(&self) -> (Header, Vec<u8>) {
        let mut buffer = vec![0; 65_536];
        let length = self.socket.recv(&mut buffer).unwrap();
        let header = Header::read(&buffer[..length]).expect("a header of ours");
        (header, buffer[HEADER_BYTES..length].to_vec())
    }

    fn say_hello(&self, hello: &Hello) -> (u64, Welcome) {
        let mut datagram = vec![0; HEADER_BYTES];
        datagram.extend(hello.encode());
        datagram.resize(HELLO_DATAGRAM_BYTES, 0);
        Header {
            kind: Kind::Hello,
            word: 0,
            sequence: 7,
        }
        .write(&mut datagram);
        self.socket.send(&datagram).unwrap();
        let (header, body) = self.receive();
        assert_eq!((header.kind, header.sequence), (Kind::Welcome, 7));
        (header.word, Welcome::decode(&body).unwrap())
    }

    /// A cookie.
    fn greet(&self) -> u64 {
        let (cookie, welcome) = self.say_hello(&hello(Mode::Echo, 64));
        assert_eq!(welcome.refusal, None);
        cookie
    }

    fn counts(&self, cookie: u64) -> Counts {
        self.send(Kind::Question, cookie, 9, HELLO_DATAGRAM_BYTES);
        let (header, body) = self.receive();
        assert_eq!((header.kind, header.sequence), (Kind::Counts, 9));
        Counts::decode(&body).unwrap()
    }
}
