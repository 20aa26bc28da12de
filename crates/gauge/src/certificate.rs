//! The certificate of a run: made when it is first needed, kept in memory, gone with the process.
//!
//! Both ends are ours and on one host, so it proves nothing to anybody else; it is there because TLS
//! is measured with the checks that users have.

use std::sync::OnceLock;

use tautline::{Identity, Pem, Roots, Tls};

use crate::secured::fingerprint;

/// A self-signed certificate for [`NAME`], and its key.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    /// As PEM, which is what the library takes.
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    /// As DER, which is what rustls takes.
    pub(crate) certificate_der: Vec<u8>,
    pub(crate) key_der: Vec<u8>,
}

/// The name that it is for, whatever address is connected to.
pub(crate) const NAME: &str = "localhost";

/// What a client of the library has to trust.
///
/// # Errors
///
/// Why no certificate could be made.
pub(crate) fn client() -> Result<Tls, String> {
    let own = own()?;
    Ok(Tls {
        roots: Roots::Pem(own.certificate_pem.clone().into_bytes()),
        server_name: Some(NAME.to_owned()),
        ..Tls::default()
    })
}

/// What a server of the library has to show.
///
/// # Errors
///
/// Why no certificate could be made.
pub(crate) fn server() -> Result<Tls, String> {
    let own = own()?;
    Ok(Tls {
        identity: Some(Identity {
            chain: Pem::Bytes(own.certificate_pem.clone().into_bytes()),
            key: Pem::Bytes(own.key_pem.clone().into_bytes()),
        }),
        ..Tls::default()
    })
}

/// A certificate that vouches for itself, for trials.
#[derive(Debug)]
pub struct SelfSigned {
    /// For [`Tls::identity`].
    pub identity: Identity,
    /// Its SHA-256, by which whoever connects can tell it from another.
    pub fingerprint: String,
}

/// Makes one for these names and addresses, in memory.
///
/// # Errors
///
/// Why it cannot be made.
pub fn self_signed(names: Vec<String>) -> Result<SelfSigned, String> {
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| format!("make a certificate: {error}"))?;
    Ok(SelfSigned {
        identity: Identity {
            chain: Pem::Bytes(made.cert.pem().into_bytes()),
            key: Pem::Bytes(made.signing_key.serialize_pem().into_bytes()),
        },
        fingerprint: fingerprint(made.cert.der()),
    })
}

/// The certificate of this process.
///
/// # Errors
///
/// Why none could be made.
pub(crate) fn own() -> Result<&'static OwnCertificate, String> {
    static OWN: OnceLock<Result<OwnCertificate, String>> = OnceLock::new();
    OWN.get_or_init(make).as_ref().map_err(Clone::clone)
}

fn make() -> Result<OwnCertificate, String> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
        .map_err(|error| format!("make a certificate for this run: {error}"))?;
    Ok(OwnCertificate {
        certificate_pem: made.cert.pem(),
        key_pem: made.signing_key.serialize_pem(),
        certificate_der: made.cert.der().to_vec(),
        key_der: made.signing_key.serialize_der(),
    })
}
