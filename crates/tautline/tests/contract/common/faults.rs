//! A kernel that says it has no memory: what no test can bring about, and every program has to bear.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;

/// What the kernel says to some calls of this process: to writes of just one length, or to all receives.
/// Only for a process of its own: it lasts as long as that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    error: Arc<AtomicI32>,
    to_come: Arc<AtomicU64>,
}

impl Faults {
    /// From now on the kernel asks here about every `send(2)` of this many bytes, by any thread.
    pub(crate) fn of_sends(bytes: usize) -> Self {
        Self::of(vec![
            load(NUMBER_OF_CALL),
            unless_equal_pass_over(3, libc::SYS_sendto as u32),
            load(LENGTH_TO_SEND),
            unless_equal_pass_over(1, bytes as u32),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
        ])
    }

    /// From now on the kernel asks here about every `sendmmsg(2)`, by any thread.
    pub(crate) fn of_bulk_sends() -> Self {
        Self::of(vec![
            load(NUMBER_OF_CALL),
            unless_equal_pass_over(1, libc::SYS_sendmmsg as u32),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
        ])
    }

    /// From now on the kernel asks here about every `recv(2)`, `recvmsg(2)` and `recvmmsg(2)`, by any
    /// thread: also those of a peer in the same process.
    pub(crate) fn of_receives() -> Self {
        Self::of(vec![
            load(NUMBER_OF_CALL),
            if_equal_pass_over(2, libc::SYS_recvfrom as u32),
            if_equal_pass_over(1, libc::SYS_recvmmsg as u32),
            unless_equal_pass_over(1, libc::SYS_recvmsg as u32),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
        ])
    }

    /// Of the calls that get through this filter, and not to its end.
    fn of(mut filter: Vec<libc::sock_filter>) -> Self {
        let faults = Self::default();
        filter.push(statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ALLOW,
        ));
        let asked = ask_about(filter);
        let answering = faults.clone();
        thread::spawn(move || {
            loop {
                answer(&asked, || answering.next());
            }
        });
        faults
    }

    /// So many fail, and those after them do not.
    pub(crate) fn next_are(&self, times: u64, error: libc::c_int) {
        self.error.store(error, Ordering::SeqCst);
        self.to_come.store(times, Ordering::SeqCst);
    }

    /// How many are still to fail.
    pub(crate) fn to_come(&self) -> u64 {
        self.to_come.load(Ordering::SeqCst)
    }

    fn next(&self) -> Option<libc::c_int> {
        let one_less = |left: u64| left.checked_sub(1);
        let failing = self
            .to_come
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        failing.is_ok().then(|| self.error.load(Ordering::SeqCst))
    }
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

const fn unless_equal_pass_over(instructions: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        jf: instructions,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k)
    }
}

const fn if_equal_pass_over(instructions: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        jt: instructions,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k)
    }
}

/// `seccomp(2)`: a filter that has the kernel ask before it does something.
#[expect(unsafe_code, reason = "libc call")]
fn ask_about(mut program: Vec<libc::sock_filter>) -> OwnedFd {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
        | libc::SECCOMP_FILTER_FLAG_TSYNC
        | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the filter lives through the calls, which copy it.
    let fd = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        libc::syscall(libc::SYS_seccomp, mode, flags, &filter)
    };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }
}

/// Waits for one question of the kernel and answers it: an error, or that it may go on.
#[expect(unsafe_code, reason = "libc call")]
fn answer(asked: &OwnedFd, error: impl FnOnce() -> Option<libc::c_int>) {
    // SAFETY: both structs are numbers, for which zeroes are valid (the kernel wants them so), and
    // the kernel reads and writes no more than their size, which stands in the number of the call.
    unsafe {
        let mut question: libc::seccomp_notif = std::mem::zeroed();
        if libc::ioctl(
            asked.as_raw_fd(),
            SECCOMP_IOCTL_NOTIF_RECV as _,
            &mut question,
        ) != 0
        {
            // Whoever was to be asked about has gone meanwhile.
            return;
        }
        let mut answer: libc::seccomp_notif_resp = std::mem::zeroed();
        answer.id = question.id;
        match error() {
            Some(error) => answer.error = -error,
            None => answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        }
        libc::ioctl(
            asked.as_raw_fd(),
            SECCOMP_IOCTL_NOTIF_SEND as _,
            &mut answer,
        );
    }
}

/// Where they stand in `struct seccomp_data`: the second is the low half of the third argument.
const NUMBER_OF_CALL: u32 = 0;
const LENGTH_TO_SEND: u32 = 32;
/// `SECCOMP_IOWR(0, struct seccomp_notif)` and `SECCOMP_IOWR(1, struct seccomp_notif_resp)`.
const SECCOMP_IOCTL_NOTIF_RECV: u64 = 0xc050_2100;
const SECCOMP_IOCTL_NOTIF_SEND: u64 = 0xc018_2101;
