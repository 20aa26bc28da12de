//! Which serial devices there are, by what the kernel says of them in `/sys`.
//!
//! Nothing is opened: that would raise modem lines, and reset what hangs on them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::address::{Address, SerialLine};

/// A serial device that has a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SerialPort {
    /// Such as `/dev/ttyUSB0`: what is plugged in first is 0.
    pub path: PathBuf,
    /// Such as `/dev/serial/by-id/usb-FTDI_FT232R_A1B2C3-if00-port0`: the same wherever it is plugged in.
    /// `None` where udev has made none.
    pub by_id: Option<PathBuf>,
    /// The name of its driver in the kernel, such as `ftdi_sio`.
    pub driver: String,
    /// How long the adapter gathers what it received before it hands it over, in milliseconds (FTDI).
    /// 16 as it comes, 1 with [`low_latency`](SerialLine::low_latency). `None` where there is none.
    pub latency_timer_ms: Option<u32>,
    /// The USB device that it is a part of.
    pub usb: Option<UsbDevice>,
}

/// What a USB device says of itself: foreign words, of which every control character is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsbDevice {
    /// Who made it, as a number.
    pub vendor_id: u16,
    /// What it is, as a number of that vendor.
    pub product_id: u16,
    /// Who made it.
    pub manufacturer: Option<String>,
    /// What it is.
    pub product: Option<String>,
    /// Which one it is; many have none, or all the same.
    pub serial_number: Option<String>,
}

impl SerialPort {
    /// Its address with the default settings, under the name that stays the same, if it has one.
    pub fn address(&self) -> Address {
        let path = self.by_id.as_ref().unwrap_or(&self.path);
        Address::Serial(SerialLine::new(path))
    }
}

/// The serial devices of this machine, sorted by their names.
///
/// Only those with a driver and something behind it: no virtual terminals, no pseudo-terminals, and
/// none of the ports that an 8250 driver sets aside for hardware that is not there. A device whose
/// listing cannot be read, for it was unplugged meanwhile, is left out.
///
/// # Errors
/// `/sys/class/tty` cannot be read: `/sys` is not mounted, or not for us.
///
/// ```
/// for port in tautline::serial::ports().unwrap_or_default() {
///     println!("{} by {}: {:?}", port.address(), port.driver, port.usb);
/// }
/// ```
pub fn ports() -> io::Result<Vec<SerialPort>> {
    ports_under(Path::new("/"))
}

fn ports_under(root: &Path) -> io::Result<Vec<SerialPort>> {
    let names = stable_names(&root.join("dev/serial/by-id"));
    let entries = fs::read_dir(root.join("sys/class/tty"))?;
    let mut ports: Vec<SerialPort> = entries
        .take(PORTS_LIMIT)
        .map_while(Result::ok)
        .filter_map(|entry| port(&entry.path(), &names))
        .collect();
    ports.sort_by_cached_key(|port| by_number(&port.path));
    Ok(ports)
}

/// The links that udev makes: which leads to the device of which name.
fn stable_names(directory: &Path) -> HashMap<OsString, PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let links = entries.take(PORTS_LIMIT).map_while(Result::ok);
    links
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let link = Path::new("/dev/serial/by-id").join(entry.file_name());
            Some((target.file_name()?.to_owned(), link))
        })
        .collect()
}

fn port(tty: &Path, names: &HashMap<OsString, PathBuf>) -> Option<SerialPort> {
    let name = tty.file_name()?;
    // Terminals that no device is behind have no such link.
    let device = fs::canonicalize(tty.join("device")).ok()?;
    if line_of(&tty.join("type")).as_deref() == Some(UNKNOWN_8250) {
        return None;
    }
    let driver = driver_of(&device)?;
    let latency_timer = line_of(&device.join("latency_timer"));
    Some(SerialPort {
        path: Path::new("/dev").join(name),
        by_id: names.get(name).cloned(),
        driver,
        latency_timer_ms: latency_timer.and_then(|ms| ms.parse().ok()),
        usb: device.ancestors().take(PARENTS_LIMIT).find_map(usb_device),
    })
}

/// The nearest driver of the device or of what it is a part of. The kernel's own layers between a port
/// and its hardware (`serial-base`) are passed over.
fn driver_of(device: &Path) -> Option<String> {
    device.ancestors().take(PARENTS_LIMIT).find_map(|part| {
        let bus = fs::read_link(part.join("subsystem")).ok()?;
        if bus.file_name() == Some(OsStr::new("serial-base")) {
            return None;
        }
        let driver = fs::read_link(part.join("driver")).ok()?;
        Some(escaped(&driver.file_name()?.to_string_lossy()))
    })
}

fn usb_device(part: &Path) -> Option<UsbDevice> {
    let number = |file| u16::from_str_radix(&line_of(&part.join(file))?, 16).ok();
    Some(UsbDevice {
        vendor_id: number("idVendor")?,
        product_id: number("idProduct")?,
        manufacturer: line_of(&part.join("manufacturer")),
        product: line_of(&part.join("product")),
        serial_number: line_of(&part.join("serial")),
    })
}

/// The first line of a short file, fit to be shown; `None` where there is none.
fn line_of(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(file).ok()?;
    file.take(LINE_LIMIT_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| escaped(line))
}

/// Without what a terminal would take for orders.
fn escaped(text: &str) -> String {
    let letters = text.chars().map(|letter| {
        if letter.is_control() {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    });
    letters.collect()
}

/// `ttyUSB10` comes after `ttyUSB9`.
fn by_number(path: &Path) -> (OsString, u32) {
    let name = path.as_os_str().to_string_lossy();
    let letters = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = name[letters.len()..].parse().unwrap_or(0);
    (letters.into(), number)
}

/// `PORT_UNKNOWN` (include/uapi/linux/serial_core.h): a port without hardware.
const UNKNOWN_8250: &str = "0";
/// Terminals looked at: pseudo-terminals are not among them.
const PORTS_LIMIT: usize = 4096;
/// From a port up to the device that it is a part of: hubs are passed by way of their names.
const PARENTS_LIMIT: usize = 8;
/// A USB string has 126 characters.
const LINE_LIMIT_BYTES: u64 = 512;

#[cfg(test)]
mod tests;
