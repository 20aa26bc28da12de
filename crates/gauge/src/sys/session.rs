//! Sessions, and processes that end with the one that started them.

use std::io;

/// `setsid`: the calling process becomes the leader of a session of its own, without a terminal.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn setsid() -> io::Result<u32> {
    // SAFETY: takes no pointers.
    id(unsafe { libc::setsid() })
}

/// `getsid(0)`: the session of the calling process.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn getsid() -> io::Result<u32> {
    // SAFETY: takes no pointers.
    id(unsafe { libc::getsid(0) })
}

/// `prctl(PR_SET_PDEATHSIG, SIGKILL)`: the calling process is killed when the thread that started it
/// ends.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: this option takes an integer and no pointers.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_PDEATHSIG,
            libc::SIGKILL as libc::c_ulong,
            0,
            0,
            0,
        )
    };
    id(result).map(|_| ())
}

/// `signal(SIGINT, SIG_IGN)`: Ctrl-C of a terminal that is shared is somebody else's to answer.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ignore_interrupt() {
    // SAFETY: no handler is installed. It cannot fail for this signal.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

fn id(result: libc::c_int) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}
