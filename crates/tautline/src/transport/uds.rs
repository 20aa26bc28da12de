//! What only Unix sockets do: names instead of addresses, and files that stay behind.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Type};

use super::{BufferSizes, Kind, LISTEN_BACKLOG, Listener, Socket, configure, holder};
use crate::address::{Address, UdsName};
use crate::error::{Error, ErrorKind};
use crate::options::ServerOptions;
use crate::sys;

/// The socket address of a name that was checked.
pub(super) fn sockaddr(name: &UdsName) -> SockAddr {
    let fits = "an address within the limit fits sun_path";
    match name {
        UdsName::Path(path) => SockAddr::unix(path).expect(fits),
        UdsName::Abstract(name) => {
            // socket2 takes a leading zero byte for the abstract namespace, as the kernel does.
            let bytes = [&[0], name.as_slice()].concat();
            SockAddr::unix(OsString::from_vec(bytes)).expect(fits)
        }
    }
}

/// The address behind a socket address; `None` where it has no name.
pub(super) fn address(found: &SockAddr) -> Option<Address> {
    if let Some(path) = found.as_pathname() {
        return Some(Address::Uds(UdsName::Path(path.to_owned())));
    }
    let name = found.as_abstract_namespace()?;
    Some(Address::Uds(UdsName::Abstract(name.to_owned())))
}

pub(super) fn listen(
    address: &Address,
    name: &UdsName,
    options: &ServerOptions,
) -> Result<Listener, Error> {
    address.validate()?;
    let socket = Socket::create(Kind::Uds, Domain::UNIX)
        .map_err(|cause| Error::listen("socket", address, cause))?;
    configure(&socket, address, &options.link)?;
    let file = match name {
        UdsName::Path(path) => Some(listen_at_path(&socket, address, path, options)?),
        UdsName::Abstract(name_bytes) => {
            let fd = socket.as_fd();
            let bound = SockRef::from(&fd);
            bound.bind(&sockaddr(name)).map_err(|cause| {
                // As `/proc/net/unix` prints it.
                let shown = [b"@", name_bytes.as_slice()].concat();
                bind_failed(address, &shown, cause)
            })?;
            bound
                .listen(LISTEN_BACKLOG)
                .map_err(|cause| Error::listen("listen", address, cause))?;
            None
        }
    };
    Ok(Listener {
        address: address.clone(),
        _file: file,
        socket,
        buffers: BufferSizes::asked(&options.link),
    })
}

/// Binds, in the place of a stale file if there is one, and listens.
///
/// From bind to listen the socket refuses connections, just as a stale file does. The lock keeps
/// another server of ours, that starts at the same moment, from taking the one for the other.
fn listen_at_path(
    socket: &Socket,
    address: &Address,
    path: &Path,
    options: &ServerOptions,
) -> Result<SocketFile, Error> {
    let failed = |step| move |cause| Error::listen(step, address, cause);
    let mode = options.uds_mode;
    let fd = socket.as_fd();
    let bound = SockRef::from(&fd);
    let target = SockAddr::unix(path).map_err(failed("bind"))?;
    let _lock = lock_directory(path);
    limit_mode(socket, mode).map_err(failed("set uds_mode"))?;
    match bound.bind(&target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(address, path)?;
            bound.bind(&target).map_err(failed("bind"))?;
        }
        Err(error) => return Err(failed("bind")(error)),
    }
    let place = open_place(path).map_err(failed("open"))?;
    let file = SocketFile::of(path, &place.metadata().map_err(failed("stat"))?);
    restore_mode(&place, mode).map_err(failed("set uds_mode"))?;
    // The group first: who has given a file away may change it no more.
    give_to(&place, None, options.uds_group).map_err(failed("set uds_group"))?;
    give_to(&place, options.uds_owner, None).map_err(failed("set uds_owner"))?;
    bound.listen(LISTEN_BACKLOG).map_err(failed("listen"))?;
    Ok(file)
}

/// A name in use, with whoever listens under it, where that can be found out.
fn bind_failed(address: &Address, shown: &[u8], cause: io::Error) -> Error {
    if cause.kind() == io::ErrorKind::AddrInUse
        && let Some(holder) = holder::of_unix(shown)
    {
        return Error::in_use("bind", address, holder, cause);
    }
    Error::listen("bind", address, cause)
}

/// The file of a listening socket: removed when it is dropped, if it is still that file.
///
/// Drop it before the socket. While the socket lives, the kernel keeps the inode, whose number then
/// stands for this file alone.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn of(path: &Path, found: &fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let still_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if still_ours {
            // It fails where the directory became read-only: nobody to tell, and the next start
            // finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes the file be born with these bits or fewer.
///
/// Linux gives a socket's file the mode of the socket's own inode, less the umask. The other ways:
/// a chmod after the bind leaves a window, and the umask belongs to all threads. Binding elsewhere
/// and renaming would have peers see the other name, which must not be longer, either.
pub(super) fn limit_mode(socket: &Socket, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    let inode = File::from(socket.as_fd().try_clone_to_owned()?);
    inode.set_permissions(Permissions::from_mode(mode))
}

/// Gives back what the umask took from the mode asked for. Nobody can connect yet.
fn restore_mode(file: &File, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    if file.metadata()?.mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(by_descriptor(file), Permissions::from_mode(mode))
}

/// Gives the file to this user, or group. Nobody can connect yet.
fn give_to(file: &File, owner: Option<u32>, group: Option<u32>) -> io::Result<()> {
    if owner.is_none() && group.is_none() {
        return Ok(());
    }
    chown(by_descriptor(file), owner, group)
}

/// The file as a path: not that by which it was opened, in whose place a symbolic link could have been
/// put; and fchmod and fchown refuse a descriptor that was opened as a mere place.
fn by_descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens the socket's file as a place in the file system, without connecting or following links.
fn open_place(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)
}

/// Removes what stands at `path` if it is a socket on which nobody answers; else says what it is.
fn remove_stale(address: &Address, path: &Path) -> Result<(), Error> {
    let cannot = |why: &str| Err(Error::because(ErrorKind::Bind, "listen on", address, why));
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        // It went away meanwhile: all the better.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::listen("stat", address, error)),
    };
    if found.is_dir() {
        return cannot("a directory has this name");
    }
    if found.is_symlink() {
        return cannot("a symbolic link has this name, and is left alone");
    }
    if !found.is_socket() {
        return cannot("a file that is no socket has this name, and is left alone");
    }
    match probe(path) {
        Ok(Answer::Nobody) => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove the stale file of", address, error))
            }
            _ => Ok(()),
        },
        Ok(Answer::Somebody) => {
            let in_use = io::Error::from_raw_os_error(libc::EADDRINUSE);
            Err(bind_failed(address, path.as_os_str().as_bytes(), in_use))
        }
        // Not allowed to connect, for instance: then we do not know, and leave it alone.
        Err(error) => Err(Error::io("find out who listens on", address, error)),
    }
}

enum Answer {
    Somebody,
    Nobody,
}

/// Connects to see whether anybody listens. A live server sees a peer that leaves at once.
fn probe(path: &Path) -> io::Result<Answer> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(Answer::Somebody),
        Err(error) => match error.raw_os_error() {
            Some(libc::ECONNREFUSED | libc::ENOENT) => Ok(Answer::Nobody),
            // A full backlog, or a socket of another type.
            Some(libc::EAGAIN | libc::EPROTOTYPE) => Ok(Answer::Somebody),
            _ => Err(error),
        },
    }
}

/// Locks the directory of `path` against other starting servers.
///
/// `None` where it cannot be had: a directory that we may not read, a file system without locks, or
/// somebody who keeps the lock. Then only the race that it closes stays open.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = File::open(path.parent()?).ok()?;
    for _ in 0..LOCK_ATTEMPTS {
        match sys::file::flock_exclusive(directory.as_fd()) {
            Ok(()) => return Some(directory),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(LOCK_PAUSE);
            }
            Err(_) => return None,
        }
    }
    None
}

/// A server needs the lock for microseconds: half a second is somebody who keeps it.
const LOCK_ATTEMPTS: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(1);
