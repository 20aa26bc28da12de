//! A serial line as an address: which device, and how it is set.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Fault;
use super::escape::{unescape, write_escaped};

/// A serial line: which device, and how it is set.
///
/// As text `serial:///dev/ttyUSB0?baud=9600&parity=even`; each field is a setting of its own name, and
/// only those that differ from their default are printed, after `baud`, which always is.
///
/// | setting | values | default |
/// |---|---|---|
/// | `baud` | bits a second | 115200 |
/// | `data_bits` | 5, 6, 7, 8 | 8 |
/// | `parity` | none, odd, even | none |
/// | `stop_bits` | 1, 2 | 1 |
/// | `flow` | none, hardware, software | none |
/// | `rs485` | on, off; on takes the four settings that follow | off |
/// | `rs485_rts_on_send` | on, off | on |
/// | `rs485_delay_before_send_ms`, `rs485_delay_after_send_ms` | 0 to 100 | 0 |
/// | `rs485_receive_while_sending` | on, off | off |
/// | `dtr`, `rts` | on, off | left alone |
/// | `low_latency` | on, off | off: left alone |
/// | `exclusive` | on, off | on |
///
/// A value that the driver does not take is refused by the setting's name when the line is opened:
/// every setting is read back. What is in effect is told by `Opened::local`.
///
/// The line is raw: every byte passes as it is, both ways, except that [`FlowControl::Software`] takes
/// 0x11 and 0x13 for itself. What had come before the line was set is thrown away when it is opened:
/// it was received with other settings, or for somebody else. Whatever comes after `opened` is
/// delivered. A byte that came with a wrong parity or stop bit is left out, and breaks are passed over.
///
/// Opening a serial device raises its modem lines DTR and RTS, in the driver and before any program
/// could forbid it, and the last close lowers them (`HUPCL`, left as it is found): boards that reset by
/// DTR do so at each. The other settings stay with the device after a close.
///
/// ```
/// use tautline::serial::{Parity, SerialLine};
/// use tautline::Address;
///
/// let line = SerialLine { baud: 9_600, parity: Parity::Even, ..SerialLine::new("/dev/ttyUSB0") };
/// let text = Address::Serial(line.clone()).to_string();
/// assert_eq!(text, "serial:///dev/ttyUSB0?baud=9600&parity=even");
/// assert_eq!(text.parse::<Address>()?, Address::Serial(line));
/// # Ok::<(), tautline::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SerialLine {
    /// The device, such as `/dev/ttyUSB0`, or a link to it in `/dev/serial/by-id`, which is followed
    /// anew each time it is opened.
    pub path: PathBuf,
    /// Bits a second, whatever the driver takes, 4,000,000 or 31,250.
    ///
    /// Default 115,200. A clock divides into what it can: up to 2.5 % off is taken, and told.
    pub baud: u32,
    /// Bits of a character: 5 to 8.
    ///
    /// Default 8.
    pub data_bits: u8,
    /// The bit that checks a character.
    ///
    /// Default [`Parity::None`].
    pub parity: Parity,
    /// Bits that end a character: 1 or 2.
    ///
    /// Default 1.
    pub stop_bits: u8,
    /// How an end says that it can take no more.
    ///
    /// Default [`FlowControl::None`].
    pub flow: FlowControl,
    /// Has the driver turn the transmitter of an RS-485 bus on and off around what is sent.
    ///
    /// Default `None`: left as it is. Needs a driver and a port that can; most USB adapters do it by
    /// themselves and neither need nor take this.
    pub rs485: Option<Rs485>,
    /// Data terminal ready, set at each opening.
    ///
    /// Default `None`: left as the driver has it, which raises it when the device is opened.
    pub dtr: Option<bool>,
    /// Request to send, set at each opening.
    ///
    /// Default `None`: left as the driver has it, which raises it when the device is opened. Refused
    /// where hardware flow control or RS-485 drives it.
    pub rts: Option<bool>,
    /// Has the driver hand over what it received at once (`ASYNC_LOW_LATENCY`).
    ///
    /// Default false: left as it is. An FTDI adapter otherwise gathers up to 16 ms; its timer then
    /// stands at 1 ms. Refused by name where the driver has no such thing or does not do it.
    pub low_latency: bool,
    /// Refuses everybody else who opens the device (`TIOCEXCL`, and `flock` for those of us who may
    /// open it all the same), and is refused where somebody has it.
    ///
    /// Default true: two readers each get a part of the bytes.
    pub exclusive: bool,
}

/// The bit that checks a character of a serial line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Parity {
    /// There is none.
    #[default]
    None,
    /// It makes the number of ones odd.
    Odd,
    /// It makes the number of ones even.
    Even,
}

/// How an end of a serial line says that it can take no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FlowControl {
    /// It does not: bytes that come too fast are lost.
    #[default]
    None,
    /// By the lines RTS and CTS.
    Hardware,
    /// By the bytes XOFF (0x13) and XON (0x11), which then cannot be part of a message: for text.
    Software,
}

/// How the driver turns the transmitter of an RS-485 bus on and off (`ioctl(TIOCSRS485)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rs485 {
    /// Whether RTS is high while sending and low after, or the other way round.
    ///
    /// Default true.
    pub rts_on_send: bool,
    /// Milliseconds from turning the transmitter on to the first bit: 0 to 100.
    ///
    /// Default 0.
    pub delay_before_send_ms: u32,
    /// Milliseconds from the last bit to turning the transmitter off: 0 to 100.
    ///
    /// Default 0.
    pub delay_after_send_ms: u32,
    /// Whether the receiver stays on while we send: for four wires, or to hear oneself.
    ///
    /// Default false.
    pub receive_while_sending: bool,
}

impl SerialLine {
    /// The device at `path` with the defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            baud: 115_200,
            data_bits: 8,
            parity: Parity::None,
            stop_bits: 1,
            flow: FlowControl::None,
            rs485: None,
            dtr: None,
            rts: None,
            low_latency: false,
            exclusive: true,
        }
    }

    pub(super) fn parse(rest: &str) -> Result<Self, Fault> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = unescape(path)?;
        let mut line = Self::new(OsStr::from_bytes(&path));
        let mut seen = Vec::new();
        let mut bus = Rs485::default();
        let mut bus_setting = None;
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Fault::syntax(format!(
                    "{setting:?} is no setting: write NAME=VALUE"
                )));
            };
            if seen.contains(&name) {
                return Err(Fault::syntax(format!("{name} is set twice")));
            }
            seen.push(name);
            match name {
                "baud" => line.baud = number(name, value)?,
                "data_bits" => line.data_bits = one_of(name, value, &DATA_BITS)?,
                "parity" => line.parity = one_of(name, value, &PARITIES)?,
                "stop_bits" => line.stop_bits = one_of(name, value, &STOP_BITS)?,
                "flow" => line.flow = one_of(name, value, &FLOWS)?,
                "rs485" => line.rs485 = switch(name, value)?.then_some(bus),
                "dtr" => line.dtr = Some(switch(name, value)?),
                "rts" => line.rts = Some(switch(name, value)?),
                "low_latency" => line.low_latency = switch(name, value)?,
                "exclusive" => line.exclusive = switch(name, value)?,
                _ if bus.set(name, value)? => bus_setting = Some(name),
                _ => {
                    return Err(Fault::syntax(format!(
                        "{name:?} is no setting of a serial line: they are {SETTINGS}"
                    )));
                }
            }
        }
        match (bus_setting, &mut line.rs485) {
            (Some(_), Some(rs485)) => *rs485 = bus,
            (Some(name), None) => {
                return Err(Fault::syntax(format!("{name} goes with rs485=on")));
            }
            (None, _) => {}
        }
        Ok(line)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let path = self.path.as_os_str().as_bytes();
        if !self.path.is_absolute() {
            return Err(Fault::syntax(
                "the path is absolute, with three slashes: serial:///dev/ttyUSB0",
            ));
        }
        if path.contains(&0) {
            return Err(Fault::syntax("a path has no NUL"));
        }
        if path.len() > PATH_LIMIT {
            return Err(Fault::syntax(format!(
                "the path has {} bytes, the limit is {PATH_LIMIT}",
                path.len()
            )));
        }
        if self.baud == 0 {
            return Err(Fault::syntax("a baud of 0 would hang up"));
        }
        if !(5..=8).contains(&self.data_bits) {
            let why = format!("data_bits is 5, 6, 7 or 8, not {}", self.data_bits);
            return Err(Fault::syntax(why));
        }
        if !(1..=2).contains(&self.stop_bits) {
            let why = format!("stop_bits is 1 or 2, not {}", self.stop_bits);
            return Err(Fault::syntax(why));
        }
        self.check_rts()
    }

    fn check_rts(&self) -> Result<(), Fault> {
        let hardware = self.flow == FlowControl::Hardware;
        if self.rts.is_some() && hardware {
            return Err(Fault::syntax("flow=hardware drives RTS: leave rts out"));
        }
        let Some(rs485) = &self.rs485 else {
            return Ok(());
        };
        if self.rts.is_some() {
            return Err(Fault::syntax("rs485 drives RTS: leave rts out"));
        }
        if hardware {
            return Err(Fault::syntax(
                "rs485 drives RTS, which flow=hardware needs: choose one",
            ));
        }
        for (name, ms) in [
            (BEFORE_SEND, rs485.delay_before_send_ms),
            (AFTER_SEND, rs485.delay_after_send_ms),
        ] {
            if ms > RS485_DELAY_LIMIT_MS {
                return Err(Fault::syntax(format!(
                    "{name} is 0 to {RS485_DELAY_LIMIT_MS}, the kernel's most, not {ms}"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::new("");
        write_escaped(f, self.path.as_os_str().as_bytes())?;
        write!(f, "?baud={}", self.baud)?;
        if self.data_bits != default.data_bits {
            write!(f, "&data_bits={}", self.data_bits)?;
        }
        if self.parity != default.parity {
            write!(f, "&parity={}", word_of(self.parity, &PARITIES))?;
        }
        if self.stop_bits != default.stop_bits {
            write!(f, "&stop_bits={}", self.stop_bits)?;
        }
        if self.flow != default.flow {
            write!(f, "&flow={}", word_of(self.flow, &FLOWS))?;
        }
        if let Some(rs485) = &self.rs485 {
            rs485.write(f)?;
        }
        for (name, level) in [("dtr", self.dtr), ("rts", self.rts)] {
            if let Some(level) = level {
                write!(f, "&{name}={}", word_of(level, &SWITCH))?;
            }
        }
        if self.low_latency {
            f.write_str("&low_latency=on")?;
        }
        if !self.exclusive {
            f.write_str("&exclusive=off")?;
        }
        Ok(())
    }
}

impl Default for Rs485 {
    fn default() -> Self {
        Self {
            rts_on_send: true,
            delay_before_send_ms: 0,
            delay_after_send_ms: 0,
            receive_while_sending: false,
        }
    }
}

impl Rs485 {
    /// Whether there is a setting of this name.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        match name {
            RTS_ON_SEND => self.rts_on_send = switch(name, value)?,
            BEFORE_SEND => self.delay_before_send_ms = number(name, value)?,
            AFTER_SEND => self.delay_after_send_ms = number(name, value)?,
            RECEIVE_WHILE_SENDING => self.receive_while_sending = switch(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        f.write_str("&rs485=on")?;
        if self.rts_on_send != default.rts_on_send {
            write!(f, "&{RTS_ON_SEND}=off")?;
        }
        if self.delay_before_send_ms != default.delay_before_send_ms {
            write!(f, "&{BEFORE_SEND}={}", self.delay_before_send_ms)?;
        }
        if self.delay_after_send_ms != default.delay_after_send_ms {
            write!(f, "&{AFTER_SEND}={}", self.delay_after_send_ms)?;
        }
        if self.receive_while_sending {
            write!(f, "&{RECEIVE_WHILE_SENDING}=on")?;
        }
        Ok(())
    }
}

fn number(name: &str, value: &str) -> Result<u32, Fault> {
    // Not by `parse` alone, which takes "+9600".
    let digits = value.bytes().all(|digit| digit.is_ascii_digit());
    let parsed = if digits { value.parse().ok() } else { None };
    parsed.ok_or_else(|| Fault::syntax(format!("{name} is a number, not {value:?}")))
}

fn switch(name: &str, value: &str) -> Result<bool, Fault> {
    one_of(name, value, &SWITCH)
}

fn one_of<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Fault::syntax(format!(
            "{name} is one of {}, not {value:?}",
            allowed.join(", ")
        ))
    })
}

fn word_of<T: Copy + PartialEq>(meant: T, words: &[(&'static str, T)]) -> &'static str {
    let found = words.iter().find(|(_, value)| *value == meant);
    found.expect("every value has its word").0
}

const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];
const DATA_BITS: [(&str, u8); 4] = [("5", 5), ("6", 6), ("7", 7), ("8", 8)];
const STOP_BITS: [(&str, u8); 2] = [("1", 1), ("2", 2)];
const PARITIES: [(&str, Parity); 3] = [
    ("none", Parity::None),
    ("odd", Parity::Odd),
    ("even", Parity::Even),
];
const FLOWS: [(&str, FlowControl); 3] = [
    ("none", FlowControl::None),
    ("hardware", FlowControl::Hardware),
    ("software", FlowControl::Software),
];

const RTS_ON_SEND: &str = "rs485_rts_on_send";
const BEFORE_SEND: &str = "rs485_delay_before_send_ms";
const AFTER_SEND: &str = "rs485_delay_after_send_ms";
const RECEIVE_WHILE_SENDING: &str = "rs485_receive_while_sending";
const SETTINGS: &str = "baud, data_bits, parity, stop_bits, flow, rs485, rs485_rts_on_send, \
    rs485_delay_before_send_ms, rs485_delay_after_send_ms, rs485_receive_while_sending, dtr, rts, \
    low_latency and exclusive";

/// `RS485_MAX_RTS_DELAY` of the kernel (include/linux/serial_core.h), which clamps in silence.
const RS485_DELAY_LIMIT_MS: u32 = 100;
/// `PATH_MAX` with its zero.
const PATH_LIMIT: usize = 4095;

#[cfg(test)]
mod tests;
