//! Serial lines as `serve` and its clients use them: how fast they are, and what is known of a port.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tautline::{Address, LinkOptions, SerialLine};

use crate::handshake::AGAIN;
use crate::plan::wire_time;
use crate::report::Medium;

/// What COBS adds to a message at most: a checksum of 4 bytes, one byte for each 254 begun, and the zero
/// that ends it.
pub(crate) fn frame_bytes(message_bytes: usize) -> usize {
    message_bytes + 4 + (message_bytes + 4).div_ceil(254) + 1
}

/// How long an answer to a hello is waited for before it is said again: both of them take their time.
pub(crate) fn patience(line: &SerialLine) -> Duration {
    AGAIN + wire_time(line, 2 * frame_bytes(HELLO_ESTIMATE_BYTES))
}

/// What a link may have waiting: half a second of its line, and room for two messages. The usual megabyte
/// would take a minute and a half at 115,200 baud, after the last message was sent.
pub(crate) fn queue_bytes(line: &SerialLine, message_bytes: usize) -> usize {
    let hello_bytes = frame_bytes(HELLO_ESTIMATE_BYTES);
    let ns_a_byte = wire_time(line, 1).as_nanos().max(1);
    let half_a_second = usize::try_from(HALF_A_SECOND.as_nanos() / ns_a_byte).unwrap_or(usize::MAX);
    half_a_second
        .max(2 * frame_bytes(message_bytes))
        .max(2 * hello_bytes)
        .min(LinkOptions::default().queue_limit_bytes)
}

/// What a row says of its line.
pub(crate) fn medium(line: &SerialLine, message_bytes: usize) -> Medium {
    let is_pseudo = is_pseudo(&line.path);
    let on_the_wire = wire_time(line, frame_bytes(message_bytes)).as_nanos();
    Medium {
        port: Some(Address::Serial(line.clone()).to_string()),
        wire_time_ns: (!is_pseudo).then(|| u64::try_from(on_the_wire).unwrap_or(u64::MAX)),
        latency_timer_ms: latency_timer_ms(Path::new("/sys"), &line.path),
        low_latency: (!is_pseudo).then_some(line.low_latency),
        tls: None,
        note: is_pseudo.then(|| PSEUDO.to_owned()),
    }
}

/// Whether it is the slave of a pseudo-terminal.
pub(crate) fn is_pseudo(port: &Path) -> bool {
    fs::metadata(port).is_ok_and(|device| PSEUDO_TERMINALS.contains(&libc::major(device.rdev())))
}

/// How long the driver of a USB adapter gathers bytes, where it says so.
pub(crate) fn latency_timer_ms(sys: &Path, port: &Path) -> Option<u64> {
    let device = fs::canonicalize(port).ok()?;
    let timer = sys
        .join("class/tty")
        .join(device.file_name()?)
        .join("device/latency_timer");
    fs::read_to_string(timer).ok()?.trim().parse().ok()
}

const PSEUDO: &str = "the port is a pseudo-terminal: no wire, no UART, and the baud has no effect";
/// Majors of the slaves of Unix98 pseudo-terminals (include/uapi/linux/major.h).
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
const HALF_A_SECOND: Duration = Duration::from_millis(500);
/// Who we are, in words: some 300 bytes on usual machines.
const HELLO_ESTIMATE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_timer_is_found_behind_a_link_to_the_device() {
        let folder = tempfile::tempdir().unwrap();
        let port = folder.path().join("ttyUSB7");
        fs::write(&port, "").unwrap();
        let by_id = folder.path().join("usb-FTDI-if00");
        std::os::unix::fs::symlink(&port, &by_id).unwrap();
        let device = folder.path().join("class/tty/ttyUSB7/device");
        fs::create_dir_all(&device).unwrap();
        assert_eq!(latency_timer_ms(folder.path(), &by_id), None);
        fs::write(device.join("latency_timer"), "16\n").unwrap();
        assert_eq!(latency_timer_ms(folder.path(), &by_id), Some(16));
    }

    #[test]
    fn a_line_says_how_long_a_frame_is_on_its_wire() {
        assert_eq!(
            [frame_bytes(32), frame_bytes(250), frame_bytes(251)],
            [38, 256, 258]
        );
        let medium = medium(&SerialLine::new("/dev/tautline-none"), 32);
        // 38 characters of 10 bits.
        assert_eq!(medium.wire_time_ns, Some(3_298_611));
        assert_eq!(medium.note, None);
    }

    #[test]
    fn a_queue_is_half_a_second_of_its_line_and_never_too_small_for_a_message() {
        let mut line = SerialLine::new("/dev/ttyS0");
        assert_eq!(queue_bytes(&line, 64), 5_760);
        assert_eq!(queue_bytes(&line, 65_507), 131_540);
        line.baud = 50;
        assert_eq!(queue_bytes(&line, 64), 1_040);
        line.baud = 400_000_000;
        assert_eq!(queue_bytes(&line, 64), 1_048_576);
    }

    #[test]
    fn a_slow_line_is_given_more_time_to_answer() {
        let mut line = SerialLine::new("/dev/ttyS0");
        assert_eq!(patience(&line).as_millis(), 290);
        line.baud = 1_200;
        assert_eq!(patience(&line).as_millis(), 8_866);
    }
}
