//! The wall clock, for the one place that wants it: the label that says when a run began.

use std::time::{SystemTime, UNIX_EPOCH};

use tautline_gauge::report::utc;

/// Now, in UTC, as RFC 3339 has it.
pub(crate) fn now() -> String {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    utc::rfc3339(since_epoch.as_secs())
}
