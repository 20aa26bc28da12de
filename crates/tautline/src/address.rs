//! Addresses as text: one syntax for code, command line, messages and reports.
//!
//! An [`Address`] is a name, not yet a socket address: `resolve` of the transport looks it up.
//! Every address that was parsed, or that a socket reports, prints as text that parses back to it.

mod escape;
mod serial;
mod syntax;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::ErrorKind;
use crate::sys;

pub use serial::{FlowControl, Parity, Rs485, SerialLine};

/// Where a link connects to, or a server listens.
///
/// | text | what |
/// |---|---|
/// | `tcp://plc.local:9000` | TCP; the name is looked up when it is used |
/// | `tcp://127.0.0.1:0` | TCP, listening on a free port |
/// | `tls://gateway.local:9443` | TLS over TCP; needs the feature `tls` |
/// | `udp://[fe80::1%eth0]:5000` | UDP, an IPv6 address with its interface |
/// | `udp://[::]:5000` | UDP, every address of the machine, IPv4 too |
/// | `uds:///run/robot.sock` | a Unix socket in the file system |
/// | `uds://@robot` | a Unix socket in the abstract namespace |
/// | `serial:///dev/ttyUSB0?baud=115200` | a serial line, see [`SerialLine`]; needs the feature `serial` |
///
/// In Unix names and the paths of devices a space, a control character, `%`, `?` and `#` are written `%20`, `%25` and so on.
///
/// ```
/// use tautline::Address;
///
/// let address: Address = "tcp://[::1]:9000".parse()?;
/// assert_eq!(address, Address::Tcp { host: "::1".to_owned(), port: 9000 });
/// assert_eq!(address.to_string(), "tcp://[::1]:9000");
/// # Ok::<(), tautline::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP.
    Tcp {
        /// Name or literal, without brackets; IPv6 may carry a scope (`fe80::1%eth0`).
        host: String,
        /// Port; 0 only for listening, where the kernel chooses.
        port: u16,
    },
    /// UDP.
    Udp {
        /// As for TCP.
        host: String,
        /// As for TCP.
        port: u16,
    },
    /// A Unix stream socket.
    Uds(UdsName),
    /// TLS over TCP.
    Tls {
        /// As for TCP; what the certificate has to say unless the options name something else.
        host: String,
        /// As for TCP.
        port: u16,
    },
    /// A serial line, or a pseudo-terminal.
    Serial(SerialLine),
}

/// The name of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UdsName {
    /// An absolute path of at most [`UDS_NAME_LIMIT`] bytes.
    Path(PathBuf),
    /// A name in the abstract namespace, without its leading zero byte: gone with its last socket.
    Abstract(Vec<u8>),
}

/// The port that `HOST` alone means on the command line.
pub const DEFAULT_PORT: u16 = 6001;

/// Most bytes of a Unix socket's name: `sun_path` has 108, one of which is a zero.
pub const UDS_NAME_LIMIT: usize = 107;

impl Address {
    /// The TCP address of an IP address and port.
    pub fn tcp(address: SocketAddr) -> Self {
        let (host, port) = host_and_port(address);
        Self::Tcp { host, port }
    }

    /// The UDP address of an IP address and port.
    pub fn udp(address: SocketAddr) -> Self {
        let (host, port) = host_and_port(address);
        Self::Udp { host, port }
    }

    /// The TLS address of an IP address and port.
    pub fn tls(address: SocketAddr) -> Self {
        let (host, port) = host_and_port(address);
        Self::Tls { host, port }
    }

    /// What stands before `://`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Udp { .. } => "udp",
            Self::Uds(_) => "uds",
            Self::Tls { .. } => "tls",
            Self::Serial(_) => "serial",
        }
    }

    /// Parses what a user types: an address, or `HOST[:PORT]`, which means TCP, port
    /// [`DEFAULT_PORT`].
    ///
    /// A bare IPv6 address needs brackets only when a port follows.
    ///
    /// ```
    /// use tautline::Address;
    ///
    /// assert_eq!(Address::parse_command_line("plc")?.to_string(), "tcp://plc:6001");
    /// assert_eq!(Address::parse_command_line("::1")?.to_string(), "tcp://[::1]:6001");
    /// assert_eq!(Address::parse_command_line("[::1]:9")?.to_string(), "tcp://[::1]:9");
    /// assert_eq!(Address::parse_command_line("uds://@a")?.to_string(), "uds://@a");
    /// # Ok::<(), tautline::AddressError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Text that is neither, with what is wrong with it.
    pub fn parse_command_line(text: &str) -> Result<Self, AddressError> {
        if text.contains("://") {
            return text.parse();
        }
        syntax::host_or_host_port(text)
            .and_then(|address| address.check().map(|()| address))
            .map_err(|fault| AddressError::new(text, fault))
    }

    /// Checks an address that was built by hand by the rules of those that are parsed.
    pub(crate) fn validate(&self) -> Result<(), AddressError> {
        self.check()
            .map_err(|fault| AddressError::new(&self.to_string(), fault))
    }

    /// The IP address that the host is written as; `None` for a name, and where there is no host.
    pub(crate) fn literal_ip(&self) -> Option<IpAddr> {
        let host = match self {
            Self::Tcp { host, .. } | Self::Udp { host, .. } | Self::Tls { host, .. } => host,
            Self::Uds(_) | Self::Serial(_) => return None,
        };
        host.split('%').next()?.parse().ok()
    }

    fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Tcp { host, .. } | Self::Udp { host, .. } | Self::Tls { host, .. } => {
                syntax::check_host(host)
            }
            Self::Uds(UdsName::Path(path)) => syntax::check_path(path),
            Self::Uds(UdsName::Abstract(name)) => syntax::check_abstract(name),
            Self::Serial(line) => line.check(),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        syntax::parse(text)
            .and_then(|address| address.check().map(|()| address))
            .map_err(|fault| AddressError::new(text, fault))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            Self::Tcp { host, port } | Self::Udp { host, port } | Self::Tls { host, port }
                if host.contains(':') =>
            {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } | Self::Udp { host, port } | Self::Tls { host, port } => {
                write!(f, "{host}:{port}")
            }
            Self::Serial(line) => line.write(f),
            Self::Uds(UdsName::Path(path)) => escape::write_escaped(f, path.as_os_str().as_bytes()),
            Self::Uds(UdsName::Abstract(name)) => {
                f.write_str("@")?;
                escape::write_escaped(f, name)
            }
        }
    }
}

/// Text that is no address, and what is wrong with it.
///
/// ```
/// let error = "tcp://10.0.0.5".parse::<tautline::Address>().unwrap_err();
/// assert_eq!(error.to_string(), r#""tcp://10.0.0.5": the port is missing: tcp://10.0.0.5:PORT"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    fault: Fault,
}

impl AddressError {
    /// [`ErrorKind::UnsupportedScheme`] or [`ErrorKind::InvalidAddress`].
    pub fn kind(&self) -> ErrorKind {
        match self.fault {
            Fault::Scheme(_) => ErrorKind::UnsupportedScheme,
            Fault::Syntax(_) => ErrorKind::InvalidAddress,
        }
    }

    fn new(text: &str, fault: Fault) -> Self {
        Self {
            text: text.to_owned(),
            fault,
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Foreign text: quoted, so that no control character reaches a terminal, and cut.
        let mut shown: String = self.text.chars().take(SHOWN_CHARS).collect();
        if shown.len() < self.text.len() {
            shown.push('…');
        }
        write!(f, "{shown:?}: ")?;
        match &self.fault {
            Fault::Scheme(scheme) => {
                write!(f, "{scheme}: the schemes are tcp, tls, udp, uds and serial")
            }
            Fault::Syntax(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for AddressError {}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// A scheme that we do not speak.
    Scheme(String),
    /// Anything else, in words.
    Syntax(String),
}

impl Fault {
    fn syntax(why: impl Into<String>) -> Self {
        Self::Syntax(why.into())
    }
}

fn host_and_port(address: SocketAddr) -> (String, u16) {
    let host = match address {
        // On a dual-stack socket an IPv4 peer appears as ::ffff:a.b.c.d: it is that IPv4 peer.
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            format!("{}%{}", v6.ip(), interface_name(v6.scope_id()))
        }
        _ => address.ip().to_canonical().to_string(),
    };
    (host, address.port())
}

/// The interface's name, or its number when it has gone or we could not parse its name again.
fn interface_name(index: u32) -> String {
    sys::net::if_indextoname(index)
        .ok()
        .filter(|name| syntax::is_scope(name))
        .unwrap_or_else(|| index.to_string())
}

/// Characters of foreign text that an error repeats: enough for the longest valid address.
const SHOWN_CHARS: usize = 300;

#[cfg(test)]
mod tests;
