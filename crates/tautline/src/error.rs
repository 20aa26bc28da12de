//! What can go wrong, in the words of the caller: what was tried, where, and why it failed.
//!
//! [`Error`] is for starting things; the small enums are for callers that branch. That there is
//! nothing to read yet, or that a frame is incomplete, is no error and never gets here.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tautline_session::FrameFault;

use crate::address::{Address, AddressError};
use crate::transport::is_untrusted;

/// Why something could not be started or done, in one line: what was tried, where, and why not.
///
/// "connect to tcp://10.0.0.5:9000: connection refused"
// Shared: a `Result` that nearly always holds Ok should not be as wide as the rarest error, and both
// a callback and a waiting thread are told of the same one.
#[derive(Clone)]
pub struct Error(Arc<Report>);

/// What an [`Error`] is about, for callers that branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option, or a combination of them, makes no sense. The message names it.
    InvalidOption,
    /// The text is no address, or no address that can be used for this.
    InvalidAddress,
    /// An address of a kind that this version does not speak.
    UnsupportedScheme,
    /// A host or interface name that nobody knows.
    Resolve,
    /// The peer could not be reached.
    Connect,
    /// The address could not be listened on.
    Bind,
    /// Somebody else listens there.
    AddressInUse,
    /// The time allowed went by.
    TimedOut,
    /// The system refused something else; see [`Error::io_error`].
    Io,
    /// The link, server or thread had already ended.
    Closed,
    /// A thread could not be started, or not be made to run as it should.
    Thread,
    /// TLS: one side does not trust the other's certificate or misses it, or the two have no version or
    /// cipher in common. Another attempt would end the same, so a link that reconnects makes none.
    Untrusted,
}

struct Report {
    kind: ErrorKind,
    operation: &'static str,
    address: Option<Address>,
    why: String,
    cause: Option<io::Error>,
}

impl Error {
    /// What this is about, for callers that branch.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The system's own error, where there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.0.cause.as_ref()
    }

    /// Why, without what was tried and where.
    pub(crate) fn reason(&self) -> &str {
        &self.0.why
    }

    /// The same failure with more to say about why.
    pub(crate) fn with_reason(&self, address: &Address, why: String) -> Self {
        let Report {
            kind,
            operation,
            cause,
            ..
        } = &*self.0;
        // An error of the system cannot be cloned, but made again from its number.
        let cause = cause.as_ref().map(|cause| match cause.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => cause.kind().into(),
        });
        Self::new(*kind, operation, Some(address), why, cause)
    }

    /// An option that makes no sense. `why` continues the sentence that the name begins.
    pub(crate) fn option(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOption, name, None, why.into(), None)
    }

    /// What no system call said: the reason is our own.
    pub(crate) fn because(
        kind: ErrorKind,
        operation: &'static str,
        address: &Address,
        why: impl Into<String>,
    ) -> Self {
        Self::new(kind, operation, Some(address), why.into(), None)
    }

    /// A name that nobody knows.
    pub(crate) fn resolve(address: &Address, cause: io::Error) -> Self {
        // The resolver's own words ("Name or service not known") come wrapped in std's prefix.
        let text = plain(&cause);
        let why = text
            .strip_prefix("failed to lookup address information: ")
            .map_or_else(|| text.clone(), decapitalised);
        Self::new(
            ErrorKind::Resolve,
            "resolve",
            Some(address),
            why,
            Some(cause),
        )
    }

    /// A peer that could not be reached.
    pub(crate) fn connect(address: &Address, cause: io::Error) -> Self {
        Self::of_system(ErrorKind::Connect, "connect to", address, cause)
    }

    /// A device that could not be opened or set.
    pub(crate) fn open(
        kind: ErrorKind,
        address: &Address,
        why: impl Into<String>,
        cause: Option<io::Error>,
    ) -> Self {
        Self::new(kind, "open", Some(address), why.into(), cause)
    }

    /// An address that could not be listened on: which of the steps to it failed, and why.
    pub(crate) fn listen(step: &'static str, address: &Address, cause: io::Error) -> Self {
        let (kind, why) = match cause.kind() {
            io::ErrorKind::AddrInUse => {
                let somebody = "held by a process that is not visible from here";
                (ErrorKind::AddressInUse, explain_in_use(address, somebody))
            }
            io::ErrorKind::AddrNotAvailable => {
                let why = "address not available: no interface of this machine has it";
                (ErrorKind::Bind, why.to_owned())
            }
            _ => (ErrorKind::Bind, plain(&cause)),
        };
        let why = format!("{step}: {why}");
        Self::new(kind, "listen on", Some(address), why, Some(cause))
    }

    /// An address that somebody holds already.
    pub(crate) fn in_use(
        step: &'static str,
        address: &Address,
        holder: impl fmt::Display,
        cause: io::Error,
    ) -> Self {
        let why = format!("{step}: {}", explain_in_use(address, holder));
        let kind = ErrorKind::AddressInUse;
        Self::new(kind, "listen on", Some(address), why, Some(cause))
    }

    /// Any other refusal of the system.
    pub(crate) fn io(operation: &'static str, address: &Address, cause: io::Error) -> Self {
        Self::of_system(ErrorKind::Io, operation, address, cause)
    }

    /// The time allowed went by.
    pub(crate) fn timed_out(operation: &'static str, address: &Address, after: Duration) -> Self {
        let why = format!("timed out after {after:?}");
        Self::new(ErrorKind::TimedOut, operation, Some(address), why, None)
    }

    /// Too late: it had ended.
    pub(crate) fn closed(operation: &'static str, address: Option<&Address>) -> Self {
        let why = "already closed".to_owned();
        Self::new(ErrorKind::Closed, operation, address, why, None)
    }

    /// What the system refuses a thread, or its start hook does.
    pub(crate) fn of_thread(
        operation: &'static str,
        why: impl Into<String>,
        cause: Option<io::Error>,
    ) -> Self {
        Self::new(ErrorKind::Thread, operation, None, why.into(), cause)
    }

    /// The same where an option asked for it.
    pub(crate) fn of_option(self, name: &'static str) -> Self {
        let why = self.0.why.clone();
        let cause = Arc::into_inner(self.0).and_then(|report| report.cause);
        Self::new(ErrorKind::InvalidOption, name, None, why, cause)
    }

    /// The system is out of descriptors for a loop.
    pub(crate) fn poller(cause: io::Error) -> Self {
        let (operation, why) = ("make a loop", plain(&cause));
        Self::new(ErrorKind::Io, operation, None, why, Some(cause))
    }

    /// The system is out of threads, or of what one needs.
    pub(crate) fn thread(cause: io::Error) -> Self {
        let (operation, why) = ("start a thread", plain(&cause));
        Self::new(ErrorKind::Thread, operation, None, why, Some(cause))
    }

    fn of_system(
        kind: ErrorKind,
        operation: &'static str,
        address: &Address,
        cause: io::Error,
    ) -> Self {
        let (kind, why) = match cause.kind() {
            io::ErrorKind::AddrInUse => (ErrorKind::AddressInUse, plain(&cause)),
            io::ErrorKind::TimedOut => (ErrorKind::TimedOut, plain(&cause)),
            _ if is_untrusted(&cause) => (ErrorKind::Untrusted, plain(&cause)),
            _ => (kind, plain(&cause)),
        };
        Self::new(kind, operation, Some(address), why, Some(cause))
    }

    fn new(
        kind: ErrorKind,
        operation: &'static str,
        address: Option<&Address>,
        why: String,
        cause: Option<io::Error>,
    ) -> Self {
        Self(Arc::new(Report {
            kind,
            operation,
            address: address.cloned(),
            why,
            cause,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            operation,
            address,
            why,
            ..
        } = &*self.0;
        match (operation, address) {
            (&"", _) => write!(f, "{why}"),
            (operation, Some(address)) => write!(f, "{operation} {address}: {why}"),
            (operation, None) => write!(f, "{operation}: {why}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        // The text of an address error already says where: it quotes what it was given.
        Self::new(error.kind(), "", None, error.to_string(), None)
    }
}

fn explain_in_use(address: &Address, holder: impl fmt::Display) -> String {
    let advice = match address {
        Address::Tcp { .. } | Address::Tls { .. } | Address::Udp { .. } => {
            "choose another port, or 0 for a free one"
        }
        Address::Uds(_) => "stop it first, or choose another name",
        Address::Serial(_) => "stop it first, or choose another device",
    };
    format!("address in use: {holder}; {advice}")
}

/// The system's words without the number: "connection refused".
pub(crate) fn plain(cause: &io::Error) -> String {
    let text = cause.to_string();
    let words = match cause.raw_os_error() {
        Some(number) => text
            .strip_suffix(&format!(" (os error {number})"))
            .unwrap_or(&text),
        None => &text,
    };
    decapitalised(words)
}

/// "Connection refused" as it stands in mid-sentence; "I/O error" stays as it is.
fn decapitalised(words: &str) -> String {
    let mut letters = words.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(words.chars().skip(1)).collect()
        }
        _ => words.to_owned(),
    }
}

/// Why a message was not accepted. Nothing of it will be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendError {
    /// The queue has no room, and the strategy does not wait or evict; or another sender waits
    /// already.
    Full,
    /// Larger than this link ever accepts.
    TooLarge {
        /// The most payload bytes that would be accepted.
        limit: usize,
    },
    /// The link's framing cannot carry this message, whatever room there is: it contains what the
    /// framing takes for a mark, such as a delimiter inside a line.
    Unframeable,
    /// There is no connection, or it ended while this call waited.
    NotConnected,
    /// The link was closed or aborted.
    Closed,
    /// No room within the time allowed.
    TimedOut,
    /// No room, and this thread is inside a callback, which must not wait.
    WouldDeadlock,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the queue is full"),
            Self::TooLarge { limit } => {
                write!(f, "the message is too large: the limit is {limit} bytes")
            }
            Self::Unframeable => {
                f.write_str("the framing cannot carry the message: it contains one of its marks")
            }
            Self::NotConnected => f.write_str("not connected"),
            Self::Closed => f.write_str("the link is closed"),
            Self::TimedOut => f.write_str("no room in the queue within the time allowed"),
            Self::WouldDeadlock => {
                f.write_str("the queue is full and a callback must not wait for room")
            }
        }
    }
}

impl std::error::Error for SendError {}

/// Why a `DirectLink` returned no message.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecvError {
    /// Nothing arrived by the deadline; the link is as it was.
    TimedOut,
    /// The peer ended its stream, or a `Closer` ended the link.
    Closed,
    /// The connection failed.
    Failed(io::Error),
    /// The peer sent what cannot be a frame, and [`on_bad_frame`](crate::LinkOptions::on_bad_frame)
    /// closes: every further receive says the same.
    BadFrame(FrameFault),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("nothing arrived within the time allowed"),
            Self::Closed => f.write_str("the link is closed"),
            Self::Failed(cause) => write!(f, "the connection failed: {}", plain(cause)),
            Self::BadFrame(fault) => write!(f, "the peer sent no valid frame: {fault}"),
        }
    }
}

impl std::error::Error for RecvError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(cause) => Some(cause),
            Self::BadFrame(fault) => Some(fault),
            Self::TimedOut | Self::Closed => None,
        }
    }
}

/// Why a flush did not see the queue empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushError {
    /// Something still waits after the time allowed.
    TimedOut,
    /// There is no connection, or it ended during the call.
    NotConnected,
    /// This thread is inside a callback, which must not wait.
    WouldDeadlock,
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the queue did not empty within the time allowed",
            Self::NotConnected => "not connected",
            Self::WouldDeadlock => "a callback must not wait for the queue to empty",
        })
    }
}

impl std::error::Error for FlushError {}

/// Why an accept callback turns a peer away; its text goes into the server's events.
///
/// ```
/// let refusal: tautline::Refusal = "not on the list".into();
/// assert_eq!(refusal.to_string(), "not on the list");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
