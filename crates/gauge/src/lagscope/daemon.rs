//! Being found and being left alone: the name of the process, and life in the background.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd as _;
use std::process;

use crate::sys;

/// Names the process, so that `pidof`, `ps` and `lsof -c` know it by this name. To be called by the
/// main thread. At most 15 bytes.
///
/// # Errors
///
/// When the kernel has no such call.
pub fn set_process_name(name: &CStr) -> io::Result<()> {
    sys::process::set_name(name)
}

/// Goes on in the background: this call returns in a process whose parent is init, in a session
/// without a terminal, in `/`, with its standard streams on `/dev/null`. The process that called is
/// ended with status 0.
///
/// To be called while there is one thread, with standard output flushed, and after everything that
/// can be refused: nobody hears of it afterwards.
///
/// # Errors
///
/// When no process can be made, or `/dev/null` is not there.
pub fn become_daemon() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    leave_parent()?;
    sys::process::setsid()?;
    // The leader of a session that opens a terminal gets it for its own; its child never does.
    leave_parent()?;
    std::env::set_current_dir("/")?;
    for standard_stream in 0..=2 {
        sys::process::dup2(null.as_fd(), standard_stream)?;
    }
    Ok(())
}

fn leave_parent() -> io::Result<()> {
    if sys::process::fork_is_parent()? {
        process::exit(0);
    }
    Ok(())
}
