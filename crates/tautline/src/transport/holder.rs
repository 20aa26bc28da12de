//! Who holds an address that is in use: looked up in `/proc`, only once a bind has failed.
//!
//! Best effort, and bounded: what cannot be found out is said so, and nothing fails for it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::Kind;
use super::inet::plain;

/// Who holds an address, for the sentence "address in use: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    ThisProcess,
    Process {
        id: u32,
        name: String,
    },
    /// A socket of this user, in a process that we may not look into.
    Invisible {
        user: u32,
    },
    /// Connections that are over, which the kernel keeps for a minute.
    TimeWait,
    /// A socket that is not in the tables: bound, and neither listening nor connected, as a rule.
    Unlisted,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str("held by this process itself"),
            Self::Process { id, name } => write!(f, "held by {name} (pid {id})"),
            Self::Invisible { user } => {
                write!(
                    f,
                    "held by a process of user {user} that is not visible from here"
                )
            }
            Self::TimeWait => f.write_str("held by connections in TIME_WAIT"),
            Self::Unlisted => f.write_str("held by a socket that /proc/net does not list"),
        }
    }
}

/// Who holds a port, or an address that includes it.
pub(super) fn of_port(kind: Kind, local: SocketAddr) -> Holder {
    let tables = match kind {
        Kind::Tcp | Kind::Tls => ["tcp", "tcp6"],
        Kind::Udp => ["udp", "udp6"],
        Kind::Uds | Kind::Serial => unreachable!("they have no ports"),
    };
    let lines = tables.into_iter().flat_map(lines_of);
    strongest(lines.filter_map(|line| Row::parse(&line)), local)
        .map_or(Holder::Unlisted, |row| row.holder())
}

/// Who listens on a Unix socket: a path as it was given, or an abstract name after `@`.
pub(super) fn of_unix(name: &[u8]) -> Option<Holder> {
    let inode = lines_of("unix").find_map(|line| listening_unix(&line, name))?;
    process_of(inode)
}

/// The table's lines without its head, up to a limit.
fn lines_of(table: &str) -> impl Iterator<Item = Vec<u8>> {
    // Of the thread, which may be in another network than the process began in.
    let file = File::open(Path::new("/proc/thread-self/net").join(table)).ok();
    let lines = file.map(|file| BufReader::new(file).split(b'\n'));
    lines
        .into_iter()
        .flatten()
        .map_while(Result::ok)
        .skip(1)
        .take(LINES_LIMIT)
}

/// A row of `/proc/net/{tcp,tcp6,udp,udp6}`.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    state: u8,
    user: u32,
    inode: u64,
}

impl Row {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1).and_then(parse_address)?;
        let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
        let user = fields.nth(3)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Self {
            local,
            state,
            user,
            inode,
        })
    }

    /// Whether a bind of `wanted` meets it.
    fn conflicts(&self, wanted: SocketAddr) -> bool {
        let (held, wanted) = (plain(self.local), plain(wanted));
        let any = held.ip().is_unspecified() || wanted.ip().is_unspecified();
        held.port() == wanted.port() && (any || held.ip() == wanted.ip())
    }

    /// A listening socket, or one of UDP that is not connected, is it rather than a connection, and
    /// that rather than what is left of one.
    fn strength(&self) -> u8 {
        match self.state {
            TCP_LISTEN | TCP_CLOSE => 2,
            TCP_TIME_WAIT => 0,
            _ => 1,
        }
    }

    fn holder(&self) -> Holder {
        if self.state == TCP_TIME_WAIT {
            return Holder::TimeWait;
        }
        process_of(self.inode).unwrap_or(Holder::Invisible { user: self.user })
    }
}

fn strongest(rows: impl Iterator<Item = Row>, wanted: SocketAddr) -> Option<Row> {
    rows.filter(|row| row.conflicts(wanted))
        .max_by_key(Row::strength)
}

/// `0100007F:1F90`: an address in words as they lie in memory, and a port.
fn parse_address(field: &str) -> Option<SocketAddr> {
    let (address, port) = field.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The inode of a socket that listens under this name, if the line is about one.
fn listening_unix(line: &[u8], name: &[u8]) -> Option<u64> {
    // Num RefCount Protocol Flags Type St Inode Path; the path may hold anything.
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[start..].iter().position(|byte| *byte == b' ')? + start;
        let found = std::str::from_utf8(&rest[start..end]).ok()?;
        rest = &rest[end..];
        Some(found)
    };
    let flags = [field()?, field()?, field()?, field()?][3];
    let [kind, _, inode] = [field()?, field()?, field()?];
    let inode = inode.parse().ok()?;
    let accepts = u32::from_str_radix(flags, 16).ok()? & SO_ACCEPTCON != 0;
    // Accepted streams have their listener's name, too.
    let listens = accepts || kind == SOCK_DGRAM;
    (listens && rest.strip_prefix(b" ") == Some(name)).then_some(inode)
}

/// Who has a device open, by the path that the kernel knows it by.
#[cfg(feature = "serial")]
pub(super) fn of_device(path: &Path) -> Option<Holder> {
    process_with(path.as_os_str())
}

/// The process that has the socket with this inode open.
fn process_of(inode: u64) -> Option<Holder> {
    process_with(format!("socket:[{inode}]").as_ref())
}

/// The process among whose descriptors this is one, as their links name it.
fn process_with(open: &OsStr) -> Option<Holder> {
    let mut left = DESCRIPTORS_LIMIT;
    if has_open(Path::new("/proc/self/fd"), open, &mut left) {
        return Some(Holder::ThisProcess);
    }
    for process in fs::read_dir("/proc").ok()?.map_while(Result::ok) {
        let Some(id) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if has_open(&process.path().join("fd"), open, &mut left) {
            // It may be gone by now.
            let name = fs::read_to_string(process.path().join("comm")).ok()?;
            let name = name.trim_end().to_owned();
            return Some(Holder::Process { id, name });
        }
    }
    None
}

fn has_open(descriptors: &Path, open: &OsStr, left: &mut usize) -> bool {
    let Ok(entries) = fs::read_dir(descriptors) else {
        // Another user's process, or one that has ended.
        return false;
    };
    entries.map_while(Result::ok).any(|entry| {
        let within = *left > 0;
        *left = left.saturating_sub(1);
        within && fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == open)
    })
}

/// Lines of a table looked at: a machine may have a million connections.
const LINES_LIMIT: usize = 100_000;
/// Descriptors looked at, of all processes together: below a second of work.
const DESCRIPTORS_LIMIT: usize = 100_000;

// include/net/tcp_states.h; libc has no names for them. UDP sockets use two of them.
const TCP_TIME_WAIT: u8 = 6;
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;
/// include/linux/net.h: the socket listens.
const SO_ACCEPTCON: u32 = 1 << 16;
/// `SOCK_DGRAM` as the table prints it.
const SOCK_DGRAM: &str = "0002";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(local: &str, state: u8) -> Row {
        let local = local.parse().unwrap();
        Row {
            local,
            state,
            user: 0,
            inode: 1,
        }
    }

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_tables_are_read() {
        let v4 = b"   2: 0100007F:1770 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 39571 1 0000000000000000 100 0 0 10 0";
        let found = Row::parse(v4).unwrap();
        assert_eq!(
            found,
            Row {
                local: at("127.0.0.1:6000"),
                state: 10,
                user: 1000,
                inode: 39_571
            }
        );
        let v6 = b"  17: 00000000000000000000000001000000:14E9 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 812 2 0000000000000000 0";
        let found = Row::parse(v6).unwrap();
        assert_eq!(
            found,
            Row {
                local: at("[::1]:5353"),
                state: 7,
                user: 0,
                inode: 812
            }
        );
    }

    #[test]
    fn what_is_no_row_is_passed_over() {
        for line in [
            &b""[..],
            b"x",
            b"0: 0100007F",
            b"0: 1:2 3:4 0A",
            b"\xff\xff \xff",
            b"1: 0100007G:1770 0:0 0A 0:0 0:0 0 0 0 5",
        ] {
            assert_eq!(Row::parse(line), None);
            assert_eq!(listening_unix(line, b"x"), None);
        }
    }

    #[test]
    fn who_listens_comes_before_who_is_connected_and_that_before_what_is_left() {
        let rows = || {
            ["1.1.1.1:9", "2.2.2.2:9", "2.2.2.2:9", "2.2.2.2:8"]
                .into_iter()
                .zip([10, 6, 1, 10])
        };
        let found = |wanted| strongest(rows().map(|(local, state)| row(local, state)), at(wanted));
        assert_eq!(found("2.2.2.2:9"), Some(row("2.2.2.2:9", 1)));
        assert_eq!(found("0.0.0.0:9"), Some(row("1.1.1.1:9", 10)));
        assert_eq!(found("[::]:8"), Some(row("2.2.2.2:8", 10)));
        assert_eq!(found("2.2.2.2:7"), None);
        let left = strongest([row("2.2.2.2:9", 6)].into_iter(), at("2.2.2.2:9"));
        assert_eq!(left.unwrap().holder(), Holder::TimeWait);
    }

    #[test]
    fn a_unix_socket_is_known_by_its_whole_name_and_only_while_it_listens() {
        let listening = b"0000000000000000: 00000002 00000000 00010000 0001 01 24185 /run/a b.sock";
        assert_eq!(listening_unix(listening, b"/run/a b.sock"), Some(24_185));
        assert_eq!(listening_unix(listening, b"b.sock"), None);
        let connected = b"0000000000000000: 00000003 00000000 00000000 0001 03 24186 /run/a b.sock";
        assert_eq!(listening_unix(connected, b"/run/a b.sock"), None);
    }

    #[test]
    fn nobody_has_an_inode_that_does_not_exist() {
        assert_eq!(process_of(u64::MAX), None);
    }
}
