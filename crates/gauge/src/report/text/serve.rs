//! What `serve` says: where it listens, where its threads run, what it did in all.

use std::fmt::Write as _;

use tautline::Address;

use crate::report::ThreadRecord;
use crate::serve::ServeSummary;

/// Where it listens, and that nobody proves who they are.
pub fn listening(addresses: &[Address], limited: bool) -> String {
    let mut page = String::new();
    for address in addresses {
        let _ = writeln!(page, "listening on {address} (unauthenticated)");
    }
    page.push_str(if limited {
        "Nobody has to prove who they are; over tcp and udp only the networks of --allow are served.\n"
    } else {
        "Nobody has to prove who they are: whoever reaches these addresses is served. --allow limits it.\n"
    });
    page
}

/// Where and how clients' threads run.
pub fn threads(threads: &[ThreadRecord]) -> String {
    let mut page = String::new();
    for thread in threads {
        let cpus: Vec<String> = thread.cpus_effective.iter().map(usize::to_string).collect();
        let _ = writeln!(
            page,
            "clients' threads run on CPU {} as {} (asked for {})",
            cpus.join(","),
            thread.sched_effective,
            thread.sched_requested,
        );
    }
    page
}

/// What was done in all.
pub fn summary(summary: &ServeSummary) -> String {
    let ServeSummary {
        elapsed,
        clients,
        refused,
        messages,
        bytes,
        dropped_datagrams,
        threads_left,
    } = *summary;
    let mut page = format!(
        "served for {:.1} s: clients {clients}, messages {messages}, MiB {:.1}, refused {refused}, \
         dropped datagrams {dropped_datagrams}\n",
        elapsed.as_secs_f64(),
        bytes as f64 / f64::from(1 << 20),
    );
    if threads_left > 0 {
        let _ = writeln!(page, "threads that did not end: {threads_left}");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lines_fit_a_terminal() {
        let addresses = [
            "tcp://[::]:6001".parse().unwrap(),
            "udp://[::]:6001".parse().unwrap(),
        ];
        let page = listening(&addresses, false);
        assert_eq!(
            page,
            "listening on tcp://[::]:6001 (unauthenticated)\n\
             listening on udp://[::]:6001 (unauthenticated)\n\
             Nobody has to prove who they are: whoever reaches these addresses is served. --allow limits it.\n"
        );
        for line in page.lines().chain(listening(&addresses, true).lines()) {
            assert!(line.len() <= 100, "{line}");
        }
    }

    #[test]
    fn the_summary_is_one_line() {
        let summed = ServeSummary {
            elapsed: Duration::from_millis(12_345),
            clients: 3,
            refused: 1,
            messages: 1_000_000,
            bytes: 64_000_000,
            dropped_datagrams: 2,
            threads_left: 0,
        };
        assert_eq!(
            summary(&summed),
            "served for 12.3 s: clients 3, messages 1000000, MiB 61.0, refused 1, dropped datagrams 2\n"
        );
    }
}
