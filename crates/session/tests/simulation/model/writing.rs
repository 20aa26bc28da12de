//! What a writer must be given, and what must become of it when the writer is back.

use std::collections::VecDeque;

use tautline_session::{DirectWrite, PeerId, Stopped};

use super::{Hand, Message, Model, Stage};

impl Model {
    /// A writer took these bytes of a stream.
    pub(crate) fn take_bytes(&mut self, bytes: &[u8]) {
        let mut messages = VecDeque::new();
        let mut left = bytes;
        while !left.is_empty() {
            let front = self.queue.pop_front().expect("as much waits");
            left = left
                .strip_prefix(front.left())
                .expect("a writer gets whole messages, or the rest of one, in order");
            messages.push_back(front);
        }
        self.take(messages);
    }

    /// A writer took these datagrams.
    pub(crate) fn take_datagrams<'a>(
        &mut self,
        datagrams: impl Iterator<Item = (PeerId, &'a [u8])>,
    ) {
        let mut messages = VecDeque::new();
        for (peer, payload) in datagrams {
            let front = self.queue.pop_front().expect("as many wait");
            assert_eq!((front.peer, &*front.payload), (peer, payload));
            messages.push_back(front);
        }
        self.take(messages);
    }

    fn take(&mut self, messages: VecDeque<Message>) {
        assert!(self.hand.is_none(), "two writers");
        assert!(matches!(self.stage, Stage::Open | Stage::Closing(_)));
        self.hand = Some(Hand {
            messages,
            direct: false,
            severed: None,
        });
    }

    pub(crate) fn settle_stream(&mut self, written_bytes: usize) {
        let queued = self.hand.as_ref().is_some_and(|hand| !hand.direct);
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        let left = self.write(&mut messages, written_bytes, queued);
        assert_eq!(left, 0, "more was written than there was");
        self.put_back(messages);
    }

    pub(crate) fn settle_datagrams(&mut self, sent: usize, stopped: Stopped) {
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        for message in messages.drain(..sent) {
            self.count_written(message, true);
        }
        if stopped == Stopped::Failed
            && let Some(failed) = messages.pop_front()
        {
            self.fail(&failed);
        }
        self.put_back(messages);
    }

    pub(crate) fn settle_direct(&mut self, written: DirectWrite) {
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        match written {
            DirectWrite::Whole => {
                let message = messages.pop_front().expect("its own message");
                self.count_written(message, false);
            }
            DirectWrite::Failed => {
                let message = messages.pop_front().expect("its own message");
                self.fail(&message);
            }
            DirectWrite::Part(bytes) => {
                if bytes > 0 {
                    self.write(&mut messages, bytes, false);
                }
            }
        }
        self.put_back(messages);
    }

    /// The writer is back; `None` when its connection is over, and then all it held is given up.
    fn back_from_writing(&mut self) -> Option<VecDeque<Message>> {
        let hand = self.hand.take().expect("somebody was writing");
        let Some(cause) = hand.severed else {
            return Some(hand.messages);
        };
        for message in &hand.messages {
            self.give_up(message, cause);
        }
        self.judge();
        self.grant();
        None
    }

    /// Returns the bytes that were written beyond what there was.
    fn write(&mut self, messages: &mut VecDeque<Message>, bytes: usize, queued: bool) -> usize {
        let mut left = bytes;
        while let Some(front) = messages.front_mut() {
            if left < front.left().len() {
                self.account.written.bytes += left as u64;
                front.written += left;
                self.hold(-(left as i64));
                return 0;
            }
            left -= front.left().len();
            let message = messages.pop_front().expect("it is the front");
            self.count_written(message, queued);
        }
        left
    }

    fn count_written(&mut self, mut message: Message, queued: bool) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| account.written += tally);
        self.noted += u64::from(queued);
        message.written = message.encoded.len();
        self.written
            .last_mut()
            .expect("a connection is open")
            .push(message);
    }

    fn fail(&mut self, message: &Message) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| account.discarded.failed += tally);
    }

    fn put_back(&mut self, mut messages: VecDeque<Message>) {
        while let Some(message) = messages.pop_back() {
            let departed = if self.shared {
                self.peer(message.peer).departed
            } else {
                None
            };
            match departed {
                Some(cause) => self.give_up(&message, cause),
                None => self.queue.push_front(message),
            }
        }
        self.judge();
        self.grant();
    }
}
