//! Whose fault it is: a function of what was counted, and of nothing else.

use super::kernel::Surroundings;
use crate::report::{SmokeClass, SmokeRow, SmokeVerdict};

/// A way of sending datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Raw sockets.
    Raw,
    /// The library, reliable.
    Reliable,
    /// The library, besteffort.
    BestEffort,
}

impl Path {
    pub(crate) const ALL: [Self; 3] = [Self::Raw, Self::Reliable, Self::BestEffort];

    pub(crate) const fn token(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Reliable => "reliable",
            Self::BestEffort => "besteffort",
        }
    }
}

/// Judges the rows of one payload, and writes the verdict into each of them.
pub(crate) fn judge(
    rows: &mut [SmokeRow],
    payload_bytes: usize,
    around: &Surroundings,
) -> SmokeVerdict {
    let (classification, because) = class_of(rows);
    for row in rows {
        row.classification = classification;
    }
    SmokeVerdict {
        payload_bytes,
        classification,
        because,
        kernel: around.kernel_since_start(),
        receive_buffer_bytes: around.receive_buffer_bytes,
        send_buffer_bytes: around.send_buffer_bytes,
        mtu_bytes: around.mtu_bytes,
    }
}

fn class_of(rows: &[SmokeRow]) -> (SmokeClass, String) {
    let of = |path: Path| rows.iter().find(|row| row.path == path.token());
    let (Some(raw), Some(reliable), Some(besteffort)) =
        (of(Path::Raw), of(Path::Reliable), of(Path::BestEffort))
    else {
        return (
            SmokeClass::Undecided,
            "not every path was measured".to_owned(),
        );
    };
    let library = [reliable, besteffort];
    if !is_clean(raw) {
        let worse = library.iter().filter(|row| !is_clean(row)).count();
        let same = match worse {
            0 => "the library has none of it",
            _ => "the library has it too",
        };
        return (SmokeClass::Environment, format!("{}; {same}", trouble(raw)));
    }
    let Some(bad) = library.into_iter().find(|row| !is_clean(row)) else {
        return (
            SmokeClass::None,
            "every echo of every path came back whole".to_owned(),
        );
    };
    let class = match pressed(bad) {
        0 => SmokeClass::LibraryPath,
        _ => SmokeClass::PressureModel,
    };
    (class, format!("raw sockets are clean; {}", trouble(bad)))
}

/// Every echo that was asked for was sent and came back whole.
fn is_clean(row: &SmokeRow) -> bool {
    row.sent == row.iterations && row.matched == row.iterations
}

/// Messages that the library's own rules refused or gave up.
fn pressed(row: &SmokeRow) -> u64 {
    row.runtime.map_or(0, |runtime| {
        [runtime.client, runtime.server]
            .iter()
            .map(|end| end.refused_messages + end.discarded_messages)
            .sum()
    })
}

/// What is wrong with a row, from the first step that went wrong.
fn trouble(row: &SmokeRow) -> String {
    let mut words = format!(
        "{}: {} of {} echoes came back whole",
        row.path, row.matched, row.iterations
    );
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            words.push_str(&format!(", {count} {what}"));
        }
    };
    add(row.send_failures, "sends failed");
    add(
        row.sent.saturating_sub(row.server_received),
        "did not reach the server",
    );
    add(
        row.server_received.saturating_sub(row.client_received),
        "replies did not come back",
    );
    add(row.client_received - row.matched, "came back changed");
    add(pressed(row), "were refused or given up by the link");
    if let Some(why) = &row.send_failure {
        words.push_str(&format!(" ({why})"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SmokePlan;
    use crate::report::{EndStatistics, SmokeRuntime};
    use crate::run::smoke::empty_row;

    fn row(path: Path, matched: u64) -> SmokeRow {
        SmokeRow {
            sent: 1_000,
            server_received: 1_000,
            client_received: matched,
            matched,
            runtime: (path != Path::Raw).then(SmokeRuntime::default),
            ..empty_row(path, 1_024, &SmokePlan::default())
        }
    }

    fn rows(raw: u64, reliable: u64, besteffort: u64) -> [SmokeRow; 3] {
        [
            row(Path::Raw, raw),
            row(Path::Reliable, reliable),
            row(Path::BestEffort, besteffort),
        ]
    }

    #[test]
    fn the_verdict_follows_from_which_paths_are_clean() {
        for (matched, expected) in [
            ((1_000, 1_000, 1_000), SmokeClass::None),
            ((999, 1_000, 1_000), SmokeClass::Environment),
            ((0, 0, 0), SmokeClass::Environment),
            ((1_000, 999, 1_000), SmokeClass::LibraryPath),
            ((1_000, 1_000, 0), SmokeClass::LibraryPath),
        ] {
            let rows = rows(matched.0, matched.1, matched.2);
            assert_eq!(class_of(&rows).0, expected, "{matched:?}");
        }
    }

    #[test]
    fn what_the_queue_refused_is_the_pressure_models() {
        let mut rows = rows(1_000, 1_000, 990);
        (rows[2].sent, rows[2].server_received) = (990, 990);
        rows[2].send_failures = 10;
        rows[2].runtime = Some(SmokeRuntime {
            client: EndStatistics {
                refused_messages: 10,
                ..EndStatistics::default()
            },
            server: EndStatistics::default(),
        });
        let (class, because) = class_of(&rows);
        assert_eq!(class, SmokeClass::PressureModel);
        assert_eq!(
            because,
            "raw sockets are clean; besteffort: 990 of 1000 echoes came back whole, 10 sends failed, \
             10 were refused or given up by the link"
        );
    }

    #[test]
    fn a_path_that_is_missing_or_broke_off_decides_nothing_in_our_favour() {
        assert_eq!(
            class_of(&rows(1_000, 1_000, 1_000)[..2]).0,
            SmokeClass::Undecided
        );
        let mut cut = rows(1_000, 1_000, 1_000);
        cut[1].sent = 500;
        cut[1].matched = 500;
        assert_eq!(class_of(&cut).0, SmokeClass::LibraryPath);
    }
}
