//! The way to a peer: which interface leads there, and what that interface is.
//!
//! Read from the kernel's routing tables as `/proc` shows them, so that it asks nobody and a fixture
//! tests it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tree::Tree;

/// The way to one address, and the interface it begins at. What cannot be read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The other end, as the run knew it.
    pub to: String,
    /// The interface that leads there.
    pub interface: Option<String>,
    /// That interface is the loopback: no NIC and no wire are on the way.
    pub loopback: Option<bool>,
    /// The router on the way, where there is one.
    pub gateway: Option<String>,
    /// The driver of the interface; the loopback and other virtual ones have none.
    pub driver: Option<String>,
    /// Speed of the link; virtual interfaces have none, or claim one.
    pub speed_mbit_per_s: Option<u64>,
    /// Largest packet of the interface.
    pub mtu_bytes: Option<u64>,
    /// `up`, `down`, `unknown`, as the driver says.
    pub state: Option<String>,
}

impl Route {
    /// The way to an address from this machine.
    #[must_use]
    pub fn to(address: IpAddr, name: &str) -> Self {
        Self::to_from(Path::new("/"), address, name)
    }

    /// The same on the machine whose `/proc` and `/sys` lie below `root`.
    #[must_use]
    pub fn to_from(root: &Path, address: IpAddr, name: &str) -> Self {
        let tree = Tree::new(root);
        let hop = match address.to_canonical() {
            IpAddr::V4(address) => hop_v4(&tree, address),
            IpAddr::V6(address) => hop_v6(&tree, address),
        };
        let (interface, gateway) = hop.unwrap_or_default();
        let read = |file: &str| tree.word(&format!("sys/class/net/{}/{file}", interface.as_ref()?));
        Self {
            to: name.to_owned(),
            loopback: interface.as_ref().map(|interface| interface == LOOPBACK),
            gateway,
            driver: interface
                .as_ref()
                .and_then(|name| tree.link_name(&format!("sys/class/net/{name}/device/driver"))),
            // -1 where it has none; reading it of an interface that is down is an error.
            speed_mbit_per_s: read("speed").and_then(|speed| speed.parse().ok()),
            mtu_bytes: read("mtu").and_then(|mtu| mtu.parse().ok()),
            state: read("operstate"),
            interface,
        }
    }

    /// The way to a Unix socket, which is none.
    #[must_use]
    pub fn within_the_kernel(name: &str) -> Self {
        Self {
            to: name.to_owned(),
            ..Self::default()
        }
    }
}

/// An interface, and the router behind it where there is one.
type Hop = (Option<String>, Option<String>);

/// The longest prefix of `/proc/net/route` that covers the address. The machine's own addresses stand
/// in another table, which only the trie shows.
fn hop_v4(tree: &Tree, address: Ipv4Addr) -> Option<Hop> {
    if address.is_loopback() || is_own(tree, address) {
        return Some((Some(LOOPBACK.to_owned()), None));
    }
    let table = tree.word("proc/net/route")?;
    let mut best: Option<(u32, Hop)> = None;
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, gateway, _, _, _, _, mask, ..] = fields[..] else {
            continue;
        };
        // Each is the address as it lies in memory, printed as a number of this machine.
        let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes);
        let (Some(destination), Some(gateway), Some(mask)) =
            (number(destination), number(gateway), number(mask))
        else {
            continue;
        };
        let mask = u32::from_be_bytes(mask);
        if u32::from(address) & mask != u32::from_be_bytes(destination) {
            continue;
        }
        if best.as_ref().is_none_or(|(longest, _)| mask > *longest) {
            let gateway = Ipv4Addr::from(gateway);
            let gateway = (!gateway.is_unspecified()).then(|| gateway.to_string());
            best = Some((mask, (Some(interface.to_owned()), gateway)));
        }
    }
    best.map(|(_, hop)| hop)
}

fn is_own(tree: &Tree, address: Ipv4Addr) -> bool {
    let Some(trie) = tree.word("proc/net/fib_trie") else {
        return false;
    };
    let leaf = format!("|-- {address}");
    let mut lines = trie.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line == leaf && lines.next().is_some_and(|line| line == "/32 host LOCAL") {
            return true;
        }
    }
    false
}

/// The longest prefix of `/proc/net/ipv6_route`, in which the machine's own addresses lead to `lo`.
fn hop_v6(tree: &Tree, address: Ipv6Addr) -> Option<Hop> {
    let table = tree.word("proc/net/ipv6_route")?;
    let mut best: Option<(u32, Hop)> = None;
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [destination, length, _, _, gateway, .., flags, interface] = fields[..] else {
            continue;
        };
        let number = |text: &str| u128::from_str_radix(text, 16).ok();
        let (Some(destination), Some(gateway), Some(flags)) =
            (number(destination), number(gateway), number(flags))
        else {
            continue;
        };
        let Some(length) = u32::from_str_radix(length, 16)
            .ok()
            .filter(|&bits| bits <= 128)
        else {
            continue;
        };
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        if u128::from(address) & mask != destination & mask || flags & REJECT != 0 {
            continue;
        }
        if best.as_ref().is_none_or(|(longest, _)| length > *longest) {
            let gateway = (gateway != 0).then(|| Ipv6Addr::from(gateway).to_string());
            best = Some((length, (Some(interface.to_owned()), gateway)));
        }
    }
    best.map(|(_, hop)| hop)
}

const LOOPBACK: &str = "lo";
/// `RTF_REJECT`: the catch-all entry that says "unreachable".
const REJECT: u128 = 0x0200;

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    #[cfg(target_endian = "little")]
    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
can0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const TRIE: &str = "\
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.0.7
        /32 host LOCAL
     |-- 10.0.0.255
        /32 link BROADCAST
";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_longest_prefix_leads_the_way() {
        let root = fixture(&[
            ("proc/net/route", ROUTES),
            ("proc/net/fib_trie", TRIE),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/speed", "1000\n"),
            ("sys/class/net/eth0/operstate", "up\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
            ("sys/class/net/lo/speed", "-1\n"),
            ("drivers/r8168/uevent", ""),
        ]);
        std::fs::create_dir_all(root.path().join("sys/class/net/eth0/device")).unwrap();
        std::os::unix::fs::symlink(
            "../../../../../drivers/r8168",
            root.path().join("sys/class/net/eth0/device/driver"),
        )
        .unwrap();
        let to = |address: &str| Route::to_from(root.path(), address.parse().unwrap(), address);

        let near = to("10.0.0.5");
        assert_eq!(near.interface.as_deref(), Some("eth0"));
        assert_eq!((near.loopback, near.gateway), (Some(false), None));
        assert_eq!(near.driver.as_deref(), Some("r8168"));
        assert_eq!(
            (near.speed_mbit_per_s, near.mtu_bytes),
            (Some(1_000), Some(1_500))
        );
        assert_eq!(to("192.168.2.9").interface.as_deref(), Some("can0"));
        assert_eq!(to("8.8.8.8").gateway.as_deref(), Some("10.0.0.1"));
        for own in ["127.0.0.1", "10.0.0.7", "::ffff:127.0.0.1"] {
            let own = to(own);
            assert_eq!(own.interface.as_deref(), Some("lo"), "{}", own.to);
            assert_eq!((own.loopback, own.speed_mbit_per_s), (Some(true), None));
        }
        // Its own network's broadcast address is nobody's own.
        assert_eq!(to("10.0.0.255").interface.as_deref(), Some("eth0"));
    }

    #[test]
    fn addresses_of_six_words_have_their_own_table() {
        let table = "\
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003     eth0
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";
        let root = fixture(&[("proc/net/ipv6_route", table)]);
        let to = |address: &str| Route::to_from(root.path(), address.parse().unwrap(), address);
        assert_eq!(to("::1").loopback, Some(true));
        assert_eq!(to("fe80::5").interface.as_deref(), Some("eth0"));
        assert_eq!(to("2001:db8::1").gateway.as_deref(), Some("fe80::1"));
    }

    #[test]
    fn without_the_tables_the_way_is_unknown() {
        let root = fixture(&[]);
        let found = Route::to_from(root.path(), "10.0.0.5".parse().unwrap(), "10.0.0.5:6001");
        assert_eq!(found, Route::within_the_kernel("10.0.0.5:6001"));
    }
}
