//! The certificate of a run, in a build without TLS: there is none.

use std::convert::Infallible;

use tautline::{Identity, Tls};

pub(crate) fn client() -> Result<Tls, String> {
    Err(UNBUILT.to_owned())
}

pub(crate) fn server() -> Result<Tls, String> {
    Err(UNBUILT.to_owned())
}

/// There is none in a build without the feature `tls`.
#[derive(Debug)]
pub struct SelfSigned {
    /// For [`Tls::identity`].
    pub identity: Identity,
    /// Its SHA-256.
    pub fingerprint: String,
    #[expect(dead_code, reason = "so that there is none")]
    none: Infallible,
}

/// Says that it cannot.
///
/// # Errors
///
/// Always.
pub fn self_signed(_: Vec<String>) -> Result<SelfSigned, String> {
    Err(UNBUILT.to_owned())
}

const UNBUILT: &str = "this program was built without the feature `tls`";
