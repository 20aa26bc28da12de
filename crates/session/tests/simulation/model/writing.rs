//! What a writer must be given, and what must become of it when the writer is back.

use std::collections::VecDeque;

use tautline_session::{DirectWrite, Discard, PeerId, Stopped};

use super::{Hand, Message, Model, Severed, Stage, sum};

impl Model {
    /// A writer took these bytes of a stream.
    pub(crate) fn take_bytes(&mut self, bytes: &[u8]) {
        let ahead = !self.ahead.is_empty();
        assert!(ahead || !self.hook, "only the hook's may go");
        let from = if ahead {
            &mut self.ahead
        } else {
            &mut self.queue
        };
        let mut messages = VecDeque::new();
        let mut left = bytes;
        while !left.is_empty() {
            let front = from.pop_front().expect("as much waits");
            left = left
                .strip_prefix(front.left())
                .expect("a writer gets whole messages, or the rest of one, in order");
            messages.push_back(front);
        }
        self.take(messages, ahead);
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
        self.take(messages, false);
    }

    fn take(&mut self, messages: VecDeque<Message>, ahead: bool) {
        assert!(self.hand.is_none(), "two writers");
        assert!(matches!(self.stage, Stage::Open | Stage::Closing(_)));
        self.hand = Some(Hand {
            messages,
            direct: false,
            ahead,
            severed: None,
        });
    }

    pub(crate) fn settle_stream(&mut self, written_bytes: usize) {
        let hand = self.hand.as_ref();
        let (ahead, queued) = hand.map_or((false, false), |hand| (hand.ahead, !hand.direct));
        let Some(mut messages) = self.back_from_writing(written_bytes) else {
            return;
        };
        let left = self.write(&mut messages, written_bytes, queued);
        assert_eq!(left, 0, "more was written than there was");
        self.put_back(messages, ahead);
    }

    pub(crate) fn settle_datagrams(&mut self, sent: usize, stopped: Stopped) {
        let Some(mut messages) = self.back_from_writing(0) else {
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
        self.put_back(messages, false);
    }

    pub(crate) fn settle_direct(&mut self, written: DirectWrite) {
        let taken_bytes = match written {
            DirectWrite::Part(bytes) => bytes,
            DirectWrite::Whole | DirectWrite::Failed => usize::MAX,
        };
        let Some(mut messages) = self.back_from_writing(taken_bytes) else {
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
        self.put_back(messages, false);
    }

    /// The writer is back, and the kernel has taken so many bytes; `None` when its connection is over.
    /// Then what it held is given up, or what is untouched of it waits for the next one.
    fn back_from_writing(&mut self, taken_bytes: usize) -> Option<VecDeque<Message>> {
        let mut hand = self.hand.take().expect("somebody was writing");
        let Some(severed) = hand.severed else {
            return Some(hand.messages);
        };
        let (cause, keeps) = match severed {
            Severed::GiveUp(cause) => (cause, false),
            Severed::Keep => (Discard::ConnectionLost, !hand.ahead),
        };
        let mut left = taken_bytes;
        while let Some(message) = hand.messages.front() {
            // A message that was begun before is begun, whatever the kernel took of it now.
            if keeps && left == 0 && message.written == 0 {
                break;
            }
            left = left.saturating_sub(message.left().len());
            let message = hand.messages.pop_front().expect("it is the front");
            self.give_up(&message, cause);
        }
        let (control, kept): (VecDeque<_>, VecDeque<_>) = hand
            .messages
            .into_iter()
            .partition(|message| message.control.is_some());
        for message in &control {
            self.give_up(message, cause);
        }
        self.carried += sum(&kept);
        self.put_back(kept, false);
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

    fn put_back(&mut self, mut messages: VecDeque<Message>, ahead: bool) {
        while let Some(message) = messages.pop_back() {
            let departed = if self.shared {
                self.peer(message.peer).departed
            } else {
                None
            };
            match departed {
                Some(cause) => self.give_up(&message, cause),
                None if ahead => self.ahead.push_front(message),
                None => self.queue.push_front(message),
            }
        }
        self.judge();
        self.grant();
    }
}
