//! The page of a machine made by hand.

use super::*;
use crate::bundle::{After, Build};
use crate::environment::{Jetson, Route, ScaledClock, ThermalZone};
use crate::report::sample;
use crate::report::text::WIDTH;

fn board() -> Hardware {
    let mut environment = sample::report().environment;
    environment.jetson = Some(Jetson {
        model: Some("NVIDIA Jetson Orin Nano".to_owned()),
        l4t_release: Some("R36 (release), REVISION: 5.0".to_owned()),
        power_mode_id: Some(2),
        power_mode: Some("MAXN_SUPER".to_owned()),
        clocks: vec![ScaledClock {
            name: "policy0".to_owned(),
            current_hz: Some(1_728_000_000),
            min_hz: None,
            max_hz: Some(1_728_000_000),
            governor: Some("schedutil".to_owned()),
        }],
    });
    let zone = |celsius| ThermalZone {
        name: "cpu-thermal".to_owned(),
        celsius: Some(celsius),
    };
    environment.thermal = Some(vec![zone(48.0)]);
    Hardware {
        schema: crate::bundle::HARDWARE_SCHEMA.into(),
        read_at: "2026-08-30T12:50:00Z".to_owned(),
        environment,
        after: Some(After {
            thermal: Some(vec![zone(61.5)]),
            ..After::default()
        }),
        routes: vec![Route {
            to: "127.0.0.1".to_owned(),
            interface: Some("lo".to_owned()),
            loopback: Some(true),
            mtu_bytes: Some(65_536),
            ..Route::default()
        }],
        build: Build {
            compiler: "rustc 1.95.0".to_owned(),
            profile: "release".to_owned(),
            opt_level: "3".to_owned(),
            target: "aarch64-unknown-linux-gnu".to_owned(),
            commit: "f5bb58e1".to_owned(),
            modified: Some(true),
        },
    }
}

#[test]
fn the_page_of_a_board() {
    insta::assert_snapshot!(render(&sample::report(), &board()));
}

#[test]
fn what_is_unknown_says_so_and_no_line_is_too_wide() {
    let mut report = sample::report();
    report.environment = Environment::default();
    let mut hardware = board();
    hardware.environment = Environment::default();
    hardware.environment.board = Some("x\u{1b}[31m".repeat(60));
    let page = render(&report, &hardware);
    assert!(page.contains("  model: unknown\n"), "{page}");
    assert!(page.lines().all(|line| line.len() <= WIDTH), "{page}");
    assert!(page.is_ascii() && !page.contains('\u{1b}'));
}
