//! Interruptions by signal handlers, which every call that may wait has to survive.

use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::{poll, socket};

static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_interruption(_signal: libc::c_int) {
    INTERRUPTIONS.fetch_add(1, Ordering::SeqCst);
}

/// Installs a handler that does not ask for calls to be restarted.
#[expect(unsafe_code, reason = "libc call")]
fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: sigaction is numbers and pointers, for which all zeroes are valid; the handler
        // only touches an atomic, as handlers may.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_interruption as *const () as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
        };
        assert_eq!(result, 0);
    });
}

/// Runs `waiting` on a thread, interrupts it three times in its sleep, then lets `release` end it.
fn interrupted<T: Send>(waiting: impl FnOnce() -> T + Send, release: impl FnOnce()) -> T {
    install_handler();
    let thread = AtomicI32::new(0);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            thread.store(own_thread(), Ordering::SeqCst);
            waiting()
        });
        for _ in 0..3 {
            await_sleep(&thread, &sleeper);
            let before = INTERRUPTIONS.load(Ordering::SeqCst);
            if !interrupt(thread.load(Ordering::SeqCst)) {
                break; // Its deadline has passed; what it returned says whether it should have.
            }
            while INTERRUPTIONS.load(Ordering::SeqCst) == before {
                thread::yield_now();
            }
        }
        release();
        sleeper.join().unwrap()
    })
}

/// Until the kernel says that the thread sleeps, by an `S` behind its name, or it has ended.
fn await_sleep<T>(thread: &AtomicI32, sleeper: &ScopedJoinHandle<'_, T>) {
    let watchdog = Instant::now() + Duration::from_secs(30);
    while !sleeper.is_finished() {
        assert!(Instant::now() < watchdog, "it never slept");
        let id = thread.load(Ordering::SeqCst);
        let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
        if stat.is_ok_and(|text| text.contains(") S ")) {
            return;
        }
        thread::yield_now();
    }
}

#[expect(unsafe_code, reason = "libc call")]
fn own_thread() -> libc::pid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Signals one thread; false when it has ended.
#[expect(unsafe_code, reason = "libc call")]
fn interrupt(thread: libc::pid_t) -> bool {
    // SAFETY: the call takes numbers, and the process is our own.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) == 0 }
}

#[test]
fn an_interrupted_receive_goes_on_waiting() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let mut buffer = [0; 16];
    let received = interrupted(
        || socket::recv(here.as_fd(), &mut buffer, 0),
        || there.write_all(b"after all").unwrap(),
    );
    assert_eq!(received.unwrap(), 9);
    assert_eq!(&buffer[..9], b"after all");
}

#[test]
fn an_interrupted_send_goes_on_waiting() {
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let block = [1; 65_536];
    while socket::send(here.as_fd(), &block, 0).is_ok() {}
    here.set_nonblocking(false).unwrap();
    let sent = interrupted(
        || socket::sendmsg(here.as_fd(), &[IoSlice::new(b"x"), IoSlice::new(b"y")], 0),
        || {
            let mut rest = vec![0; 1 << 20];
            socket::recv(there.as_fd(), &mut rest, 0).unwrap();
        },
    );
    assert_eq!(sent.unwrap(), 2);
}

#[test]
fn an_interrupted_poll_goes_on_waiting() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let ready = interrupted(
        || poll::ppoll(here.as_fd(), libc::POLLIN, None),
        || there.write_all(b"x").unwrap(),
    );
    assert_eq!(ready.unwrap(), libc::POLLIN);
}

#[test]
fn an_interrupted_poll_keeps_its_deadline() {
    let (here, _there) = UnixStream::pair().unwrap();
    let deadline = Instant::now() + Duration::from_millis(300);
    let ready = interrupted(
        || poll::ppoll(here.as_fd(), libc::POLLIN, Some(deadline)),
        || {},
    );
    assert_eq!(ready.unwrap(), 0);
    assert!(Instant::now() >= deadline);
}
