//! TLS as the instrument tells it: what was agreed on, and errors in terms of the command line.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tautline::{Secured, Verification};

use crate::environment::{Doubt, Severity};
use crate::report::{Medium, TlsRecord};

impl TlsRecord {
    /// What a client's handshake came to.
    #[must_use]
    pub fn of_client(
        secured: &Secured,
        verification: Verification,
        handshake_time: Option<Duration>,
    ) -> Self {
        Self {
            version: secured.version.to_string(),
            cipher_suite: secured.cipher_suite.clone(),
            handshake_ns: handshake_time
                .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            verified: Some(match verification {
                Verification::Full => true,
                Verification::AcceptAnyCertificate => false,
            }),
            certificate_sha256: secured
                .peer_certificates
                .first()
                .map(|der| fingerprint(der)),
        }
    }
}

/// The SHA-256 of a certificate's DER, as `openssl x509 -fingerprint -sha256` prints it.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let pairs: Vec<String> = Sha256::digest(der)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    pairs.join(":")
}

/// What is to be doubted of a connection whose other end was not asked to prove who it is.
pub(crate) fn doubt(address: &str, medium: &Medium) -> Option<Doubt> {
    let tls = medium.tls.as_ref()?;
    (tls.verified == Some(false)).then(|| Doubt {
        code: "tls-unverified".into(),
        severity: Severity::Warning,
        message: format!(
            "the certificate of {address} was not checked (--insecure): whoever stands between can \
             read and change everything, and it may be another server"
        ),
        advice: "tautline ping --tls-roots FILE".to_owned(),
        measured: None,
        unit: None,
    })
}

/// The library's words, where they name fields of its options, with the options of the command line.
#[must_use]
pub fn in_options(words: &str) -> String {
    let mut words = words.to_owned();
    for (field, option) in OPTIONS {
        words = words.replace(field, option);
    }
    if words.contains("certificate") && words.contains(", not for ") {
        words.push_str("; --tls-server-name NAME says which name it has to be for");
    }
    words
}

/// Longer ones first, where one is in another.
const OPTIONS: [(&str, &str); 8] = [
    (
        "that LinkOptions::tls.roots trusts",
        "that are trusted: use --tls-roots FILE, or --insecure for a trial",
    ),
    (
        "set LinkOptions::tls.identity",
        "use --tls-cert FILE and --tls-key FILE",
    ),
    ("LinkOptions::tls.identity", "--tls-cert and --tls-key"),
    (
        "client_certificates requires one",
        "--tls-client-roots requires one",
    ),
    ("tls.roots", "--tls-roots"),
    ("tls.identity.chain", "--tls-cert"),
    ("tls.identity.key", "--tls-key"),
    ("tls.server_name", "--tls-server-name"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_library_become_options_of_the_program() {
        let said = in_options(
            "the peer's certificate is not trusted: it leads to none of the roots that \
             LinkOptions::tls.roots trusts",
        );
        assert_eq!(
            said,
            "the peer's certificate is not trusted: it leads to none of the roots that are trusted: \
             use --tls-roots FILE, or --insecure for a trial"
        );
        assert_eq!(
            in_options("it asks for a certificate of ours; set LinkOptions::tls.identity"),
            "it asks for a certificate of ours; use --tls-cert FILE and --tls-key FILE"
        );
        assert!(
            in_options("the peer's certificate is not trusted: it is for a, not for b")
                .ends_with("--tls-server-name NAME says which name it has to be for")
        );
        assert_eq!(in_options("connection refused"), "connection refused");
    }

    #[test]
    fn a_fingerprint_is_that_of_openssl() {
        assert!(fingerprint(b"abc").starts_with("BA:78:16:BF:8F:01:CF:EA:41:41:40:DE"));
    }
}
