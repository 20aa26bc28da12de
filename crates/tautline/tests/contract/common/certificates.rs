//! Certificates for tests: an authority, made once per process, and what it signs.

use std::sync::LazyLock;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tautline::{Identity, Pem, Roots, Tls};

/// Somebody who signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// The authority that the tests' links trust.
pub(crate) static AUTHORITY: LazyLock<Authority> =
    LazyLock::new(|| Authority::new("the tests' own"));

/// What every end in the tests shows, unless a test is about just that.
pub(crate) static ISSUED: LazyLock<Issued> =
    LazyLock::new(|| AUTHORITY.issue(&["localhost", "127.0.0.1", "::1"], |_| {}));

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// A certificate for these names, with whatever else a test wants of it.
    pub(crate) fn issue(&self, names: &[&str], change: fn(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::Pem(self.pem.clone().into_bytes())
    }
}

impl Issued {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            chain: Pem::Bytes(self.chain.clone().into_bytes()),
            key: Pem::Bytes(self.key.clone().into_bytes()),
        }
    }
}

/// For both ends.
pub(crate) fn trusting() -> Tls {
    Tls {
        roots: AUTHORITY.roots(),
        identity: Some(ISSUED.identity()),
        ..Tls::default()
    }
}
