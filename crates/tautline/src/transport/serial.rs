//! How a serial line begins: opened, claimed, set, and read back.
//!
//! Nothing here is for ever: a device that is not there, or is somebody else's, may be there at the next
//! attempt, by the same path. Only a setting that its driver does not have is refused for good.

mod settings;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use serial2::SerialPort;

use self::settings::{bus_config, bus_of, compare, make_settings, unlike};
use super::tty::Tty;
use super::{Socket, holder};
use crate::address::{Address, SerialLine};
use crate::error::{Error, ErrorKind, plain};
use crate::sys;

/// Opens the device and sets the line.
pub(super) fn open(address: &Address, line: &SerialLine) -> Result<Socket, Error> {
    address.validate()?;
    let opening = Opening { address, line };
    let (file, is_pseudo) = opening.open_device()?;
    let file = opening.claim(file, is_pseudo)?;
    let mut port = SerialPort::from(OwnedFd::from(file));
    let mut effective = opening.set_line(&mut port)?;
    opening.set_rs485(&port, &mut effective)?;
    opening.set_modem_lines(&port)?;
    opening.set_low_latency(&port, &mut effective)?;
    // What came so far came with other settings, or for somebody else.
    sys::tty::tcflush_input(port.as_fd())
        .map_err(|cause| opening.failed("flush its input", cause))?;
    let tty = Tty::new(effective, is_pseudo)
        .map_err(|cause| opening.failed("make an eventfd for it", cause))?;
    Ok(Socket::of_line(port.into(), tty))
}

struct Opening<'a> {
    address: &'a Address,
    line: &'a SerialLine,
}

impl Opening<'_> {
    /// The open device, and whether it is a pseudo-terminal.
    fn open_device(&self) -> Result<(File, bool), Error> {
        let path = &self.line.path;
        // Asked before it is opened: to open a pipe or a tape is to do something to it.
        let found = fs::metadata(path).map_err(|cause| self.not_opened(cause))?;
        let kind = found.file_type();
        if !kind.is_char_device() {
            let what = if kind.is_dir() {
                "a directory"
            } else if kind.is_file() {
                "a regular file"
            } else {
                "no character device"
            };
            return Err(self.refused(format!("this is {what}, no serial device")));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(|cause| self.not_opened(cause))?;
        let device = file
            .metadata()
            .map_err(|cause| self.failed("stat", cause))?;
        let is_pseudo = PSEUDO_TERMINALS.contains(&libc::major(device.rdev()));
        Ok((file, is_pseudo))
    }

    /// Makes it ours alone, if that is asked for.
    ///
    /// `TIOCEXCL` stops every open but root's, `flock` everybody who asks for the lock too, as we do. On a
    /// pseudo-terminal the lock alone: there `TIOCEXCL` outlives a program that is killed.
    fn claim(&self, file: File, is_pseudo: bool) -> Result<File, Error> {
        if !self.line.exclusive {
            return Ok(file);
        }
        match sys::file::flock_exclusive(file.as_fd()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Before who has it open is looked for: we ourselves have.
                drop(file);
                return Err(self.in_use());
            }
            Err(cause) => return Err(self.failed("lock", cause)),
        }
        if is_pseudo {
            return Ok(file);
        }
        // Asking is newer than setting, and a device that hangs up now says so below.
        if sys::tty::ioctl_tiocgexcl(file.as_fd()).unwrap_or(false) {
            drop(file);
            return Err(self.in_use());
        }
        match sys::tty::ioctl_tiocexcl(file.as_fd()) {
            Err(cause) if cause.raw_os_error() == Some(libc::ENOTTY) => Err(self.no_terminal()),
            Err(cause) => Err(self.failed("make it exclusive", cause)),
            Ok(()) => Ok(file),
        }
    }

    /// Sets everything that `termios(3)` knows, and reads it back.
    fn set_line(&self, port: &mut SerialPort) -> Result<SerialLine, Error> {
        let settings = port.get_configuration();
        let mut settings = settings.map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENOTTY) => self.no_terminal(),
            _ => self.failed("read its settings", cause),
        })?;
        make_settings(self.line, &mut settings).map_err(|cause| self.unavailable("baud", cause))?;
        sys::tty::ioctl_tcsets2(port.as_fd(), settings.as_termios())
            .map_err(|cause| self.failed("set the line", cause))?;
        let effective = port
            .get_configuration()
            .map_err(|cause| self.failed("read its settings", cause))?;
        compare(self.line, &effective)
    }

    fn set_rs485(&self, port: &SerialPort, effective: &mut SerialLine) -> Result<(), Error> {
        let Some(asked) = &self.line.rs485 else {
            return Ok(());
        };
        port.set_rs4xx_mode(bus_config(asked))
            .map_err(|cause| self.unavailable("rs485", cause))?;
        let set = port
            .get_rs4xx_mode()
            .map_err(|cause| self.unavailable("rs485", cause))?;
        let set = bus_of(&set);
        if set != Some(*asked) {
            let why = format!("the driver sets {set:?} of {asked:?}");
            return Err(self.unlike("rs485", why));
        }
        effective.rs485 = set;
        Ok(())
    }

    fn set_modem_lines(&self, port: &SerialPort) -> Result<(), Error> {
        if let Some(level) = self.line.dtr {
            port.set_dtr(level)
                .map_err(|cause| self.unavailable("dtr", cause))?;
        }
        if let Some(level) = self.line.rts {
            port.set_rts(level)
                .map_err(|cause| self.unavailable("rts", cause))?;
        }
        Ok(())
    }

    /// Sets it if asked to, and tells what it is in any case.
    fn set_low_latency(&self, port: &SerialPort, effective: &mut SerialLine) -> Result<(), Error> {
        let driver = sys::tty::ioctl_tiocgserial(port.as_fd());
        let mut driver = match driver {
            Ok(driver) => driver,
            Err(cause) if self.line.low_latency => {
                return Err(self.unavailable("low_latency", cause));
            }
            // The driver has no such thing, and it was not asked for.
            Err(_) => return Ok(()),
        };
        if self.line.low_latency {
            driver.flags |= sys::tty::ASYNC_LOW_LATENCY;
            sys::tty::ioctl_tiocsserial(port.as_fd(), &driver)
                .map_err(|cause| self.unavailable("low_latency", cause))?;
            driver = sys::tty::ioctl_tiocgserial(port.as_fd())
                .map_err(|cause| self.unavailable("low_latency", cause))?;
        }
        effective.low_latency = driver.flags & sys::tty::ASYNC_LOW_LATENCY != 0;
        if self.line.low_latency && !effective.low_latency {
            let why = "the driver takes it and does not set it".to_owned();
            return Err(self.unlike("low_latency", why));
        }
        Ok(())
    }

    fn refused(&self, why: impl Into<String>) -> Error {
        Error::open(ErrorKind::Connect, self.address, why, None)
    }

    fn no_terminal(&self) -> Error {
        self.refused("this is a character device that is no terminal, no serial device")
    }

    fn not_opened(&self, cause: io::Error) -> Error {
        let advice = match cause.raw_os_error() {
            Some(libc::EBUSY) => return self.in_use(),
            Some(libc::ENOENT) => "; is it plugged in?",
            Some(libc::EACCES) => {
                "; the group of the device may use it, often dialout: see `ls -lL` of its path"
            }
            Some(libc::ENXIO | libc::ENODEV | libc::EIO) => "; nothing is behind this name",
            _ => "",
        };
        let why = format!("{}{advice}", plain(&cause));
        Error::open(ErrorKind::Connect, self.address, why, Some(cause))
    }

    fn in_use(&self) -> Error {
        let device = fs::canonicalize(&self.line.path).ok();
        let holder = device.and_then(|device| holder::of_device(&device));
        let holder = holder.map_or_else(
            || "held by a process that is not visible from here".to_owned(),
            |holder| holder.to_string(),
        );
        let why = format!("the device is in use: {holder}; stop it first");
        let cause = io::Error::from_raw_os_error(libc::EBUSY);
        Error::open(ErrorKind::AddressInUse, self.address, why, Some(cause))
    }

    fn failed(&self, step: &str, cause: io::Error) -> Error {
        let why = format!("{step}: {}", plain(&cause));
        Error::open(ErrorKind::Connect, self.address, why, Some(cause))
    }

    /// The driver does not take a setting. Anything else that goes wrong may pass.
    fn unavailable(&self, setting: &'static str, cause: io::Error) -> Error {
        match cause.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM) => {
                let why = format!("the driver does not take it: {}", plain(&cause));
                self.unlike(setting, why)
            }
            _ => self.failed(setting, cause),
        }
    }

    fn unlike(&self, setting: &'static str, why: String) -> Error {
        unlike(self.line, setting, why)
    }
}

/// Majors of the slaves of Unix98 pseudo-terminals (include/uapi/linux/major.h).
const PSEUDO_TERMINALS: RangeInclusive<u32> = 136..=143;
#[cfg(test)]
mod tests;
