//! Promise 15: a thread is named, placed and raised before it does anything else, or is not started.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::thread::{Scheduling, current};
use tautline::{Error, ErrorKind, IoLoop, IoOptions, IoThread, StartHook};

use crate::common::*;

over! {
    the_hook_runs_on_the_thread_before_anything_else: tcp tls;
    an_error_of_the_hook_is_that_of_the_start: tcp tls;
    a_panic_of_the_hook_fails_the_start: tcp tls;
    a_hook_may_be_shared_and_is_run_for_each_thread: tcp tls;
    a_thread_is_pinned_and_says_so: tcp tls;
    cpus_that_are_not_granted_are_refused_by_name: tcp tls;
    a_thread_is_scheduled_as_asked_and_says_so: tcp tls;
    a_policy_that_is_not_granted_is_refused_by_name: tcp tls;
    a_long_spin_goes_with_a_real_time_policy_on_one_cpu_only: tcp tls;
    the_state_is_that_of_the_moment: tcp tls;
    a_loop_of_ones_own_refuses_what_concerns_a_thread: tcp tls;
}

type HookResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn hooked(name: &str, hook: impl Fn() -> HookResult + Send + Sync + 'static) -> IoOptions {
    IoOptions {
        name: name.to_owned(),
        on_start: Some(StartHook::new(hook)),
        ..IoOptions::default()
    }
}

/// Why it did not start; and no thread is left.
fn refused(options: IoOptions) -> Error {
    let name = options.name.clone();
    let error = IoThread::start(options).unwrap_err();
    until("the thread has ended", || thread_ids(&name).is_empty());
    error
}

fn expect_named(error: &Error, name: &str) {
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    assert!(
        error.to_string().starts_with(&format!("{name}: ")),
        "{error}"
    );
}

fn the_hook_runs_on_the_thread_before_anything_else(_: Transport) {
    let (tell, told) = mpsc::channel();
    let cpu = current().unwrap().cpus[0];
    let options = IoOptions {
        cpus: Some(vec![cpu]),
        scheduling: Some(Scheduling::Batch { nice: 3 }),
        ..hooked("hooked", move || Ok(tell.send(current()?)?))
    };
    let io = IoThread::start(options).unwrap();
    // It has run when start returns, with the options applied.
    let state = told.try_recv().unwrap();
    assert_eq!(state.name, "hooked");
    assert_eq!(state.cpus, [cpu]);
    assert_eq!(state.scheduling, Scheduling::Batch { nice: 3 });
    assert_eq!(inside_callback(&io, own_thread_id), state.id);
    assert_eq!(io.thread_state().unwrap(), state);
}

fn an_error_of_the_hook_is_that_of_the_start(_: Transport) {
    let error = refused(hooked("fails-io", || {
        Err(io::Error::from_raw_os_error(libc::EPERM).into())
    }));
    assert_eq!(error.kind(), ErrorKind::Thread);
    assert_eq!(
        error.to_string(),
        "run the start hook: operation not permitted"
    );
    assert_eq!(error.io_error().unwrap().raw_os_error(), Some(libc::EPERM));

    let error = refused(hooked("fails-own", || {
        let too_long = "a name that the kernel would cut";
        tautline::thread::set_name(too_long)?;
        Ok(())
    }));
    assert!(
        error.to_string().starts_with("name the thread: "),
        "{error}"
    );

    let error = refused(hooked("fails-text", || Err("the moon is full".into())));
    assert_eq!(error.to_string(), "run the start hook: the moon is full");

    #[derive(Debug)]
    struct Mine;
    impl fmt::Display for Mine {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("not today")
        }
    }
    impl std::error::Error for Mine {}
    let error = refused(hooked("fails-mine", || Err(Mine.into())));
    assert_eq!(error.to_string(), "run the start hook: not today");
    let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert!(cause.get_ref().unwrap().is::<Mine>());
}

fn a_panic_of_the_hook_fails_the_start(_: Transport) {
    let error = refused(hooked("panics", || panic!("as the test wants it")));
    assert_eq!(error.kind(), ErrorKind::Thread);
    assert_eq!(
        error.to_string(),
        "run the start hook: it panicked: as the test wants it"
    );
    struct Worse;
    impl Drop for Worse {
        fn drop(&mut self) {
            panic!("and once more");
        }
    }
    let error = refused(hooked("panics-worse", || std::panic::panic_any(Worse)));
    assert!(error.to_string().contains("it panicked"), "{error}");
}

fn a_hook_may_be_shared_and_is_run_for_each_thread(_: Transport) {
    let (tell, told) = mpsc::channel();
    let options = hooked("each", move || Ok(tell.send(own_thread_id())?));
    assert_eq!(options, options.clone());
    assert_ne!(options, hooked("each", || Ok(())));
    let ios = [
        IoThread::start(options.clone()).unwrap(),
        IoThread::start(options).unwrap(),
    ];
    let ids = ios.map(|io| io.thread_state().unwrap().id);
    assert_eq!(ids.to_vec(), told.try_iter().collect::<Vec<_>>());
}

fn a_thread_is_pinned_and_says_so(_: Transport) {
    let before = current().unwrap();
    for cpu in &before.cpus {
        let io = IoThread::start(IoOptions {
            cpus: Some(vec![*cpu]),
            ..IoOptions::default()
        })
        .unwrap();
        assert_eq!(io.thread_state().unwrap().cpus, [*cpu]);
        assert_eq!(inside_callback(&io, || current().unwrap().cpus), [*cpu]);
    }
    assert_eq!(current().unwrap(), before, "the caller's own thread");
}

fn cpus_that_are_not_granted_are_refused_by_name(_: Transport) {
    let own = current().unwrap().cpus[0];
    let pinned_to = |cpus: &[usize]| IoOptions {
        name: "nowhere".to_owned(),
        cpus: Some(cpus.to_vec()),
        ..IoOptions::default()
    };
    // No machine that runs this has so many; the last is one that no kernel has.
    for cpus in [&[][..], &[16_000], &[own, 16_000], &[1_000_000]] {
        expect_named(&refused(pinned_to(cpus)), "cpus");
    }
}

fn a_thread_is_scheduled_as_asked_and_says_so(_: Transport) {
    for scheduling in [
        Scheduling::Other { nice: 5 },
        Scheduling::Batch { nice: 5 },
        Scheduling::Idle,
    ] {
        let io = IoThread::start(IoOptions {
            scheduling: Some(scheduling),
            ..IoOptions::default()
        })
        .unwrap();
        assert_eq!(io.thread_state().unwrap().scheduling, scheduling);
    }
    for out_of_range in [
        Scheduling::Other { nice: -21 },
        Scheduling::Fifo { priority: 0 },
        Scheduling::Foreign { policy: 6 },
    ] {
        let options = IoOptions {
            scheduling: Some(out_of_range),
            ..IoOptions::default()
        };
        expect_named(&IoThread::start(options).unwrap_err(), "scheduling");
    }
}

fn a_policy_that_is_not_granted_is_refused_by_name(_: Transport) {
    let name = "starting::a_policy_that_is_not_granted_is_refused_by_name::tcp";
    if !in_child(name) {
        return child(name, "ulimit -r 0; ulimit -e 0;");
    }
    sys::give_up_sys_nice();
    for (scheduling, needed) in [
        (
            Scheduling::Fifo { priority: 50 },
            "at least 50, which is 0 here",
        ),
        (
            Scheduling::RoundRobin { priority: 7 },
            "at least 7, which is 0 here",
        ),
        (
            Scheduling::Other { nice: -5 },
            "at least 25, which is 0 here",
        ),
    ] {
        let error = refused(IoOptions {
            name: "not-granted".to_owned(),
            scheduling: Some(scheduling),
            ..IoOptions::default()
        });
        expect_named(&error, "scheduling");
        let text = error.to_string();
        assert!(
            text.contains("CAP_SYS_NICE") && text.contains(needed),
            "{text}"
        );
        assert_eq!(error.io_error().unwrap().raw_os_error(), Some(libc::EPERM));
    }
}

fn a_long_spin_goes_with_a_real_time_policy_on_one_cpu_only(_: Transport) {
    let cpus = current().unwrap().cpus;
    let spinning = |cpus: &[usize]| IoOptions {
        cpus: Some(cpus.to_vec()),
        scheduling: Some(Scheduling::Fifo { priority: 1 }),
        spin: Duration::from_micros(51),
        ..IoOptions::default()
    };
    if cpus.len() > 1 {
        expect_named(&IoThread::start(spinning(&cpus)).unwrap_err(), "spin");
    }
    match IoThread::start(spinning(&cpus[..1])) {
        Ok(io) => inside_callback(&io, || {}),
        // Who may not raise threads learns that, and nothing of the spin.
        Err(error) => expect_named(&error, "scheduling"),
    }
}

fn the_state_is_that_of_the_moment(_: Transport) {
    let io = start();
    assert_eq!(io.thread_state().unwrap().name, "tautline-io");
    inside_callback(&io, || {
        tautline::thread::set_name("renamed").unwrap();
        tautline::thread::set_scheduling(Scheduling::Idle).unwrap();
    });
    let state = io.thread_state().unwrap();
    assert_eq!(
        (state.name.as_str(), state.scheduling),
        ("renamed", Scheduling::Idle)
    );
    let elsewhere = thread::spawn(current).join().unwrap().unwrap();
    assert_ne!(elsewhere.id, state.id);
}

fn a_loop_of_ones_own_refuses_what_concerns_a_thread(_: Transport) {
    let plain = IoOptions::default;
    for (name, options) in [
        (
            "name",
            IoOptions {
                name: "mine".to_owned(),
                ..plain()
            },
        ),
        (
            "cpus",
            IoOptions {
                cpus: Some(vec![0]),
                ..plain()
            },
        ),
        (
            "scheduling",
            IoOptions {
                scheduling: Some(Scheduling::Idle),
                ..plain()
            },
        ),
        ("on_start", hooked("tautline-io", || Ok(()))),
    ] {
        expect_named(&IoLoop::new(options).unwrap_err(), name);
    }
}
