//! Two pseudo-terminals joined by a thread: what one of them is given comes out of the other.
//!
//! A pair that both sides open by path, as they open a device. There is no wire and no UART: the baud
//! rate has no effect, and a byte costs the thread's two system calls and its wake-up instead. Every
//! side of a comparison has a null modem of its own of this same make, so it is in all figures alike.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use tautline::{Address, SerialLine};

use crate::sys::descriptor::flock_exclusive;
use crate::sys::poll::{Awaited, poll_several};
use crate::sys::tty;

/// Two joined pseudo-terminals; they are hung up when this is dropped.
#[derive(Debug)]
pub struct NullModem {
    near: PathBuf,
    far: PathBuf,
    hangup: Hangup,
    pump: Option<JoinHandle<()>>,
}

impl NullModem {
    /// A fresh pair, both ends raw. `take_place` runs first on the thread that joins them.
    ///
    /// # Errors
    ///
    /// When there is no pseudo-terminal to be had, or no thread, or what `take_place` said.
    pub fn start(take_place: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (near, far) = (Terminal::open()?, Terminal::open()?);
        let (hung_up, hangup) = Hangup::pair()?;
        let (placed, is_placed) = mpsc::sync_channel(1);
        let paths = (near.path.clone(), far.path.clone());
        let pump = thread::Builder::new()
            .name(format!("gauge-{ROLE}"))
            .spawn(move || {
                let outcome = take_place();
                let may_begin = outcome.is_ok();
                // The starter waits for this: it cannot be gone.
                let _ = placed.send(outcome);
                if may_begin {
                    // A terminal that fails is hung up by what follows, which both ends notice.
                    let _ = pump(&near, &far, &hung_up);
                }
            })?;
        is_placed
            .recv()
            .map_err(|_| io::Error::other("the null modem ended at once"))??;
        Ok(Self {
            near: paths.0,
            far: paths.1,
            hangup,
            pump: Some(pump),
        })
    }

    /// The terminal of one side, as the library takes it.
    pub fn near_address(&self) -> Address {
        address(&self.near)
    }

    /// The terminal of the other side, as the library takes it.
    pub fn far_address(&self) -> Address {
        address(&self.far)
    }

    /// The terminal of one side.
    pub fn near(&self) -> &Path {
        &self.near
    }

    /// The terminal of the other side.
    pub fn far(&self) -> &Path {
        &self.far
    }

    /// Hangs up from anywhere.
    pub fn hangup(&self) -> Hangup {
        self.hangup.clone()
    }
}

impl Drop for NullModem {
    fn drop(&mut self) {
        self.hangup.hang_up();
        if let Some(pump) = self.pump.take() {
            // A pump that panicked has closed its masters, which both ends notice.
            let _ = pump.join();
        }
    }
}

/// Not exclusive, because the modem has its terminals locked.
fn address(path: &Path) -> Address {
    Address::Serial(SerialLine {
        exclusive: false,
        ..SerialLine::new(path)
    })
}

/// Ends a null modem: whoever waits for one of its ends comes back at once, with an end of stream or
/// an error.
#[derive(Debug, Clone)]
pub struct Hangup(Arc<Mutex<Option<PipeWriter>>>);

impl Hangup {
    /// One, and what becomes readable when it hangs up.
    pub(crate) fn pair() -> io::Result<(PipeReader, Self)> {
        let (hung_up, hangup) = io::pipe()?;
        Ok((hung_up, Self(Arc::new(Mutex::new(Some(hangup))))))
    }

    /// Hangs up; a second time changes nothing.
    pub fn hang_up(&self) {
        // The pump waits for the end of this pipe, and closes both masters.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What the thread is called in the report.
pub const ROLE: &str = "null-modem";

/// One pseudo-terminal: its master, and its slave held open so that it stays when others close it, and
/// locked. The kernel gives the name of a terminal that has gone to the next one, and a link of somebody
/// else that still tries to reopen the old one would throw away what is under way here.
#[derive(Debug)]
struct Terminal {
    master: File,
    path: PathBuf,
    _slave: File,
}

impl Terminal {
    fn open() -> io::Result<Self> {
        for _ in 1..ATTEMPTS {
            match Self::try_open() {
                // Somebody who tries to reopen a terminal that has gone holds the lock: for a moment.
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                outcome => return outcome,
            }
        }
        Self::try_open()
    }

    fn try_open() -> io::Result<Self> {
        let step = |name: &'static str| {
            move |cause: io::Error| {
                io::Error::new(cause.kind(), format!("pseudo-terminal: {name}: {cause}"))
            }
        };
        let master: OwnedFd = tty::posix_openpt().map_err(step("posix_openpt"))?;
        tty::unlockpt(master.as_fd()).map_err(step("unlockpt"))?;
        let path = tty::ptsname_r(master.as_fd()).map_err(step("ptsname"))?;
        let slave = open_raw(&path).map_err(step("open the slave"))?;
        flock_exclusive(slave.as_fd()).map_err(step("lock the slave"))?;
        Ok(Self {
            master: master.into(),
            path,
            _slave: slave,
        })
    }
}

/// Opens a terminal that blocks and carries every byte as it is.
///
/// # Errors
///
/// What the system said.
pub(crate) fn open_raw(path: &Path) -> io::Result<File> {
    let line = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(path)?;
    let mut termios = tty::tcgetattr(line.as_fd())?;
    tty::cfmakeraw(&mut termios);
    tty::tcsetattr(line.as_fd(), &termios)?;
    Ok(line)
}

/// Carries both ways until it is hung up. Neither way waits for the other, so that two ends which both
/// write much at once do not stop each other.
fn pump(near: &Terminal, far: &Terminal, hung_up: &PipeReader) -> io::Result<()> {
    let (mut forth, mut back) = (Way::new(), Way::new());
    loop {
        let ready = poll_several([
            Awaited {
                fd: near.master.as_fd(),
                read: forth.has_room(),
                write: back.is_owed(),
            },
            Awaited {
                fd: far.master.as_fd(),
                read: back.has_room(),
                write: forth.is_owed(),
            },
            Awaited {
                fd: hung_up.as_fd(),
                read: true,
                write: false,
            },
        ]);
        let [near_ready, far_ready, end] = match ready {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            ready => ready?,
        };
        if end.readable {
            return Ok(());
        }
        if near_ready.readable || far_ready.writable {
            forth.carry(&near.master, &far.master)?;
        }
        if far_ready.readable || near_ready.writable {
            back.carry(&far.master, &near.master)?;
        }
    }
}

/// One direction, and what was taken and not yet given.
#[derive(Debug)]
struct Way {
    buffer: Box<[u8]>,
    given: usize,
    taken: usize,
}

impl Way {
    fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            given: 0,
            taken: 0,
        }
    }

    fn is_owed(&self) -> bool {
        self.given < self.taken
    }

    fn has_room(&self) -> bool {
        !self.is_owed()
    }

    /// Gives what is owed, else takes what there is and gives that.
    fn carry(&mut self, mut from: &File, mut to: &File) -> io::Result<()> {
        if !self.is_owed() {
            self.taken = at_once(from.read(&mut self.buffer))?;
            self.given = 0;
        }
        if self.is_owed() {
            self.given += at_once(to.write(&self.buffer[self.given..self.taken]))?;
        }
        Ok(())
    }
}

/// How many bytes a call that does not wait has moved.
pub(crate) fn at_once(moved: io::Result<usize>) -> io::Result<usize> {
    match moved {
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(0)
        }
        outcome => outcome,
    }
}

/// Each takes a terminal of its own.
const ATTEMPTS: usize = 100;
/// What the kernel hands out at once.
const BUFFER_BYTES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (NullModem, File, File) {
        let modem = NullModem::start(|| Ok(())).unwrap();
        let (near, far) = (open_raw(modem.near()), open_raw(modem.far()));
        (modem, near.unwrap(), far.unwrap())
    }

    #[test]
    fn every_byte_value_comes_out_of_the_other_side_as_it_went_in() {
        let (_modem, mut near, mut far) = ends();
        let bytes: Vec<u8> = (0..=255).collect();
        let mut found = [0; 256];
        near.write_all(&bytes).unwrap();
        far.read_exact(&mut found).unwrap();
        assert_eq!(found[..], bytes);
        far.write_all(&bytes).unwrap();
        near.read_exact(&mut found).unwrap();
        assert_eq!(found[..], bytes);
    }

    /// Each is far above what the terminals hold: were one way to wait for the other, nobody would
    /// come to read.
    #[test]
    fn both_sides_may_write_a_megabyte_at_once() {
        let (_modem, near, far) = ends();
        thread::scope(|scope| {
            for (mut writer, mut reader, fill) in [(&near, &far, 3_u8), (&far, &near, 7)] {
                scope.spawn(move || writer.write_all(&vec![fill; 1 << 20]).unwrap());
                scope.spawn(move || {
                    let mut found = vec![0; 1 << 20];
                    reader.read_exact(&mut found).unwrap();
                    assert!(found.iter().all(|&byte| byte == fill));
                });
            }
        });
    }

    #[test]
    fn hanging_up_ends_a_read_that_waits() {
        let (modem, mut near, _far) = ends();
        let hangup = modem.hangup();
        thread::scope(|scope| {
            let reading = scope.spawn(move || near.read(&mut [0; 8]));
            hangup.hang_up();
            // An end of stream; an error where the read begins when the terminal has gone.
            assert!(!matches!(reading.join().unwrap(), Ok(1..)));
        });
    }

    /// Bytes once came back changed: a link of another process was trying to reopen a terminal that had
    /// gone, and the kernel had given its name to one of ours.
    #[test]
    #[cfg(feature = "serial")]
    fn a_link_that_wants_a_terminal_for_itself_does_not_get_one_of_ours() {
        let (modem, _near, _far) = ends();
        for path in [modem.near(), modem.far()] {
            let wanted = Address::Serial(SerialLine::new(path));
            let refused = tautline::DirectLink::connect(&wanted, tautline::LinkOptions::default());
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("in use"), "{said}");
        }
        tautline::DirectLink::connect(&modem.near_address(), tautline::LinkOptions::default())
            .unwrap();
    }

    #[test]
    fn a_place_that_is_refused_is_an_error_of_the_start() {
        let refused = NullModem::start(|| Err(io::Error::other("no such place")));
        assert_eq!(refused.unwrap_err().to_string(), "no such place");
    }
}
