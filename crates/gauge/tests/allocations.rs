//! Nothing that happens between two messages allocates. What the test's own thread asks for is counted:
//! the harness's thread, which waits for it, allocates when it likes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tautline_gauge::clock::now_ns;
use tautline_gauge::probe::{self, Arrivals};
use tautline_gauge::recorder::Recorder;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn stamping_judging_and_recording_a_million_messages_allocates_nothing() {
    let mut message = [0; 64];
    let (mut recorder, mut round, mut arrivals) =
        (Recorder::new(), Recorder::new(), Arrivals::new());
    let before = ALLOCATIONS.get();
    for number in 0..1_000_000_u64 {
        probe::stamp(&mut message, number);
        let sent_ns = now_ns();
        let found = probe::sequence_of(&message, 64).unwrap();
        // In order, out of order, twice, and far ahead.
        arrivals.arrived(found ^ (number % 4));
        arrivals.arrived(found + number % 100_000);
        round.record(now_ns() - sent_ns);
        round.record(number * 10_000_000);
        if number % 1_000 == 0 {
            recorder.merge(&round);
            round.clear();
        }
    }
    let after = ALLOCATIONS.get();
    assert_eq!(after - before, 0);
    // The counter does count.
    std::hint::black_box(vec![after]);
    assert!(ALLOCATIONS.get() > after);
    assert!(recorder.count() > 1_900_000);
}
