//! A console to a serial device: what is typed goes out line by line, and what comes is printed.
//! `cargo run -p tautline --features serial --example serial_console -- /dev/ttyUSB0?baud=9600`
//!
//! Without a device it lists those that there are, and talks to one that it makes itself: a
//! pseudo-terminal with a thread behind it that answers.

use std::io::{self, BufRead};
use std::os::fd::AsRawFd;
use std::time::Duration;
use std::{fs, thread};

use serial2::SerialPort;
use tautline::serial::ports;
use tautline::{
    Address, Closed, Framing, Handler, IoOptions, IoThread, Link, LinkOptions, Opened, Received,
    Reconnect,
};

struct Console;

impl Handler for Console {
    fn opened(&mut self, _: &Link, opened: &Opened) {
        if let Some(line) = &opened.local {
            eprintln!("open: {line}");
        }
    }

    fn message(&mut self, _: &Link, line: &[u8], _: Received) {
        println!("{}", line.escape_ascii());
    }

    fn closed(&mut self, _: &Link, closed: &Closed) {
        eprintln!("closed: {}", closed.reason);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = LinkOptions {
        framing: Framing::lines(),
        reconnect: Some(Reconnect::default()), // Unplugged, it waits for the device to come back.
        ..LinkOptions::default()
    };
    let io = IoThread::start(IoOptions::default())?;
    let Some(device) = std::env::args().nth(1) else {
        return demonstrate(&io, options);
    };
    let address: Address = format!("serial://{device}").parse()?;
    let link = io.connect(&address, options, Console)?;
    for line in io::stdin().lock().lines() {
        if let Err(error) = link.send(line?.as_bytes()) {
            eprintln!("not sent: {error}");
        }
    }
    link.close(Duration::from_secs(5));
    Ok(())
}

fn demonstrate(io: &IoThread, options: LinkOptions) -> Result<(), Box<dyn std::error::Error>> {
    for port in ports()? {
        println!("{} by {}", port.address(), port.driver);
    }
    let (device, line) = SerialPort::pair()?;
    let path = fs::read_link(format!("/proc/self/fd/{}", line.as_raw_fd()))?;
    let address: Address = format!("serial://{}?baud=9600", path.display()).parse()?;
    let link = io.connect(&address, options, Console)?;
    link.wait_open(Duration::from_secs(5))?;
    let answering = thread::spawn(move || -> io::Result<()> {
        let mut asked = [0; 6];
        device.read_exact(&mut asked)?;
        println!("the device is asked {}", asked.escape_ascii());
        device.write_all(b"Tautline,Example,0,1.0\n")
    });
    link.send(b"*IDN?")?;
    answering.join().expect("the device did not panic")?;
    link.close(Duration::from_secs(5));
    Ok(())
}
