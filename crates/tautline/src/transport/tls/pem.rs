//! Certificates and keys out of PEM, with errors that name the option and the file.

use std::borrow::Cow;
use std::fs;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::{Error, plain};
use crate::options::{Pem, Roots};

/// The roots that are trusted.
pub(super) fn roots(roots: &Roots) -> Result<RootCertStore, Error> {
    const OPTION: &str = "tls.roots";
    let mut store = RootCertStore::empty();
    let source = match roots {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            // A system's collection holds some that nobody can parse: the others count.
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let first = found.errors.first();
                let why = first.map_or_else(String::new, |error| format!(" ({error})"));
                return Err(Error::option(
                    OPTION,
                    format!(
                        "the system has no root certificates{why}; install its ca-certificates, or \
                         give a file of your own"
                    ),
                ));
            }
            return Ok(store);
        }
        Roots::PemFile(path) => Pem::File(path.clone()),
        Roots::Pem(text) => Pem::Bytes(text.clone()),
    };
    for certificate in certificates(OPTION, &source)? {
        store.add(certificate).map_err(|error| {
            let place = place(&source);
            Error::option(OPTION, format!("{place} holds what is no root: {error}"))
        })?;
    }
    Ok(store)
}

/// All certificates in it, at least one.
pub(super) fn certificates(
    option: &'static str,
    source: &Pem,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(option, source)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error::option(
            option,
            format!("{} holds no certificate (PEM)", place(source)),
        )),
        Err(error) => Err(bad_pem(option, source, &error)),
    }
}

/// The first key in it.
pub(super) fn key(option: &'static str, source: &Pem) -> Result<PrivateKeyDer<'static>, Error> {
    let text = read(option, source)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound if is_encrypted(&text) => Error::option(
            option,
            format!(
                "the key in {} is encrypted; decrypt it first (openssl pkey)",
                place(source)
            ),
        ),
        pem::Error::NoItemsFound => Error::option(
            option,
            format!("{} holds no private key (PEM)", place(source)),
        ),
        error => bad_pem(option, source, &error),
    })
}

/// Where it stands, as errors name it.
pub(super) fn place(source: &Pem) -> Cow<'static, str> {
    match source {
        Pem::File(path) => path.display().to_string().into(),
        Pem::Bytes(_) => "the PEM text".into(),
    }
}

fn read<'a>(option: &'static str, source: &'a Pem) -> Result<Cow<'a, [u8]>, Error> {
    match source {
        Pem::Bytes(text) => Ok(Cow::Borrowed(text)),
        Pem::File(path) => match fs::read(path) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(cause) => {
                let why = format!("{}: {}", path.display(), plain(&cause));
                Err(Error::option(option, why))
            }
        },
    }
}

fn is_encrypted(text: &[u8]) -> bool {
    const MARK: &[u8] = b"ENCRYPTED PRIVATE KEY";
    text.windows(MARK.len()).any(|window| window == MARK)
}

fn bad_pem(option: &'static str, source: &Pem, error: &pem::Error) -> Error {
    Error::option(option, format!("{} is bad PEM: {error}", place(source)))
}
