//! Addresses as text: one syntax for code, command line, messages and reports.
//!
//! An [`Address`] is a name, not yet a socket address: `resolve` of the transport looks it up.
//! Every address that was parsed, or that a socket reports, prints as text that parses back to it.

use std::ffi::OsStr;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ErrorKind;
use crate::sys;

/// Where a link connects to, or a server listens.
///
/// | text | what |
/// |---|---|
/// | `tcp://plc.local:9000` | TCP; the name is looked up when it is used |
/// | `tcp://127.0.0.1:0` | TCP, listening on a free port |
/// | `udp://[fe80::1%eth0]:5000` | UDP, an IPv6 address with its interface |
/// | `udp://[::]:5000` | UDP, every address of the machine, IPv4 too |
/// | `uds:///run/robot.sock` | a Unix socket in the file system |
/// | `uds://@robot` | a Unix socket in the abstract namespace |
///
/// In Unix names a space, a control character, `%`, `?` and `#` are written `%20`, `%25` and so on.
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

    /// What stands before `://`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Udp { .. } => "udp",
            Self::Uds(_) => "uds",
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
        host_or_host_port(text)
            .and_then(|address| address.check().map(|()| address))
            .map_err(|fault| AddressError::new(text, fault))
    }

    /// Checks an address that was built by hand by the rules of those that are parsed.
    pub(crate) fn validate(&self) -> Result<(), AddressError> {
        self.check()
            .map_err(|fault| AddressError::new(&self.to_string(), fault))
    }

    fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Tcp { host, .. } | Self::Udp { host, .. } => check_host(host),
            Self::Uds(UdsName::Path(path)) => check_path(path),
            Self::Uds(UdsName::Abstract(name)) => check_abstract(name),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text)
            .and_then(|address| address.check().map(|()| address))
            .map_err(|fault| AddressError::new(text, fault))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            Self::Tcp { host, port } | Self::Udp { host, port } if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } | Self::Udp { host, port } => write!(f, "{host}:{port}"),
            Self::Uds(UdsName::Path(path)) => write_escaped(f, path.as_os_str().as_bytes()),
            Self::Uds(UdsName::Abstract(name)) => {
                f.write_str("@")?;
                write_escaped(f, name)
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
                write!(f, "{scheme}: this version speaks tcp, udp and uds")
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

fn parse(text: &str) -> Result<Address, Fault> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Fault::syntax(
            "the scheme is missing: tcp://HOST:PORT, udp://HOST:PORT, uds:///PATH or uds://@NAME",
        ));
    };
    match scheme {
        "tcp" => host_port(scheme, rest).map(|(host, port)| Address::Tcp { host, port }),
        "udp" => host_port(scheme, rest).map(|(host, port)| Address::Udp { host, port }),
        "uds" => uds_name(rest).map(Address::Uds),
        _ if is_word(scheme) => Err(Fault::Scheme(scheme.to_owned())),
        _ => Err(Fault::syntax("what stands before :// is no scheme")),
    }
}

/// What a scheme may look like (RFC 3986, section 3.1); anything else is not worth repeating.
fn is_word(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
}

fn host_port(scheme: &str, rest: &str) -> Result<(String, u16), Fault> {
    match split_port(rest)? {
        (host, Some(port)) => Ok((host.to_owned(), parse_port(port)?)),
        ("", None) => Err(Fault::syntax("the host is missing")),
        (_, None) => Err(Fault::syntax(format!(
            "the port is missing: {scheme}://{rest}:PORT"
        ))),
    }
}

/// `HOST[:PORT]` as typed: TCP, and [`DEFAULT_PORT`] where none is named.
fn host_or_host_port(text: &str) -> Result<Address, Fault> {
    if text.starts_with(['/', '@']) {
        return Err(Fault::syntax(format!(
            "a Unix socket is written uds://{text}"
        )));
    }
    let (host, port) = if is_ipv6(text) {
        (text, DEFAULT_PORT)
    } else {
        let (host, port) = split_port(text)?;
        (host, port.map_or(Ok(DEFAULT_PORT), parse_port)?)
    };
    Ok(Address::Tcp {
        host: host.to_owned(),
        port,
    })
}

/// Splits `host:port`, `[ipv6]:port` or either without the port; the host is checked later.
fn split_port(rest: &str) -> Result<(&str, Option<&str>), Fault> {
    if rest.contains('@') {
        return Err(Fault::syntax(
            "there are no user names or passwords in an address",
        ));
    }
    if let Some(extra) = rest.find(['/', '?', '#']) {
        return Err(Fault::syntax(format!(
            "nothing follows the port, and here is {:?}",
            &rest[extra..]
        )));
    }
    if let Some(bracketed) = rest.strip_prefix('[') {
        let Some((host, after)) = bracketed.split_once(']') else {
            return Err(Fault::syntax("the bracket is not closed"));
        };
        if !is_ipv6(host) {
            return Err(Fault::syntax(format!("{host:?} is no IPv6 address")));
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(Fault::syntax("only :PORT follows the bracket")),
        };
    }
    match rest.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(Fault::syntax(
            "an IPv6 address stands in brackets: [::1]:9000",
        )),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((rest, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, Fault> {
    if text.is_empty() {
        return Err(Fault::syntax("the port is missing after the colon"));
    }
    // Not by `parse` alone, which takes "+80".
    if !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Fault::syntax(format!("the port {text:?} is no number")));
    }
    text.parse()
        .map_err(|_| Fault::syntax(format!("the port {text} is above 65535")))
}

fn check_host(host: &str) -> Result<(), Fault> {
    if host.is_empty() {
        return Err(Fault::syntax("the host is missing"));
    }
    if host.contains(':') {
        return if is_ipv6(host) {
            Ok(())
        } else {
            Err(Fault::syntax(format!("{host:?} is no IPv6 address")))
        };
    }
    if host.contains(char::is_whitespace) {
        return Err(Fault::syntax("a host has no spaces"));
    }
    if host.contains('\0') {
        return Err(Fault::syntax("a host has no NUL"));
    }
    if let Some(odd) = host
        .chars()
        .find(|letter| !letter.is_ascii_alphanumeric() && !"-_.".contains(*letter))
    {
        return Err(Fault::syntax(format!("a host name has no {odd:?}")));
    }
    if host.len() > HOST_NAME_LIMIT {
        return Err(Fault::syntax(format!(
            "the host has {} bytes, the limit is {HOST_NAME_LIMIT}",
            host.len()
        )));
    }
    // The resolver would read "10.1" as 10.0.0.1 and look "10.0.0.256" up in the DNS.
    let only_digits = host
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if only_digits && host.parse::<Ipv4Addr>().is_err() {
        return Err(Fault::syntax(format!("{host:?} is no IPv4 address")));
    }
    Ok(())
}

/// An IPv6 literal, with or without a scope.
fn is_ipv6(text: &str) -> bool {
    let (address, scope) = match text.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (text, None),
    };
    address.parse::<Ipv6Addr>().is_ok() && scope.is_none_or(is_scope)
}

/// An interface's name or number: what the kernel takes as one, without what we use as a mark.
fn is_scope(scope: &str) -> bool {
    (1..=INTERFACE_NAME_LIMIT).contains(&scope.len())
        && scope
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"/[]%?#@:".contains(&byte))
}

fn uds_name(rest: &str) -> Result<UdsName, Fault> {
    if let Some(name) = rest.strip_prefix('@') {
        return unescape(name).map(UdsName::Abstract);
    }
    if rest.is_empty() {
        return Err(Fault::syntax(
            "the name is missing: uds:///PATH or uds://@NAME",
        ));
    }
    let path = unescape(rest)?;
    Ok(UdsName::Path(PathBuf::from(OsStr::from_bytes(&path))))
}

fn check_path(path: &Path) -> Result<(), Fault> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() {
        return Err(Fault::syntax(format!(
            "the path is absolute, with three slashes: uds:///{}",
            path.display()
        )));
    }
    if bytes.contains(&0) {
        return Err(Fault::syntax("a path has no NUL"));
    }
    if bytes.ends_with(b"/") {
        return Err(Fault::syntax("the path names a directory"));
    }
    if bytes.len() > UDS_NAME_LIMIT {
        return Err(Fault::syntax(format!(
            "the path has {} bytes, the limit of the system is {UDS_NAME_LIMIT}",
            bytes.len()
        )));
    }
    Ok(())
}

fn check_abstract(name: &[u8]) -> Result<(), Fault> {
    match name.len() {
        // Binding an empty name would ask the kernel to choose one.
        0 => Err(Fault::syntax("the name is missing after the @")),
        1..=UDS_NAME_LIMIT => Ok(()),
        bytes => Err(Fault::syntax(format!(
            "the name has {bytes} bytes, the limit of the system is {UDS_NAME_LIMIT}"
        ))),
    }
}

/// Prints a Unix name so that it stays one word and parses back: kernel names are any bytes.
fn write_escaped(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if needs_escape(letter) {
                let mut buffer = [0; 4];
                write_percent(f, letter.encode_utf8(&mut buffer).as_bytes())?;
            } else {
                write!(f, "{letter}")?;
            }
        }
        write_percent(f, chunk.invalid())?;
    }
    Ok(())
}

fn write_percent(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "%{byte:02X}"))
}

/// `?` and `#` are kept free for parameters.
fn needs_escape(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "%?#".contains(letter)
}

fn unescape(text: &str) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '%' => {
                bytes.push(percent_byte(after).ok_or_else(|| {
                    Fault::syntax("a % is followed by two hexadecimal digits; itself it is %25")
                })?);
                &after[2..]
            }
            '\0' => return Err(Fault::syntax("a path has no NUL")),
            '?' | '#' => {
                return Err(Fault::syntax(format!(
                    "a Unix socket takes no parameters; in a name write %{:02X} for {letter}",
                    u32::from(letter)
                )));
            }
            _ if letter.is_whitespace() => {
                return Err(Fault::syntax(
                    "an address has no spaces; in a name write %20",
                ));
            }
            _ if letter.is_control() => {
                return Err(Fault::syntax("an address has no control characters"));
            }
            _ => {
                bytes.extend_from_slice(&rest.as_bytes()[..letter.len_utf8()]);
                after
            }
        };
    }
    Ok(bytes)
}

fn percent_byte(after: &str) -> Option<u8> {
    let digits = after.get(..2)?;
    // `from_str_radix` takes a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(digits, 16).ok())?
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
        .filter(|name| is_scope(name))
        .unwrap_or_else(|| index.to_string())
}

/// Most bytes of a host name (RFC 1035, section 2.3.4, less the root's dot).
const HOST_NAME_LIMIT: usize = 253;

/// Most bytes of an interface's name: `IFNAMSIZ` with its zero is 16.
const INTERFACE_NAME_LIMIT: usize = 15;

/// Characters of foreign text that an error repeats: enough for the longest valid address.
const SHOWN_CHARS: usize = 300;

#[cfg(test)]
mod tests;
