//! The executors, behind one face.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use tokio::sync::oneshot::{Receiver, channel};

/// Who runs the tasks of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executor {
    /// tokio, with two threads.
    TokioMany,
    /// tokio, with the calling thread alone.
    TokioOne,
    /// smol: the calling thread and its global executor's.
    Smol,
    /// By hand: whoever wakes a task runs it, inside `wake`.
    Inline,
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A table of tests, each run on its transports under every executor.
macro_rules! over {
    ($($test:ident: $($transport:ident)+;)*) => { $(
        mod $test {
            $( crate::executor::over_one! { $test $transport } )+
        }
    )* };
}
pub(crate) use over;

/// TLS only where the library is built with it.
macro_rules! over_one {
    ($test:ident tls) => {
        #[cfg(feature = "tls")]
        crate::executor::over_each! { $test tls }
    };
    ($test:ident $transport:ident) => {
        crate::executor::over_each! { $test $transport }
    };
}
pub(crate) use over_one;

/// Under each executor.
macro_rules! over_each {
    ($test:ident $transport:ident) => {
        mod $transport {
            #[test]
            fn tokio_many() {
                run(crate::executor::Executor::TokioMany);
            }

            #[test]
            fn tokio_one() {
                run(crate::executor::Executor::TokioOne);
            }

            #[test]
            fn smol() {
                run(crate::executor::Executor::Smol);
            }

            #[test]
            fn inline() {
                run(crate::executor::Executor::Inline);
            }

            fn run(executor: crate::executor::Executor) {
                let transport = crate::transport::$transport();
                executor.run(super::super::$test(executor, transport));
            }
        }
    };
}
pub(crate) use over_each;

impl Executor {
    /// Runs a test to its end; one that never comes to it fails.
    pub(crate) fn run(self, test: impl Future<Output = ()> + Send + 'static) {
        let (ending, ended) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            let ending = ending;
            let test = AssertUnwindSafe(test).catch_unwind();
            let outcome = match self {
                Self::TokioMany => tokio_with(2).block_on(test),
                Self::TokioOne => tokio_with(0).block_on(test),
                Self::Smol => smol::block_on(test),
                Self::Inline => {
                    let (outcome, told) = std::sync::mpsc::channel();
                    Inline::start(Box::pin(async move {
                        // The test may have been given up.
                        let _ = outcome.send(test.await);
                    }));
                    told.recv().expect("a task is not dropped before its end")
                }
            };
            // It may have been given up.
            let _ = ending.send(outcome);
        });
        match ended.recv_timeout(WATCHDOG) {
            Ok(Ok(())) => running.join().unwrap(),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => panic!("it is stuck: {error}"),
        }
    }

    /// Runs a task beside the calling one.
    pub(crate) fn spawn<T: Send + 'static>(
        self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        // This one wakes without a lock held, as `Inline` needs it.
        let (outcome, told) = channel();
        let task: Boxed = Box::pin(async move {
            let done = AssertUnwindSafe(task).catch_unwind().await;
            // Nobody may want to know.
            let _ = outcome.send(done);
        });
        match self {
            Self::TokioMany | Self::TokioOne => drop(tokio::spawn(task)),
            Self::Smol => smol::spawn(task).detach(),
            Self::Inline => Inline::start(task),
        }
        Task(told)
    }

    /// What the future comes to, unless a moment is over first: then it is dropped.
    pub(crate) async fn before_a_moment<T>(self, future: impl Future<Output = T>) -> Option<T> {
        match select(pin!(future), pin!(self.moment())).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// A moment, as this executor measures it: something to lose a race against.
    pub(crate) async fn moment(self) {
        match self {
            Self::TokioMany | Self::TokioOne => tokio::time::sleep(MOMENT).await,
            // Its timers have a thread of their own, and serve any executor.
            Self::Smol | Self::Inline => drop(smol::Timer::after(MOMENT).await),
        }
    }
}

fn tokio_with(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_time().build().unwrap()
}

/// A task under way.
pub(crate) struct Task<T>(Receiver<Result<T, Box<dyn Any + Send>>>);

impl<T> Task<T> {
    /// Its result; panics if it did.
    pub(crate) async fn join(self) -> T {
        match self.0.await.expect("the executor lives") {
            Ok(done) => done,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// A task that runs inside `wake`: on the thread that wakes it, in the middle of what that was doing.
struct Inline {
    task: Mutex<Option<Boxed>>,
    state: AtomicU8,
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RUNNING_AND_WOKEN: u8 = 2;

impl Inline {
    fn start(task: Boxed) {
        let task = Some(task);
        Arc::new(Self {
            task: Mutex::new(task),
            state: AtomicU8::new(IDLE),
        })
        .wake();
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let began = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| {
                Some(if state == IDLE {
                    RUNNING
                } else {
                    RUNNING_AND_WOKEN
                })
            });
        if began != Ok(IDLE) {
            // Whoever runs it runs it again.
            return;
        }
        let waker = Arc::clone(&self).into();
        loop {
            let mut task = self.task.lock().unwrap();
            if let Some(running) = &mut *task
                && running
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_ready()
            {
                *task = None;
            }
            drop(task);
            let woken = self.state.fetch_sub(1, Ordering::SeqCst) == RUNNING_AND_WOKEN;
            if !woken {
                return;
            }
        }
    }
}

/// Longer than anything here takes, on a machine that does other things too.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);
/// About as long as a message takes: so either wins, now and then.
const MOMENT: Duration = Duration::from_micros(20);
