//! The three answers to a full queue.

use std::fmt;
use std::str::FromStr;

/// What a send does when the queue is full.
///
/// | no room        | `Reliable`       | `BestEffort`     | `KeepLatest`          |
/// |----------------|------------------|------------------|-----------------------|
/// | `try_send`     | `Full`           | `Full`           | evicts the oldest, Ok |
/// | `send`         | waits            | `Full`           | evicts the oldest, Ok |
/// | `send_timeout` | waits, `TimedOut`| waits, `TimedOut`| evicts the oldest, Ok |
///
/// What `opened` sends goes out first and is never evicted, not even for more of the same.
///
/// What a writer has in hand is never evicted either. Under `KeepLatest` that is at most half of the queue, or
/// one message; where it leaves no room all the same, because the queue holds a single message or a very
/// large one comes, `KeepLatest` says `Full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// Nothing is dropped: commands, files, everything that must arrive. The default.
    #[default]
    Reliable,
    /// The newcomer is refused: load that the producer itself sheds.
    BestEffort,
    /// The oldest waiting message makes room: samples, of which the freshest matters.
    KeepLatest,
}

impl Strategy {
    /// Every strategy, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Reliable, Self::BestEffort, Self::KeepLatest];

    /// The token used in options, reports and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::BestEffort => "besteffort",
            Self::KeepLatest => "keeplatest",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == text)
            .ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// A token that names no strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownStrategy(String);

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no strategy: reliable, besteffort or keeplatest",
            self.0
        )
    }
}

impl std::error::Error for UnknownStrategy {}
