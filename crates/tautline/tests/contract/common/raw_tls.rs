//! Peers on rustls itself over a plain socket, blocking: what the raw streams are to TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};

use super::{AUTHORITY, ISSUED};

/// One end of a TLS stream. Clones share the session.
#[derive(Debug, Clone)]
pub(crate) struct RawTls {
    session: Arc<Mutex<Connection>>,
    stream: Arc<TcpStream>,
}

impl RawTls {
    /// Does the handshake of a client.
    pub(crate) fn connect(stream: TcpStream) -> io::Result<Self> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(&CLIENT), name).unwrap();
        Self::begin(stream, session.into())
    }

    /// Does the handshake of a server.
    pub(crate) fn accept(stream: TcpStream) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(&SERVER)).unwrap();
        Self::begin(stream, session.into())
    }

    pub(crate) fn begin(stream: TcpStream, mut session: Connection) -> io::Result<Self> {
        let mut wire = &stream;
        while session.is_handshaking() {
            session.complete_io(&mut wire)?;
        }
        while session.wants_write() {
            session.write_tls(&mut wire)?;
        }
        Ok(Self {
            session: Arc::new(Mutex::new(session)),
            stream: Arc::new(stream),
        })
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// The session, for what no polite program does with it.
    pub(crate) fn session(&self) -> MutexGuard<'_, Connection> {
        self.session.lock().unwrap()
    }

    /// Says goodbye and ends this side.
    pub(crate) fn end(&self) -> io::Result<()> {
        let mut session = self.session();
        session.send_close_notify();
        self.write_all_of(&mut session)?;
        self.stream.shutdown(Shutdown::Write)
    }

    /// Encrypted, all that waits.
    pub(crate) fn write_all_of(&self, session: &mut Connection) -> io::Result<()> {
        while session.wants_write() {
            session.write_tls(&mut &*self.stream)?;
        }
        Ok(())
    }
}

impl Read for RawTls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // What plain sockets say when nobody said goodbye.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            // Waits without the session: a clone may be writing.
            self.stream.peek(&mut [0; 1])?;
            let mut session = self.session();
            session.read_tls(&mut &*self.stream)?;
            session.process_new_packets().map_err(io::Error::other)?;
            self.write_all_of(&mut session)?;
        }
    }
}

impl Write for RawTls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut session = self.session();
        let written = session.writer().write(bytes)?;
        self.write_all_of(&mut session)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Trusts the tests' authority.
pub(crate) static CLIENT: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(AUTHORITY.pem.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
});

/// Shows what every end in the tests shows.
pub(crate) static SERVER: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let chain = CertificateDer::from_pem_slice(ISSUED.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(ISSUED.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    Arc::new(config)
});
