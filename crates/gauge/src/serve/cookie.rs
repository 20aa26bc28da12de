//! Cookies: a datagram that carries one was sent by somebody who received it at that source.
//!
//! Nothing is kept for them. A cookie is a number, so that two clients behind one source are two, and
//! a keyed hash of number and source.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;

/// Issues cookies and knows its own.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    key: RandomState,
    issued: u16,
}

impl Cookies {
    /// A cookie that is good for this source alone.
    pub(super) fn issue(&mut self, source: SocketAddr) -> u64 {
        self.issued = self.issued.wrapping_add(1);
        self.of(source, self.issued)
    }

    /// Whether this cookie was issued to this source.
    pub(super) fn is_good(&self, source: SocketAddr, cookie: u64) -> bool {
        self.of(source, (cookie >> HASH_BITS) as u16) == cookie
    }

    fn of(&self, source: SocketAddr, number: u16) -> u64 {
        let hash = self.key.hash_one((source, number));
        u64::from(number) << HASH_BITS | hash >> (64 - HASH_BITS)
    }
}

/// Nobody guesses 48 bits: a million datagrams a second take nine years.
const HASH_BITS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_source_alone() {
        let mut cookies = Cookies::default();
        let source: SocketAddr = "10.0.0.1:4000".parse().unwrap();
        let cookie = cookies.issue(source);
        assert!(cookies.is_good(source, cookie));
        for other in ["10.0.0.1:4001", "10.0.0.2:4000", "[::1]:4000"] {
            assert!(!cookies.is_good(other.parse().unwrap(), cookie), "{other}");
        }
        for bit in 0..64 {
            assert!(!cookies.is_good(source, cookie ^ 1 << bit), "bit {bit}");
        }
        assert!(!Cookies::default().is_good(source, cookie));
    }

    #[test]
    fn two_clients_of_one_source_have_two_cookies() {
        let mut cookies = Cookies::default();
        let source = "10.0.0.1:4000".parse().unwrap();
        let (first, second) = (cookies.issue(source), cookies.issue(source));
        assert_ne!(first, second);
        assert!(cookies.is_good(source, first) && cookies.is_good(source, second));
    }
}
