//! How a serial line begins: opened, claimed, set, and read back.
//!
//! Nothing here is for ever: a device that is not there, or is somebody else's, may be there at the next
//! attempt, by the same path. Only a setting that its driver does not have is refused for good.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use serial2::rs4xx::{Rs485Config, TransceiverMode};
use serial2::{CharSize, SerialPort, Settings, StopBits};

use super::tty::Tty;
use super::{Socket, holder};
use crate::address::{Address, FlowControl, Parity, Rs485, SerialLine};
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

fn unlike(line: &SerialLine, setting: &'static str, why: String) -> Error {
    Error::option(setting, format!("{}: {why}", line.path.display()))
}

/// A raw line: every byte passes as it is, a read returns as soon as one has come.
fn make_settings(line: &SerialLine, settings: &mut Settings) -> io::Result<()> {
    settings.set_raw();
    settings.set_baud_rate(line.baud)?;
    settings.set_char_size(match line.data_bits {
        5 => CharSize::Bits5,
        6 => CharSize::Bits6,
        7 => CharSize::Bits7,
        8 => CharSize::Bits8,
        _ => unreachable!("checked with the address"),
    });
    settings.set_parity(match line.parity {
        Parity::None => serial2::Parity::None,
        Parity::Odd => serial2::Parity::Odd,
        Parity::Even => serial2::Parity::Even,
    });
    settings.set_stop_bits(match line.stop_bits {
        1 => StopBits::One,
        2 => StopBits::Two,
        _ => unreachable!("checked with the address"),
    });
    settings.set_flow_control(match line.flow {
        FlowControl::None => serial2::FlowControl::None,
        FlowControl::Hardware => serial2::FlowControl::RtsCts,
        FlowControl::Software => serial2::FlowControl::XonXoff,
    });
    // What serial2 leaves as it finds it, and whoever had the device before may have set.
    let termios = settings.as_termios_mut();
    termios.c_iflag &= !(libc::INPCK | libc::IXANY | libc::IUCLC | libc::IMAXBEL);
    if line.parity != Parity::None {
        termios.c_iflag |= libc::INPCK;
    }
    // Receive, and without a carrier too: most devices have none. Sticky parity (CMSPAR) is nobody's.
    termios.c_cflag |= libc::CREAD | libc::CLOCAL;
    termios.c_cflag &= !libc::CMSPAR;
    termios.c_cc[libc::VSTART] = XON;
    termios.c_cc[libc::VSTOP] = XOFF;
    Ok(())
}

/// The line as the driver has set it, or the first setting that is not what was asked for.
fn compare(line: &SerialLine, set: &Settings) -> Result<SerialLine, Error> {
    let termios = set.as_termios();
    let mut effective = line.clone();
    effective.baud = termios.c_ospeed;
    if effective.baud.abs_diff(line.baud) > line.baud / BAUD_TOLERANCE {
        let why = format!("the driver sets {} of {}", effective.baud, line.baud);
        return Err(unlike(line, "baud", why));
    }
    effective.data_bits = match termios.c_cflag & libc::CSIZE {
        libc::CS5 => 5,
        libc::CS6 => 6,
        libc::CS7 => 7,
        _ => 8,
    };
    effective.parity = match termios.c_cflag & (libc::PARENB | libc::PARODD) {
        both if both == libc::PARENB | libc::PARODD => Parity::Odd,
        libc::PARENB => Parity::Even,
        _ => Parity::None,
    };
    effective.stop_bits = if termios.c_cflag & libc::CSTOPB == 0 {
        1
    } else {
        2
    };
    effective.flow = if termios.c_cflag & libc::CRTSCTS != 0 {
        FlowControl::Hardware
    } else if termios.c_iflag & libc::IXON != 0 {
        FlowControl::Software
    } else {
        FlowControl::None
    };
    let (asked, got) = (line, &effective);
    let differs = [
        (
            "data_bits",
            asked.data_bits != got.data_bits,
            format!("the driver sets {} of {}", got.data_bits, asked.data_bits),
        ),
        (
            "parity",
            asked.parity != got.parity,
            format!("the driver sets {:?} of {:?}", got.parity, asked.parity),
        ),
        (
            "stop_bits",
            asked.stop_bits != got.stop_bits,
            format!("the driver sets {} of {}", got.stop_bits, asked.stop_bits),
        ),
        (
            "flow",
            asked.flow != got.flow,
            format!("the driver sets {:?} of {:?}", got.flow, asked.flow),
        ),
    ];
    match differs.into_iter().find(|(_, differs, _)| *differs) {
        Some((setting, _, why)) => Err(unlike(line, setting, why)),
        None => Ok(effective),
    }
}

fn bus_config(rs485: &Rs485) -> Rs485Config {
    let mut config = Rs485Config::new();
    config.set_invert_rts(!rs485.rts_on_send);
    config.set_delay_before_send(milliseconds(rs485.delay_before_send_ms));
    config.set_delay_after_send(milliseconds(rs485.delay_after_send_ms));
    config.set_full_duplex(rs485.receive_while_sending);
    config
}

/// How the driver has set the bus; `None` where it has not.
fn bus_of(mode: &TransceiverMode) -> Option<Rs485> {
    let TransceiverMode::Rs485(config) = mode else {
        return None;
    };
    let ms = |delay: Duration| delay.as_millis().try_into().unwrap_or(u32::MAX);
    Some(Rs485 {
        rts_on_send: !config.get_invert_rts(),
        delay_before_send_ms: ms(config.get_delay_before_send()),
        delay_after_send_ms: ms(config.get_delay_after_send()),
        receive_while_sending: config.get_full_duplex(),
    })
}

fn milliseconds(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// Majors of the slaves of Unix98 pseudo-terminals (include/uapi/linux/major.h).
const PSEUDO_TERMINALS: RangeInclusive<u32> = 136..=143;
/// One part in so many may a baud be off. Two ends that are off by as much as this each, one way and
/// the other, still agree on the middle of a character's last bit.
const BAUD_TOLERANCE: u32 = 40;
const XON: u8 = 0x11;
const XOFF: u8 = 0x13;

#[cfg(test)]
mod tests;
