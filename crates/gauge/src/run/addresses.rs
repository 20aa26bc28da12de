//! Where the ends of a run listen, or the servers elsewhere; and the folder of its Unix sockets.

use std::fs::DirBuilder;
use std::io;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, process};

use tautline::{Address, DirectLink, DirectListener, LinkOptions, Tls, UdsName};

use super::plug::Plug;
use super::remote::Remote;
use crate::certificate;
use crate::clock::now_ns;
use crate::control::End;
use crate::leftovers::Leftover;
use crate::null_modem::NullModem;
use crate::plan::{Plan, Transport};
use crate::statistics::mix;

/// Hands out addresses to listen on.
#[derive(Debug)]
pub(crate) struct Addresses {
    bind: Vec<Address>,
    remotes: Vec<Remote>,
    plug: Option<Plug>,
    folder: Leftover,
    sockets: AtomicU64,
}

impl Addresses {
    pub(crate) fn new(plan: &Plan, remotes: Vec<Remote>) -> io::Result<Self> {
        let plug = plan.latency.as_ref().and_then(|plan| plan.plug.as_ref());
        Ok(Self {
            bind: plan.bind.clone(),
            remotes,
            plug: plug.map(Plug::hold).transpose().map_err(io::Error::other)?,
            folder: fresh_folder()?,
            sockets: AtomicU64::new(0),
        })
    }

    /// The one serial port that the run is on, where it is on one.
    pub(crate) fn plug(&self) -> Option<&Plug> {
        self.plug.as_ref()
    }

    /// The server elsewhere, where the run is against one.
    pub(crate) fn remote(&self, transport: Transport) -> Option<&Remote> {
        self.remotes
            .iter()
            .find(|remote| remote.asked.scheme() == transport.token())
    }

    /// Listens and connects once over each transport, where the run will, and ends at once: what
    /// cannot be had is said before the first cell, not after an hour.
    pub(crate) fn try_all(&self, transports: &[Transport]) -> Result<(), String> {
        for &transport in transports {
            if self.remote(transport).is_some() {
                // It was met when it was found.
                continue;
            }
            let Some(address) = self.asked(transport) else {
                // A port was opened when the run took hold of it.
                if self.plug.is_none() {
                    try_line()?;
                }
                continue;
            };
            let options = LinkOptions {
                tls: match transport {
                    Transport::Tls => certificate::server()?,
                    Transport::Tcp | Transport::Udp | Transport::Uds | Transport::Serial => {
                        Tls::default()
                    }
                },
                ..LinkOptions::default()
            };
            if let Err(error) = DirectListener::bind(&address, options) {
                return Err(match self.folder_is_too_long(&address) {
                    true => format!("{error}; TMPDIR is too long for sockets: set a shorter one"),
                    false => error.to_string(),
                });
            }
            let host = self.control_host(transport);
            End::pair(transport, host).map_err(|cause| match cause.kind() {
                io::ErrorKind::NetworkUnreachable => {
                    format!("{cause}; is the interface of {host} up? try: ip link set lo up")
                }
                _ => cause.to_string(),
            })?;
        }
        Ok(())
    }

    fn folder_is_too_long(&self, address: &Address) -> bool {
        match address {
            Address::Uds(UdsName::Path(path)) => {
                path.starts_with(self.folder.path()) && path.as_os_str().len() > UDS_PATH_LIMIT
            }
            _ => false,
        }
    }

    /// Where the library's server listens: as asked for, else as [`Self::other`].
    pub(crate) fn asked(&self, transport: Transport) -> Option<Address> {
        let asked = self
            .bind
            .iter()
            .find(|address| address.scheme() == transport.token());
        asked.cloned().or_else(|| self.other(transport))
    }

    /// Where another end of the same run listens: on an ephemeral port of the host asked for, or on a
    /// fresh socket in the folder; `None` on serial lines, on which nobody listens.
    pub(crate) fn other(&self, transport: Transport) -> Option<Address> {
        let host = || self.host(transport).unwrap_or("127.0.0.1").to_owned();
        Some(match transport {
            Transport::Tcp => Address::Tcp {
                host: host(),
                port: 0,
            },
            Transport::Tls => Address::Tls {
                host: host(),
                port: 0,
            },
            Transport::Udp => Address::Udp {
                host: host(),
                port: 0,
            },
            Transport::Serial => return None,
            Transport::Uds => {
                let number = self.sockets.fetch_add(1, Ordering::Relaxed);
                Address::Uds(UdsName::Path(
                    self.folder.path().join(format!("{number}.sock")),
                ))
            }
        })
    }

    /// The address of the control's sockets. A host that cannot be resolved is the library's to
    /// report: it listens on the same one.
    pub(crate) fn control_host(&self, transport: Transport) -> IpAddr {
        self.host(transport)
            .and_then(|host| (host, 0).to_socket_addrs().ok()?.next())
            .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
    }

    fn host(&self, transport: Transport) -> Option<&str> {
        self.bind
            .iter()
            .find_map(|address| match (transport, address) {
                (Transport::Tcp, Address::Tcp { host, .. })
                | (Transport::Tls, Address::Tls { host, .. })
                | (Transport::Udp, Address::Udp { host, .. }) => Some(host.as_str()),
                _ => None,
            })
    }
}

/// Opens one end of a null modem, as the run will, and hangs up.
fn try_line() -> Result<(), String> {
    let modem = NullModem::start(|| Ok(())).map_err(|cause| cause.to_string())?;
    DirectLink::connect(&modem.near_address(), LinkOptions::default())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// A fresh folder that only we may enter.
fn fresh_folder() -> io::Result<Leftover> {
    // An empty TMPDIR is none, and a socket's address has to be absolute.
    let parent = match env::temp_dir() {
        empty if empty.as_os_str().is_empty() => PathBuf::from("/tmp"),
        parent => std::path::absolute(parent)?,
    };
    for attempt in 0..ATTEMPTS {
        let name = mix(now_ns() ^ attempt);
        let path = parent.join(format!("tautline-{}-{name:016x}", process::id()));
        // Unlike `create_dir_all` this fails on a folder that somebody else has put there.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(Leftover::new(path)),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => {
                let place = parent.display();
                return Err(io::Error::new(
                    cause.kind(),
                    format!("make a folder for sockets in {place}: {cause}"),
                ));
            }
        }
    }
    Err(io::Error::other(format!(
        "no free name for a folder in {}",
        parent.display()
    )))
}

/// `sun_path` without its final zero (`unix(7)`).
const UDS_PATH_LIMIT: usize = 107;
/// Names have 64 bits: a second attempt is next to impossible already.
const ATTEMPTS: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn addresses(bind: &[&str]) -> Addresses {
        let mut plan = Plan::full(1);
        plan.bind = bind.iter().map(|text| text.parse().unwrap()).collect();
        Addresses::new(&plan, Vec::new()).unwrap()
    }

    #[test]
    fn the_default_is_an_ephemeral_loopback_port_and_a_fresh_socket() {
        let addresses = addresses(&[]);
        assert_eq!(
            addresses.asked(Transport::Tcp).unwrap().to_string(),
            "tcp://127.0.0.1:0"
        );
        assert_eq!(
            addresses.asked(Transport::Udp).unwrap().to_string(),
            "udp://127.0.0.1:0"
        );
        assert_eq!(addresses.asked(Transport::Serial), None);
        let first = addresses.asked(Transport::Uds).unwrap();
        assert_ne!(Some(&first), addresses.asked(Transport::Uds).as_ref());
        assert!(first.to_string().ends_with("/0.sock"), "{first}");
        assert_eq!(
            addresses.control_host(Transport::Tcp),
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        );
    }

    #[test]
    fn a_bound_address_is_the_servers_and_its_host_everybodys() {
        let addresses = addresses(&["tcp://127.0.0.2:4000", "uds:///run/x.sock"]);
        assert_eq!(
            addresses.asked(Transport::Tcp).unwrap().to_string(),
            "tcp://127.0.0.2:4000"
        );
        assert_eq!(
            addresses.other(Transport::Tcp).unwrap().to_string(),
            "tcp://127.0.0.2:0"
        );
        assert_eq!(
            addresses.control_host(Transport::Tcp).to_string(),
            "127.0.0.2"
        );
        assert_eq!(
            addresses.asked(Transport::Udp).unwrap().to_string(),
            "udp://127.0.0.1:0"
        );
        assert_eq!(
            addresses.asked(Transport::Uds).unwrap().to_string(),
            "uds:///run/x.sock"
        );
        assert!(
            addresses
                .other(Transport::Uds)
                .unwrap()
                .to_string()
                .ends_with("/0.sock")
        );
    }

    #[test]
    fn the_folder_is_ours_alone_and_goes_with_its_contents() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = fresh_folder().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(path.join("left.sock"), "").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
