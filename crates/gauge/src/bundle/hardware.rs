//! `hardware.json`: the machine before the run and after it, the way to the peer, and how the program was
//! built.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::manifest::now;
use crate::environment::{Cgroup, Environment, Frequency, Load, Route, ThermalZone};
use crate::report::Report;

/// The schema that the record follows, as its first field says.
pub const HARDWARE_SCHEMA: &str = "tautline.hardware/1";

/// The record of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Always [`HARDWARE_SCHEMA`].
    pub schema: Cow<'static, str>,
    /// When it was completed, in UTC.
    pub read_at: String,
    /// The machine before the run.
    pub environment: Environment,
    /// What may have changed by the end of the run; `None` where there was no run.
    pub after: Option<After>,
    /// The way to each peer.
    pub routes: Vec<Route>,
    /// How the program was built.
    pub build: Build,
}

/// What a run may change, read again after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// The CPU time this process may use, and how often that stopped it.
    pub cgroup: Cgroup,
    /// How fast the processor ran by then.
    pub frequency: Frequency,
    /// What else the machine was doing.
    pub load: Load,
    /// How warm it had become.
    pub thermal: Option<Vec<ThermalZone>>,
}

/// How the program was built; a fact that nobody knows is `unknown`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// What `rustc --version` said.
    pub compiler: String,
    /// `release` or `debug`.
    pub profile: String,
    /// `opt-level`.
    pub opt_level: String,
    /// The target triple.
    pub target: String,
    /// The commit of the source.
    pub commit: String,
    /// Whether the source differed from the commit; `None` is unknown.
    pub modified: Option<bool>,
}

impl Hardware {
    /// The machine as it is, with no run.
    #[must_use]
    pub fn now(environment: Environment, build: Build) -> Self {
        Self {
            schema: HARDWARE_SCHEMA.into(),
            read_at: now(),
            environment,
            after: None,
            routes: Vec::new(),
            build,
        }
    }

    /// The machine that a run has just ended on.
    #[must_use]
    pub fn after_run(report: &Report, build: Build) -> Self {
        let after = Environment::read();
        Self {
            after: Some(After {
                cgroup: after.cgroup,
                frequency: after.frequency,
                load: after.load,
                thermal: after.thermal,
            }),
            routes: routes(report),
            ..Self::now(report.environment.clone(), build)
        }
    }
}

/// The way to everybody that the run talked to, once each.
fn routes(report: &Report) -> Vec<Route> {
    let mut peers: Vec<&str> = Vec::new();
    for cell in &report.cells {
        // The address that was really connected, where it came to that.
        let remote = cell.path.remote.as_deref();
        let uds = cell.transport == "uds";
        peers.push(remote.filter(|_| !uds).unwrap_or(&cell.address));
    }
    peers.extend(report.stream.iter().map(|row| row.address.as_str()));
    let soak = report.soak.as_ref();
    peers.extend(soak.and_then(|soak| soak.setting.address.as_deref()));
    let bench =
        !report.latency.is_empty() || !report.strategy.is_empty() || !report.udp_smoke.is_empty();
    peers.extend(report.servers_elsewhere());
    if bench && peers.is_empty() {
        peers.push("127.0.0.1");
    }
    let mut routes: Vec<Route> = Vec::new();
    for peer in peers {
        if routes.iter().all(|route| route.to != peer) {
            routes.push(route(peer, report.same_host));
        }
    }
    routes
}

fn route(peer: &str, same_host: Option<bool>) -> Route {
    let (scheme, host) = peer.split_once("://").unwrap_or(("", peer));
    if scheme == "uds" {
        return Route::within_the_kernel(peer);
    }
    match literal(host) {
        Some(address) => Route::to(address, peer),
        // The kernel takes whatever is for itself through its loopback.
        None if same_host == Some(true) => Route::to(Ipv4Addr::LOCALHOST.into(), peer),
        // A name may mean another address by now than it did when it was measured.
        None => Route::within_the_kernel(peer),
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let (address, _) = host.split_once('%').unwrap_or((host, ""));
    let without_port = match address.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None if address.matches(':').count() == 1 => address.split(':').next().unwrap_or_default(),
        None => address,
    };
    without_port.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn an_address_is_found_in_whatever_stands_around_it() {
        let of = |text: &str| literal(text).map(|address| address.to_string());
        assert_eq!(of("10.0.0.5:6001").as_deref(), Some("10.0.0.5"));
        assert_eq!(of("10.0.0.5").as_deref(), Some("10.0.0.5"));
        assert_eq!(of("[fe80::1%eth0]:6001").as_deref(), Some("fe80::1"));
        assert_eq!(of("[::1]").as_deref(), Some("::1"));
        assert_eq!(of("::1").as_deref(), Some("::1"));
        assert_eq!(of("board.local:6001"), None);
    }

    #[test]
    fn each_peer_has_one_way() {
        let mut report = sample::ping_report();
        report.cells.push(report.cells[0].clone());
        let ways = routes(&report);
        let all: Vec<&str> = ways.iter().map(|way| way.to.as_str()).collect();
        let mut once = all.clone();
        once.dedup();
        assert_eq!(all, once);
        assert_eq!(routes(&sample::report())[0].to, "127.0.0.1");
    }
}
