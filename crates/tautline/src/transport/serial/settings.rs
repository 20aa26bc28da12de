//! What is asked of a line in the words of `termios(3)` and of the kernel's RS-485, and back.

use std::io;
use std::time::Duration;

use serial2::rs4xx::{Rs485Config, TransceiverMode};
use serial2::{CharSize, Settings, StopBits};

use crate::address::{FlowControl, Parity, Rs485, SerialLine};
use crate::error::Error;

/// A raw line: every byte passes as it is, a read returns as soon as one has come.
pub(super) fn make_settings(line: &SerialLine, settings: &mut Settings) -> io::Result<()> {
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
pub(super) fn compare(line: &SerialLine, set: &Settings) -> Result<SerialLine, Error> {
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

pub(super) fn bus_config(rs485: &Rs485) -> Rs485Config {
    let mut config = Rs485Config::new();
    config.set_invert_rts(!rs485.rts_on_send);
    config.set_delay_before_send(milliseconds(rs485.delay_before_send_ms));
    config.set_delay_after_send(milliseconds(rs485.delay_after_send_ms));
    config.set_full_duplex(rs485.receive_while_sending);
    config
}

/// How the driver has set the bus; `None` where it has not.
pub(super) fn bus_of(mode: &TransceiverMode) -> Option<Rs485> {
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

/// A setting that a driver does not have as it was asked for.
pub(super) fn unlike(line: &SerialLine, setting: &'static str, why: String) -> Error {
    Error::option(setting, format!("{}: {why}", line.path.display()))
}

/// One part in so many may a baud be off. Two ends that are off by as much as this each, one way and
/// the other, still agree on the middle of a character's last bit.
const BAUD_TOLERANCE: u32 = 40;
const XON: u8 = 0x11;
const XOFF: u8 = 0x13;
