//! What `serve` says: where it listens, where its threads run, what it did in all.

use std::fmt::Write as _;

use tautline::Address;

use crate::report::ThreadRecord;
use crate::serve::ServeSummary;

/// Where it listens, and that nobody proves who they are.
pub fn listening(addresses: &[Address], limited: Limited) -> String {
    let mut page = String::new();
    for address in addresses {
        let who = match address {
            Address::Tls { .. } if limited.by_certificate => "client certificates required",
            Address::Tls { .. } => "encrypted, clients unauthenticated",
            Address::Tcp { .. } | Address::Udp { .. } | Address::Uds(_) => "unauthenticated",
            Address::Serial(_) => "whoever is at the other end, one at a time",
        };
        let _ = writeln!(page, "listening on {address} ({who})");
    }
    page.push_str(match (limited.by_network, limited.by_certificate) {
        (true, false) => {
            "Nobody has to prove who they are; over tcp, tls and udp only the networks of --allow are served.\n"
        }
        (false, false) => {
            "Nobody has to prove who they are: whoever reaches these addresses is served. --allow limits it.\n"
        }
        (true, true) => {
            "Over tls clients prove who they are, elsewhere nobody; only the networks of --allow are served.\n"
        }
        (false, true) => "Over tls clients prove who they are, elsewhere nobody does.\n",
    });
    page
}

/// Below that: the certificate that was made for this run.
pub fn self_signed(fingerprint: &str) -> String {
    format!(
        "a certificate of our own making, for a trial: clients need --insecure. Its SHA-256 is\n{fingerprint}\n"
    )
}

/// Who is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limited {
    /// Only networks that were named.
    pub by_network: bool,
    /// Over TLS only who shows a certificate.
    pub by_certificate: bool,
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
        let page = listening(&addresses, Limited::default());
        assert_eq!(
            page,
            "listening on tcp://[::]:6001 (unauthenticated)\n\
             listening on udp://[::]:6001 (unauthenticated)\n\
             Nobody has to prove who they are: whoever reaches these addresses is served. --allow limits it.\n"
        );
        for (by_network, by_certificate) in [(true, false), (false, true), (true, true)] {
            let limited = Limited {
                by_network,
                by_certificate,
            };
            let page = listening(&addresses, limited) + &self_signed(&["AB"; 32].join(":"));
            assert!(page.lines().all(|line| line.len() <= 100), "{page}");
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
