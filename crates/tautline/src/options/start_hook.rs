//! The application's own code at the start of an I/O thread.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::driver::contain;
use crate::error::{Error, plain};

/// What an I/O thread does first; see [`IoOptions::on_start`](crate::IoOptions::on_start). Clones are the same hook, and equal.
///
/// ```
/// use tautline::{IoOptions, IoThread, StartHook};
///
/// # fn main() -> Result<(), tautline::Error> {
/// let io = IoThread::start(IoOptions {
///     on_start: Some(StartHook::new(|| {
///         println!("{} starts", std::thread::current().name().unwrap_or("it"));
///         Ok(())
///     })),
///     ..IoOptions::default()
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StartHook(Arc<Hook>);

type Hook = dyn Fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync;

impl StartHook {
    /// A hook that is run once by every thread that is started with it.
    pub fn new(
        hook: impl Fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(hook))
    }

    pub(super) fn run(&self) -> Result<(), Error> {
        let what = "run the start hook";
        match catch_unwind(AssertUnwindSafe(|| (self.0)())) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match error.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(error) => {
                    let cause = match error.downcast::<std::io::Error>() {
                        Ok(cause) => *cause,
                        Err(error) => std::io::Error::other(error),
                    };
                    Error::of_thread(what, plain(&cause), Some(cause))
                }
            }),
            Err(payload) => {
                let why = format!("it panicked: {}", panic_text(&*payload));
                // The payload is the application's, and so is its drop.
                let _ = contain(|| drop(payload));
                Err(Error::of_thread(what, why, None))
            }
        }
    }
}

fn panic_text(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with something that is no text")
}

impl PartialEq for StartHook {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StartHook {}

impl fmt::Debug for StartHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartHook").finish_non_exhaustive()
    }
}
