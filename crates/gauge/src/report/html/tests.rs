//! The page as a browser gets it.

use proptest::prelude::*;

use super::plots::tests::whole_bench;
use super::*;
use crate::report::sample;

fn page(report: Report) -> String {
    render(&[("run.json".to_owned(), report)])
}

/// What stands between a tag and its end, each time it occurs.
fn inside(page: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    let each = page.split(open.as_str()).skip(1);
    // `<th` also begins `<thead`.
    let each = each.filter(|rest| rest.starts_with([' ', '>']));
    let each = each.filter_map(|rest| rest.split_once(close.as_str()));
    let texts = each.filter_map(|(within, _)| within.split_once('>'));
    texts.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn no_text_from_outside_becomes_markup() {
    let mut report = sample::ping_report();
    let hostile = "\"><script>alert('x')</script>&amp;\u{0}".to_owned();
    report.label = Some(hostile.clone());
    report.command_line.push(hostile.clone());
    report.cells[0].address = hostile.clone();
    report.environment.cpu.model = Some(hostile.clone());
    report.error = Some(hostile.clone());
    let page = render(&[(hostile.clone(), report.clone()), (hostile, report)]);
    assert!(!page.contains("<script"), "{page}");
    assert!(!page.contains('\0'));
    assert!(
        page.contains(
            "<title>&quot;&gt;&lt;script&gt;alert('x')&lt;/script&gt;&amp;amp;\u{fffd}, "
        ),
        "{page}"
    );
}

#[test]
fn nothing_comes_from_elsewhere() {
    let page = page(whole_bench());
    for way in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "src=",
        "href=",
        "url(",
        "@import",
        "@font-face",
    ] {
        assert!(!page.contains(way), "{way}");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    let addresses = page.matches("http").count();
    let namespaces = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
    // The policy's own attribute is called http-equiv.
    assert_eq!(addresses, namespaces + 1);
}

#[test]
fn the_cells_of_the_tables_are_those_of_the_report() {
    let page = page(sample::report());
    let (_, tables) = page.split_once("<h2>Tables</h2>").unwrap();
    let headings: Vec<String> = inside(tables, "th").into_iter().take(7).collect();
    assert_eq!(
        headings,
        [
            "transport",
            "payload bytes",
            "runs",
            "msg/s median",
            "MiB/s median",
            "p50 us",
            "p95 us"
        ]
    );
    let cells = inside(tables, "td");
    assert_eq!(
        cells[..13],
        [
            "tcp", "64", "3", "8631", "0.53", "118.0", "127.0", "153.0", "238.0", "880.0", "0",
            "0", "0"
        ]
    );
    assert!(cells.contains(&"1.02<br>1.00-1.05".to_owned()), "{cells:?}");
    assert!(cells.contains(&"1199.38".to_owned()));
    // Every table of the terminal's page is there, each row with each of its cells.
    let sections = text::tables(&sample::report());
    let rows = sections.iter().flat_map(|section| section.blocks());
    let rows = rows.map(|block| match block {
        text::section::Block::Table(table) => table.rows().len() * table.columns().len(),
        _ => 0,
    });
    assert_eq!(cells.len(), rows.sum::<usize>());
}

#[test]
fn all_doubts_are_shown_the_gravest_first() {
    let mut report = sample::report();
    let doubt = |code: &'static str, severity| Doubt {
        code: code.into(),
        severity,
        message: format!("{code} was found"),
        advice: format!("mend --{code}"),
        measured: None,
        unit: None,
    };
    report.warnings = vec![
        doubt("small", Severity::Note),
        doubt("middle", Severity::Warning),
        doubt("grave", Severity::Invalid),
        doubt("smaller", Severity::Note),
    ];
    let page = page(report);
    let doubts = inside(&page, "b");
    let doubts: Vec<&str> = doubts.iter().map(String::as_str).collect();
    assert_eq!(
        doubts[doubts.len() - 4..],
        [
            "INVALID grave",
            "warning middle",
            "note small",
            "note smaller"
        ]
    );
    assert!(page.contains("Try: <code>mend --smaller</code>"), "{page}");
}

#[test]
fn the_page_of_a_whole_bench_is_small_enough_to_send() {
    let page = page(whole_bench());
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert_eq!(page.matches("<figure").count(), 3 + 2 * 8 + 2 * 2 + 1);
}

#[test]
fn a_report_that_measured_nothing_has_its_reason_and_no_plot() {
    let mut report = sample::ping_report();
    report.cells.clear();
    report.error = Some("listen on tcp://127.0.0.1:1: permission denied".to_owned());
    let page = page(report);
    assert!(page.contains("Ended early: listen on tcp://127.0.0.1:1: permission denied"));
    assert!(!page.contains("<figure"));
}

#[test]
fn several_soaks_are_one_table_above_the_pages_of_each() {
    let mut report = sample::ping_report();
    report.cells.clear();
    let soak = |label: &str| {
        let mut report = report.clone();
        report.soak = Some(Soak {
            label: label.to_owned(),
            rounds: vec![crate::report::soak::Phase {
                load: "none".to_owned(),
                ..Default::default()
            }],
            ..Soak::default()
        });
        (format!("{label}.json"), report)
    };
    let page = render(&[soak("A<B"), soak("C")]);
    let (_, common) = page.split_once("<h2>All of them</h2>").unwrap();
    let (common, _) = common.split_once("<article>").unwrap();
    assert!(
        common.contains("A&lt;B") && common.contains("\nC\n"),
        "{common}"
    );
    assert_eq!(page.matches("<article>").count(), 2);
}

proptest! {
    /// A file made by hand may hold any figure.
    #[test]
    fn any_figures_are_drawn(
        ns in 0_u64..,
        at_s in proptest::num::f64::NORMAL | proptest::num::f64::ZERO,
        mib in proptest::num::f64::NORMAL | proptest::num::f64::ZERO,
    ) {
        let mut report = sample::ping_report();
        report.cells[0].slices[0].start_s = at_s;
        report.cells[0].slices[0].p50_ns = Some(ns);
        report.cells[0].slow[0].at_s = at_s;
        report.stream = sample::stream_report().stream;
        report.stream[0].mib_per_s = Some(mib);
        report.stream[0].payload_bytes = ns as usize;
        report.strategy = sample::report().strategy;
        report.strategy[0].delivery_percent = Some(mib);
        prop_assert!(page(report).contains("<figure"));
    }
}
