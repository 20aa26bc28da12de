//! Unix sockets: names, files and modes.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::*;
use crate::address::UdsName;

fn at(path: &Path) -> Address {
    Address::Uds(UdsName::Path(path.to_owned()))
}

/// A fresh folder, and a name in it.
fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    (folder, path)
}

fn listen_at(path: &Path) -> Result<Listener, Error> {
    listen(&at(path), &ServerOptions::default())
}

fn listen_with_mode(path: &Path, mode: u32) -> Listener {
    let options = ServerOptions {
        uds_mode: Some(mode),
        ..ServerOptions::default()
    };
    listen(&at(path), &options).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A socket file that nobody listens on, as a killed server leaves it.
fn leave_stale(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

#[test]
fn a_path_carries_a_conversation_and_the_file_goes_with_the_listener() {
    let (_folder, path) = fresh();
    let listener = listen_at(&path).unwrap();
    assert_eq!(listener.kind(), Kind::Uds);
    assert_eq!(listener.local_address(), at(&path));
    let (client, peer) = pair(&listener);
    client.send(b"head", b"body", Wait::No).unwrap();
    expect_bytes(&peer, b"headbody");
    assert_eq!(client.peer_address(), Some(at(&path)));
    assert_eq!(peer.local_address(), Some(at(&path)));
    // Whoever connects has no name.
    assert_eq!(client.local_address(), None);
    assert_eq!(peer.peer_address(), None);

    drop(listener);
    assert!(!path.exists());
    // The connection does not depend on it.
    peer.send(b"", b"still here", Wait::No).unwrap();
    expect_bytes(&client, b"still here");
}

#[test]
fn an_abstract_name_works_and_leaves_no_file() {
    let name = format!("uds://@tautline-test-{}", std::process::id());
    let listener = listen_on(&name);
    let (client, peer) = pair(&listener);
    client.send(b"", b"hello", Wait::No).unwrap();
    expect_bytes(&peer, b"hello");
    assert_eq!(client.peer_address().unwrap().to_string(), name);
    assert_eq!(peer.local_address().unwrap().to_string(), name);

    let error = listen(&address(&name), &ServerOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert_eq!(
        error.to_string(),
        format!(
            "listen on {name}: bind: address in use: held by this process itself; \
             stop it first, or choose another name"
        )
    );
    drop(listener);
    listen_on(&name);
}

#[test]
fn an_abstract_name_may_be_any_bytes_and_as_long_as_the_limit() {
    let mut name = format!("tautline\0é\u{7f} {}", std::process::id()).into_bytes();
    name.push(0xff);
    name.resize(107, b'x');
    let address = Address::Uds(UdsName::Abstract(name));
    let listener = listen(&address, &ServerOptions::default()).unwrap();
    let (client, _peer) = pair(&listener);
    assert_eq!(client.peer_address(), Some(address.clone()));
    assert_eq!(address.to_string().parse(), Ok(address));
}

#[test]
fn a_path_of_107_bytes_works_and_108_is_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let fill = 107 - folder.path().as_os_str().len() - 1;
    let longest = folder.path().join("x".repeat(fill));
    let listener = listen_at(&longest).unwrap();
    let (client, _peer) = pair(&listener);
    assert_eq!(client.peer_address(), Some(at(&longest)));

    // Built by hand, for the parser would not let it through.
    let longer = at(&folder.path().join("x".repeat(fill + 1)));
    let expected = format!(
        "{:?}: the path has 108 bytes, the limit of the system is 107",
        longer.to_string()
    );
    let listening = listen(&longer, &ServerOptions::default()).unwrap_err();
    assert_eq!(listening.to_string(), expected);
    let connecting = connect(&longer).unwrap_err();
    assert_eq!(connecting.to_string(), expected);
    assert_eq!(connecting.kind(), ErrorKind::InvalidAddress);
}

#[test]
fn a_stale_file_is_replaced() {
    let (_folder, path) = fresh();
    leave_stale(&path);
    assert!(path.exists());
    let listener = listen_at(&path).unwrap();
    let (client, peer) = pair(&listener);
    client.send(b"", b"anew", Wait::No).unwrap();
    expect_bytes(&peer, b"anew");
}

#[test]
fn a_live_socket_is_never_replaced() {
    let (_folder, path) = fresh();
    let live = UnixListener::bind(&path).unwrap();
    let error = listen_at(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    // It still answers, and whoever is connected is served: first comes our own probe, then this.
    let _client = UnixStream::connect(&path).unwrap();
    live.accept().unwrap();
    live.accept().unwrap();
}

#[test]
fn a_live_socket_with_a_full_backlog_is_never_replaced() {
    let (_folder, path) = fresh();
    let full = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    full.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    full.listen(0).unwrap();
    let waiting = fill_backlog(&at(&path));
    let error = listen_at(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    drop(waiting);
}

#[test]
fn a_datagram_socket_is_never_replaced() {
    let (_folder, path) = fresh();
    let _live = UnixDatagram::bind(&path).unwrap();
    let error = listen_at(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(path.exists());
}

#[test]
fn what_is_no_socket_is_never_replaced() {
    let (folder, path) = fresh();
    let shown = format!("listen on uds://{}: ", path.display());

    fs::write(&path, "precious").unwrap();
    assert_eq!(
        message(listen_at(&path)),
        format!("{shown}a file that is no socket has this name, and is left alone")
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(
        message(listen_at(&path)),
        format!("{shown}a directory has this name")
    );

    fs::remove_dir(&path).unwrap();
    let stale = folder.path().join("stale");
    leave_stale(&stale);
    symlink(&stale, &path).unwrap();
    let error = listen_at(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bind);
    assert_eq!(
        error.to_string(),
        format!("{shown}a symbolic link has this name, and is left alone")
    );
    assert!(stale.exists() && path.is_symlink());
}

#[test]
fn of_servers_that_start_at_once_over_a_stale_file_one_wins_and_is_reached() {
    for _ in 0..20 {
        let (_folder, path) = fresh();
        leave_stale(&path);
        let barrier = std::sync::Barrier::new(8);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        listen_at(&path)
                    })
                })
                .collect();
            starting
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect()
        });
        let (winners, losers): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(winners.len(), 1);
        for loser in losers {
            assert_eq!(loser.unwrap_err().kind(), ErrorKind::AddressInUse);
        }
        let winner = winners.into_iter().next().unwrap().unwrap();
        // The losers' probes are in the backlog too; ours comes last.
        let client = connect(&winner.local_address()).unwrap();
        client.send(b"", b"x", Wait::No).unwrap();
        let reached = (0..8).any(|_| {
            let peer = accept(&winner);
            assert!(peer.wait_ready(READ, deadline()).unwrap().read);
            peer.recv(&mut [0; 8], Wait::No).unwrap().bytes == 1
        });
        assert!(reached);
    }
}

#[test]
fn somebody_who_keeps_the_folder_locked_delays_a_start_but_does_not_prevent_it() {
    let (folder, path) = fresh();
    leave_stale(&path);
    let folder = fs::File::open(folder.path()).unwrap();
    sys::file::flock_exclusive(folder.as_fd()).unwrap();
    let listener = listen_at(&path).unwrap();
    pair(&listener);
}

#[test]
fn a_start_lets_go_of_the_folder() {
    let (folder, path) = fresh();
    let _listener = listen_at(&path).unwrap();
    let folder = fs::File::open(folder.path()).unwrap();
    sys::file::flock_exclusive(folder.as_fd()).unwrap();
}

#[test]
fn a_folder_that_is_missing_is_named_by_the_system() {
    let (folder, _) = fresh();
    let path = folder.path().join("missing/x.sock");
    assert_eq!(
        message(listen_at(&path)),
        format!(
            "listen on uds://{}: bind: no such file or directory",
            path.display()
        )
    );
}

#[test]
fn a_listener_removes_only_its_own_file() {
    let (_folder, path) = fresh();
    let listener = listen_at(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let successor = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
    UnixStream::connect(&path).unwrap();
    drop(successor);

    let (_folder, path) = fresh();
    let listener = listen_at(&path).unwrap();
    fs::remove_file(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_listener_that_cannot_start_leaves_nothing() {
    let (folder, path) = fresh();
    let options = ServerOptions {
        link: LinkOptions {
            send_buffer_bytes: Some(1),
            ..LinkOptions::default()
        },
        ..ServerOptions::default()
    };
    listen(&at(&path), &options).unwrap_err();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_mode_is_the_one_asked_for() {
    for wanted in [0o600, 0o660, 0o666, 0o777, 0o700, 0o000] {
        let (_folder, path) = fresh();
        let listener = listen_with_mode(&path, wanted);
        assert_eq!(mode(&path), wanted, "{wanted:o}");
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn the_umask_neither_adds_to_the_mode_nor_takes_from_it() {
    // The umask belongs to the process: one of its own for each.
    for umask in ["000", "022", "077"] {
        run_again(
            &format!("umask {umask}"),
            "transport::tests::uds::the_mode_is_the_one_asked_for",
        );
    }
}

#[test]
fn the_file_is_born_with_no_more_than_the_mode_asked_for() {
    // Step by step, to look at the moment between bind and listen.
    let (_folder, path) = fresh();
    let socket = Socket::create(Kind::Uds, Domain::UNIX).unwrap();
    super::super::uds::limit_mode(&socket, Some(0o600)).unwrap();
    SockRef::from(&socket.as_fd())
        .bind(&SockAddr::unix(&path).unwrap())
        .unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_stale_file_of_a_wider_mode_does_not_lend_it() {
    let (_folder, path) = fresh();
    leave_stale(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let _listener = listen_with_mode(&path, 0o600);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn connecting_to_nothing_says_what_is_missing() {
    let (_folder, path) = fresh();
    let error = connect(&at(&path)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(
        error.to_string(),
        format!(
            "connect to uds://{}: no such file or directory",
            path.display()
        )
    );
    assert!(!is_backlog_full(&error));

    leave_stale(&path);
    assert_eq!(
        message(connect(&at(&path))),
        format!("connect to uds://{}: connection refused", path.display())
    );
}

#[test]
fn a_full_backlog_is_told_apart_and_a_retry_succeeds() {
    let (_folder, path) = fresh();
    let full = UnixListener::bind(&path).unwrap();
    SockRef::from(&full).listen(0).unwrap();
    let waiting = fill_backlog(&at(&path));
    let error = connect(&at(&path)).unwrap_err();
    assert!(is_backlog_full(&error));
    full.accept().unwrap();
    connect(&at(&path)).unwrap();
    drop(waiting);
}

#[test]
fn only_zero_is_said_of_what_the_kernel_holds() {
    let (_folder, path) = fresh();
    let listener = listen_at(&path).unwrap();
    let (client, peer) = pair(&listener);
    assert_eq!(client.unsent_bytes(), Some(0));
    client.send(b"", b"waits", Wait::No).unwrap();
    assert_eq!(client.unsent_bytes(), None);
    expect_bytes(&peer, b"waits");
    assert_eq!(client.unsent_bytes(), Some(0));
}

#[test]
fn one_side_may_end_while_the_other_goes_on() {
    let (_folder, path) = fresh();
    let listener = listen_at(&path).unwrap();
    let (client, peer) = pair(&listener);
    client.send(b"", b"that was all", Wait::No).unwrap();
    client.shutdown_write().unwrap();
    expect_bytes(&peer, b"that was all");
    expect_end(&peer);
    peer.send(b"", b"thank you", Wait::No).unwrap();
    expect_bytes(&client, b"thank you");
    drop(peer);
    expect_end(&client);
    assert_eq!(errno(client.send(b"", b"x", Wait::No)), libc::EPIPE);
}

/// Connects until there is no room for one more.
fn fill_backlog(to: &Address) -> Vec<Socket> {
    let mut waiting = Vec::new();
    loop {
        match connect(to) {
            Ok(socket) => waiting.push(socket),
            Err(error) if is_backlog_full(&error) => return waiting,
            Err(error) => panic!("{error}"),
        }
        assert!(waiting.len() < 100);
    }
}
