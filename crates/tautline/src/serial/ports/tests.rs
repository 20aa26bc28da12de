use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A `/sys` and `/dev` in a folder.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(machine.0.path().join("sys/class/tty")).unwrap();
        fs::create_dir_all(machine.0.path().join("dev/serial/by-id")).unwrap();
        machine
    }

    /// A device in `/sys/devices`, with its bus, its driver, and files.
    fn device(&self, path: &str, bus: &str, driver: Option<&str>, files: &[(&str, &str)]) {
        let device = self.0.path().join("sys/devices").join(path);
        fs::create_dir_all(&device).unwrap();
        symlink(format!("/bus/{bus}"), device.join("subsystem")).unwrap();
        if let Some(driver) = driver {
            symlink(format!("/drivers/{driver}"), device.join("driver")).unwrap();
        }
        for (file, content) in files {
            fs::write(device.join(file), content).unwrap();
        }
    }

    /// A terminal of this name, of that device.
    fn tty(&self, name: &str, device: Option<&str>, files: &[(&str, &str)]) {
        let tty = self.0.path().join("sys/class/tty").join(name);
        fs::create_dir(&tty).unwrap();
        if let Some(device) = device {
            let device = self.0.path().join("sys/devices").join(device);
            symlink(device, tty.join("device")).unwrap();
        }
        for (file, content) in files {
            fs::write(tty.join(file), content).unwrap();
        }
    }

    fn by_id(&self, link: &str, target: &str) {
        symlink(target, self.0.path().join("dev/serial/by-id").join(link)).unwrap();
    }

    fn ports(&self) -> Vec<SerialPort> {
        ports_under(self.0.path()).unwrap()
    }
}

const ADAPTER: &str = "pci0000:00/0000:00:14.0/usb1/1-2";

fn with_adapter(files: &[(&str, &str)]) -> Machine {
    let machine = Machine::new();
    machine.device(ADAPTER, "usb", Some("usb"), files);
    let interface = format!("{ADAPTER}/1-2:1.0");
    machine.device(&interface, "usb", Some("ftdi_sio"), &[]);
    let port = format!("{interface}/ttyUSB0");
    let timer = [("latency_timer", "16\n")];
    machine.device(&port, "usb-serial", Some("ftdi_sio"), &timer);
    machine.tty("ttyUSB0", Some(&port), &[]);
    machine
}

#[test]
fn a_usb_adapter_says_what_it_is() {
    let machine = with_adapter(&[
        ("idVendor", "0403\n"),
        ("idProduct", "6001\n"),
        ("manufacturer", "FTDI\n"),
        ("product", "FT232R USB UART\n"),
        ("serial", "A1B2C3\n"),
    ]);
    machine.by_id(
        "usb-FTDI_FT232R_USB_UART_A1B2C3-if00-port0",
        "../../ttyUSB0",
    );
    let by_id = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A1B2C3-if00-port0";
    let found = machine.ports();
    let expected = SerialPort {
        path: "/dev/ttyUSB0".into(),
        by_id: Some(by_id.into()),
        driver: "ftdi_sio".to_owned(),
        latency_timer_ms: Some(16),
        usb: Some(UsbDevice {
            vendor_id: 0x0403,
            product_id: 0x6001,
            manufacturer: Some("FTDI".to_owned()),
            product: Some("FT232R USB UART".to_owned()),
            serial_number: Some("A1B2C3".to_owned()),
        }),
    };
    assert_eq!(found, [expected]);
    let address = format!("serial://{by_id}?baud=115200");
    assert_eq!(found[0].address().to_string(), address);
}

#[test]
fn foreign_words_are_escaped_and_bounded() {
    let long = "x".repeat(100_000);
    let machine = with_adapter(&[
        ("idVendor", "0403\n"),
        ("idProduct", "6001\n"),
        ("manufacturer", "\x1b[2Jevil\u{9b}\r\n"),
        ("product", &long),
        ("serial", "\n"),
    ]);
    let usb = machine.ports().remove(0).usb.unwrap();
    assert_eq!(usb.manufacturer.as_deref(), Some("\\u{1b}[2Jevil\\u{9b}"));
    assert_eq!(usb.product.unwrap().len(), 512);
    assert_eq!(usb.serial_number, None);
}

#[test]
fn a_device_that_is_no_usb_has_no_numbers() {
    let machine = with_adapter(&[("idVendor", "what?\n")]);
    let found = machine.ports().remove(0);
    assert_eq!((found.usb, found.by_id), (None, None));
}

#[test]
fn ports_without_hardware_and_terminals_without_a_device_are_left_out() {
    let machine = Machine::new();
    machine.device("pnp0/00:04", "pnp", Some("serial"), &[]);
    let ports = [("ttyS0", "4\n"), ("ttyS1", "0\n")];
    for (name, kind) in ports {
        let port = format!("pnp0/00:04/00:04:0/{name}");
        machine.device("pnp0/00:04/00:04:0", "serial-base", Some("ctrl"), &[]);
        machine.device(&port, "serial-base", Some("port"), &[]);
        machine.tty(name, Some(&port), &[("type", kind)]);
        fs::remove_file(
            machine
                .0
                .path()
                .join("sys/devices/pnp0/00:04/00:04:0/subsystem"),
        )
        .unwrap();
        fs::remove_file(
            machine
                .0
                .path()
                .join("sys/devices/pnp0/00:04/00:04:0/driver"),
        )
        .unwrap();
    }
    machine.device("virtual/none", "platform", None, &[]);
    machine.tty("ttyX0", Some("virtual/none"), &[]);
    machine.tty("tty1", None, &[]);
    machine.tty("ptmx", None, &[]);
    machine.tty("gone", Some("unplugged/meanwhile"), &[]);
    let found = machine.ports();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, Path::new("/dev/ttyS0"));
    assert_eq!(found[0].driver, "serial");
}

#[test]
fn ten_comes_after_nine() {
    let machine = Machine::new();
    machine.device("x", "platform", Some("x"), &[]);
    for name in ["ttyUSB10", "ttyUSB9", "ttyACM0", "ttyUSB0"] {
        machine.tty(name, Some("x"), &[]);
    }
    let paths: Vec<PathBuf> = machine.ports().into_iter().map(|port| port.path).collect();
    let expected = [
        "/dev/ttyACM0",
        "/dev/ttyUSB0",
        "/dev/ttyUSB9",
        "/dev/ttyUSB10",
    ];
    assert_eq!(paths, expected.map(PathBuf::from));
}

#[test]
fn without_sys_it_is_an_error_and_without_udev_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    assert!(ports_under(folder.path()).is_err());
    fs::create_dir_all(folder.path().join("sys/class/tty")).unwrap();
    assert_eq!(ports_under(folder.path()).unwrap(), []);
}
