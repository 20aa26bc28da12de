//! Processes that we started.

use std::io;

/// `killpg`: sends a signal to every process of the group that `leader` leads.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn kill_group(leader: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    match unsafe { libc::killpg(leader as libc::pid_t, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
