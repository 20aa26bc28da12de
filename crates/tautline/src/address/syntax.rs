//! The grammar of addresses, and the rules that each part has to meet.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::escape::unescape;
use super::{Address, DEFAULT_PORT, Fault, SerialLine, UDS_NAME_LIMIT, UdsName};

pub(super) fn parse(text: &str) -> Result<Address, Fault> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Fault::syntax(
            "the scheme is missing: tcp://HOST:PORT, udp://HOST:PORT, uds:///PATH or uds://@NAME",
        ));
    };
    match scheme {
        "tcp" => host_port(scheme, rest).map(|(host, port)| Address::Tcp { host, port }),
        "udp" => host_port(scheme, rest).map(|(host, port)| Address::Udp { host, port }),
        "uds" => uds_name(rest).map(Address::Uds),
        "tls" => host_port(scheme, rest).map(|(host, port)| Address::Tls { host, port }),
        "serial" => SerialLine::parse(rest).map(Address::Serial),
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
        (host, None) => {
            // A bad host first: what is repeated here is then fit to be shown.
            check_host(host)?;
            Err(Fault::syntax(format!(
                "the port is missing: {scheme}://{rest}:PORT"
            )))
        }
    }
}

/// `HOST[:PORT]` as typed: TCP, and [`DEFAULT_PORT`] where none is named.
pub(super) fn host_or_host_port(text: &str) -> Result<Address, Fault> {
    if text.starts_with(['/', '@']) {
        return Err(Fault::syntax(
            "write uds:// before the name of a Unix socket",
        ));
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

pub(super) fn check_host(host: &str) -> Result<(), Fault> {
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
pub(super) fn is_scope(scope: &str) -> bool {
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

pub(super) fn check_path(path: &Path) -> Result<(), Fault> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() {
        return Err(Fault::syntax(
            "the path is absolute, with three slashes: uds:///PATH",
        ));
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

pub(super) fn check_abstract(name: &[u8]) -> Result<(), Fault> {
    match name.len() {
        // Binding an empty name would ask the kernel to choose one.
        0 => Err(Fault::syntax("the name is missing after the @")),
        1..=UDS_NAME_LIMIT => Ok(()),
        bytes => Err(Fault::syntax(format!(
            "the name has {bytes} bytes, the limit of the system is {UDS_NAME_LIMIT}"
        ))),
    }
}

/// Most bytes of a host name (RFC 1035, section 2.3.4, less the root's dot).
const HOST_NAME_LIMIT: usize = 253;

/// Most bytes of an interface's name: `IFNAMSIZ` with its zero is 16.
const INTERFACE_NAME_LIMIT: usize = 15;
