//! TLS as an end of the control: rustls over a blocking socket, as its own stream types do it. One
//! record a message of up to 16 KiB, no queue, no other thread.

use std::cell::{RefCell, RefMut};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection,
};

use crate::certificate::{self, OwnCertificate};
use crate::report::TlsRecord;

/// A TLS session over its socket; one thread at a time uses it.
#[derive(Debug)]
pub struct TlsEnd {
    socket: TcpStream,
    session: RefCell<Connection>,
}

impl TlsEnd {
    /// Client and server over a connected pair, when both have finished their handshake.
    pub(super) fn pair(client: TcpStream, server: TcpStream) -> io::Result<(Self, Self)> {
        let own = certificate::own().map_err(io::Error::other)?;
        let name = ServerName::try_from(certificate::NAME).map_err(io::Error::other)?;
        let asking = ClientConnection::new(Arc::new(client_config(own)?), name);
        let answering = ServerConnection::new(Arc::new(server_config(own)?));
        let near = Self::over(client, asking.map_err(io::Error::other)?.into());
        let far = Self::over(server, answering.map_err(io::Error::other)?.into());
        // Each waits for the other.
        thread::scope(|scope| {
            let answering = thread::Builder::new()
                .name("gauge-handshake".to_owned())
                .spawn_scoped(scope, move || far.shake_hands().map(|()| far))?;
            near.shake_hands()?;
            let far = answering
                .join()
                .map_err(|_| io::Error::other("the server's handshake panicked"))??;
            Ok((near, far))
        })
    }

    fn over(socket: TcpStream, session: Connection) -> Self {
        let session = RefCell::new(session);
        Self { socket, session }
    }

    fn shake_hands(&self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
        self.session.borrow_mut().complete_io(&mut &self.socket)?;
        self.socket.set_read_timeout(None)
    }

    /// What was agreed on.
    #[must_use]
    pub fn agreed(&self) -> TlsRecord {
        let session = self.session.borrow();
        let version = session.protocol_version();
        let suite = session.negotiated_cipher_suite();
        TlsRecord {
            version: match version {
                Some(ProtocolVersion::TLSv1_2) => "TLS 1.2".to_owned(),
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3".to_owned(),
                Some(_) | None => "unknown".to_owned(),
            },
            // rustls writes TLS13_ where the registry has TLS_.
            cipher_suite: suite.map_or_else(
                || "unknown".to_owned(),
                |suite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_"),
            ),
            ..TlsRecord::default()
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    #[inline]
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session.borrow_mut();
        loop {
            match session.reader().read(buffer) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                // Both ends are ours: a socket that was shut down is the end, with a goodbye or not.
                Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                outcome => return outcome,
            }
            session.read_tls(&mut &self.socket)?;
            session.process_new_packets().map_err(io::Error::other)?;
            // An answer of the protocol's own, such as to a key update.
            self.write_out(&mut session)?;
        }
    }

    #[inline]
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut session = self.session.borrow_mut();
        while !bytes.is_empty() {
            let taken = session.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.write_out(&mut session)?;
        }
        Ok(())
    }

    fn write_out(&self, session: &mut RefMut<'_, Connection>) -> io::Result<()> {
        while session.wants_write() {
            session.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }
}

fn client_config(own: &OwnCertificate) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from(own.certificate_der.clone());
    roots.add(certificate).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn server_config(own: &OwnCertificate) -> io::Result<ServerConfig> {
    let chain = vec![CertificateDer::from(own.certificate_der.clone())];
    let key = PrivatePkcs8KeyDer::from(own.key_der.clone());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key.into())
        .map_err(io::Error::other)?;
    // Nobody resumes. A client that only writes would leave them unread, and to close a socket with
    // something unread resets it, over what the server has not read yet.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Generous on loopback, where a handshake takes a millisecond.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
