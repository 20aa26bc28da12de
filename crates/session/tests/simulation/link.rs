//! One link as it is used: threads that send and wait, a driver that takes and settles, connections
//! that come and go in between. Each step is drawn; after each the session must agree with the model.

mod checks;
mod driver;
mod senders;

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use tautline_session::{
    Budget, Caller, DirectWrite, Discard, Framing, OnLoss, Outbound, OutboundOptions, PeerId,
    Pressure, Stopped, Strategy, Surroundings, Taken, Tally, Ticket, Token,
};

use crate::desk::Desk;
use crate::model::{Longest, Message, Model, Stage, Total};
use crate::random::Random;
use crate::wire::Wire;

/// What a life found itself doing; a test asks that all of it happens.
pub(crate) type Seen = HashSet<&'static str>;

/// What kind of link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    /// One peer, or many that share the queue.
    Datagram {
        shared: bool,
    },
}

/// Everything that is drawn before a life begins.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) strategy: Strategy,
    pub(crate) framing: Framing,
    /// What the framing is called.
    pub(crate) framing_name: &'static str,
    /// The driver puts in control frames.
    pub(crate) heartbeats: bool,
    pub(crate) on_loss: OnLoss,
    pub(crate) limit_bytes: usize,
    pub(crate) limit_messages: usize,
    pub(crate) frame_limit: usize,
    /// Longer ones stay where they are.
    pub(crate) copy_limit: usize,
    /// The longest payload that senders try.
    pub(crate) longest: usize,
    /// Older messages are given up.
    pub(crate) max_delay_ns: Option<u64>,
    pub(crate) senders: usize,
    /// The owner of a direct link sends and writes; there is no driver.
    pub(crate) direct: bool,
    /// The kernel's send buffer.
    pub(crate) room: usize,
    /// How seldom the peer reads: at 1 whenever it may.
    pub(crate) slowness: usize,
}

/// One link, with everybody who uses it.
pub(crate) struct Link {
    plan: Plan,
    outbound: Outbound,
    model: Model,
    desk: Rc<Desk>,
    senders: Vec<Sender>,
    hand: Option<Hand>,
    wires: Vec<Wire>,
    driver: Driver,
    /// The driver met a full kernel, and nobody tried since.
    kernel_was_full: bool,
    hot: Hot,
    /// What the driver told last.
    pressure: Pressure,
    /// Its number, if its steps are to be printed.
    trace: Option<usize>,
    pub(crate) seen: Seen,
}

/// One thread that sends.
struct Sender {
    doing: Doing,
    sent: u32,
}

enum Doing {
    Nothing,
    /// Writes its own message. With a result the system call is done and not settled.
    Writing {
        token: Token,
        message: Message,
        wire: usize,
        result: Option<DirectWrite>,
    },
    /// The same, handed to it encoded.
    WritingBlock(Hand),
    Waiting {
        ticket: Ticket,
        message: Message,
        told: bool,
    },
}

/// Whoever took a block, between take and settle.
struct Hand {
    taken: Taken,
    caller: Caller,
    wire: usize,
    result: Option<(usize, Stopped)>,
}

/// Why the driver would come.
#[derive(Debug, Default)]
struct Driver {
    called: bool,
    /// Its last turn ended with work left.
    ready: bool,
    /// It asked the kernel for writability.
    awaits_writable: bool,
    /// The session had it called and it has not come.
    woken: bool,
    /// It came when a closing link had nothing left to write.
    saw_the_last_written: bool,
}

/// The rule for hot senders, a second time.
#[derive(Debug, Default)]
struct Hot {
    free_since_ns: u64,
    sends: u32,
}

impl Link {
    pub(crate) fn new(
        plan: Plan,
        desk: Rc<Desk>,
        total: Option<(Total, Arc<Budget>)>,
        trace: Option<usize>,
    ) -> Self {
        let shared = plan.kind == Kind::Datagram { shared: true };
        let (total, budget) = total.unzip();
        let outbound = Outbound::new(&OutboundOptions {
            strategy: plan.strategy,
            framing: plan.framing.clone(),
            queue_limit_bytes: plan.limit_bytes,
            queue_limit_messages: plan.limit_messages,
            frame_limit_bytes: plan.frame_limit,
            copy_limit_bytes: plan.copy_limit,
            max_queue_delay_ns: plan.max_delay_ns,
            on_loss: plan.on_loss,
            shared,
            budget,
        });
        let hook_limit = Tally {
            messages: plan.limit_messages as u64,
            bytes: plan.limit_bytes as u64,
        };
        // An eighth is the hook's, and at least one message.
        let limit = match plan.on_loss {
            OnLoss::Discard => hook_limit,
            OnLoss::Keep => Tally {
                messages: hook_limit.messages - (hook_limit.messages / 8).max(1),
                bytes: hook_limit.bytes - hook_limit.bytes / 8,
            },
        };
        let total_bytes = total
            .as_ref()
            .map_or(usize::MAX, |total| total.limit_bytes as usize);
        let frame_bytes = plan.frame_limit.min(plan.framing.payload_limit_bytes());
        let room_bytes = (limit.bytes as usize).min(total_bytes);
        let longest = Longest {
            frame_bytes,
            room_bytes,
            told_bytes: frame_bytes.min(plan.framing.payload_within(room_bytes)),
        };
        let sender = || Sender {
            doing: Doing::Nothing,
            sent: 0,
        };
        Self {
            model: Model::new(&plan, [limit, hook_limit], longest, total)
                .with_max_delay(plan.max_delay_ns),
            senders: std::iter::repeat_with(sender).take(plan.senders).collect(),
            outbound,
            desk,
            hand: None,
            wires: Vec::new(),
            driver: Driver::default(),
            kernel_was_full: false,
            hot: Hot::default(),
            pressure: Pressure::Off,
            trace,
            seen: Seen::new(),
            plan,
        }
    }

    /// Something happens.
    pub(crate) fn step(&mut self, random: &mut Random) {
        match random.up_to(99) {
            0..46 => self.some_sender_acts(random),
            46..66 => self.driver_or_holder_acts(random),
            66..72 => self.callback_flushes(random),
            72..92 => {
                if let Some(wire) = self.wires.last_mut()
                    && random.one_in(self.plan.slowness)
                {
                    wire.deliver(random);
                }
            }
            92..96 => {
                self.say("look again for room in a total");
                self.outbound.grant();
                self.model.grant();
            }
            96 if self.plan.max_delay_ns.is_some() => self.old_are_given_up(),
            96..98 => self.peers_come_and_go(random),
            _ => self.connection_changes(random),
        }
        if self.plan.heartbeats && random.one_in(20) {
            self.driver_says_it_lives(random);
        }
        self.check();
    }

    /// The driver looks by the clock.
    fn old_are_given_up(&mut self) {
        let left = self.outbound.give_up_too_old(&*self.desk);
        self.say_with(|| format!("by the clock, the next has {left:?}"));
        let now_ns = self.desk.now_ns();
        if self.model.discard_too_old(now_ns) {
            self.saw("the clock finds messages too old");
        }
        let expected = self.model.next_too_old_ns(now_ns);
        assert_eq!(left.map(|left| left.as_nanos() as u64), expected);
        self.poll_pressure();
        // It looks at all that its coming may have decided.
        self.driver.called = true;
    }

    fn peers_come_and_go(&mut self, random: &mut Random) {
        if !self.model.shared {
            return;
        }
        let open: Vec<PeerId> = self.open_peers();
        if open.len() < 2 || (open.len() < 5 && random.one_in(2)) {
            let peer = self.outbound.open_peer();
            self.say_with(|| format!("{peer:?} opens"));
            assert!(
                self.model.peers.iter().all(|other| other.id != peer),
                "two peers with one id"
            );
            self.model.open_peer(peer);
        } else {
            let peer = random.pick(&open);
            let cause = random.pick(&[Discard::ConnectionLost, Discard::Closed]);
            self.say_with(|| format!("{peer:?} closes: {cause:?}"));
            let given_up = self.outbound.close_peer(peer, cause, &*self.desk);
            assert_eq!(given_up, self.model.close_peer(peer, cause));
            // It is the driver that closes it.
            self.driver.saw_the_last_written |= self.outbound.is_drained();
            self.poll_pressure();
            self.saw("a peer closes");
        }
    }

    fn connection_changes(&mut self, random: &mut Random) {
        match self.model.stage {
            Stage::NotOpen if random.one_in(8) => self.gives_up(),
            Stage::NotOpen => self.open(),
            Stage::Open if self.model.hook => self.hook_returns(),
            Stage::Open | Stage::Closing(_) => match random.up_to(9) {
                0 => self.close(),
                2 if random.one_in(2) => self.closing(Discard::ConnectionLost),
                1 => self.end(Discard::Closed, random),
                2..7 => self.end(Discard::ConnectionLost, random),
                _ => {}
            },
            // What the driver notices late changes nothing.
            Stage::Ended => self.end(Discard::ConnectionLost, random),
        }
    }

    fn open(&mut self) {
        if self.model.is_writing() {
            self.saw("a connection opens while a writer is at the last one");
        }
        self.poll_pressure();
        let hook = self.plan.kind == Kind::Stream && !self.plan.direct;
        let generation = if hook {
            self.outbound.opened_with_hook()
        } else {
            self.outbound.opened()
        };
        if self.model.keep && !self.model.is_queue_empty() {
            self.saw("a connection opens with what was kept");
        }
        self.model.opened(hook);
        let wire = Wire::new(
            self.plan.framing.clone(),
            self.plan.frame_limit,
            self.plan.room,
            self.plan.heartbeats,
        );
        self.wires.push(wire);
        assert_eq!(generation, self.wires.len() as u64);
        self.driver.awaits_writable = false;
        self.driver.woken = false;
        self.kernel_was_full = false;
        self.say_with(|| format!("connection {generation} opens"));
    }

    /// What `opened` had to send is sent.
    fn hook_returns(&mut self) {
        self.say("the reopen hook returns");
        self.model.hook = false;
        let wake = self.outbound.hook_done();
        self.driver_is_called(wake);
        self.saw("the reopen hook returns");
    }

    /// No connection will follow, says the driver; to the session that is as good as a loss.
    fn gives_up(&mut self) {
        let cause = Discard::ConnectionLost;
        let given_up = self.outbound.give_up(cause, &*self.desk);
        assert_eq!(given_up, self.model.give_up_all(cause));
        if !given_up.is_zero() {
            self.saw("what was kept is given up");
        }
    }

    pub(crate) fn close(&mut self) {
        self.closing(Discard::Closed);
    }

    /// Nothing more is accepted: the application closes, or the peer comes to its end.
    pub(crate) fn closing(&mut self, cause: Discard) {
        self.say_with(|| format!("no more is accepted: {cause:?}"));
        self.outbound.closing(cause);
        self.model.closing(cause);
        // Whoever closes has the driver come.
        self.driver.called = true;
    }

    pub(crate) fn end(&mut self, cause: Discard, random: &mut Random) {
        self.say_with(|| format!("the connection ends: {cause:?}"));
        if self.model.is_cut() {
            self.saw("a connection ends in the middle of a message");
        }
        if self.model.is_writing() {
            self.saw("a connection ends under a writer");
        }
        if let Some(wire) = self.wires.last_mut() {
            wire.lose(random);
        }
        let given_up = self.outbound.end(cause, &*self.desk);
        assert_eq!(given_up, self.model.end(cause));
        self.driver.awaits_writable = false;
        self.driver.ready = false;
        self.driver.woken = false;
        // Before it says `closed` the driver tells that pressure is off; others may act in between.
        if random.one_in(2) {
            self.poll_pressure();
        }
    }

    /// How the life goes on to its end: mostly with a connection on which everything can be done.
    pub(crate) fn last_words(&mut self, random: &mut Random) {
        if self.model.stage == Stage::NotOpen || self.model.stage == Stage::Ended {
            self.poll_pressure();
        }
        if self.model.stage == Stage::NotOpen && !random.one_in(4) {
            self.open();
        }
        if self.model.hook {
            self.hook_returns();
        }
        if random.one_in(3) {
            self.close();
        }
        self.check();
    }

    fn open_peers(&self) -> Vec<PeerId> {
        self.model
            .peers
            .iter()
            .filter(|peer| peer.departed.is_none())
            .map(|peer| peer.id)
            .collect()
    }

    fn driver_has_a_hand(&self) -> bool {
        self.hand
            .as_ref()
            .is_some_and(|hand| hand.caller == Caller::Driver)
    }

    fn driver_is_called(&mut self, wake: bool) {
        if wake {
            assert!(
                !self.driver.woken,
                "the driver is called once until it comes"
            );
            self.driver.woken = true;
            self.driver.called = true;
        }
    }

    fn saw(&mut self, what: &'static str) {
        self.seen.insert(what);
    }

    fn say(&self, what: &str) {
        self.say_with(|| what.to_owned());
    }

    fn say_with(&self, what: impl FnOnce() -> String) {
        if let Some(number) = self.trace {
            eprintln!("{:>9} ns  link {number}: {}", self.desk.now_ns(), what());
        }
    }
}

/// What a writer has to write.
fn put_together(taken: &Taken) -> Vec<u8> {
    taken.slices().flatten().copied().collect()
}
