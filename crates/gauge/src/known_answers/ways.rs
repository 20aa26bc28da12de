//! A way between client and server that does to messages of known numbers what it is told, over streams
//! and datagrams alike.
//!
//! Messages of the handshake and of questions pass unharmed. A way is for one client, and ends with it.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tautline::Address;

use crate::wire::{Header, Kind};

/// What happens to a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// It does not come.
    Lost,
    /// It comes twice.
    Twice,
    /// The one behind it comes first.
    Overtaken,
    /// This byte of it is another one.
    Damaged(usize),
    /// It comes so much later, and what is behind it passes.
    Held(Duration),
    /// It comes so much later, and what is behind it waits: of one message a stall, of many a slow phase.
    Slow(Duration),
}

/// Messages of these numbers, on one of the two directions, and what happens to each.
#[derive(Debug, Clone)]
pub(super) struct Injected {
    direction: Direction,
    numbers: Range<u64>,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// On their way to the server.
pub(super) fn up(numbers: Range<u64>, fault: Fault) -> Injected {
    Injected {
        direction: Direction::Up,
        numbers,
        fault,
    }
}

/// On their way back.
pub(super) fn down(numbers: Range<u64>, fault: Fault) -> Injected {
    Injected {
        direction: Direction::Down,
        ..up(numbers, fault)
    }
}

/// How a stream of bytes is cut into messages, once both ends have shaken hands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut {
    /// All of them have so many bytes.
    Every(usize),
    /// Each has its length before it.
    Prefixed,
}

/// A way to a server of datagrams.
pub(super) fn datagrams(server: &Address, faults: &[Injected]) -> Address {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(socket_address(server)).unwrap();
    let address = Address::udp(front.local_addr().unwrap());
    let [mut up, mut down] = [
        Carrier::new(Direction::Up, faults, Outlet::Datagrams(clone(&back))),
        Carrier::new(Direction::Down, faults, Outlet::Datagrams(clone(&front))),
    ];
    thread::spawn(move || {
        let (_, client) = front.peek_from(&mut [0]).unwrap();
        front.connect(client).unwrap();
        thread::spawn(move || down.carry(|buffer| datagram(&back, buffer, Kind::Reply)));
        up.carry(|buffer| datagram(&front, buffer, Kind::Request));
    });
    address
}

/// A way to a server of streams.
pub(super) fn stream(server: &Address, cut: Cut, faults: &[Injected]) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp(listener.local_addr().unwrap());
    let server = socket_address(server);
    let faults = faults.to_vec();
    thread::spawn(move || {
        let (front, _) = listener.accept().unwrap();
        let back = TcpStream::connect(server).unwrap();
        for socket in [&front, &back] {
            socket.set_nodelay(true).unwrap();
        }
        let each = [
            (Direction::Up, &front, &back),
            (Direction::Down, &back, &front),
        ];
        for (direction, from, to) in each {
            let outlet = Outlet::Stream(to.try_clone().unwrap());
            let mut carrier = Carrier::new(direction, &faults, outlet);
            let mut from = from.try_clone().unwrap();
            let mut next = None;
            thread::spawn(move || carrier.carry(|buffer| frame(&mut from, buffer, cut, &mut next)));
        }
    });
    address
}

/// One message in a buffer, and its number where it has one.
type Message = io::Result<(usize, Option<u64>)>;

fn datagram(from: &UdpSocket, buffer: &mut [u8], kind: Kind) -> Message {
    let bytes = from.recv(buffer)?;
    let header = Header::read(&buffer[..bytes]);
    let number = header
        .filter(|header| header.kind == kind || (kind, header.kind) == (Kind::Request, Kind::Item))
        .map(|header| header.sequence);
    Ok((bytes, number))
}

/// The first frame of either direction is the handshake's, with its length before it.
fn frame(from: &mut TcpStream, buffer: &mut [u8], cut: Cut, next: &mut Option<u64>) -> Message {
    let number = *next;
    let bytes = match (cut, number) {
        (Cut::Every(bytes), Some(_)) => {
            from.read_exact(&mut buffer[..bytes])?;
            bytes
        }
        (Cut::Every(_) | Cut::Prefixed, _) => {
            let mut length = [0; 4];
            from.read_exact(&mut length)?;
            let bytes = length.len() + u32::from_be_bytes(length) as usize;
            buffer[..length.len()].copy_from_slice(&length);
            from.read_exact(&mut buffer[length.len()..bytes])?;
            bytes
        }
    };
    *next = Some(number.map_or(0, |number| number + 1));
    Ok((bytes, number))
}

/// One direction at work.
struct Carrier {
    faults: Vec<Injected>,
    line: Line,
    /// For those that are held back while the line moves on; within a stream nothing can be.
    aside: Option<Line>,
    overtaken: Option<Vec<u8>>,
}

impl Carrier {
    fn new(direction: Direction, faults: &[Injected], outlet: Outlet) -> Self {
        let of_it = faults.iter().filter(|of| of.direction == direction);
        Self {
            faults: of_it.cloned().collect(),
            aside: outlet.beside().map(Line::new),
            line: Line::new(outlet),
            overtaken: None,
        }
    }

    /// Carries what comes until nothing comes any more.
    fn carry(&mut self, mut next: impl FnMut(&mut [u8]) -> Message) {
        let mut buffer = vec![0; BUFFER];
        while let Ok((bytes, number)) = next(&mut buffer) {
            let message = &mut buffer[..bytes];
            let mut slow = Duration::ZERO;
            match self.fault_of(number) {
                Some(Fault::Lost) => continue,
                Some(Fault::Overtaken) => {
                    self.overtaken = Some(message.to_vec());
                    continue;
                }
                Some(Fault::Held(by)) => {
                    let aside = self.aside.as_ref().expect("datagrams pass each other");
                    aside.pass(message, by);
                    continue;
                }
                Some(Fault::Twice) => self.line.pass(message, slow),
                Some(Fault::Damaged(byte)) => message[byte] ^= 1,
                Some(Fault::Slow(by)) => slow = by,
                None => {}
            }
            self.line.pass(message, slow);
            if let Some(overtaken) = self.overtaken.take() {
                self.line.pass(&overtaken, Duration::ZERO);
            }
        }
    }

    fn fault_of(&self, number: Option<u64>) -> Option<Fault> {
        let number = number?;
        let found = self.faults.iter().find(|of| of.numbers.contains(&number));
        found.map(|of| of.fault)
    }
}

/// Puts out what it is given in its order, nothing before its time.
struct Line(Sender<(Instant, Vec<u8>)>);

impl Line {
    fn new(mut outlet: Outlet) -> Self {
        let (give, given) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::spawn(move || {
            for (due, message) in given {
                // This is the fault.
                thread::sleep(due.saturating_duration_since(Instant::now()));
                outlet.put(&message);
            }
            outlet.end();
        });
        Self(give)
    }

    fn pass(&self, message: &[u8], by: Duration) {
        // A line whose thread is gone has nobody left to reach.
        let _ = self.0.send((Instant::now() + by, message.to_vec()));
    }
}

/// Where a line ends.
enum Outlet {
    Datagrams(UdpSocket),
    Stream(TcpStream),
}

impl Outlet {
    /// The same end for a second line.
    fn beside(&self) -> Option<Self> {
        match self {
            Self::Datagrams(socket) => Some(Self::Datagrams(clone(socket))),
            Self::Stream(_) => None,
        }
    }

    fn put(&mut self, message: &[u8]) {
        // An end that has gone away needs nothing more.
        let _ = match self {
            Self::Datagrams(socket) => socket.send(message).map(drop),
            Self::Stream(socket) => socket.write_all(message),
        };
    }

    fn end(&self) {
        if let Self::Stream(socket) = self {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

fn clone(socket: &UdpSocket) -> UdpSocket {
    socket.try_clone().unwrap()
}

fn socket_address(address: &Address) -> SocketAddr {
    let text = address.to_string();
    let (_, host_and_port) = text.split_once("://").unwrap();
    host_and_port.parse().unwrap()
}

/// The largest datagram.
const BUFFER: usize = 65_536;
