//! Every interleaving of an inbox's driver and its task: nothing is lost, nothing sleeps for ever, and
//! the limit holds.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use loom::sync::atomic::{AtomicU8, Ordering};
use loom::thread;
use tautline_session::{Intake, Tally};

use super::Message;
use super::inbox::{End, Inbox, Taken};
use crate::handler::{Ended, Reason, Received};
use crate::sync::signal::{Signal, until_ready};

#[test]
fn a_slow_task_takes_everything_and_the_limit_holds() {
    explore(|| {
        let link = Link::new();
        let driver = link.drive(3);
        for number in 0..3 {
            assert_eq!(link.recv(), Some(number));
            assert!(link.inbox.messages() <= 1);
        }
        assert_eq!(link.recv(), None);
        driver.join().unwrap();
    });
}

#[test]
fn of_two_wakers_the_last_is_woken() {
    explore(|| {
        let link = Link::new();
        let driver = link.drive(1);
        // A task that has moved to another executor, or a `select!` that came again.
        let first = link.inbox.poll_take(End::Told, Waker::noop(), || {});
        if first.is_pending() {
            assert_eq!(link.recv(), Some(0));
        }
        driver.join().unwrap();
    });
}

#[test]
fn reading_goes_on_once_nobody_receives() {
    explore(|| {
        let link = Link::new();
        let driver = link.drive(3);
        link.inbox.abandon();
        link.resume_if(link.unpause());
        driver.join().unwrap();
        assert_eq!(link.paused.load(Ordering::Relaxed), 0);
    });
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut bounded = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` says otherwise.
    bounded.preemption_bound.get_or_insert(3);
    bounded.check(model);
}

/// An inbox for one message, and the pause that it makes.
#[derive(Clone)]
struct Link {
    inbox: Arc<Inbox>,
    paused: Arc<AtomicU8>,
    /// Commands the driver to go on.
    resumed: Arc<Signal>,
}

impl Link {
    fn new() -> Self {
        let limit = Tally {
            messages: 1,
            bytes: 100,
        };
        Self {
            inbox: Arc::new(Inbox::new(Intake::new(limit))),
            paused: Arc::new(AtomicU8::new(0)),
            resumed: Arc::default(),
        }
    }

    /// The driver hands out so many messages, none while reading is paused; then the link ends.
    fn drive(&self, count: u8) -> thread::JoinHandle<()> {
        let link = self.clone();
        thread::spawn(move || {
            for number in 0..count {
                while link.paused.load(Ordering::Relaxed) != 0 {
                    link.resumed.wait();
                }
                let message = Message {
                    bytes: Bytes::copy_from_slice(&[number]),
                    received: Received {
                        at: Instant::now(),
                        truncated: false,
                        from: None,
                    },
                    generation: 1,
                };
                let pause = || {
                    link.paused.fetch_or(1, Ordering::SeqCst);
                };
                link.inbox.put(message, pause).map(Waker::wake);
            }
            let reason = Reason::PeerEnded;
            link.inbox
                .ended(Ended {
                    reason,
                    kept: Tally::default(),
                })
                .map(Waker::wake);
        })
    }

    fn recv(&self) -> Option<u8> {
        let taken = until_ready(|waker| {
            let mut resumes = false;
            let resume = || resumes = self.unpause();
            let taken = self.inbox.poll_take(End::Told, waker, resume);
            self.resume_if(resumes);
            taken
        });
        match taken {
            Taken::Message(message) => Some(message[0]),
            Taken::Closed(closed) => panic!("{closed:?}"),
            Taken::Ended(_) => None,
        }
    }

    fn unpause(&self) -> bool {
        self.paused.fetch_and(!1, Ordering::SeqCst) == 1
    }

    fn resume_if(&self, resumes: bool) {
        if resumes {
            self.resumed.tell();
        }
    }
}
