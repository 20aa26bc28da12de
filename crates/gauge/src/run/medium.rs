//! What the ends of a cell found out about the medium between them.

use std::sync::{Mutex, PoisonError};

use tautline::{Address, Secured};

use super::Broken;
use super::plug::Plug;
use super::site::Site;
use crate::plan::Transport;
use crate::report::{Medium, TlsRecord};

/// What TLS has agreed on in one run: with the first end it is known, and the others have to agree on
/// the same, or ratios between them would compare ciphers.
#[derive(Debug, Default)]
pub(crate) struct Agreed(Mutex<Option<TlsRecord>>);

impl Agreed {
    fn on(&self, found: TlsRecord, who: &str) -> Result<(), Broken> {
        let mut agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*agreed {
            Some(first) if *first != found => Err(Broken::Setup(format!(
                "{who} agreed on {}, {} and others on {}, {}: nothing to compare",
                found.version, found.cipher_suite, first.version, first.cipher_suite
            ))),
            Some(_) => Ok(()),
            None => {
                *agreed = Some(found);
                Ok(())
            }
        }
    }

    fn record(&self) -> Option<TlsRecord> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Site {
    /// Takes note of what the library's handshake came to, where there was one.
    pub(crate) fn secured(&self, secured: Option<Secured>) -> Result<(), Broken> {
        let Some(secured) = secured else {
            return Ok(());
        };
        let found = TlsRecord {
            version: secured.version.to_string(),
            cipher_suite: secured.cipher_suite,
            ..TlsRecord::default()
        };
        self.agreed.on(found, "the library")
    }

    /// Takes note of what the control's handshake came to, where there was one.
    pub(crate) fn control_secured(&self, found: Option<TlsRecord>) -> Result<(), Broken> {
        found.map_or(Ok(()), |found| self.agreed.on(found, "the control"))
    }

    /// What the row says of it.
    pub(crate) fn medium(&self) -> Medium {
        match (self.transport, self.plug()) {
            (Transport::Serial, Some(plug)) => of_plug(plug, self.wire_bytes()),
            (Transport::Serial, None) => Medium {
                note: Some(TERMINALS.to_owned()),
                ..Medium::default()
            },
            (Transport::Tcp | Transport::Tls | Transport::Udp | Transport::Uds, _) => Medium {
                tls: self.agreed.record(),
                ..Medium::default()
            },
        }
    }
}

fn of_plug(plug: &Plug, wire_bytes: usize) -> Medium {
    let is_pseudo = plug.is_pseudo();
    Medium {
        port: Some(Address::Serial(plug.effective().clone()).to_string()),
        wire_time_ns: plug
            .wire_time(wire_bytes)
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        latency_timer_ms: plug.latency_timer_ms(),
        low_latency: (!is_pseudo).then_some(plug.effective().low_latency),
        tls: None,
        note: is_pseudo.then(|| PSEUDO_PLUG.to_owned()),
    }
}

const TERMINALS: &str = "pseudo-terminals joined by a thread, null-modem, for control and library alike: no \
                         wire, no UART, and the baud has no effect";
const PSEUDO_PLUG: &str =
    "the port is a pseudo-terminal: no wire, no UART, and the baud has no effect";

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(cipher_suite: &str) -> TlsRecord {
        TlsRecord {
            version: "TLS 1.3".to_owned(),
            cipher_suite: cipher_suite.to_owned(),
            ..TlsRecord::default()
        }
    }

    #[test]
    fn ends_that_agree_on_different_ciphers_are_not_compared() {
        let agreed = Agreed::default();
        agreed.on(suite("ONE"), "the control").unwrap();
        agreed.on(suite("ONE"), "the library").unwrap();
        assert_eq!(
            agreed.on(suite("TWO"), "the library"),
            Err(Broken::Setup(
                "the library agreed on TLS 1.3, TWO and others on TLS 1.3, ONE: nothing to compare"
                    .to_owned()
            ))
        );
        assert_eq!(agreed.record(), Some(suite("ONE")));
    }
}
