//! What lies around the processor: its control group, its socket buffers, the network, the heat, and what
//! only some boards have.

use std::fmt::Write as _;

use super::Page;
use crate::bundle::Hardware;
use crate::environment::{Cgroup, Environment, Jetson, Route, ThermalZone};

pub(super) fn control_group(page: &mut Page, hardware: &Hardware) {
    let before = &hardware.environment.cgroup;
    page.group("Control group");
    page.fact(
        "CPU quota",
        before.limited.map(|limited| match before.quota_cpus {
            Some(cpus) => format!("{cpus:.2} CPUs"),
            None if limited => "set".to_owned(),
            None => "none".to_owned(),
        }),
    );
    let throttled = |group: &Cgroup| {
        let periods = group.throttled_periods?;
        let ms = group.throttled_us.map(|us| us as f64 / 1e3);
        let ms = ms.map_or_else(String::new, |ms| format!(", {ms:.1} ms"));
        Some(format!("{periods} periods{ms}"))
    };
    match &hardware.after {
        None => page.fact("stopped since it exists", throttled(before)),
        Some(after) => {
            page.fact("stopped before the run", throttled(before));
            page.fact("stopped by its end", throttled(&after.cgroup));
        }
    }
}

pub(super) fn sockets(page: &mut Page, environment: &Environment) {
    let sockets = &environment.sockets;
    page.group("Socket buffers, default and most");
    let pair = |default: Option<u64>, most: Option<u64>| {
        let (default, most) = default.zip(most)?;
        Some(format!("{default} and {most} bytes"))
    };
    page.fact(
        "receive",
        pair(sockets.receive_default_bytes, sockets.receive_max_bytes),
    );
    page.fact(
        "send",
        pair(sockets.send_default_bytes, sockets.send_max_bytes),
    );
}

pub(super) fn routes(page: &mut Page, routes: &[Route]) {
    if routes.is_empty() {
        return;
    }
    page.group("Network");
    for route in routes {
        page.fact(&route.to, way(route));
    }
}

fn way(route: &Route) -> Option<String> {
    if route.to.starts_with("uds:") {
        return Some("a Unix socket: within the kernel".to_owned());
    }
    let mut way = format!("through {}", route.interface.as_ref()?);
    if route.loopback == Some(true) {
        way.push_str(", the loopback: no NIC and no wire");
    }
    let facts = [
        route
            .gateway
            .as_ref()
            .map(|gateway| format!("router {gateway}")),
        route
            .driver
            .as_ref()
            .map(|driver| format!("driver {driver}")),
        route
            .speed_mbit_per_s
            .map(|speed| format!("{speed} Mbit/s")),
        route.mtu_bytes.map(|mtu| format!("MTU {mtu}")),
    ];
    for fact in facts.into_iter().flatten() {
        let _ = write!(way, ", {fact}");
    }
    Some(way)
}

pub(super) fn temperatures(page: &mut Page, hardware: &Hardware) {
    let before = &hardware.environment.thermal;
    let after = hardware
        .after
        .as_ref()
        .and_then(|after| after.thermal.as_ref());
    page.group("Temperatures");
    let Some(zones) = before.as_ref().filter(|zones| !zones.is_empty()) else {
        page.fact("thermal zones", before.as_ref().map(|_| "none"));
        return;
    };
    for (number, zone) in zones.iter().enumerate() {
        let later = after.and_then(|zones| zones.get(number));
        page.fact(&zone.name, warmth(zone, later));
    }
}

fn warmth(zone: &ThermalZone, later: Option<&ThermalZone>) -> Option<String> {
    let before = zone.celsius?;
    let after = later.and_then(|zone| zone.celsius);
    let after = after.map_or_else(String::new, |celsius| {
        format!(", {celsius:.1} C after the run")
    });
    Some(format!("{before:.1} C{after}"))
}

pub(super) fn jetson_board(page: &mut Page, jetson: &Jetson) {
    page.group("Jetson");
    page.fact("model", jetson.model.as_ref());
    page.fact("L4T release", jetson.l4t_release.as_ref());
    let number = jetson.power_mode_id.map(|id| format!("number {id}"));
    page.fact("power mode", jetson.power_mode.clone().or(number));
    for clock in &jetson.clocks {
        let mhz = |hz: Option<u64>| {
            hz.map_or_else(
                || "unknown".to_owned(),
                |hz| format!("{:.0}", hz as f64 / 1e6),
            )
        };
        let governor = clock.governor.as_deref().unwrap_or("unknown");
        page.fact(
            &clock.name,
            Some(format!(
                "{} MHz, within {} to {} MHz by {governor}",
                mhz(clock.current_hz),
                mhz(clock.min_hz),
                mhz(clock.max_hz),
            )),
        );
    }
}
