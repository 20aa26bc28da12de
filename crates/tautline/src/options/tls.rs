//! Options of TLS: whom we trust, who we are, and how long a handshake may take.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Address;
use crate::error::Error;

/// TLS on a `tls://` address: whom this side trusts, and what it shows of itself.
///
/// Everything named here is read and checked when the link or server is made: a file that is missing
/// or holds no certificate is an error then, by the option's name.
///
/// ```
/// use tautline::{LinkOptions, Roots, Tls};
///
/// let options = LinkOptions {
///     tls: Tls { roots: Roots::PemFile("/etc/plant/ca.pem".into()), ..Tls::default() },
///     ..LinkOptions::default()
/// };
/// # assert!(options.tls.identity.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Whose certificates are trusted. A client checks its server by them; a server its clients, where
    /// [`client_certificates`](crate::ServerOptions::client_certificates) asks for some, and else nobody:
    /// so one `Tls` may serve both ends.
    ///
    /// Default [`Roots::System`]: right for servers of the internet. Inside a plant take the file of
    /// your own authority.
    pub roots: Roots,
    /// The certificate that this side shows, with its key. A server needs one; a client where its server
    /// asks for it.
    ///
    /// Default `None`.
    pub identity: Option<Identity>,
    /// The name that the server's certificate has to be for; it is also told to the server (SNI), which
    /// may choose its certificate by it.
    ///
    /// Default `None`: the host of the address. For an address that is not the server's name, such as
    /// that of a tunnel. Clients only.
    pub server_name: Option<String>,
    /// How long a handshake may take. A client's comes on top of `connect_timeout`; on a server a newcomer
    /// that is silent or slow is cut off after it.
    ///
    /// Default 10 s.
    pub handshake_timeout: Duration,
    /// Whether the server has to prove who it is. Clients only.
    ///
    /// Default [`Verification::Full`].
    pub verification: Verification,
}

/// Whose certificates are trusted: the roots that a chain has to lead to.
#[derive(Clone, PartialEq, Eq)]
pub enum Roots {
    /// Those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these are set.
    ///
    /// On a server that asks for client certificates this means: everybody whom any public authority
    /// has certified.
    System,
    /// The certificates in this file, and no others.
    PemFile(PathBuf),
    /// The certificates in this PEM text, and no others.
    Pem(Vec<u8>),
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those that lead from it to a root (which may be left out).
    pub chain: Pem,
    /// Its private key: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub key: Pem,
}

/// PEM text, or the file it stands in. Its `Debug` never prints what is in it.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In this file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Whether a server has to prove who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// Its certificate has to be valid now, for its name, and lead to a root that is trusted.
    #[default]
    Full,
    /// Anything is taken for a certificate. **Whoever stands between can read and change everything**: for
    /// trials on a bench, never for more.
    AcceptAnyCertificate,
}

/// Whether a server asks its clients for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// It does not.
    #[default]
    None,
    /// A client may show one, and then it has to be good.
    Optional,
    /// Who shows none is not let in.
    Required,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            roots: Roots::System,
            identity: None,
            server_name: None,
            handshake_timeout: Duration::from_secs(10),
            verification: Verification::Full,
        }
    }
}

impl Tls {
    /// Refuses, by the option's name, what makes no sense for this address, on either side.
    pub(super) fn validate(&self, address: &Address) -> Result<(), Error> {
        let unused = Self::default();
        if !matches!(address, Address::Tls { .. }) {
            let set = [
                ("tls.roots", self.roots != unused.roots),
                ("tls.identity", self.identity.is_some()),
                ("tls.server_name", self.server_name.is_some()),
                (
                    "tls.handshake_timeout",
                    self.handshake_timeout != unused.handshake_timeout,
                ),
                ("tls.verification", self.verification != unused.verification),
            ];
            return match set.into_iter().find(|(_, set)| *set) {
                Some((name, _)) => Err(Error::option(name, not_tls(address))),
                None => Ok(()),
            };
        }
        if self.handshake_timeout.is_zero() {
            let why = "0 would never finish a handshake";
            return Err(Error::option("tls.handshake_timeout", why));
        }
        Ok(())
    }

    /// Refuses what only a client of this address could mean, or what its server lacks.
    pub(super) fn validate_server(
        &self,
        asks: ClientCertificates,
        address: &Address,
    ) -> Result<(), Error> {
        if !matches!(address, Address::Tls { .. }) {
            return match asks {
                ClientCertificates::None => Ok(()),
                ClientCertificates::Optional | ClientCertificates::Required => {
                    Err(Error::option("client_certificates", not_tls(address)))
                }
            };
        }
        if self.identity.is_none() {
            let why = "a TLS server has to show a certificate; give its chain and its key";
            return Err(Error::option("tls.identity", why));
        }
        if self.server_name.is_some() {
            let why = "a server checks nobody's name; leave it out";
            return Err(Error::option("tls.server_name", why));
        }
        if self.verification != Verification::Full {
            let why =
                "only clients use it; a server that takes anybody has client_certificates None";
            return Err(Error::option("tls.verification", why));
        }
        Ok(())
    }

    /// Without what was read from it already: keys are not kept, and each peer's options are a copy.
    pub(crate) fn forget_secrets(&mut self) {
        self.roots = Roots::System;
        self.identity = None;
    }
}

fn not_tls(address: &Address) -> String {
    format!("{address} is not encrypted; for TLS the address begins with tls://, else leave it out")
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::PemFile(path) => f.debug_tuple("PemFile").field(path).finish(),
            Self::Pem(text) => write!(f, "Pem({} bytes)", text.len()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Bytes(text) => write!(f, "Bytes({} bytes)", text.len()),
        }
    }
}
