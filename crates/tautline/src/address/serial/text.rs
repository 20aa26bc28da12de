//! A serial line as text: its settings by their names, and back.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use super::{FlowControl, Parity, Rs485, SerialLine};
use crate::address::Fault;
use crate::address::escape::{unescape, write_escaped};

impl SerialLine {
    pub(in crate::address) fn parse(rest: &str) -> Result<Self, Fault> {
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

    pub(in crate::address) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
pub(super) const BEFORE_SEND: &str = "rs485_delay_before_send_ms";
pub(super) const AFTER_SEND: &str = "rs485_delay_after_send_ms";
const RECEIVE_WHILE_SENDING: &str = "rs485_receive_while_sending";
const SETTINGS: &str = "baud, data_bits, parity, stop_bits, flow, rs485, rs485_rts_on_send, \
    rs485_delay_before_send_ms, rs485_delay_after_send_ms, rs485_receive_while_sending, dtr, rts, \
    low_latency and exclusive";
