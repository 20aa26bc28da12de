//! Promise 10, without ownership and credentials (see `credentials`): files that stay behind, modes, and names.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use tautline::{
    Address, ErrorKind, IoThread, Link, LinkOptions, Received, Server, ServerOptions, UdsName,
};

use crate::common::*;

over! {
    a_stale_file_is_replaced: uds;
    a_live_socket_is_not_replaced_and_does_not_suffer: uds;
    a_live_socket_with_a_full_backlog_is_not_replaced: uds;
    a_regular_file_is_never_replaced: uds;
    the_file_goes_with_the_server_however_it_goes: uds;
    a_file_that_somebody_else_put_there_is_left_alone: uds;
    the_mode_is_as_asked: uds;
    an_abstract_name_works: uds;
    a_path_that_is_too_long_is_refused_with_the_limit: uds;
}

fn at(path: &Path) -> Address {
    Address::Uds(UdsName::Path(path.to_owned()))
}

fn echo_at(io: &IoThread, address: &Address) -> Result<Server, tautline::Error> {
    let echo =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let options = ServerOptions {
        link: framed(uds()),
        ..ServerOptions::default()
    };
    io.listen(address, options, echo)
}

fn expect_echo(io: &IoThread, address: &Address) {
    let (handler, inbox) = recorder();
    let link = io.connect(address, framed(uds()), handler).unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
}

fn a_stale_file_is_replaced(transport: Transport) {
    let place = fresh(transport);
    let path = place.path();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as a killed server leaves it");
    let io = start();
    let _server = echo_at(&io, &place.address).unwrap();
    expect_echo(&io, &place.address);
}

fn a_live_socket_is_not_replaced_and_does_not_suffer(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let server = echo_at(&io, &place.address).unwrap();
    for _ in 0..3 {
        let error = echo_at(&io, &place.address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddressInUse);
        expect_echo(&io, &place.address);
    }
    drop(server);
}

/// Its owner accepts nobody for the moment: he is there all the same.
fn a_live_socket_with_a_full_backlog_is_not_replaced(transport: Transport) {
    let place = fresh(transport);
    let path = place.path();
    let listener = UnixListener::bind(&path).unwrap();
    // A backlog of none has room for one.
    socket2::SockRef::from(&listener).listen(0).unwrap();
    let io = start();
    let waiting = io
        .connect(&place.address, framed(transport), recorder().0)
        .unwrap();
    waiting.wait_open(WATCHDOG).unwrap();
    let error = echo_at(&io, &place.address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse, "{error}");
    assert!(path.exists());
    // The one that waited was not harmed.
    let (mut accepted, _) = listener.accept().unwrap();
    waiting.send(b"hello").unwrap();
    let mut buffer = [0; 9];
    std::io::Read::read_exact(&mut accepted, &mut buffer).unwrap();
    assert_eq!(&buffer[4..], b"hello");
}

fn a_regular_file_is_never_replaced(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    fs::write(place.path(), "dear diary").unwrap();
    let error = echo_at(&io, &place.address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bind);
    assert_eq!(
        error.to_string(),
        format!(
            "listen on {}: a file that is no socket has this name, and is left alone",
            place.address
        )
    );
    assert_eq!(fs::read_to_string(place.path()).unwrap(), "dear diary");
}

fn the_file_goes_with_the_server_however_it_goes(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let ends: [fn(Server); 3] = [
        |server| _ = server.close(WATCHDOG),
        |server| server.abort(),
        |server| drop(server),
    ];
    for end in ends {
        let server = echo_at(&io, &place.address).unwrap();
        assert!(
            fs::symlink_metadata(place.path())
                .unwrap()
                .file_type()
                .is_socket()
        );
        expect_echo(&io, &place.address);
        end(server);
        assert!(!place.path().exists());
    }
}

fn a_file_that_somebody_else_put_there_is_left_alone(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let server = echo_at(&io, &place.address).unwrap();
    fs::remove_file(place.path()).unwrap();
    let _other = UnixListener::bind(place.path()).unwrap();
    drop(server);
    assert!(place.path().exists());
}

fn the_mode_is_as_asked(transport: Transport) {
    let io = start();
    for mode in [0o600, 0o660, 0o666] {
        let place = fresh(transport);
        let options = ServerOptions {
            uds_mode: Some(mode),
            ..ServerOptions::default()
        };
        let accept = |_: &Link| Ok(recorder().0);
        let _server = io.listen(&place.address, options, accept).unwrap();
        let found = fs::symlink_metadata(place.path()).unwrap().permissions();
        assert_eq!(found.mode() & 0o7777, mode);
    }
}

fn an_abstract_name_works(_: Transport) {
    let io = start();
    let name = format!("uds://@tautline-contract-{}", std::process::id());
    let address: Address = name.parse().unwrap();
    for _ in 0..3 {
        let server = echo_at(&io, &address).unwrap();
        assert_eq!(server.local_address(), address);
        expect_echo(&io, &address);
        assert_eq!(
            echo_at(&io, &address).unwrap_err().kind(),
            ErrorKind::AddressInUse
        );
        drop(server);
    }
}

fn a_path_that_is_too_long_is_refused_with_the_limit(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let longer = place.path().with_file_name("x".repeat(100));
    let refused = |error: tautline::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidAddress);
        assert!(
            error.to_string().contains("limit of the system is 107"),
            "{error}"
        );
    };
    refused(echo_at(&io, &at(&longer)).unwrap_err());
    // A link tells it as it tells everything: by its end, or at once.
    let link = io.connect(&at(&longer), LinkOptions::default(), recorder().0);
    refused(match link {
        Err(error) => error,
        Ok(link) => link.wait_open(WATCHDOG).unwrap_err(),
    });
}
