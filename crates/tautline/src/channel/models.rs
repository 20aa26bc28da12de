//! Every interleaving of a few threads around one channel, tried by loom.
//!
//! Nobody sleeps here for long: loom itself fails a model in which every thread waits, so a wake-up
//! that is lost shows as a deadlock, or as something left waiting once the driver has gone. What the
//! session decides is not tried here: its simulation does that, thousands of lives a second.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tautline --lib channel::models -- --nocapture`

#[cfg(feature = "futures")]
mod tasks;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Ledger};
use std::task::Waker;
use std::time::{Duration, Instant};

use loom::sync::atomic::AtomicBool;
use loom::thread;
use tautline_session::{
    Block, Call, Caller, Discard, Framing, OnLoss, Outbound, OutboundOptions, PeerId,
    SendStatistics, Strategy, Surroundings,
};

use super::{Channel, Drained, Home, Outlet};
use crate::error::{FlushError, SendError};
use crate::sync::{Condvar, Mutex, lock};

#[test]
fn two_senders_and_a_flush_write_in_the_order_of_the_lock() {
    let cases = [
        &[][..],
        &[Kernel::Takes(2), Kernel::Full],
        &[Kernel::Full, Kernel::Takes(ENCODED_BYTES + 3)],
    ];
    explore("two senders and a flush", cases, |script| {
        let (line, wire) = open_line(room_for(8), script);
        let senders = [
            user(&line, |line| {
                send(line, 1).unwrap();
                send(line, 2).unwrap();
                line.flush(Duration::MAX).unwrap();
            }),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_eq!(wire.messages().len(), 3);
        assert_all_written(&line);
    });
}

#[test]
fn a_flush_returns_once_what_was_accepted_before_it_is_written() {
    explore("a flush against a sender", [()], |()| {
        let (line, wire) = open_line(room_for(8), &[Kernel::Takes(2), Kernel::Full]);
        let users = [
            user(&line, {
                let wire = Arc::clone(&wire);
                move |line| {
                    send(line, 1).unwrap();
                    line.flush(Duration::MAX).unwrap();
                    assert!(wire.messages().contains(&1));
                }
            }),
            user(&line, |line| send(line, 2).unwrap()),
        ];
        drive(&line);
        join(users);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
    });
}

#[test]
fn senders_that_are_hot_leave_their_messages_to_one_call_of_the_driver() {
    explore("hot senders", [()], |()| {
        let (line, wire) = open_line(room_for(8), &[]);
        line.home().stop_the_clock();
        let senders = [
            user(&line, |line| {
                send(line, 1).unwrap();
                send(line, 2).unwrap();
                send(line, 3).unwrap();
            }),
            user(&line, |line| send(line, 4).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
    });
}

#[test]
fn a_close_ends_once_the_writer_is_back_and_everything_is_written() {
    let cases = [&[][..], &[Kernel::Takes(2), Kernel::Full], &[Kernel::Full]];
    explore("a write-through send against close", cases, |script| {
        let (line, wire) = open_line(room_for(8), script);
        let users = [
            user(&line, |line| {
                send_or(line, 1, SendError::Closed);
                send_or(line, 2, SendError::Closed);
            }),
            user(&line, |line| {
                line.closing(Discard::Closed);
                line.home().command(Command::Close);
            }),
        ];
        drive_to_the_end(&line);
        join(users);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
    });
}

#[test]
fn an_abort_waits_for_the_writer_and_counts_what_it_had_in_hand() {
    let cases = [&[][..], &[Kernel::Takes(2)], &[Kernel::Full]];
    explore("a write-through send against abort", cases, |script| {
        let (line, wire) = open_line(room_for(8), script);
        let users = [
            user(&line, |line| {
                send_or(line, 1, SendError::Closed);
                send_or(line, 2, SendError::Closed);
            }),
            user(&line, |line| {
                line.closing(Discard::Closed);
                line.home().command(Command::Abort);
            }),
        ];
        drive_to_the_end(&line);
        // Nobody writes any more: the descriptor may be closed now.
        assert_eq!(Arc::strong_count(&wire), 1);
        join(users);
        assert!(line.home().accepted().starts_with(&wire.carried().0));
        let sending = statistics(&line);
        assert!(sending.closes() && sending.waiting.is_zero());
        assert_eq!(
            sending.accepted.messages as usize,
            line.home().accepted().len()
        );
    });
}

#[test]
fn a_new_connection_sees_nothing_of_the_one_before() {
    let cases = [
        &[][..],
        &[Kernel::Takes(2)],
        &[Kernel::Full],
        &[Kernel::Fails],
    ];
    explore(
        "a write-through send against a new connection",
        cases,
        |script| {
            let (line, old) = open_line(room_for(8), script);
            let senders = [
                user(&line, |line| {
                    send_or(line, 1, SendError::NotConnected);
                    send_or(line, 2, SendError::NotConnected);
                }),
                user(&line, |line| send_or(line, 3, SendError::NotConnected)),
            ];
            line.home().come();
            let before = line.home().accepted();
            line.end(Discard::ConnectionLost);
            let new = Wire::new(Framing::length_prefix(), &[]);
            assert_eq!(line.opened(Arc::clone(&new), false), Some(2));
            let up_to_here = line.home().accepted();
            drive(&line);
            join(senders);

            let accepted = line.home().accepted();
            let sent_anew = new.messages();
            assert!(accepted.starts_with(&old.carried().0));
            assert!(accepted.ends_with(&sent_anew));
            assert!(before.iter().all(|id| !sent_anew.contains(id)));
            assert!(
                accepted[up_to_here.len()..]
                    .iter()
                    .all(|id| sent_anew.contains(id))
            );
            let sending = statistics(&line);
            assert!(sending.closes() && sending.waiting.is_zero());
            assert_eq!(sending.accepted.messages as usize, accepted.len());
        },
    );
}

#[test]
fn what_is_kept_follows_the_reopen_hook_once_and_in_order() {
    let cases = [&[][..], &[Kernel::Takes(2)], &[Kernel::Full]];
    explore(
        "write-through sends against a loss that keeps",
        cases,
        |script| {
            let options = OutboundOptions {
                on_loss: OnLoss::Keep,
                ..room_for(8)
            };
            let (line, old) = open_line(options, script);
            line.hook_done();
            let senders = [
                user(&line, |line| {
                    send_or(line, 1, SendError::NotConnected);
                    send_or(line, 2, SendError::NotConnected);
                }),
                user(&line, |line| send_or(line, 3, SendError::NotConnected)),
            ];
            line.home().come();
            line.end(Discard::ConnectionLost);
            let new = Wire::new(Framing::length_prefix(), &[]);
            assert_eq!(line.opened(Arc::clone(&new), false), Some(2));
            as_driver(|| send(&line, HOOK).unwrap());
            line.hook_done();
            drive(&line);
            join(senders);

            let sent_anew = new.messages();
            assert_eq!(sent_anew[0], HOOK);
            let others = |id: &u8| *id != HOOK;
            let accepted = line.home().accepted().into_iter().filter(others);
            let on_old = old.carried().0;
            let mut untouched: Vec<u8> = accepted.filter(|id| !on_old.contains(id)).collect();
            if old.carried().1 > 0 {
                // Of the first after them the old wire took a part.
                untouched.remove(0);
            }
            assert_eq!(sent_anew[1..], untouched);
            let sending = statistics(&line);
            assert!(sending.closes() && sending.waiting.is_zero());
            assert!(sending.discarded.connection_lost.messages <= on_old.len() as u64 + 1);
        },
    );
}

/// What the reopen hook sends.
const HOOK: u8 = 9;

#[test]
fn no_sender_sleeps_while_there_is_room() {
    let cases = [
        (1, &[][..]),
        (1, &[Kernel::Takes(2), Kernel::Full]),
        (2, &[Kernel::Full]),
    ];
    explore("full against drain", cases, |(room, script)| {
        let (line, wire) = open_line(room_for(room), script);
        let senders = [
            user(&line, |line| {
                send(line, 1).unwrap();
                send(line, 2).unwrap();
            }),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
        assert!(statistics(&line).peak.messages <= room as u64);
    });
}

#[test]
fn two_that_wait_are_both_served() {
    explore("two waiters against drain", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[]);
        // Queued, not written: whoever comes now finds it full.
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [
            user(&line, |line| send(line, 2).unwrap()),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
        assert_eq!(statistics(&line).peak.messages, 1);
    });
}

#[test]
fn a_wait_that_times_out_passes_its_place_on() {
    explore("a wait that times out", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [
            user(&line, |line| {
                // Times out whenever loom lets it.
                let deadline = Some(Instant::now());
                let sent = offer(line, 2, PeerId::SOLE, Call::Within, deadline);
                assert!(matches!(sent, Ok(()) | Err(SendError::TimedOut)));
            }),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        assert_eq!(wire.messages(), line.home().accepted());
        assert_all_written(&line);
    });
}

#[test]
fn a_large_one_that_times_out_lets_the_small_one_behind_it_in() {
    explore("a large wait that times out", [()], |()| {
        let options = OutboundOptions {
            frame_limit_bytes: 2 * PAYLOAD_BYTES,
            ..room_for(2)
        };
        let (line, wire) = open_line(options, &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let senders = [
            user(&line, |line| {
                let deadline = Some(Instant::now());
                let large = [2; 2 * PAYLOAD_BYTES];
                let sent = line.send(&large, PeerId::SOLE, Call::Within, deadline);
                assert_eq!(sent, Err(SendError::TimedOut));
            }),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        // The driver comes only now: there was room enough for the small one.
        join(senders);
        drive(&line);
        assert_eq!(wire.messages(), [1, 3]);
        assert_all_written(&line);
    });
}

#[test]
fn those_who_wait_when_the_connection_ends_are_told() {
    let cases = [
        (Discard::ConnectionLost, SendError::NotConnected),
        (Discard::Closed, SendError::Closed),
    ];
    explore("waiters against the end", cases, |(cause, answer)| {
        let (line, wire) = open_line(room_for(1), &[Kernel::Full]);
        as_driver(|| send(&line, 1)).unwrap();
        let users = [
            user(&line, move |line| send_or(line, 2, answer)),
            user(&line, move |line| match line.flush(Duration::MAX) {
                Ok(()) | Err(FlushError::NotConnected) => {}
                Err(other) => panic!("{other}"),
            }),
        ];
        assert!(line.home().wait_for_work());
        serve(&line);
        line.home().come();
        line.end(cause);
        drive(&line);
        join(users);
        assert!(line.home().accepted().starts_with(&wire.carried().0));
        let sending = statistics(&line);
        assert!(sending.closes() && sending.waiting.is_zero());
    });
}

#[test]
fn a_callback_makes_room_by_writing_or_says_that_it_would_deadlock() {
    let cases = [&[][..], &[Kernel::Takes(2), Kernel::Full], &[Kernel::Full]];
    explore("a callback on a full queue", cases, |script| {
        let (line, wire) = open_line(room_for(1), script);
        as_driver(|| send(&line, 1)).unwrap();
        let users = [
            user(&line, |line| {
                ROLE.with(|role| role.set(Caller::Callback));
                send_or(line, 2, SendError::WouldDeadlock);
                send_or(line, 3, SendError::WouldDeadlock);
            }),
            user(&line, |line| send(line, 4).unwrap()),
        ];
        drive(&line);
        join(users);
        assert_each_once(&wire.messages());
        assert_all_written(&line);
    });
}

#[test]
fn the_drivers_own_callback_calls_it_once_however_often_it_finds_the_queue_full() {
    explore("the driver's own callback on a full queue", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[Kernel::Full, Kernel::Full, Kernel::Full]);
        let sender = user(&line, |line| send(line, 1).unwrap());
        as_driver(|| {
            for id in [2, 3, 4] {
                send_or(&line, id, SendError::WouldDeadlock);
            }
        });
        drive(&line);
        join([sender]);
        assert_each_once(&wire.messages());
        assert_all_written(&line);
    });
}

#[test]
fn keeplatest_evicts_beside_a_writer_and_never_what_it_has_in_hand() {
    let cases = [&[][..], &[Kernel::Takes(2), Kernel::Full]];
    explore("keeplatest against drain", cases, |script| {
        let options = OutboundOptions {
            strategy: Strategy::KeepLatest,
            ..room_for(2)
        };
        let (line, wire) = open_line(options, script);
        let senders = [
            user(&line, |line| {
                send_or(line, 1, SendError::Full);
                send_or(line, 2, SendError::Full);
            }),
            user(&line, |line| {
                send_or(line, 3, SendError::Full);
                send_or(line, 4, SendError::Full);
            }),
        ];
        drive(&line);
        join(senders);
        let written = wire.messages();
        let mut accepted = line.home().accepted();
        accepted.retain(|id| written.contains(id));
        assert_eq!(written, accepted);
        let sending = statistics(&line);
        assert!(sending.closes() && sending.waiting.is_zero());
        assert_eq!(sending.written.messages as usize, written.len());
        assert!(sending.peak.messages <= 2);
    });
}

#[test]
fn datagrams_keep_their_borders_and_one_that_fails_is_counted() {
    let cases = [&[Kernel::Full][..], &[Kernel::Fails, Kernel::Full]];
    explore("two senders of datagrams", cases, |script| {
        let options = OutboundOptions {
            framing: Framing::Raw,
            ..room_for(2)
        };
        let (line, wire) = open_line(options, script);
        let senders = [
            user(&line, |line| {
                send(line, 1).unwrap();
                send(line, 2).unwrap();
            }),
            user(&line, |line| send(line, 3).unwrap()),
        ];
        drive(&line);
        join(senders);
        let failed = statistics(&line).discarded.failed.messages as usize;
        assert_eq!(failed, script.len() - 1);
        assert_eq!(wire.messages(), line.home().accepted()[failed..]);
        assert!(statistics(&line).closes() && line.read(Outbound::is_drained));
    });
}

#[test]
fn an_abort_waits_for_a_callback_that_flushes() {
    explore("a flush from a callback against abort", [()], |()| {
        let (line, wire) = open_line(room_for(1), &[]);
        as_driver(|| send(&line, 1)).unwrap();
        let users = [
            user(&line, |line| {
                ROLE.with(|role| role.set(Caller::Callback));
                let sent = send(line, 2);
                let answers = [SendError::WouldDeadlock, SendError::Closed];
                assert!(sent.is_ok() || answers.contains(&sent.unwrap_err()));
            }),
            user(&line, |line| {
                line.closing(Discard::Closed);
                line.home().command(Command::Abort);
            }),
        ];
        drive_to_the_end(&line);
        assert_eq!(Arc::strong_count(&wire), 1);
        join(users);
        assert!(statistics(&line).closes() && statistics(&line).waiting.is_zero());
    });
}

#[test]
fn a_place_granted_to_a_peer_that_has_gone_passes_on() {
    explore("a waiter whose peer goes", [()], |()| {
        let options = OutboundOptions {
            framing: Framing::Raw,
            shared: true,
            ..room_for(1)
        };
        let (line, _) = open_line(options, &[]);
        let (gone, stays) = (line.open_peer(), line.open_peer());
        as_driver(|| send_to(&line, 1, stays)).unwrap();
        let senders = [
            user(&line, move |line| {
                let sent = send_to(line, 2, gone);
                assert!(matches!(sent, Ok(()) | Err(SendError::NotConnected)));
            }),
            user(&line, move |line| send_to(line, 3, stays).unwrap()),
        ];
        assert!(line.home().wait_for_work());
        serve(&line);
        line.close_peer(gone, Discard::ConnectionLost);
        drive(&line);
        join(senders);
        let sending = statistics(&line);
        assert!(sending.closes() && sending.waiting.is_zero());
    });
}

// --- the threads of a model -------------------------------------------------------------------

type Line = Channel<Wire, Desk>;

/// A thread that uses the line. The driver stays until the last one has gone.
fn user(line: &Arc<Line>, job: impl FnOnce(&Line) + 'static) -> thread::JoinHandle<()> {
    let line = Arc::clone(line);
    line.home().users.fetch_add(1, Ordering::Relaxed);
    thread::spawn(move || {
        job(&line);
        line.home().leave();
    })
}

fn join(users: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for user in users {
        user.join().unwrap();
    }
}

/// The driver's life while the connection is open: it comes when it is called.
fn drive(line: &Line) {
    while line.home().wait_for_work() {
        serve(line);
    }
}

/// The driver's life up to the end that a user asks for, as the I/O thread leads it.
fn drive_to_the_end(line: &Line) {
    let mut closing = false;
    loop {
        match line.home().wait_for_command() {
            Some(Command::Close) => closing = true,
            Some(Command::Abort) => break,
            None => {}
        }
        serve(line);
        if closing && line.read(Outbound::is_drained) {
            break;
        }
    }
    line.home().come();
    line.end(Discard::Closed);
    while line.read(Outbound::is_writing) {
        line.home().wait_for_command();
    }
}

/// The driver's share of a turn.
fn serve(line: &Line) {
    match line.drain(Caller::Driver, 2) {
        Drained::Idle => {}
        // The kernel says when it has room; where the wire broke, reading tells, and in these models
        // it never does: whoever writes next meets a wire that works.
        Drained::More | Drained::Blocked | Drained::Short | Drained::Broken(_) => {
            line.home().come_again()
        }
    }
    line.poll_pressure();
}

/// Runs `act` as the driver does inside a callback.
fn as_driver<T>(act: impl FnOnce() -> T) -> T {
    ROLE.with(|role| role.set(Caller::Driver));
    let done = act();
    ROLE.with(|role| role.set(Caller::Thread));
    done
}

fn send(line: &Line, id: u8) -> Result<(), SendError> {
    offer(line, id, PeerId::SOLE, Call::Send, None)
}

fn send_to(line: &Line, id: u8, peer: PeerId) -> Result<(), SendError> {
    offer(line, id, peer, Call::Send, None)
}

/// Sends, or is answered so.
fn send_or(line: &Line, id: u8, answer: SendError) {
    if let Err(error) = send(line, id) {
        assert_eq!(error, answer);
    }
}

fn offer(
    line: &Line,
    id: u8,
    peer: PeerId,
    call: Call,
    deadline: Option<Instant>,
) -> Result<(), SendError> {
    let message = vec![id; PAYLOAD_BYTES];
    OFFERED.with(|offered| offered.set(Some(id)));
    let sent = line.send(&message, peer, call, deadline);
    OFFERED.with(|offered| offered.set(None));
    sent
}

loom::thread_local! {
    /// Who this thread is to the driver.
    static ROLE: Cell<Caller> = Cell::new(Caller::Thread);
    /// The message that this thread offers and that was not accepted yet.
    static OFFERED: Cell<Option<u8>> = Cell::new(None);
}

// --- what surrounds the channel -----------------------------------------------------------------

/// The driver's mailbox, and the book of what was accepted.
#[derive(Debug)]
struct Desk {
    state: Mutex<Calls>,
    bell: Condvar,
    /// Threads that may still have something to say.
    users: AtomicUsize,
    clock_ns: AtomicU64,
    tick_ns: AtomicU64,
    accepted: Ledger<Vec<u8>>,
}

#[derive(Debug)]
struct Calls {
    /// Not answered yet.
    waiting: bool,
    /// All that ever came.
    calls: usize,
    /// Times that the driver came, called or not, and times that a connection ended.
    came: usize,
    /// The driver left work, or the kernel has room again.
    again: bool,
    command: Option<Command>,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Close,
    Abort,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            state: Mutex::new(Calls {
                waiting: false,
                calls: 0,
                came: 0,
                again: false,
                command: None,
            }),
            bell: Condvar::new(),
            users: AtomicUsize::new(0),
            clock_ns: AtomicU64::new(0),
            tick_ns: AtomicU64::new(LEISURELY_NS),
            accepted: Ledger::default(),
        }
    }
}

impl Desk {
    /// Sends follow each other at once from now on.
    fn stop_the_clock(&self) {
        self.tick_ns.store(0, Ordering::Relaxed);
    }

    /// The driver is about to end the connection; calls for it may still be on their way.
    fn come(&self) {
        lock(&self.state).came += 1;
    }

    fn accepted(&self) -> Vec<u8> {
        self.accepted.lock().unwrap().clone()
    }

    fn command(&self, command: Command) {
        lock(&self.state).command = Some(command);
        self.bell.notify_one();
    }

    fn come_again(&self) {
        lock(&self.state).again = true;
    }

    fn leave(&self) {
        let calls = lock(&self.state);
        self.users.fetch_sub(1, Ordering::Relaxed);
        drop(calls);
        self.bell.notify_one();
    }

    /// False when nobody is left who might call.
    fn wait_for_work(&self) -> bool {
        let mut calls = lock(&self.state);
        loop {
            if calls.take_work() {
                return true;
            }
            if self.users.load(Ordering::Relaxed) == 0 {
                return false;
            }
            calls = self.bell.wait(calls).unwrap();
        }
    }

    fn wait_for_command(&self) -> Option<Command> {
        let mut calls = lock(&self.state);
        loop {
            let command = calls.command.take();
            if calls.take_work() || command.is_some() {
                return command;
            }
            calls = self.bell.wait(calls).unwrap();
        }
    }
}

impl Calls {
    fn take_work(&mut self) -> bool {
        let work = self.waiting || self.again;
        (self.waiting, self.again) = (false, false);
        self.came += usize::from(work);
        work
    }
}

impl Home for Desk {
    fn caller(&self) -> Caller {
        ROLE.with(Cell::get)
    }

    fn wake(&self, task: Waker) {
        let before = ROLE.with(|role| role.replace(Caller::Callback));
        task.wake();
        ROLE.with(|role| role.set(before));
    }

    fn call_driver(&self) {
        let mut calls = lock(&self.state);
        calls.waiting = true;
        calls.calls += 1;
        // A call is made without the lock of the line, so it may come late: after the driver came for
        // another reason, and beside the next one.
        assert!(calls.calls <= calls.came + 1, "called again before it came");
        drop(calls);
        self.bell.notify_one();
    }
}

impl Surroundings for Desk {
    /// Asked under the lock for every message of this size that is accepted, before anything else: so
    /// the order of acceptance is known without a word in the channel itself.
    fn now_ns(&self) -> u64 {
        if let Some(id) = OFFERED.with(Cell::take) {
            self.accepted.lock().unwrap().push(id);
        }
        let tick_ns = self.tick_ns.load(Ordering::Relaxed);
        self.clock_ns.fetch_add(tick_ns, Ordering::Relaxed)
    }

    fn block(&self) -> Block {
        Block::with_room(2 * ENCODED_BYTES)
    }

    fn recycle(&self, _: Block) {}
}

/// One connection: it remembers its bytes, and what the kernel answers is written down beforehand.
#[derive(Debug)]
struct Wire {
    writing: AtomicBool,
    script: Ledger<VecDeque<Kernel>>,
    framing: Framing,
    bytes: Ledger<Vec<u8>>,
}

/// The kernel's answer to one write. After the last it takes everything.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Takes(usize),
    Full,
    /// Of a stream, that it is broken; of a datagram, that this one cannot go.
    Fails,
}

impl Wire {
    /// Datagrams if nothing is framed: each write is a message of its own.
    fn new(framing: Framing, script: &[Kernel]) -> Arc<Self> {
        Arc::new(Self {
            writing: AtomicBool::new(false),
            script: Ledger::new(script.iter().copied().collect()),
            framing,
            bytes: Ledger::default(),
        })
    }

    /// The messages that it carried, each whole.
    fn messages(&self) -> Vec<u8> {
        let (messages, cut_bytes) = self.carried();
        assert_eq!(cut_bytes, 0);
        messages
    }

    /// The messages that it carried whole, and how much of one more.
    fn carried(&self) -> (Vec<u8>, usize) {
        let bytes = self.bytes.lock().unwrap();
        let header_bytes = self.framing.header_bytes();
        let messages = bytes.chunks_exact(header_bytes + PAYLOAD_BYTES);
        let cut_bytes = messages.remainder().len();
        let id = |encoded: &[u8]| {
            let (header, payload) = encoded.split_at(header_bytes);
            assert_eq!(header, &*self.framing.header(PAYLOAD_BYTES), "torn");
            assert!(payload.iter().all(|&byte| byte == payload[0]), "torn");
            payload[0]
        };
        (messages.map(id).collect(), cut_bytes)
    }

    fn take(&self, header: &[u8], payload: &[u8], most: usize) -> usize {
        let encoded = header.iter().chain(payload).copied();
        let mut bytes = self.bytes.lock().unwrap();
        let before = bytes.len();
        bytes.extend(encoded.take(most));
        bytes.len() - before
    }
}

impl Outlet for Wire {
    fn is_datagram(&self) -> bool {
        self.framing == Framing::Raw
    }

    fn write(&self, header: &[u8], payload: &[u8], _: PeerId) -> io::Result<usize> {
        // Between the two others may run: this is where a system call would be.
        assert!(
            !self.writing.swap(true, Ordering::Relaxed),
            "two write at once"
        );
        let answer = self.script.lock().unwrap().pop_front();
        let written = match answer {
            None => Ok(self.take(header, payload, usize::MAX)),
            Some(Kernel::Takes(bytes)) => Ok(self.take(header, payload, bytes)),
            Some(Kernel::Full) => Err(io::ErrorKind::WouldBlock.into()),
            Some(Kernel::Fails) => Err(io::ErrorKind::ConnectionReset.into()),
        };
        assert!(self.writing.swap(false, Ordering::Relaxed));
        written
    }

    fn write_slices(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        unreachable!("all is copied here")
    }
}

fn room_for(messages: usize) -> OutboundOptions {
    OutboundOptions {
        strategy: Strategy::Reliable,
        framing: Framing::length_prefix(),
        queue_limit_bytes: messages * ENCODED_BYTES,
        queue_limit_messages: messages,
        frame_limit_bytes: PAYLOAD_BYTES,
        copy_limit_bytes: usize::MAX,
        max_queue_delay_ns: None,
        on_loss: OnLoss::Discard,
        shared: false,
        budget: None,
    }
}

fn open_line(options: OutboundOptions, script: &[Kernel]) -> (Arc<Line>, Arc<Wire>) {
    let line = Arc::new(Channel::new(Outbound::new(&options), Desk::default()));
    let wire = Wire::new(options.framing.clone(), script);
    assert_eq!(line.opened(Arc::clone(&wire), false), Some(1));
    (line, wire)
}

fn statistics(line: &Line) -> SendStatistics {
    line.read(Outbound::statistics)
}

fn assert_all_written(line: &Line) {
    let sending = statistics(line);
    assert!(sending.closes());
    assert_eq!(sending.written, sending.accepted);
    assert!(line.read(Outbound::is_drained));
}

fn assert_each_once(messages: &[u8]) {
    let mut sorted = messages.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), messages.len(), "{messages:?}");
}

/// Tries every interleaving of every case, and says how many there were.
fn explore<C: Copy + Send + Sync + 'static>(
    name: &str,
    cases: impl IntoIterator<Item = C>,
    model: impl Fn(C) + Copy + Send + Sync + 'static,
) {
    let tried = Arc::new(AtomicUsize::new(0));
    for case in cases {
        let tried = Arc::clone(&tried);
        let mut bounded = loom::model::Builder::new();
        // `LOOM_MAX_PREEMPTIONS` says otherwise.
        bounded.preemption_bound.get_or_insert(MOST_PREEMPTIONS);
        bounded.check(move || {
            tried.fetch_add(1, Ordering::Relaxed);
            model(case);
        });
    }
    println!("{name}: {} interleavings", tried.load(Ordering::Relaxed));
}

/// With three every fault that we put in on purpose is found; four take ten times as long.
const MOST_PREEMPTIONS: usize = 3;
/// So long that the session reads the clock for every message; see [`Desk::now_ns`].
const PAYLOAD_BYTES: usize = 4096;
const ENCODED_BYTES: usize = 4 + PAYLOAD_BYTES;
/// Between two looks at the clock, so that no sender counts as hot.
const LEISURELY_NS: u64 = 1_000_000;
