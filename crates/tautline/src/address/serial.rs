//! A serial line as an address: which device, and how it is set.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Fault;
use super::escape::{unescape, write_escaped};

/// A serial line: which device, and how it is set. As text `serial:///dev/ttyUSB0?baud=115200`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SerialLine {
    /// The device, such as `/dev/ttyUSB0`, or a link to it in `/dev/serial/by-id`, which is followed
    /// anew each time it is opened.
    pub path: PathBuf,
    /// Bits a second, whatever the driver takes.
    ///
    /// Default 115,200.
    pub baud: u32,
}

impl SerialLine {
    /// The device at `path` with the defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            baud: 115_200,
        }
    }

    pub(super) fn parse(rest: &str) -> Result<Self, Fault> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = unescape(path)?;
        let mut line = Self::new(OsStr::from_bytes(&path));
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                Some(("baud", baud)) => {
                    line.baud = baud
                        .parse()
                        .map_err(|_| Fault::syntax(format!("the baud {baud:?} is no number")))?;
                }
                _ => {
                    return Err(Fault::syntax(format!(
                        "{setting:?} is no setting of a line"
                    )));
                }
            }
        }
        Ok(line)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        if !self.path.is_absolute() {
            return Err(Fault::syntax(
                "the path is absolute, with three slashes: serial:///dev/ttyUSB0",
            ));
        }
        if self.baud == 0 {
            return Err(Fault::syntax("a baud of 0 would hang up"));
        }
        Ok(())
    }

    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.path.as_os_str().as_bytes())?;
        write!(f, "?baud={}", self.baud)
    }
}
