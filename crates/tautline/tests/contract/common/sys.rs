//! What these tests ask of the system and the standard library does not offer.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `signal(SIGPIPE, SIG_DFL)`: the signal kills, as in programs that are not written in Rust.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn default_sigpipe() {
    // SAFETY: the default action is no function of ours.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_ne!(before, libc::SIG_ERR);
}

/// `sigaction(SIGUSR1)` without `SA_RESTART`: from now on the signal interrupts whatever waits.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn let_signals_interrupt() {
    // SAFETY: sigaction is numbers and pointers, for which all zeroes are valid; the handler only
    // touches an atomic, as handlers may.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_interruption as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}

extern "C" fn count_interruption(_signal: libc::c_int) {
    INTERRUPTIONS.fetch_add(1, Ordering::SeqCst);
}

static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);

/// Signals handled so far.
pub(crate) fn interruptions() -> u64 {
    INTERRUPTIONS.load(Ordering::SeqCst)
}

/// `tgkill(SIGUSR1)`: interrupts one thread of this process, unless it has ended.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn interrupt(thread_id: u32) {
    let (process, thread_id) = (std::process::id(), thread_id as libc::pid_t);
    // SAFETY: the call takes numbers, and the process is our own.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, process, thread_id, libc::SIGUSR1) };
}

/// `poll(2)` for reading: whether the descriptor is readable, or becomes so in time.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut asked = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout_ms = timeout.as_millis().try_into().unwrap();
    loop {
        // SAFETY: one entry is passed, and lives through the call.
        let ready = unsafe { libc::poll(&mut asked, 1, timeout_ms) };
        let error = std::io::Error::last_os_error();
        if ready < 0 && error.kind() == std::io::ErrorKind::Interrupted {
            continue;
        }
        assert!(ready >= 0, "{error}");
        return ready == 1;
    }
}

/// `capset(2)` without `CAP_SYS_NICE`, for the calling thread and those it starts from now on.
#[expect(
    unsafe_code,
    reason = "libc call, for which the C library has no function"
)]
pub(crate) fn give_up_sys_nice() {
    const VERSION_3: u32 = 0x2008_0522;
    const SYS_NICE: u32 = 23;
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable, twice 32 of them.
    let mut held = [[0_u32; 3]; 2];
    // SAFETY: both are laid out as the call documents, and live through it.
    let read = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), held.as_mut_ptr()) };
    assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
    for set in &mut held[0] {
        *set &= !(1 << SYS_NICE);
    }
    // SAFETY: as above.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), held.as_ptr()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// `posix_openpt(3)`, `unlockpt(3)` and `ptsname(3)`: the master of a fresh pseudo-terminal, and its
/// slave's path.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn openpt() -> (File, PathBuf) {
    let master = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open("/dev/ptmx")
        .unwrap();
    let mut name = [0_u8; 64];
    // SAFETY: `name` has the length that is passed.
    let named = unsafe {
        assert_eq!(libc::unlockpt(master.as_raw_fd()), 0);
        libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr().cast(), name.len())
    };
    assert_eq!(named, 0);
    let name = CStr::from_bytes_until_nul(&name).unwrap();
    (master, OsStr::from_bytes(name.to_bytes()).into())
}

/// `ioctl(TIOCPKT)`: whether a master is told of what is done to its slave, before each read.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_packet_mode(master: BorrowedFd<'_>, on: bool) {
    let on = libc::c_int::from(on);
    // SAFETY: this request reads one int.
    let set = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCPKT, &raw const on) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// `TIOCPKT_FLUSHREAD`: the slave has thrown away its input.
pub(crate) const FLUSHED_INPUT: u8 = 1;
