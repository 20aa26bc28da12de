//! A wire that loopback is not: two network namespaces joined by a veth pair, on which the kernel cuts
//! a batch of datagrams into packets before they leave.
//!
//! It takes root, or the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN, and the program `ip`. The
//! namespaces have no name and end with the last thread and socket in them.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{self, Command};
use std::thread;

use crate::sys;

/// Both namespaces.
#[derive(Debug)]
pub struct Veth {
    client: File,
    server: File,
}

impl Veth {
    /// Makes both and joins them.
    ///
    /// # Errors
    ///
    /// In words: what was not allowed, or what `ip` said.
    pub fn make() -> Result<Self, String> {
        // On a thread of its own, because a thread that cannot come back would be lost to others.
        let made = thread::spawn(|| {
            let namespace = || {
                let why = |cause| format!("a network namespace: {cause}");
                sys::namespace::unshare_network().map_err(why)?;
                File::open(OWN_NETWORK).map_err(why)
            };
            let veth = Self {
                client: namespace()?,
                server: namespace()?,
            };
            veth.join()?;
            Ok(veth)
        });
        made.join().map_err(|_| "veth: a panic".to_owned())?
    }

    /// The address of the server's side.
    #[must_use]
    pub const fn server_host(&self) -> IpAddr {
        SERVER
    }

    /// The address of the client's side.
    #[must_use]
    pub const fn client_host(&self) -> IpAddr {
        CLIENT
    }

    /// Puts the calling thread, and those it starts, into the client's namespace for good.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn enter_client(&self) -> io::Result<()> {
        sys::namespace::enter_network(self.client.as_fd())
    }

    /// Does something in the server's namespace: sockets that it opens and threads that it starts stay
    /// there, the calling thread comes back.
    ///
    /// # Errors
    ///
    /// What the system said of going there, or of coming back.
    pub fn in_server<T>(&self, there: impl FnOnce() -> T) -> io::Result<T> {
        let home = File::open(OWN_NETWORK)?;
        sys::namespace::enter_network(self.server.as_fd())?;
        let done = there();
        sys::namespace::enter_network(home.as_fd())?;
        Ok(done)
    }

    /// The pair, made from the server's namespace, in which the calling thread is.
    fn join(&self) -> Result<(), String> {
        let there = format!("/proc/{}/fd/{}", process::id(), self.client.as_raw_fd());
        let pair = "link add vserver type veth peer name vclient netns";
        ip(pair.split(' ').chain([there.as_str()]))?;
        let up = |name: &str, host: IpAddr| {
            ip(["address", "add", &format!("{host}/24"), "dev", name])?;
            // Before anything leaves: a device that takes one segment has the kernel cut the rest.
            ip(["link", "set", name, "gso_max_segs", "1"])?;
            ip(["link", "set", name, "up"])
        };
        up("vserver", SERVER)?;
        let enter = sys::namespace::enter_network;
        let why = |cause: io::Error| format!("a network namespace: {cause}");
        enter(self.client.as_fd()).map_err(why)?;
        up("vclient", CLIENT)
    }
}

/// Runs `ip` in the calling thread's namespace.
fn ip<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let words: Vec<&str> = words.into_iter().collect();
    let line = words.join(" ");
    let output = Command::new("ip").args(&words).output();
    let output = output.map_err(|cause| format!("ip {line}: {cause} (Debian: iproute2)"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {line}: {}", said.trim()))
}

const OWN_NETWORK: &str = "/proc/thread-self/ns/net";
/// Nobody else is in these namespaces, so any private network does.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_datagram_crosses_where_namespaces_may_be_made() {
        // Without the right to, the reason is all there is.
        let veth = match Veth::make() {
            Ok(veth) => veth,
            Err(why) => return assert!(!why.is_empty()),
        };
        let server = veth.in_server(|| UdpSocket::bind((SERVER, 0)).unwrap());
        let server = server.unwrap();
        let outside = UdpSocket::bind((SERVER, 0));
        assert!(outside.is_err(), "the calling thread came back");
        server
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let to = server.local_addr().unwrap();
        thread::spawn(move || {
            veth.enter_client().unwrap();
            let client = UdpSocket::bind((veth.client_host(), 0)).unwrap();
            client.send_to(b"across", to).unwrap();
        });
        let mut buffer = [0; 16];
        let (bytes, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..bytes], from.ip()), (&b"across"[..], CLIENT));
    }
}
