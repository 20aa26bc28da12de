//! What all tests of the suite share: transports, waiting, and both ends of a connection.

mod certificates;
mod faults;
mod inbox;
mod process;
mod pty;
mod raw;
#[cfg(feature = "tls")]
pub(crate) mod raw_tls;
mod rig;
pub(crate) mod sys;
mod transport;
mod whole_life;

#[cfg(feature = "tls")]
pub(crate) use certificates::{AUTHORITY, Authority, ISSUED, Issued, trusting};
pub(crate) use faults::Faults;
pub(crate) use inbox::{Happened, Inbox, Recorder, Told, recorder, recorder_that};
pub(crate) use process::{
    PeerProcess, all_thread_ids, child, child_in_namespaces, cpu_time, in_child, is_asleep,
    listen_at, name_of, open_descriptors, own_thread_id, reserved_bytes, resident_bytes,
    tell_address, thread_ids, times_slept,
};
pub(crate) use pty::{Cable, PtyListener};
pub(crate) use raw::{RawListener, RawPeer, RawStream, frame};
pub(crate) use rig::{
    GREETING, Gate, Pair, Served, client_of_raw, framed, hold, inside_callback, let_turn, nobody,
    reach, server_of_raw, stalled, start,
};
#[cfg(feature = "serial")]
pub(crate) use transport::serial;
#[cfg(feature = "tls")]
pub(crate) use transport::tls;
pub(crate) use transport::{Place, Transport, fresh, tcp, udp, uds};
pub(crate) use whole_life::{CALLBACKS, expect_order, live_through_all};

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes, on a machine that does other things too: a wait that gets here
/// has failed.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A table of tests and the transports each runs on: a test is a function that is given one.
macro_rules! over {
    (@one $test:ident serial) => {
        #[cfg(feature = "serial")]
        crate::common::over! { @test $test serial }
    };
    (@one $test:ident tls) => {
        #[cfg(feature = "tls")]
        crate::common::over! { @test $test tls }
    };
    (@one $test:ident $transport:ident) => {
        crate::common::over! { @test $test $transport }
    };
    (@test $test:ident $transport:ident) => {
        #[test]
        fn $transport() {
            crate::common::watched(|| super::$test(crate::common::$transport()));
        }
    };
    ($($test:ident: $($transport:ident)+;)*) => { $(
        mod $test {
            $( crate::common::over! { @one $test $transport } )+
        }
    )* };
}
pub(crate) use over;

/// Runs a test on a thread of its own: a call that never returns fails it, and not the whole run.
pub(crate) fn watched(test: fn()) {
    let (ending, ended) = mpsc::channel::<()>();
    let name = thread::current().name().unwrap_or_default().to_owned();
    let running = thread::Builder::new().name(name).spawn(move || {
        // Dropped when the test is over, however it ends.
        let _ending = ending;
        test();
    });
    let over = ended.recv_timeout(3 * WATCHDOG);
    assert_eq!(over, Err(RecvTimeoutError::Disconnected), "it is stuck");
    if let Err(panic) = running.unwrap().join() {
        let is_text = panic.is::<String>() || panic.is::<&str>();
        if !is_text {
            // The harness would drop it, and some tests panic with what panics when it is dropped.
            std::mem::forget(panic);
            panic!("it panicked with something that is no text");
        }
        resume_unwind(panic);
    }
}

/// Waits until something is so that no event tells.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::yield_now();
    }
}

/// Sets a flag at the end of a scope, however it ends: so that threads which look at it end as well.
pub(crate) struct SetWhenDropped<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Numbers from a seed (xorshift): the same each time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of 0 to `limit`, without that.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// `count` messages that are all different, of this length.
pub(crate) fn numbered(count: u32, length: usize) -> Vec<Vec<u8>> {
    assert!(length >= 4);
    let message = |number: u32| {
        let mut message = vec![number as u8; length];
        message[..4].copy_from_slice(&number.to_be_bytes());
        message
    };
    (0..count).map(message).collect()
}
