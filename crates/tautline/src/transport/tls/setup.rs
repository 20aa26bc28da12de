//! From options to what a handshake begins with: made once, for all connections of a link or server.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use tautline_session::{Framing, OnLoss, Strategy};

use super::session::{RecordRules, Session};
use super::verify::AcceptAny;
use super::{TlsStream, pem};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::{
    ClientCertificates, Identity, LinkOptions, Roots, ServerOptions, Tls, Verification,
};
use crate::secured::TlsCounters;

/// What a handshake begins with, on either side.
#[derive(Clone)]
pub(crate) struct TlsSetup {
    side: SetupSide,
    rules: RecordRules,
}

#[derive(Clone)]
enum SetupSide {
    Client(Arc<ClientConfig>, ServerName<'static>),
    Server(Arc<ServerConfig>),
}

impl TlsSetup {
    /// For a link to this address; `None` where it is none of TLS.
    pub(crate) fn client(address: &Address, options: &LinkOptions) -> Result<Option<Self>, Error> {
        let Address::Tls { host, .. } = address else {
            return Ok(None);
        };
        let tls = &options.tls;
        let name = server_name(host, tls, address)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("tls", &error))?;
        let builder = match tls.verification {
            Verification::Full => {
                let roots = Arc::new(pem::roots(&tls.roots)?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| unusable("tls.roots", &error))?;
                builder.with_webpki_verifier(verifier)
            }
            Verification::AcceptAnyCertificate => {
                if tls.roots != Roots::System {
                    let why = "nobody is checked by them with AcceptAnyCertificate; leave one out";
                    return Err(Error::option("tls.roots", why));
                }
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            }
        };
        let config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read_identity(identity)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| bad_identity(identity, &error))?
            }
        };
        Ok(Some(Self {
            side: SetupSide::Client(Arc::new(config), name),
            rules: rules(options),
        }))
    }

    /// For the peers of a server on this address; `None` where it is none of TLS.
    pub(crate) fn server(
        address: &Address,
        options: &ServerOptions,
    ) -> Result<Option<Self>, Error> {
        let (Address::Tls { .. }, Some(identity)) = (address, &options.link.tls.identity) else {
            // That a TLS server has an identity was checked with the options.
            return Ok(None);
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("tls", &error))?;
        let builder = match client_verifier(options, provider)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let (chain, key) = read_identity(identity)?;
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|error| bad_identity(identity, &error))?;
        Ok(Some(Self {
            side: SetupSide::Server(Arc::new(config)),
            rules: rules(&options.link),
        }))
    }

    /// A session that has not begun its handshake.
    pub(in crate::transport) fn begin(&self, counters: Arc<TlsCounters>) -> io::Result<TlsStream> {
        let connection = match &self.side {
            SetupSide::Client(config, name) => {
                ClientConnection::new(Arc::clone(config), name.clone()).map(Connection::Client)
            }
            SetupSide::Server(config) => {
                ServerConnection::new(Arc::clone(config)).map(Connection::Server)
            }
        };
        let connection = connection.map_err(io::Error::other)?;
        let session = Session::new(connection, self.rules, Arc::clone(&counters));
        Ok(TlsStream::new(session, counters))
    }
}

impl fmt::Debug for TlsSetup {
    /// Never what is in it: that is a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.side {
            SetupSide::Client(..) => "TlsSetup(client)",
            SetupSide::Server(_) => "TlsSetup(server)",
        })
    }
}

/// Who the server has to be.
fn server_name(host: &str, tls: &Tls, address: &Address) -> Result<ServerName<'static>, Error> {
    if let Some(name) = &tls.server_name {
        return ServerName::try_from(name.clone()).map_err(|_| {
            let why = format!("{name:?} is neither a host name nor an IP address");
            Error::option("tls.server_name", why)
        });
    }
    // The scope of an address is a matter of this machine.
    let bare = host.split_once('%').map_or(host, |(bare, _)| bare);
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        Error::because(
            ErrorKind::InvalidAddress,
            "use",
            address,
            "no certificate can be for this host; set LinkOptions::tls.server_name",
        )
    })
}

fn client_verifier(
    options: &ServerOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    let optional = match options.client_certificates {
        ClientCertificates::None => return Ok(None),
        ClientCertificates::Optional => true,
        ClientCertificates::Required => false,
    };
    let roots = Arc::new(pem::roots(&options.link.tls.roots)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let builder = if optional {
        builder.allow_unauthenticated()
    } else {
        builder
    };
    let verifier = builder.build();
    verifier
        .map(Some)
        .map_err(|error| unusable("tls.roots", &error))
}

fn read_identity(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let chain = pem::certificates("tls.identity.chain", &identity.chain)?;
    let key = pem::key("tls.identity.key", &identity.key)?;
    Ok((chain, key))
}

fn bad_identity(identity: &Identity, error: &rustls::Error) -> Error {
    let (chain, key) = (pem::place(&identity.chain), pem::place(&identity.key));
    match error {
        rustls::Error::InconsistentKeys(_) => Error::option(
            "tls.identity.key",
            format!("{key} is not the key of the first certificate in {chain}"),
        ),
        rustls::Error::InvalidCertificate(fault) => Error::option(
            "tls.identity.chain",
            format!("{chain}: its first certificate cannot be used: {fault}"),
        ),
        other => Error::option("tls.identity.key", format!("{key}: {other}")),
    }
}

fn unusable(option: &'static str, error: &dyn fmt::Display) -> Error {
    Error::option(option, error.to_string())
}

/// How the messages of such a link are cut into records (see [`super::session`]).
///
/// The byte that is withheld keeps the message at the border partly written, unless it is all there is of
/// that message: then it would look untouched and could be given up, or sent again. So none is withheld
/// where a message can be one byte long and something may become of it before its turn.
fn rules(options: &LinkOptions) -> RecordRules {
    let is_fresh = options.strategy == Strategy::KeepLatest || options.max_queue_delay.is_some();
    let may_be_moved = is_fresh || options.on_loss == OnLoss::Keep || options.heartbeat.is_some();
    let may_be_one_byte = match &options.framing {
        // What it adds is said as the most, and may be nothing.
        Framing::Raw | Framing::Own(_) => true,
        framing => framing.encoded_limit_bytes(0) <= 1,
    };
    RecordRules {
        limit_bytes: if is_fresh {
            FRESH_RECORD_BYTES
        } else {
            RECORD_BYTES
        },
        withhold: !(may_be_moved && may_be_one_byte),
    }
}

/// Most plaintext in a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;
/// The same where what waits may be replaced by something newer: what is encrypted cannot.
const FRESH_RECORD_BYTES: usize = 2 * 1024;
