//! The scheduler: who runs, where and how soon, and giving way.

use std::ffi::CStr;
use std::io;

/// `sched_yield(2)`: lets whoever is ready on this CPU run first.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_yield() {
    // SAFETY: the call takes nothing, and on Linux always succeeds.
    unsafe { libc::sched_yield() };
}

/// `sched_getscheduler(2)`: the policy of the calling thread, such as `SCHED_FIFO`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_getscheduler() -> io::Result<i32> {
    // SAFETY: the call takes a number; 0 is the calling thread.
    match unsafe { libc::sched_getscheduler(0) } {
        -1 => Err(io::Error::last_os_error()),
        // The flag is reported with the policy.
        policy => Ok(policy & !libc::SCHED_RESET_ON_FORK),
    }
}

/// What the scheduler knows of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) policy: u32,
    pub(crate) nice: i32,
    /// Of a real-time policy; 0 for the others.
    pub(crate) priority: u32,
    /// `SCHED_FLAG_RESET_ON_FORK` and its like.
    pub(crate) flags: u64,
}

/// `sched_getattr(2)` of a thread; 0 is the calling one.
#[expect(
    unsafe_code,
    reason = "libc call, for which the C library has no function"
)]
pub(crate) fn sched_getattr(thread: u32) -> io::Result<Attributes> {
    let mut attr = empty_attr();
    // SAFETY: the kernel writes at most the size that is passed, which is that of `attr`.
    super::retry(|| unsafe {
        let attr = std::ptr::from_mut(&mut attr);
        libc::syscall(
            libc::SYS_sched_getattr,
            thread,
            attr,
            size_of::<libc::sched_attr>(),
            0,
        ) as isize
    })?;
    Ok(Attributes {
        policy: attr.sched_policy,
        nice: attr.sched_nice,
        priority: attr.sched_priority,
        flags: attr.sched_flags,
    })
}

/// `sched_setattr(2)` of the calling thread.
#[expect(
    unsafe_code,
    reason = "libc call, for which the C library has no function"
)]
pub(crate) fn sched_setattr(attributes: Attributes) -> io::Result<()> {
    let attr = libc::sched_attr {
        sched_policy: attributes.policy,
        sched_flags: attributes.flags,
        sched_nice: attributes.nice,
        sched_priority: attributes.priority,
        ..empty_attr()
    };
    // SAFETY: `attr` says its own size, and lives through the call.
    super::retry(|| unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attr), 0) as isize
    })?;
    Ok(())
}

#[expect(unsafe_code, reason = "the struct of the C library has no default")]
fn empty_attr() -> libc::sched_attr {
    // SAFETY: it is numbers alone, for which all zeroes are valid.
    let empty: libc::sched_attr = unsafe { std::mem::zeroed() };
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        ..empty
    }
}

/// `sched_getaffinity(2)`: the CPUs that a thread may run on; 0 is the calling one.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_getaffinity(thread: u32) -> io::Result<Vec<usize>> {
    let mut mask = empty_mask();
    // SAFETY: the mask has the length that is passed. The system call, unlike its C function, says how
    // many bytes it has written.
    let written = super::retry(|| unsafe {
        let room = size_of_val(&*mask);
        libc::syscall(libc::SYS_sched_getaffinity, thread, room, mask.as_mut_ptr()) as isize
    })?;
    Ok((0..written * 8)
        .filter(|cpu| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1)
        .collect())
}

/// `sched_setaffinity(2)` of the calling thread: the CPUs that it may run on, of which the kernel drops
/// in silence those it does not have or that are not allowed, unless none is left.
///
/// # Panics
/// If one is not below [`CPU_LIMIT`].
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_setaffinity(cpus: &[usize]) -> io::Result<()> {
    let mut mask = empty_mask();
    for cpu in cpus {
        mask[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    // SAFETY: the mask has the length that is passed.
    super::retry(|| unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            size_of_val(&*mask),
            mask.as_ptr(),
        ) as isize
    })?;
    Ok(())
}

fn empty_mask() -> Vec<libc::c_ulong> {
    vec![0; CPU_LIMIT / WORD_BITS]
}

const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// No CPU of Linux has this number: its largest configuration has 8,192.
pub(crate) const CPU_LIMIT: usize = 16_384;

/// `gettid(2)`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn gettid() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// `prctl(PR_SET_NAME)`: the name of the calling thread, of which the kernel keeps 15 bytes.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn prctl_set_name(name: &CStr) -> io::Result<()> {
    // SAFETY: the name ends with a zero and lives through the call.
    super::retry(|| unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) as isize })?;
    Ok(())
}

/// `getrlimit(2)`: the soft limit, such as that of `RLIMIT_RTPRIO`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn getrlimit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives through the call.
    super::retry(|| unsafe { libc::getrlimit(resource, &mut limit) as isize })?;
    Ok(limit.rlim_cur)
}

/// `sched_setscheduler(SCHED_FIFO)` of the calling thread, at the least priority.
#[cfg(test)]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_fifo_for_test() -> io::Result<()> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: `least` lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_thread_has_an_ordinary_policy_and_somewhere_to_run() {
        sched_yield();
        assert_eq!(sched_getscheduler().unwrap(), libc::SCHED_OTHER);
        let cpus = sched_getaffinity(0).unwrap();
        assert!(!cpus.is_empty());
        assert_eq!(sched_getaffinity(gettid()).unwrap(), cpus);
        sched_setaffinity(&cpus).unwrap();
        let attributes = sched_getattr(0).unwrap();
        assert_eq!(attributes.policy, libc::SCHED_OTHER as u32);
        sched_setattr(attributes).unwrap();
    }
}
