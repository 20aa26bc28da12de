//! Who may use a responder: networks as `10.0.0.0/8` or `fe80::/10`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address, and how many of its first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Whether `ip` belongs to it. An IPv4 address mapped into IPv6 is that IPv4 address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let bits = u32::from(network) ^ u32::from(ip);
                bits.checked_shr(32 - u32::from(self.prefix_bits)) == Some(0)
                    || self.prefix_bits == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let bits = u128::from(network) ^ u128::from(ip);
                bits.checked_shr(128 - u32::from(self.prefix_bits)) == Some(0)
                    || self.prefix_bits == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no network such as 10.0.0.0/8, 192.168.1.7 or fe80::/10")]
pub struct NetworkError {
    text: String,
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        parse(text).ok_or_else(|| NetworkError {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Network> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address = address.parse().ok()?;
    let most = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(ip) if is_mapped(ip) => return None,
        IpAddr::V6(_) => 128,
    };
    let prefix_bits = match prefix {
        None => most,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
    };
    (prefix_bits <= most).then_some(Network {
        address,
        prefix_bits,
    })
}

/// `::ffff:10.0.0.0`: peers are never seen by such an address, so it would allow nobody.
fn is_mapped(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, ip: &str) -> bool {
        let network: Network = network.parse().unwrap();
        network.contains(ip.parse().unwrap())
    }

    #[test]
    fn a_network_contains_what_shares_its_first_bits() {
        assert!(contains("10.0.0.0/8", "10.255.1.2"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("192.168.1.7", "192.168.1.7"));
        assert!(!contains("192.168.1.7", "192.168.1.6"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(contains("fe80::/10", "febf::1"));
        assert!(!contains("fe80::/10", "fec0::1"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(contains("::1", "::1"));
    }

    #[test]
    fn ipv4_and_ipv6_are_two_worlds_but_a_mapped_address_is_ipv4() {
        assert!(!contains("::/0", "10.0.0.1"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0/8",
            "::/129",
            "host",
            "10.0.0.0/8/8",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/300",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert_eq!(
            "x".parse::<Network>().unwrap_err().to_string(),
            "\"x\" is no network such as 10.0.0.0/8, 192.168.1.7 or fe80::/10"
        );
    }
}
