//! Options of TLS: of clients, which two commands share, and of the server.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tautline::{Address, ClientCertificates, Identity, Pem, Roots, Tls, Verification};
use tautline_gauge::serve::self_signed;

use crate::exit::{Exit, Failure, say};
use crate::options::Usage;
use crate::values;

/// Whom a client trusts, and who it is.
#[derive(Debug, Args)]
pub(crate) struct ClientTls {
    /// Trust the certificates in this file (PEM), and no others [default: the system's roots]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS)]
    tls_roots: Option<PathBuf>,

    /// The name that the server's certificate has to be for [default: the host of the address]
    #[arg(long, value_name = "NAME", value_parser = values::text, help_heading = TLS)]
    tls_server_name: Option<String>,

    /// Our certificate (PEM), where the server asks for one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", help_heading = TLS)]
    tls_cert: Option<PathBuf>,

    /// Its private key (PEM, not encrypted)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert", help_heading = TLS)]
    tls_key: Option<PathBuf>,

    /// Take any certificate, unchecked: for a trial. Whoever stands between can read and change everything
    #[arg(long, conflicts_with = "tls_roots", help_heading = TLS)]
    insecure: bool,
}

impl ClientTls {
    /// What the library is told, if there is somebody to whom it applies.
    pub(crate) fn options(&self, addresses: &[Address]) -> Result<Tls, Usage> {
        let given = [
            ("--tls-roots", self.tls_roots.is_some()),
            ("--tls-server-name", self.tls_server_name.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
            ("--insecure", self.insecure),
        ];
        refuse_without_tls(&given, addresses)?;
        let default = Tls::default();
        Ok(Tls {
            roots: self.tls_roots.clone().map_or(default.roots, Roots::PemFile),
            identity: identity(self.tls_cert.as_ref(), self.tls_key.as_ref()),
            server_name: self.tls_server_name.clone(),
            verification: match self.insecure {
                true => Verification::AcceptAnyCertificate,
                false => Verification::Full,
            },
            ..default
        })
    }

    /// Says on every run that nobody is asked who they are.
    pub(crate) fn warn(&self) {
        if self.insecure {
            say(format_args!(
                "tautline: WARNING: --insecure: no certificate is checked. Whoever stands between can read \
                 and change everything, and pass for the server. For a trial, and for nothing else."
            ));
        }
    }
}

/// Who the server is, and whose clients it lets in.
#[derive(Debug, Args)]
pub(crate) struct ServerTls {
    /// The certificate to show over TLS (PEM), then those that lead from it to a root
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", help_heading = TLS)]
    tls_cert: Option<PathBuf>,

    /// Its private key (PEM, not encrypted)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert", help_heading = TLS)]
    tls_key: Option<PathBuf>,

    /// Make a certificate in memory instead, for a trial, and print its SHA-256; clients need --insecure
    #[arg(long, conflicts_with = "tls_cert", help_heading = TLS)]
    tls_self_signed: bool,

    /// Over TLS serve only clients whose certificate leads to one of these (PEM) [default: everybody]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS)]
    tls_client_roots: Option<PathBuf>,
}

/// What the server does about TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) tls: Tls,
    pub(crate) client_certificates: ClientCertificates,
    /// Of the certificate that was made, if one was.
    pub(crate) fingerprint: Option<String>,
}

impl ServerTls {
    /// Refuses what cannot be followed, by the option's name.
    pub(crate) fn check(&self, addresses: &[Address]) -> Result<(), Usage> {
        let given = [
            ("--tls-cert", self.tls_cert.is_some()),
            ("--tls-self-signed", self.tls_self_signed),
            ("--tls-client-roots", self.tls_client_roots.is_some()),
        ];
        refuse_without_tls(&given, addresses)?;
        match addresses.iter().find(|address| is_tls(address)) {
            Some(address) if self.tls_cert.is_none() && !self.tls_self_signed => {
                Err(Usage::new(format!(
                    "--tls-cert: {address} needs a certificate: --tls-cert FILE and --tls-key FILE, or \
                     --tls-self-signed for a trial"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the library is told; a certificate is made here where one is wanted.
    pub(crate) fn prepare(&self, addresses: &[Address]) -> Result<Secured, Failure> {
        let mut identity = identity(self.tls_cert.as_ref(), self.tls_key.as_ref());
        let mut fingerprint = None;
        if self.tls_self_signed {
            let made = self_signed(names(addresses)).map_err(|why| {
                Failure::new(Exit::Unavailable, format!("--tls-self-signed: {why}"))
            })?;
            identity = Some(made.identity);
            fingerprint = Some(made.fingerprint);
        }
        let default = Tls::default();
        let roots = self.tls_client_roots.clone();
        Ok(Secured {
            client_certificates: match roots {
                Some(_) => ClientCertificates::Required,
                None => ClientCertificates::None,
            },
            tls: Tls {
                roots: roots.map_or(default.roots, Roots::PemFile),
                identity,
                ..default
            },
            fingerprint,
        })
    }
}

fn identity(chain: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<Identity> {
    let (chain, key) = chain.zip(key)?;
    Some(Identity {
        chain: Pem::File(chain.clone()),
        key: Pem::File(key.clone()),
    })
}

fn refuse_without_tls(given: &[(&str, bool)], addresses: &[Address]) -> Result<(), Usage> {
    let given = given.iter().find(|(_, given)| *given);
    match given {
        Some((option, _)) if !addresses.iter().any(is_tls) => Err(Usage::new(format!(
            "{option}: no address is of TLS; such a one begins with tls://"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn is_tls(address: &Address) -> bool {
    matches!(address, Address::Tls { .. })
}

/// What a certificate of our own making is for: the hosts that are listened on, and this one.
fn names(addresses: &[Address]) -> Vec<String> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    for address in addresses {
        if let Address::Tls { host, .. } = address
            && !["0.0.0.0", "::"].contains(&&**host)
            // A scope is this machine's own business.
            && let Some(host) = host.split('%').next()
            && !names.iter().any(|name| name == host)
        {
            names.push(host.to_owned());
        }
    }
    names
}

const TLS: &str = "TLS (tls:// addresses; rustls in this process)";

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<Address> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_certificate_is_for_where_it_is_listened_and_for_this_host() {
        let found = names(&addresses(&[
            "tls://10.0.0.5:1",
            "tls://0.0.0.0:1",
            "tcp://other:1",
            "tls://localhost:2",
        ]));
        assert_eq!(found, ["localhost", "127.0.0.1", "::1", "10.0.0.5"]);
    }

    #[test]
    fn options_of_tls_without_an_address_of_tls_are_refused_by_name() {
        let client = ClientTls {
            tls_roots: Some("ca.pem".into()),
            tls_server_name: None,
            tls_cert: None,
            tls_key: None,
            insecure: false,
        };
        assert_eq!(
            client.options(&addresses(&["tcp://h:1"])).unwrap_err(),
            Usage::new("--tls-roots: no address is of TLS; such a one begins with tls://")
        );
        let tls = client
            .options(&addresses(&["tcp://h:1", "tls://h:1"]))
            .unwrap();
        assert_eq!(tls.roots, Roots::PemFile("ca.pem".into()));
        assert_eq!(tls.verification, Verification::Full);
    }

    #[test]
    fn a_server_of_tls_needs_a_certificate() {
        let server = ServerTls {
            tls_cert: None,
            tls_key: None,
            tls_self_signed: false,
            tls_client_roots: None,
        };
        assert!(server.check(&addresses(&["tcp://h:1"])).is_ok());
        assert_eq!(
            server.check(&addresses(&["tls://h:1"])).unwrap_err(),
            Usage::new(
                "--tls-cert: tls://h:1 needs a certificate: --tls-cert FILE and --tls-key FILE, or \
                 --tls-self-signed for a trial"
            )
        );
    }
}
