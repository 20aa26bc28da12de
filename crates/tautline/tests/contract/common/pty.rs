//! Pseudo-terminals in the place of serial devices: a listener of sorts, and a cable between two.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tautline::{Address, SerialLine};
use tempfile::TempDir;

use super::{Place, WATCHDOG, sys};

/// A path that leads to a fresh pseudo-terminal each time the one before has been taken, as a device
/// that is plugged in anew.
#[derive(Debug)]
pub(crate) struct PtyListener {
    folder: TempDir,
    next: Mutex<File>,
}

impl PtyListener {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (master, slave) = pty();
        symlink(slave, folder.path().join("line")).unwrap();
        Self {
            folder,
            next: Mutex::new(master),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("line")
    }

    pub(crate) fn address(&self) -> Address {
        Address::Serial(SerialLine::new(self.path()))
    }

    /// Waits until the line is opened and set, and plugs in the next device.
    pub(crate) fn accept(&self) -> File {
        let (fresh, slave) = pty();
        let mut next = self.next.lock().unwrap();
        let plugged = self.folder.path().join("plugged");
        symlink(slave, &plugged).unwrap();
        wait_until_set(&mut next);
        fs::rename(plugged, self.path()).unwrap();
        std::mem::replace(&mut *next, fresh)
    }
}

/// The master of a fresh pseudo-terminal, which tells of what is done to the slave, and the path of that.
pub(crate) fn pty() -> (File, PathBuf) {
    let (master, slave) = sys::openpt();
    sys::set_packet_mode(master.as_fd(), true);
    (master, slave)
}

/// Waits until a link has opened the slave and set it: it then throws away what came before, and a
/// master is told of that.
pub(crate) fn wait_until_set(master: &mut File) {
    let mut told = [0];
    while told[0] & sys::FLUSHED_INPUT == 0 {
        assert!(
            sys::is_readable(master.as_fd(), WATCHDOG),
            "nobody opens it"
        );
        assert_eq!(master.read(&mut told).unwrap(), 1);
    }
    sys::set_packet_mode(master.as_fd(), false);
}

/// A cable between two pseudo-terminals: what one end writes the other reads. Once either end closes it
/// is pulled out of the other, and what that has not read is lost, as a cable would have it.
#[derive(Debug)]
pub(crate) struct Cable(TempDir);

impl Cable {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|end| {
            let (master, slave) = sys::openpt();
            symlink(slave, folder.path().join(end)).unwrap();
            master
        });
        let pulled = Arc::new(AtomicBool::new(false));
        let carry = |mut from: File, mut to: File| {
            let pulled = Arc::clone(&pulled);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while !pulled.load(Ordering::SeqCst) {
                    if !sys::is_readable(from.as_fd(), LOOK) {
                        continue;
                    }
                    let carried = match from.read(&mut buffer) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                        read => read.and_then(|bytes| to.write_all(&buffer[..bytes])),
                    };
                    // EIO is the end: the slave was closed.
                    pulled.fetch_or(carried.is_err(), Ordering::SeqCst);
                }
            });
        };
        carry(a.try_clone().unwrap(), b.try_clone().unwrap());
        carry(b, a);
        Self(folder)
    }

    /// The two ends, of which the first keeps the paths of both.
    pub(crate) fn into_places(self) -> (Place, Address) {
        let [a, b] = self.ends();
        (Place::within(a, self.0), b)
    }

    pub(crate) fn ends(&self) -> [Address; 2] {
        ["a", "b"].map(|end| Address::Serial(SerialLine::new(self.0.path().join(end))))
    }
}

/// How soon a carrier sees that the cable was pulled out at the other end.
const LOOK: Duration = Duration::from_millis(20);
