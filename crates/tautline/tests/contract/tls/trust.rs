//! Certificates: who is trusted, who is not, and in which words.

use rcgen::date_time_ymd;
use tautline::{
    ClientCertificates, ErrorKind, Identity, LinkOptions, Pem, Reason, Reconnect, Roots,
    ServerOptions, Tls, Verification,
};

use super::{echo, echo_of, good, under_name};
use crate::common::*;

over! {
    a_server_that_cannot_prove_itself_is_not_tried_again: tls;
    a_name_that_was_asked_for_is_the_one_that_is_checked: tls;
    accepting_any_certificate_accepts_any: tls;
    a_client_without_a_certificate_is_told_and_does_not_come_back: tls;
    a_client_with_a_certificate_of_nobody_known_is_told: tls;
    where_it_is_optional_a_client_may_show_one: tls;
}

/// A link that would try for ever.
fn stubborn(tls: Tls) -> LinkOptions {
    LinkOptions {
        tls,
        reconnect: Some(Reconnect::default()),
        ..good()
    }
}

fn showing(issued: &Issued) -> ServerOptions {
    echo_of(LinkOptions {
        tls: Tls {
            identity: Some(issued.identity()),
            ..Tls::default()
        },
        ..good()
    })
}

fn a_server_that_cannot_prove_itself_is_not_tried_again(_: Transport) {
    let stranger = Authority::new("nobody we know");
    let expired = AUTHORITY.issue(&["localhost", "127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 3);
    });
    let early = AUTHORITY.issue(&["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2999, 12, 31);
        params.not_after = date_time_ymd(3999, 1, 1);
    });
    let cases = [
        (expired, "it expired on 2020-02-03 00:00 UTC"),
        (early, "it is valid only from 2999-12-31 00:00 UTC"),
        (
            AUTHORITY.issue(&["plc-7", "10.1.2.3"], |_| {}),
            "it is for plc-7, 10.1.2.3, not for 127.0.0.1",
        ),
        (
            stranger.issue(&["127.0.0.1"], |_| {}),
            "it leads to none of the roots that LinkOptions::tls.roots trusts",
        ),
    ];
    for (issued, words) in cases {
        let (client_io, server_io) = (start(), start());
        let server = echo(&server_io, showing(&issued));
        let (handler, inbox) = recorder();
        let address = server.local_address();
        let link = client_io.connect(&address, stubborn(trusting()), handler);
        // The first word is the last: it never opened, and there is no second attempt.
        let Reason::NotConnected(error) = inbox.expect_ended() else {
            panic!("it could not be made");
        };
        assert_eq!(error.kind(), ErrorKind::Untrusted);
        let text = error.to_string();
        let begin = format!("connect to {address}: the peer's certificate is not trusted: ");
        assert!(text.starts_with(&begin) && text.contains(words), "{text}");
        assert_eq!(link.unwrap().statistics().connections.attempts, 1);
        until("the server has heard of it", || {
            server.statistics().handshakes.failed == 1
        });
        assert_eq!(server.statistics().accepted, 0);
    }
}

fn a_name_that_was_asked_for_is_the_one_that_is_checked(_: Transport) {
    let issued = AUTHORITY.issue(&["plc-7"], |_| {});
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, showing(&issued));
    for (name, opens) in [("plc-7", true), ("plc-8", false)] {
        let (handler, inbox) = recorder();
        let tls = Tls {
            server_name: Some(name.to_owned()),
            ..trusting()
        };
        let address = under_name(&server, "localhost");
        let _link = client_io.connect(&address, stubborn(tls), handler);
        if opens {
            inbox.expect_opened();
        } else {
            let reason = inbox.expect_ended().to_string();
            assert!(
                reason.contains("it is for plc-7, not for plc-8"),
                "{reason}"
            );
        }
    }
}

fn accepting_any_certificate_accepts_any(_: Transport) {
    let issued = Authority::new("nobody we know").issue(&["elsewhere"], |params| {
        params.not_after = date_time_ymd(2020, 2, 3);
    });
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, showing(&issued));
    let (handler, inbox) = recorder();
    let tls = Tls {
        verification: Verification::AcceptAnyCertificate,
        ..Tls::default()
    };
    let link = client_io.connect(&server.local_address(), stubborn(tls), handler);
    let link = link.unwrap();
    inbox.expect_opened();
    link.send(b"anybody").unwrap();
    assert_eq!(inbox.expect_message(), b"anybody");
}

fn asking(asks: ClientCertificates) -> ServerOptions {
    ServerOptions {
        client_certificates: asks,
        ..echo_of(good())
    }
}

/// With TLS 1.3 a client learns of it only after its own handshake is done.
fn expect_refused(tls: Tls, words: &str) {
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, asking(ClientCertificates::Required));
    let (handler, inbox) = recorder();
    let link = client_io
        .connect(&server.local_address(), stubborn(tls), handler)
        .unwrap();
    let told = inbox.all_to_the_end();
    let Some(Told::Ended(ended)) = told
        .iter()
        .rev()
        .find(|told| matches!(told, Told::Ended(_)))
    else {
        panic!("it has not ended: {told:?}");
    };
    let (Reason::Lost(error) | Reason::NotConnected(error)) = &ended.reason else {
        panic!("{:?}", ended.reason);
    };
    assert_eq!(error.kind(), ErrorKind::Untrusted, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(link.statistics().connections.attempts, 1);
    until("the server has counted it", || {
        server.statistics().handshakes.failed == 1
    });
    assert_eq!(server.statistics().accepted, 0);
}

fn a_client_without_a_certificate_is_told_and_does_not_come_back(_: Transport) {
    let nobody = Tls {
        identity: None,
        ..trusting()
    };
    expect_refused(
        nobody,
        "it asks for a certificate of ours; set LinkOptions::tls.identity",
    );
}

fn a_client_with_a_certificate_of_nobody_known_is_told(_: Transport) {
    let stranger = Authority::new("nobody we know").issue(&["us"], |_| {});
    let stranger = Tls {
        identity: Some(stranger.identity()),
        ..trusting()
    };
    expect_refused(
        stranger,
        "none of the roots it trusts stands behind our certificate",
    );
}

fn where_it_is_optional_a_client_may_show_one(_: Transport) {
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, asking(ClientCertificates::Optional));
    for (identity, shown) in [(None, 0), (Some(ISSUED.identity()), 1)] {
        let (handler, inbox) = recorder();
        let tls = Tls {
            identity,
            ..trusting()
        };
        let link = client_io.connect(&server.local_address(), stubborn(tls), handler);
        let link = link.unwrap();
        inbox.expect_opened();
        link.send(b"who am I").unwrap();
        inbox.expect_message();
        let peer = server.peers().pop().unwrap();
        assert_eq!(peer.secured().unwrap().peer_certificates.len(), shown);
        link.abort();
        until("the peer has gone", || server.statistics().connected == 0);
    }
}

/// Options of a client that are wrong, each with the name they are refused by.
pub(super) fn each_bad_option(refused: &dyn Fn(&str, Tls, &str) -> String) {
    const TLS: &str = "tls://127.0.0.1:9";
    let identity = |chain: Pem, key: Pem| Tls {
        identity: Some(Identity { chain, key }),
        ..trusting()
    };
    let good = || (ISSUED.identity().chain, ISSUED.identity().key);
    let text = |text: &str| Pem::Bytes(text.as_bytes().to_vec());
    let other = AUTHORITY.issue(&["other"], |_| {});
    let missing = || Pem::File("/nowhere/at/all.pem".into());
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let (chain, key) = ("tls.identity.chain", "tls.identity.key");
    for (tls, name, words) in [
        (
            identity(missing(), good().1),
            chain,
            "/nowhere/at/all.pem: no such file",
        ),
        (
            identity(good().0, missing()),
            key,
            "/nowhere/at/all.pem: no such file",
        ),
        (
            identity(text("nothing"), good().1),
            chain,
            "holds no certificate",
        ),
        (
            identity(good().0, text("nothing")),
            key,
            "holds no private key",
        ),
        (identity(good().0, text(encrypted)), key, "is encrypted"),
        (
            identity(good().0, text(&other.key)),
            key,
            "is not the key of the first certificate",
        ),
    ] {
        let said = refused(TLS, tls, name);
        assert!(said.contains(words), "{said}");
    }
    let with_roots = |roots| Tls {
        roots,
        ..Tls::default()
    };
    let nowhere = Roots::PemFile("/nowhere/at/all.pem".into());
    refused(TLS, with_roots(nowhere), "tls.roots");
    refused(
        TLS,
        with_roots(Roots::Pem(b"nothing".to_vec())),
        "tls.roots",
    );
    let unnamed = Tls {
        server_name: Some("a b".to_owned()),
        ..trusting()
    };
    refused(TLS, unnamed, "tls.server_name");
    let hasty = Tls {
        handshake_timeout: std::time::Duration::ZERO,
        ..trusting()
    };
    refused(TLS, hasty, "tls.handshake_timeout");
    let careless = Tls {
        verification: Verification::AcceptAnyCertificate,
        ..trusting()
    };
    refused(TLS, careless.clone(), "tls.roots");
    // None of it means anything without TLS, and nobody shall think it did.
    let roots = Roots::System;
    refused("tcp://127.0.0.1:9", trusting(), "tls.roots");
    refused("udp://127.0.0.1:9", trusting(), "tls.roots");
    refused(
        "tcp://127.0.0.1:9",
        Tls {
            roots,
            ..trusting()
        },
        "tls.identity",
    );
    let roots = Roots::System;
    refused(
        "tcp://127.0.0.1:9",
        Tls {
            roots,
            identity: None,
            ..careless
        },
        "tls.verification",
    );
}

/// Options of a server that are wrong.
pub(super) fn each_bad_server_option(refused: &dyn Fn(&str, ServerOptions, &str)) {
    const TLS: &str = "tls://127.0.0.1:0";
    let named = Tls {
        server_name: Some("me".to_owned()),
        ..trusting()
    };
    let careless = Tls {
        verification: Verification::AcceptAnyCertificate,
        ..trusting()
    };
    for (tls, name) in [(named, "tls.server_name"), (careless, "tls.verification")] {
        refused(TLS, echo_of(LinkOptions { tls, ..good() }), name);
    }
}
