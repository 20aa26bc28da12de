//! What each call does to its thread, and what it says where it may not.

use std::thread::spawn;

use super::*;
use crate::error::ErrorKind;

/// On a thread of its own: what is set here concerns nobody else.
fn apart<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    spawn(act).join().unwrap()
}

#[test]
fn a_thread_is_pinned_and_that_is_read_back() {
    apart(|| {
        let first = current().unwrap().cpus[0];
        let pinned = pin_to(&[first, first]).unwrap();
        assert_eq!(pinned.requested, [first]);
        assert_eq!(pinned.effective, [first]);
        assert_eq!(current().unwrap().cpus, [first]);
        // One that is not there is passed over by the kernel, and seen in what is read back.
        let pinned = pin_to(&[sched::CPU_LIMIT - 1, first]).unwrap();
        assert_eq!(pinned.requested, [first, sched::CPU_LIMIT - 1]);
        assert_eq!(pinned.effective, [first]);
    });
}

#[test]
fn cpus_that_are_not_there_are_refused_with_those_that_are() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let error = pin_to(&[sched::CPU_LIMIT - 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Thread);
    assert_eq!(
        error.to_string(),
        format!(
            "pin the thread: this process may use none of CPUs 16383; there are {}, of which its \
             cpuset may allow fewer",
            online.trim_end()
        )
    );
    let error = pin_to(&[]).unwrap_err();
    assert_eq!(error.to_string(), "pin the thread: no CPU was named");
    let error = pin_to(&[0, sched::CPU_LIMIT]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pin the thread: no CPU has the number 16384"
    );
}

#[test]
fn what_needs_no_privilege_is_set_and_read_back() {
    for scheduling in [
        Scheduling::Other { nice: 7 },
        Scheduling::Batch { nice: 9 },
        Scheduling::Idle,
    ] {
        apart(move || {
            let applied = set_scheduling(scheduling).unwrap();
            assert_eq!(
                (applied.requested, applied.effective),
                (scheduling, scheduling)
            );
            assert_eq!(current().unwrap().scheduling, scheduling);
        });
    }
}

#[test]
fn a_real_time_policy_is_set_or_its_refusal_explained() {
    for scheduling in [
        Scheduling::Fifo { priority: 1 },
        Scheduling::RoundRobin { priority: 1 },
    ] {
        apart(move || match set_scheduling(scheduling) {
            Ok(applied) => assert_eq!(applied.effective, scheduling),
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        });
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    for (scheduling, why) in [
        (
            Scheduling::Other { nice: 20 },
            "nice 20 is not in -20 to 19",
        ),
        (
            Scheduling::Batch { nice: -21 },
            "nice -21 is not in -20 to 19",
        ),
        (
            Scheduling::Fifo { priority: 0 },
            "priority 0 is not in 1 to 99",
        ),
        (
            Scheduling::RoundRobin { priority: 100 },
            "priority 100 is not in 1 to 99",
        ),
        (
            Scheduling::Foreign { policy: 6 },
            "policy 6 can only be told, not set",
        ),
    ] {
        let error = set_scheduling(scheduling).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("set the scheduling of the thread: {why}")
        );
    }
}

#[test]
fn a_refusal_says_what_it_would_take() {
    let refused = |scheduling| explain::scheduling(scheduling, &eperm());
    let real_time = refused(Scheduling::Fifo { priority: 80 });
    let start = "fifo, priority 80: not permitted; it takes CAP_SYS_NICE, or a limit (RLIMIT_RTPRIO, \
                 ulimit -r) of at least 80, which is ";
    assert!(real_time.starts_with(start), "{real_time}");
    let nice = refused(Scheduling::Other { nice: -5 });
    assert!(
        nice.contains("(RLIMIT_NICE, ulimit -e) of at least 25, which is "),
        "{nice}"
    );
}

fn eperm() -> std::io::Error {
    std::io::Error::from_raw_os_error(libc::EPERM)
}

#[test]
fn a_thread_is_named_and_a_name_that_would_be_cut_is_refused() {
    apart(|| {
        let named = set_name("fifteen-bytes-n").unwrap();
        assert_eq!(named.effective, "fifteen-bytes-n");
        assert_eq!(current().unwrap().name, "fifteen-bytes-n");
        for name in ["", "sixteen-bytes-na", "a\0b"] {
            set_name(name).unwrap_err();
        }
        assert_eq!(current().unwrap().name, "fifteen-bytes-n");
    });
}

#[test]
fn the_state_of_another_thread_can_be_asked() {
    let (told, id) = std::sync::mpsc::channel();
    let (go_on, going) = std::sync::mpsc::channel::<()>();
    let thread = spawn(move || {
        set_name("another").unwrap();
        told.send(current().unwrap()).unwrap();
        let _ = going.recv();
    });
    let own_view = id.recv().unwrap();
    assert_eq!(state_of(own_view.id).unwrap(), own_view);
    assert_eq!(own_view.name, "another");
    drop(go_on);
    thread.join().unwrap();
}
