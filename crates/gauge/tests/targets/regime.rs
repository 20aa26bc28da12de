//! When the machine counts as changed.

use crate::program::regime::Regime;

fn machine(flag_ns: Option<f64>, park_ns: f64) -> Regime {
    Regime {
        one_core: Some(1),
        split: Some((0, 1)),
        flag_ns,
        park_ns: Some(park_ns),
        park_awake_ns: None,
        load: None,
        tcp: None,
        notes: Vec::new(),
    }
}

#[test]
fn a_figure_that_moved_by_a_third_either_way_is_a_change() {
    let before = machine(Some(200.0), 20_000.0);
    let changes = |flag_ns, park_ns| before.changes_to(&machine(Some(flag_ns), park_ns));
    assert!(changes(250.0, 16_000.0).is_empty());
    assert_eq!(changes(400.0, 20_000.0), ["flag 0.20 -> 0.40 us"]);
    assert_eq!(changes(200.0, 10_000.0), ["park 20.00 -> 10.00 us"]);
}

#[test]
fn what_was_not_measured_has_not_changed() {
    let before = machine(None, 20_000.0);
    assert!(before.changes_to(&machine(Some(1.0), 20_000.0)).is_empty());
}
