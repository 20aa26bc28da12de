//! Looking names up: the system's resolver blocks, so it has threads of its own, and not many.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// A lookup, and telling whoever waits for it.
type Lookup = Box<dyn FnOnce() + Send>;

/// The lookups of the whole process: those that wait, and how many threads are at work.
struct Resolver {
    waiting: VecDeque<Lookup>,
    threads: usize,
}

static RESOLVER: Mutex<Resolver> = Mutex::new(Resolver {
    waiting: VecDeque::new(),
    threads: 0,
});

/// Runs `lookup` on a thread of the resolver; past [`THREADS`] it waits for one to become free.
///
/// # Errors
/// When not even one thread can be started.
pub(super) fn look_up(lookup: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut resolver = resolver();
    resolver.waiting.push_back(Box::new(lookup));
    if resolver.threads == THREADS {
        return Ok(());
    }
    let started = thread::Builder::new()
        .name("tautline-resolve".to_owned())
        .spawn(work);
    match started {
        Ok(_) => resolver.threads += 1,
        // Those at work will come to it.
        Err(_) if resolver.threads > 0 => {}
        Err(cause) => {
            resolver.waiting.pop_back();
            return Err(cause);
        }
    }
    Ok(())
}

/// One thread: lookups until none waits.
fn work() {
    loop {
        let next = {
            let mut resolver = resolver();
            let next = resolver.waiting.pop_front();
            if next.is_none() {
                resolver.threads -= 1;
            }
            next
        };
        match next {
            Some(lookup) => lookup(),
            None => return,
        }
    }
}

fn resolver() -> MutexGuard<'static, Resolver> {
    // Lookups run outside the lock: what a panic left behind is whole.
    RESOLVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lookups at a time. A resolver that does not answer holds each for half a minute, and a thousand
/// links to one name must not become a thousand threads.
const THREADS: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lookups_beyond_the_threads_wait_and_are_all_done() {
        let (done, all_done) = mpsc::channel();
        let (start, started) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(Mutex::new(gate));
        for number in 0..3 * THREADS {
            let (done, start, gate) = (done.clone(), start.clone(), gate.clone());
            look_up(move || {
                start.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
                done.send(number).unwrap();
            })
            .unwrap();
        }
        (0..THREADS).for_each(|_| started.recv().unwrap());
        assert!(started.try_recv().is_err());
        assert_eq!(resolver().threads, THREADS);
        (0..3 * THREADS).for_each(|_| go_on.send(()).unwrap());
        let mut numbers: Vec<usize> = all_done.iter().take(3 * THREADS).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..3 * THREADS).collect::<Vec<_>>());
    }
}
