//! Terminals: pseudo-terminals, and lines that carry every byte as it is.

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// `posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)`: a new pseudo-terminal's master.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn posix_openpt() -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes no pointers.
    let master = unsafe { libc::posix_openpt(flags) };
    if master < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(master) })
}

/// `unlockpt`: the master's slave may be opened from here on.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn unlockpt(master: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for its borrow.
    match unsafe { libc::unlockpt(master.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `ptsname_r`: the path of the master's slave.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ptsname_r(master: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: the buffer is as long as it is said to be, and the descriptor is open for its borrow.
    let errno =
        unsafe { libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr().cast(), name.len()) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
    Ok(OsStr::from_bytes(name.to_bytes()).into())
}

/// `tcgetattr`: how a line is set.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tcgetattr(line: BorrowedFd<'_>) -> io::Result<libc::termios> {
    let mut termios = MaybeUninit::uninit();
    // SAFETY: there is room for the one structure, and the descriptor is open for its borrow.
    match unsafe { libc::tcgetattr(line.as_raw_fd(), termios.as_mut_ptr()) } {
        // SAFETY: the call succeeded, so it has filled the structure.
        0 => Ok(unsafe { termios.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `tcsetattr(TCSANOW)`: sets a line at once.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tcsetattr(line: BorrowedFd<'_>, termios: &libc::termios) -> io::Result<()> {
    // SAFETY: the structure and the descriptor are there for their borrows.
    match unsafe { libc::tcsetattr(line.as_raw_fd(), libc::TCSANOW, termios) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `cfmakeraw`: every byte is carried as it is, and a read returns from the first on.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn cfmakeraw(termios: &mut libc::termios) {
    // SAFETY: the structure is there for its borrow.
    unsafe { libc::cfmakeraw(termios) };
    (termios.c_cc[libc::VMIN], termios.c_cc[libc::VTIME]) = (1, 0);
}

/// `/dev/pts/` and a number.
const NAME_BYTES: usize = 64;
