//! The certificate of a run, in a build without TLS: there is none.

use tautline::Tls;

pub(crate) fn client() -> Result<Tls, String> {
    Err(UNBUILT.to_owned())
}

pub(crate) fn server() -> Result<Tls, String> {
    Err(UNBUILT.to_owned())
}

const UNBUILT: &str = "this program was built without the feature `tls`";
