//! The kernel and the network of the simulation, with their faults, and the receiving end.

use tautline_session::{Framing, Heard, Inbound, PeerId};

use crate::random::Random;

/// One connection: what the kernel took, what of it is still to be read, and who reads it.
#[derive(Debug)]
pub(crate) struct Wire {
    alive: bool,
    /// The kernel's send buffer.
    room: usize,
    /// Bytes accepted, ever.
    pub(crate) carried: Vec<u8>,
    /// How many of them were read.
    read: usize,
    /// Datagrams accepted, ever; they are not read back, the borders are theirs.
    pub(crate) datagrams: Vec<(PeerId, Vec<u8>)>,
    pending_datagrams: usize,
    pub(crate) receiver: Receiver,
}

impl Wire {
    pub(crate) fn new(
        framing: Framing,
        frame_limit_bytes: usize,
        room: usize,
        heartbeats: bool,
    ) -> Self {
        let mut inbound = Inbound::new(framing, frame_limit_bytes, None);
        if heartbeats {
            inbound = inbound.with_control();
        }
        Self {
            alive: true,
            room,
            carried: Vec::new(),
            read: 0,
            datagrams: Vec::new(),
            pending_datagrams: 0,
            receiver: Receiver {
                inbound,
                paused: false,
                heard: Heard::default(),
                messages: Vec::new(),
            },
        }
    }

    /// The kernel takes some of it, or none when it is full or the connection is gone.
    pub(crate) fn write(&mut self, bytes: &[u8], random: &mut Random) -> usize {
        let free = self.room.saturating_sub(self.carried.len() - self.read);
        if !self.alive || free == 0 {
            return 0;
        }
        let most = bytes.len().min(free);
        let taken = if random.one_in(3) {
            random.up_to(most)
        } else {
            most
        };
        self.carried.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The kernel takes the datagram whole, or has no room for it now.
    pub(crate) fn send(&mut self, peer: PeerId, payload: &[u8], random: &mut Random) -> bool {
        if !self.alive || self.pending_datagrams >= 4 || random.one_in(8) {
            return false;
        }
        self.pending_datagrams += 1;
        self.datagrams.push((peer, payload.to_vec()));
        true
    }

    /// Whether the driver would be told that the socket is writable, or broken.
    pub(crate) fn is_writable(&self) -> bool {
        !self.alive || (self.carried.len() - self.read < self.room && self.pending_datagrams < 4)
    }

    /// The receiver reads some of what is there.
    pub(crate) fn deliver(&mut self, random: &mut Random) {
        self.pending_datagrams -= random.up_to(self.pending_datagrams);
        if self.receiver.paused {
            if random.one_in(2) {
                self.receiver.resume(random);
            }
            return;
        }
        let there = self.carried.len() - self.read;
        let bytes = if random.one_in(2) {
            there
        } else {
            random.up_to(there)
        };
        let from = self.read;
        self.read += bytes;
        self.receiver.take(&self.carried[from..self.read], random);
    }

    /// The receiver reads all there is.
    pub(crate) fn deliver_all(&mut self) {
        self.pending_datagrams = 0;
        self.receiver.paused = false;
        let from = self.read;
        self.read = self.carried.len();
        // It never pauses when it is not asked to.
        self.receiver.take_all(&[]);
        self.receiver.take_all(&self.carried[from..]);
    }

    /// What is not read yet may still arrive, or not.
    pub(crate) fn lose(&mut self, random: &mut Random) {
        if self.alive {
            self.alive = false;
            self.deliver(random);
        }
    }

    pub(crate) const fn has_read_everything(&self) -> bool {
        self.read == self.carried.len() && !self.receiver.paused
    }
}

/// The receiving half of the session, which its application may pause in the middle of a read.
#[derive(Debug)]
pub(crate) struct Receiver {
    inbound: Inbound,
    paused: bool,
    /// The control frames so far.
    pub(crate) heard: Heard,
    /// What came out. With raw framing each is what one read returned.
    pub(crate) messages: Vec<Vec<u8>>,
}

impl Receiver {
    fn take(&mut self, bytes: &[u8], random: &mut Random) {
        self.take_while(bytes, || !random.one_in(4));
    }

    fn take_all(&mut self, bytes: &[u8]) {
        self.take_while(bytes, || true);
    }

    fn take_while(&mut self, bytes: &[u8], mut goes_on: impl FnMut() -> bool) {
        let mut frames = self.inbound.frames(bytes);
        loop {
            if !goes_on() {
                frames.keep();
                self.paused = true;
                break;
            }
            match frames.next() {
                None => break,
                Some(frame) => self
                    .messages
                    .push(frame.expect("nothing garbles this wire").to_vec()),
            }
        }
        let Heard { ping, pong, frames } = self.inbound.heard();
        self.heard.ping = ping.or(self.heard.ping);
        self.heard.pong = pong.or(self.heard.pong);
        self.heard.frames += frames;
    }

    fn resume(&mut self, random: &mut Random) {
        self.paused = false;
        self.take(&[], random);
    }

    /// Bytes of a frame that has not come whole.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.inbound.kept_bytes()
    }
}
