//! A peer that neither of us wrote: the `openssl` program, as client and as server.
//!
//! Where it is not installed these say so and pass.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};

use tautline::{
    Address, ClientCertificates, Framing, LinkOptions, Reason, ServerOptions, TlsVersion,
};
use tempfile::TempDir;

use super::{echo, echo_of, good};
use crate::common::*;

over! {
    its_client_talks_to_our_server: tls;
    its_client_shows_its_certificate: tls;
    our_client_talks_to_its_server: tls;
    its_server_asks_for_a_certificate: tls;
}

/// The program with these arguments, ended with the test.
struct OpenSsl {
    process: Child,
    /// Its end is the end of what the program sends.
    says: Option<ChildStdin>,
    _folder: TempDir,
}

impl OpenSsl {
    /// `None`, said loudly, where there is none. `{…}` in the arguments are files of certificates.
    fn start(arguments: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = arguments.to_owned();
        for (name, text) in [
            ("{chain}", &ISSUED.chain),
            ("{key}", &ISSUED.key),
            ("{roots}", &AUTHORITY.pem),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            arguments = arguments.replace(name, path.to_str().unwrap());
        }
        let started = Command::new("openssl")
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = started else {
            eprintln!("NOT RUN: there is no openssl program here");
            return None;
        };
        Some(Self {
            says: process.stdin.take(),
            process,
            _folder: folder,
        })
    }

    fn say(&mut self, text: &str) {
        let says = self.says.as_mut().unwrap();
        says.write_all(text.as_bytes()).unwrap();
        says.flush().unwrap();
    }

    /// The lines it prints.
    fn lines(&mut self) -> impl Iterator<Item = String> {
        let output = self.process.stdout.take().unwrap();
        BufReader::new(output).lines().map(Result::unwrap)
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lines_of(options: LinkOptions) -> LinkOptions {
    LinkOptions {
        framing: Framing::lines(),
        ..options
    }
}

fn port_of(address: &Address) -> u16 {
    let Address::Tls { port, .. } = address else {
        panic!("{address} is none of TLS");
    };
    *port
}

fn its_client_talks_to_our_server(_: Transport) {
    for (flag, version) in [("-tls1_2", TlsVersion::V1_2), ("-tls1_3", TlsVersion::V1_3)] {
        let io = start();
        let server = echo(&io, echo_of(lines_of(good())));
        let port = port_of(&server.local_address());
        let Some(mut openssl) = OpenSsl::start(&format!(
            "s_client -connect 127.0.0.1:{port} {flag} -quiet -verify_return_error -CAfile {{roots}}"
        )) else {
            return;
        };
        openssl.say("one line\n");
        let mut lines = openssl.lines();
        assert_eq!(lines.next().as_deref(), Some("one line"));
        let peer = server.peers().pop().unwrap();
        assert_eq!(peer.secured().unwrap().version, version);
        // Its end is a proper one.
        server.close(WATCHDOG);
        assert_eq!(lines.next(), None);
    }
}

fn its_client_shows_its_certificate(_: Transport) {
    let io = start();
    let options = ServerOptions {
        client_certificates: ClientCertificates::Required,
        ..echo_of(lines_of(good()))
    };
    let server = echo(&io, options);
    let port = port_of(&server.local_address());
    let connect = format!("s_client -connect 127.0.0.1:{port} -quiet -CAfile {{roots}}");
    let Some(mut openssl) = OpenSsl::start(&format!("{connect} -cert {{chain}} -key {{key}}"))
    else {
        return;
    };
    openssl.say("it is me\n");
    assert_eq!(openssl.lines().next().as_deref(), Some("it is me"));
    // Without one it is not let in.
    let mut stranger = OpenSsl::start(&connect).unwrap();
    assert!(!stranger.process.wait().unwrap().success());
    until("it is counted", || {
        server.statistics().handshakes.failed == 1
    });
    let why = server.statistics().handshakes.last_failure.unwrap();
    assert!(why.to_string().contains("shows no certificate"), "{why}");
}

/// A port that is free now: the program takes no 0.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The program as a server that sends back each line reversed, once it listens.
fn reversing_server(more: &str) -> Option<(OpenSsl, Address)> {
    let port = free_port();
    let mut openssl = OpenSsl::start(&format!(
        "s_server -accept 127.0.0.1:{port} -cert {{chain}} -key {{key}} -CAfile {{roots}} -rev {more}"
    ))?;
    let mut output = openssl.process.stdout.take().unwrap();
    let mut printed = Vec::new();
    while !printed.ends_with(b"ACCEPT") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        printed.push(byte[0]);
    }
    openssl.process.stdout = Some(output);
    let address = format!("tls://127.0.0.1:{port}").parse().unwrap();
    Some((openssl, address))
}

fn our_client_talks_to_its_server(_: Transport) {
    for (flag, version) in [("-tls1_2", TlsVersion::V1_2), ("-tls1_3", TlsVersion::V1_3)] {
        let Some((_openssl, address)) = reversing_server(flag) else {
            return;
        };
        let (handler, inbox) = recorder();
        let io = start();
        let link = io.connect(&address, lines_of(good()), handler).unwrap();
        let opened = inbox.expect_opened();
        assert_eq!(opened.secured.unwrap().version, version);
        for _ in 0..100 {
            link.send(b"stressed").unwrap();
            assert_eq!(inbox.expect_message(), b"desserts");
        }
        link.close(WATCHDOG);
        inbox.expect_closed();
    }
}

fn its_server_asks_for_a_certificate(_: Transport) {
    let Some((_openssl, address)) = reversing_server("-Verify 2 -verify_return_error") else {
        return;
    };
    let io = start();
    let (handler, inbox) = recorder();
    let link = io.connect(&address, lines_of(good()), handler).unwrap();
    inbox.expect_opened();
    link.send(b"abc").unwrap();
    assert_eq!(inbox.expect_message(), b"cba");
    link.abort();
    let (handler, inbox) = recorder();
    let mut nobody = lines_of(good());
    nobody.tls.identity = None;
    let _link = io.connect(&address, nobody, handler).unwrap();
    let told = inbox.all_to_the_end();
    let ended = told.iter().find_map(|told| match told {
        Told::Ended(ended) => Some(ended.reason.clone()),
        _ => None,
    });
    let Some(Reason::Lost(error) | Reason::NotConnected(error)) = ended else {
        panic!("{told:?}");
    };
    assert!(
        error
            .to_string()
            .contains("it asks for a certificate of ours"),
        "{error}"
    );
}
