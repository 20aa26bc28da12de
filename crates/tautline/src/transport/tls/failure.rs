//! What went wrong with TLS, in words that help whoever reads them at night.

use std::fmt;
use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

/// Which side of a handshake this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Why a session is over. It travels inside an [`io::Error`], as everything does that a socket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    why: String,
    kind: io::ErrorKind,
}

/// Whether this says that one side does not trust the other, or cannot: another attempt ends the same.
pub(crate) fn is_untrusted(error: &io::Error) -> bool {
    failure_in(error).is_some_and(|failure| failure.kind == UNTRUSTED)
}

/// Whether this is TLS's own word, which says more than what the kernel says of the same end.
pub(crate) fn is_of_tls(error: &io::Error) -> bool {
    failure_in(error).is_some()
}

fn failure_in(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}

impl Failure {
    /// What rustls says, as whom, before or after the handshake was done.
    pub(super) fn of(error: &Error, side: Side, secured: bool, first: &FirstBytes) -> Self {
        let untrusted = |why| Self {
            why,
            kind: UNTRUSTED,
        };
        let broken = |why| Self {
            why,
            kind: io::ErrorKind::InvalidData,
        };
        match error {
            Error::InvalidCertificate(fault) => untrusted(format!(
                "the peer's certificate is not trusted: {}",
                certificate_fault(fault, side)
            )),
            Error::NoCertificatesPresented => untrusted(
                "the peer shows no certificate, and client_certificates requires one".to_owned(),
            ),
            Error::AlertReceived(alert) => match alert_words(*alert) {
                Some(why) => untrusted(format!("the peer refuses: {why}")),
                None => broken(format!("the peer gives up: {}", alert_name(*alert))),
            },
            Error::PeerIncompatible(how) => untrusted(format!(
                "the two ends have no version or cipher of TLS in common ({how:?})"
            )),
            _ if !secured && !first.is_tls() => broken(format!(
                "the peer does not speak TLS: its first bytes are {first}"
            )),
            other => broken(format!("TLS failed: {other}")),
        }
    }

    /// The stream below ended, and nobody said goodbye.
    pub(super) fn truncated() -> Self {
        let why = "the peer's stream ended without TLS's goodbye (close_notify): what it sent may be \
                   cut off";
        Self {
            why: why.to_owned(),
            kind: io::ErrorKind::ConnectionAborted,
        }
    }

    /// The peer went away in the middle of the handshake.
    pub(super) fn ended_in_handshake() -> Self {
        let why = "the peer ended the connection in the TLS handshake; it may not speak TLS";
        Self {
            why: why.to_owned(),
            kind: io::ErrorKind::ConnectionAborted,
        }
    }

    pub(super) fn to_io(&self) -> io::Error {
        io::Error::new(self.kind, self.clone())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}

/// What is wrong with a peer's certificate.
fn certificate_fault(fault: &CertificateError, side: Side) -> String {
    match fault {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("it expired on {}", Utc(*not_after))
        }
        CertificateError::Expired => "it has expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "it is valid only from {}; is the clock of this machine right?",
            Utc(*not_before)
        ),
        CertificateError::NotValidYet => {
            "it is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            // webpki tells names as `DnsName("a")` and addresses as `IpAddress(1.2.3.4)`.
            let names: Vec<_> = presented.iter().map(|name| bare_name(name)).collect();
            if names.is_empty() {
                return format!("it is for no name at all, and so not for {expected}");
            }
            format!("it is for {}, not for {expected}", names.join(", "))
        }
        CertificateError::NotValidForName => "it is for another name".to_owned(),
        CertificateError::UnknownIssuer => {
            "it leads to none of the roots that LinkOptions::tls.roots trusts".to_owned()
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        CertificateError::BadSignature => "its signature is wrong".to_owned(),
        CertificateError::BadEncoding => "it is no X.509 certificate".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            let purpose = match side {
                Side::Client => "servers",
                Side::Server => "clients",
            };
            format!("it is not made for {purpose} (extendedKeyUsage)")
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own (CA:TRUE), which may not be used as a server's or a client's"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// `DnsName("a.b")` without what is around it.
fn bare_name(presented: &str) -> &str {
    let inner = presented
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"')
}

/// What an alert means that says the peer does not want us; `None` for all others.
fn alert_words(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired => {
            "it asks for a certificate of ours; set LinkOptions::tls.identity"
        }
        AlertDescription::HandshakeFailure => {
            "no version or cipher of TLS in common, or it asks for a certificate of ours \
             (LinkOptions::tls.identity)"
        }
        AlertDescription::BadCertificate => "our certificate is bad, or for another name",
        AlertDescription::UnsupportedCertificate => "our certificate is of a kind it does not take",
        AlertDescription::CertificateRevoked => "our certificate was revoked",
        AlertDescription::CertificateExpired => "our certificate has expired or is not valid yet",
        AlertDescription::CertificateUnknown => "our certificate is not acceptable to it",
        AlertDescription::UnknownCA => "none of the roots it trusts stands behind our certificate",
        // Its root has the name of the one that signed ours, and another key.
        AlertDescription::DecryptError => {
            "a signature is not what it expects; is our certificate by the authority it trusts?"
        }
        AlertDescription::AccessDenied => "our certificate is good, but not allowed in",
        AlertDescription::ProtocolVersion => "no version of TLS in common",
        AlertDescription::InsufficientSecurity => {
            "no cipher in common that is strong enough for it"
        }
        AlertDescription::UnrecognisedName => "it has no certificate for the name we asked for",
        AlertDescription::NoApplicationProtocol => "it wants an application protocol to be named",
        _ => return None,
    })
}

fn alert_name(alert: AlertDescription) -> String {
    alert
        .as_str()
        .map_or_else(|| format!("{alert:?}"), |name| format!("alert {name}"))
}

/// The first bytes that came from a peer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FirstBytes {
    bytes: [u8; FIRST_BYTES],
    length: usize,
}

impl FirstBytes {
    pub(super) fn note(&mut self, came: &[u8]) {
        let room = &mut self.bytes[self.length..];
        let taken = room.len().min(came.len());
        room[..taken].copy_from_slice(&came[..taken]);
        self.length += taken;
    }

    /// Whether they could be the head of a record: its type, and a version 3.x (RFC 8446, 5.1).
    fn is_tls(&self) -> bool {
        match self.bytes[..self.length] {
            [kind, major, ..] => (20..=24).contains(&kind) && major == 3,
            [kind] => (20..=24).contains(&kind),
            [] => true,
        }
    }
}

impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes[..self.length].escape_ascii())
    }
}

/// A moment as people write it.
struct Utc(UnixTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Days to a date as in "chrono-Compatible Low-Level Date Algorithms" (Hinnant): eras of 400
        // years, years that begin in March.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12 + 1;
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute) = (of_day / 3_600, of_day / 60 % 60);
        write!(f, "{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

/// How an untrusted peer, or we as one, is marked inside an [`io::Error`].
const UNTRUSTED: io::ErrorKind = io::ErrorKind::PermissionDenied;
/// Enough to tell who speaks.
const FIRST_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_told_as_a_date() {
        for (seconds, told) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_767_225_600, "2026-01-01 00:00 UTC"),
            (4_102_444_800, "2100-01-01 00:00 UTC"),
        ] {
            let moment = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            assert_eq!(Utc(moment).to_string(), told);
        }
    }

    #[test]
    fn first_bytes_tell_tls_from_everything_else() {
        for (came, is_tls) in [
            (&b"\x16\x03\x01\x02\x00"[..], true),
            (b"\x15\x03\x03\x00\x02", true),
            (b"\x16", true),
            (b"", true),
            (b"HTTP/1.1 400 Bad Request", false),
            (b"\x16\x02", false),
            (b"\x00\x00\x00\x04ping", false),
        ] {
            let mut first = FirstBytes::default();
            came.iter().for_each(|byte| first.note(&[*byte]));
            assert_eq!(first.is_tls(), is_tls, "{came:?}");
        }
    }

    #[test]
    fn only_trust_is_untrusted() {
        let of = |error| Failure::of(&error, Side::Client, false, &FirstBytes::default()).to_io();
        assert!(is_untrusted(&of(Error::InvalidCertificate(
            CertificateError::UnknownIssuer
        ))));
        assert!(is_untrusted(&of(Error::AlertReceived(
            AlertDescription::CertificateRequired
        ))));
        // What openssl says of a certificate by a root with the right name and another key.
        assert!(is_untrusted(&of(Error::AlertReceived(
            AlertDescription::DecryptError
        ))));
        assert!(!is_untrusted(&of(Error::AlertReceived(
            AlertDescription::InternalError
        ))));
        assert!(!is_untrusted(&of(Error::DecryptError)));
        assert!(!is_untrusted(&Failure::truncated().to_io()));
        assert!(!is_untrusted(&io::ErrorKind::PermissionDenied.into()));
    }
}
