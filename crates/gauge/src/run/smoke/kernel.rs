//! What the kernel says about UDP beside the test: drops, buffers, the MTU of loopback.

use std::fs;
use std::net::UdpSocket;

use socket2::SockRef;

use crate::report::KernelUdp;

/// The kernel's counters at the start of a payload, and what never changes in between.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    start: KernelUdp,
    pub(crate) receive_buffer_bytes: Option<u64>,
    pub(crate) send_buffer_bytes: Option<u64>,
    pub(crate) mtu_bytes: Option<u64>,
}

impl Surroundings {
    pub(crate) fn read() -> Self {
        let probe = UdpSocket::bind("127.0.0.1:0").ok();
        let granted = |size: fn(&SockRef<'_>) -> std::io::Result<usize>| {
            let bytes = size(&SockRef::from(probe.as_ref()?)).ok()?;
            Some(bytes as u64)
        };
        Self {
            start: counters(),
            receive_buffer_bytes: granted(|socket| socket.recv_buffer_size()),
            send_buffer_bytes: granted(|socket| socket.send_buffer_size()),
            mtu_bytes: fs::read_to_string("/sys/class/net/lo/mtu")
                .ok()
                .and_then(|text| text.trim().parse().ok()),
        }
    }

    /// What was counted since.
    pub(crate) fn kernel_since_start(&self) -> KernelUdp {
        let now = counters();
        // A counter of 32 bits may have gone round.
        let since = |now: Option<u64>, start: Option<u64>| Some(now?.saturating_sub(start?));
        KernelUdp {
            receive_errors: since(now.receive_errors, self.start.receive_errors),
            receive_buffer_errors: since(
                now.receive_buffer_errors,
                self.start.receive_buffer_errors,
            ),
            send_buffer_errors: since(now.send_buffer_errors, self.start.send_buffer_errors),
            checksum_errors: since(now.checksum_errors, self.start.checksum_errors),
            no_ports: since(now.no_ports, self.start.no_ports),
        }
    }
}

fn counters() -> KernelUdp {
    // Of this thread's network namespace.
    let v4 = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    parsed(&v4, &v6)
}

/// The sum of both families; unknown where neither has it.
fn parsed(snmp: &str, snmp6: &str) -> KernelUdp {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let v4 = |name: &str| {
        let at = names.split_whitespace().position(|found| found == name)?;
        values.split_whitespace().nth(at)?.parse::<u64>().ok()
    };
    let v6 = |name: &str| {
        let line = snmp6
            .lines()
            .find_map(|line| line.strip_prefix("Udp6")?.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    let both = |name: &str| match (v4(name), v6(name)) {
        (None, None) => None,
        (v4, v6) => Some(v4.unwrap_or(0) + v6.unwrap_or(0)),
    };
    KernelUdp {
        receive_errors: both("InErrors"),
        receive_buffer_errors: both("RcvbufErrors"),
        send_buffer_errors: both("SndbufErrors"),
        checksum_errors: both("InCsumErrors"),
        no_ports: both("NoPorts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_both_families_are_summed_by_name() {
        let snmp = "Ip: Forwarding\nIp: 1\n\
            Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
            Udp: 100 2 3 90 4 5 6\nUdpLite: InDatagrams\nUdpLite: 0\n";
        let snmp6 = "Udp6InDatagrams                 \t7\nUdp6NoPorts     \t10\nUdp6InErrors\t20\n";
        assert_eq!(
            parsed(snmp, snmp6),
            KernelUdp {
                receive_errors: Some(23),
                receive_buffer_errors: Some(4),
                send_buffer_errors: Some(5),
                checksum_errors: Some(6),
                no_ports: Some(12),
            }
        );
        assert_eq!(parsed("", ""), KernelUdp::default());
    }
}
