//! What came as datagrams: many a call, each a message with its borders.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::LinkDriver;
use crate::driver::Alive;
use crate::driver::audience::Panicked;
use crate::driver::turn::{MailShare, Turn};
use crate::handler::{Reason, Received};
use crate::sys::bulk::Mailbag;
use crate::transport::plain;

/// Datagrams that a pause keeps, though the kernel has handed them over: those of one call at most.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    datagrams: Vec<KeptOne>,
}

struct KeptOne {
    bytes: usize,
    truncated: bool,
    from: Option<SocketAddr>,
}

/// One datagram on its way to the handler.
#[derive(Clone, Copy)]
struct Datagram<'a> {
    payload: &'a [u8],
    truncated: bool,
    from: Option<SocketAddr>,
}

impl LinkDriver {
    /// Every datagram that came, up to a turn's share.
    pub(super) fn read_datagrams(&mut self, to_the_end: bool, turn: &mut Turn) -> Alive {
        let mut mail = turn.take_mail();
        let alive = self.read_mail(&mut mail, to_the_end, turn);
        turn.give_back_mail(mail);
        alive
    }

    fn read_mail(&mut self, mail: &mut Mailbag, to_the_end: bool, turn: &mut Turn) -> Alive {
        let mut share = MailShare::default();
        while let Some(most) = share.most() {
            let Some(outlet) = self.outlet.clone() else {
                return Alive::Yes;
            };
            if !self.shared().delivers() {
                return Alive::Yes;
            }
            if std::mem::take(&mut self.held) {
                share.take_other();
                if self.deliver_kept(turn) == Alive::No {
                    return Alive::No;
                }
                continue;
            }
            self.shared().counters.read_call();
            match outlet.socket().recv_many(mail, most, false) {
                Ok(came) => {
                    let is_all = share.take(mail) == 1 && came < most;
                    let alive = self.deliver_mail(mail, is_all, turn);
                    if alive == Alive::No || (came < most && !to_the_end) {
                        return alive;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Alive::Yes,
                Err(error) => {
                    share.take_other();
                    if let Some(alive) = self.read_failed(error, turn) {
                        return alive;
                    }
                }
            }
        }
        self.spent_in = turn.number();
        turn.again(self.shared().id);
        Alive::Yes
    }

    fn deliver_mail(&mut self, mail: &Mailbag, is_all: bool, turn: &mut Turn) -> Alive {
        let wire_bytes: usize = mail.incoming().map(|message| message.payload.len()).sum();
        let datagrams = mail.incoming().flat_map(|message| {
            let from = message.from.map(plain);
            message.each().map(move |payload| Datagram {
                payload,
                truncated: message.truncated,
                from,
            })
        });
        if !is_all {
            return self.deliver_datagrams(datagrams, Some(wire_bytes as u64), turn);
        }
        // As on a stream: the answer to one that is all there was is written at once.
        let shared = Arc::clone(self.shared());
        let mut answers = std::mem::take(&mut self.answers);
        let alive = answers.during(
            shared.id,
            || shared.channel.read(|outbound| outbound.waiting().messages),
            || self.deliver_datagrams(datagrams, Some(wire_bytes as u64), turn),
        );
        self.answers = answers;
        alive
    }

    fn deliver_kept(&mut self, turn: &mut Turn) -> Alive {
        let kept = self.kept.take().unwrap_or_default();
        let mut rest = &kept.bytes[..];
        let datagrams = kept.datagrams.iter().map(|one| {
            let (payload, behind) = rest.split_at(one.bytes);
            rest = behind;
            Datagram {
                payload,
                truncated: one.truncated,
                from: one.from,
            }
        });
        self.deliver_datagrams(datagrams, None, turn)
    }

    /// Hands datagrams out until the handler pauses, and keeps the others. `None` came before, and were
    /// counted then.
    fn deliver_datagrams<'a>(
        &mut self,
        mut datagrams: impl Iterator<Item = Datagram<'a>>,
        wire_bytes: Option<u64>,
        turn: &mut Turn,
    ) -> Alive {
        let at = Instant::now();
        let shared = Arc::clone(self.shared());
        let gathering = &mut self.gathering;
        let (mut messages, mut payload_bytes, mut truncated) = (0, 0, 0);
        let told = self.audience.tell(|handler, link| {
            for datagram in datagrams.by_ref() {
                let Datagram { payload, from, .. } = datagram;
                truncated += u64::from(datagram.truncated);
                let received = Received {
                    at,
                    truncated: datagram.truncated,
                    from,
                };
                if let Some(gathering) = gathering {
                    gathering.add(payload, received, handler, link);
                } else {
                    messages += 1;
                    payload_bytes += payload.len() as u64;
                    handler.message(link, payload, received);
                }
                if !shared.delivers() {
                    break;
                }
            }
        });
        shared.counters.truncations(truncated);
        match wire_bytes {
            Some(bytes) => shared.counters.read(messages, payload_bytes, bytes, at),
            None => shared.counters.delivered(messages, payload_bytes),
        }
        if !shared.delivers() {
            self.keep_datagrams(datagrams);
        }
        if self.gathering.is_some() {
            self.watch_batch(turn);
        }
        match told {
            Ok(()) => {
                self.hear(at);
                Alive::Yes
            }
            Err(Panicked) => self.end(Reason::Panicked, turn),
        }
    }

    #[cold]
    fn keep_datagrams<'a>(&mut self, datagrams: impl Iterator<Item = Datagram<'a>>) {
        let mut kept = Kept::default();
        for datagram in datagrams {
            kept.bytes.extend_from_slice(datagram.payload);
            kept.datagrams.push(KeptOne {
                bytes: datagram.payload.len(),
                truncated: datagram.truncated,
                from: datagram.from,
            });
        }
        self.held = !kept.datagrams.is_empty();
        self.kept = self.held.then(|| Box::new(kept));
    }
}
