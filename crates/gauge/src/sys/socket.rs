//! What the kernel knows of a TCP connection.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// The fields of `struct tcp_info` that a report has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    pub(crate) retransmits: u32,
    pub(crate) srtt_us: u32,
    pub(crate) rttvar_us: u32,
    pub(crate) congestion_window: u32,
    pub(crate) mss_bytes: u32,
    pub(crate) path_mtu_bytes: u32,
}

/// `getsockopt(IPPROTO_TCP, TCP_INFO)`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // SAFETY: `tcp_info` is integers only; zero is valid for each.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is writable for `length` bytes, and an older kernel fills fewer.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo {
        retransmits: info.tcpi_total_retrans,
        srtt_us: info.tcpi_rtt,
        rttvar_us: info.tcpi_rttvar,
        congestion_window: info.tcpi_snd_cwnd,
        mss_bytes: info.tcpi_snd_mss,
        path_mtu_bytes: info.tcpi_pmtu,
    })
}
