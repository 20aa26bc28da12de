//! Terminals: what only their drivers know.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_char, c_int, c_uint, c_ulong, c_ushort};

/// `ioctl(TCSETS2)`: sets a line at once.
///
/// `TCSETSW2`, which `tcsetattr(3)` and serial2 use, waits for the output that is there, for ever where
/// a peer holds the line up.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_tcsets2(fd: BorrowedFd<'_>, termios: &libc::termios2) -> io::Result<()> {
    // SAFETY: this request reads a termios2.
    super::retry(|| unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TCSETS2, ptr::from_ref(termios)) as isize
    })?;
    Ok(())
}

/// `tcflush(TCIFLUSH)`: throws away what was received and not read.
pub(crate) fn tcflush_input(fd: BorrowedFd<'_>) -> io::Result<()> {
    tcflush(fd, libc::TCIFLUSH)
}

/// `tcflush(TCOFLUSH)`: throws away what was written and not sent.
pub(crate) fn tcflush_output(fd: BorrowedFd<'_>) -> io::Result<()> {
    tcflush(fd, libc::TCOFLUSH)
}

#[expect(unsafe_code, reason = "libc call")]
fn tcflush(fd: BorrowedFd<'_>, which: c_int) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    super::retry(|| unsafe { libc::tcflush(fd.as_raw_fd(), which) as isize })?;
    Ok(())
}

/// `ioctl(TIOCEXCL)`: nobody else may open the terminal, except those with `CAP_SYS_ADMIN`.
pub(crate) fn ioctl_tiocexcl(fd: BorrowedFd<'_>) -> io::Result<()> {
    ioctl_plain(fd, libc::TIOCEXCL)
}

/// `ioctl(TIOCNXCL)`: others may open it again.
pub(crate) fn ioctl_tiocnxcl(fd: BorrowedFd<'_>) -> io::Result<()> {
    ioctl_plain(fd, libc::TIOCNXCL)
}

#[expect(unsafe_code, reason = "libc call")]
fn ioctl_plain(fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<()> {
    // SAFETY: these requests take no argument.
    super::retry(|| unsafe { libc::ioctl(fd.as_raw_fd(), request) as isize })?;
    Ok(())
}

/// `ioctl(TIOCGEXCL)`: whether somebody has it for himself.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_tiocgexcl(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut exclusive: c_int = 0;
    // SAFETY: this request writes one int, and `exclusive` is one.
    super::retry(|| unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TIOCGEXCL,
            ptr::from_mut(&mut exclusive),
        ) as isize
    })?;
    Ok(exclusive != 0)
}

/// `struct serial_struct` of include/uapi/linux/tty.h and serial.h, which libc does not have.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SerialStruct {
    kind: c_int,
    line: c_int,
    port: c_uint,
    irq: c_int,
    pub(crate) flags: c_int,
    xmit_fifo_size: c_int,
    custom_divisor: c_int,
    baud_base: c_int,
    close_delay: c_ushort,
    io_type: c_char,
    reserved_char: [c_char; 1],
    hub6: c_int,
    closing_wait: c_ushort,
    closing_wait2: c_ushort,
    iomem_base: *mut u8,
    iomem_reg_shift: c_ushort,
    port_high: c_uint,
    iomap_base: c_ulong,
}

/// `ASYNC_LOW_LATENCY` among [`SerialStruct::flags`].
pub(crate) const ASYNC_LOW_LATENCY: c_int = 1 << 13;

/// `ioctl(TIOCGSERIAL)`: how the driver is set.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_tiocgserial(fd: BorrowedFd<'_>) -> io::Result<SerialStruct> {
    let mut found = mem::MaybeUninit::<SerialStruct>::zeroed();
    // SAFETY: this request writes one serial_struct, and there is room for it.
    super::retry(|| unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TIOCGSERIAL, found.as_mut_ptr()) as isize
    })?;
    // SAFETY: numbers and a pointer: zeroed they were valid already.
    Ok(unsafe { found.assume_init() })
}

/// `ioctl(TIOCSSERIAL)`: sets the driver, to something made from what [`ioctl_tiocgserial`] found.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_tiocsserial(fd: BorrowedFd<'_>, wanted: &SerialStruct) -> io::Result<()> {
    // SAFETY: this request reads one serial_struct; its pointer means nothing to the kernel but an
    // address that it gave us.
    super::retry(|| unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TIOCSSERIAL, ptr::from_ref(wanted)) as isize
    })?;
    Ok(())
}

/// `struct serial_icounter_struct` of include/uapi/linux/serial.h: since the driver was loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SerialIcounterStruct {
    lines: [c_int; 4],
    bytes: [c_int; 2],
    pub(crate) frame: c_int,
    pub(crate) overrun: c_int,
    pub(crate) parity: c_int,
    pub(crate) brk: c_int,
    pub(crate) buf_overrun: c_int,
    reserved: [c_int; 9],
}

/// `ioctl(TIOCGICOUNT)`: what went wrong on the line, as far as the driver counts it.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_tiocgicount(fd: BorrowedFd<'_>) -> io::Result<SerialIcounterStruct> {
    let mut counted = SerialIcounterStruct::default();
    // SAFETY: this request writes one serial_icounter_struct.
    super::retry(|| unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TIOCGICOUNT,
            ptr::from_mut(&mut counted),
        ) as isize
    })?;
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Sizes and places as a C compiler has them, on both of our 64-bit platforms.
    #[test]
    fn the_kernels_structs_are_laid_out_as_it_reads_them() {
        assert_eq!(size_of::<SerialStruct>(), 72);
        assert_eq!(offset_of!(SerialStruct, flags), 16);
        assert_eq!(offset_of!(SerialStruct, hub6), 36);
        assert_eq!(offset_of!(SerialStruct, iomem_base), 48);
        assert_eq!(offset_of!(SerialStruct, iomap_base), 64);
        assert_eq!(size_of::<SerialIcounterStruct>(), 80);
        assert_eq!(offset_of!(SerialIcounterStruct, frame), 24);
        assert_eq!(offset_of!(SerialIcounterStruct, buf_overrun), 40);
    }
}
