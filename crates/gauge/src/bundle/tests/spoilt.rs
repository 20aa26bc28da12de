//! Bundles spoilt in every way, and verified again.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_bundle_is_unreadable() {
    let parent = tempfile::tempdir().unwrap();
    let empty = parent.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(verify(&empty).unwrap_err(), Unreadable::Empty(empty));
    let absent = verify(&parent.path().join("absent")).unwrap_err();
    assert!(matches!(absent, Unreadable::NoFolder { .. }), "{absent}");
}

#[test]
fn missing_extra_cut_and_changed_files_are_named() {
    let written = Written::new(&whole());
    fs::remove_file(written.path("stream.csv")).unwrap();
    fs::write(written.path("late.txt"), "").unwrap();
    let csv = written.text("latency_matrix.csv");
    fs::write(written.path("latency_matrix.csv"), &csv[..100]).unwrap();
    let csv = written.text("soak.csv");
    fs::write(written.path("soak.csv"), csv.replace("none", "nono")).unwrap();
    let cut = format!(
        "latency_matrix.csv: cut short: 100 bytes of {}",
        csv_bytes(&whole())
    );
    assert_eq!(
        written.faults(),
        [
            cut.as_str(),
            "stream.csv: it is missing",
            "soak.csv: changed: its SHA-256 is not the one in the manifest",
            "late.txt: it is not in the manifest: it came later",
        ]
    );
}

fn csv_bytes(report: &Report) -> usize {
    let mut bytes = Vec::new();
    crate::report::export::latency_csv(report, &mut bytes).unwrap();
    bytes.len()
}

#[test]
fn a_link_in_the_place_of_a_file_is_no_file() {
    let written = Written::new(&whole());
    let elsewhere = written.parent.path().join("elsewhere");
    fs::rename(written.path("ping.csv"), &elsewhere).unwrap();
    symlink(&elsewhere, written.path("ping.csv")).unwrap();
    assert_eq!(written.faults(), ["ping.csv: it is no regular file"]);
}

#[test]
fn a_manifest_that_leads_out_of_the_folder_is_not_followed() {
    let written = Written::new(&whole());
    let mut manifest: Manifest = serde_json::from_str(&written.text("manifest.json")).unwrap();
    manifest.files.push(FileRecord::of("../secret", b""));
    manifest.files.push(manifest.files[0].clone());
    written.list(&manifest);
    assert_eq!(
        written.faults(),
        [
            "../secret: the manifest names a file outside the folder",
            "manifest.json: it lists report.json twice",
        ]
    );
}

#[test]
fn a_schema_of_the_future_and_a_foreign_document_are_told_apart() {
    let written = Written::new(&whole());
    let manifest = written.text("manifest.json");
    let said = |text: &str| {
        fs::write(written.path("manifest.json"), text).unwrap();
        let faults = written.faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    let later = said(&manifest.replace("tautline.manifest/1", "tautline.manifest/2"));
    assert!(later.ends_with("a later version wrote it"), "{later}");
    let foreign = said("{\"schema\": \"fio/3\"}");
    assert!(
        foreign.contains("no manifest of tautline: its schema is fio/3"),
        "{foreign}"
    );
    for (text, why) in [
        ("[1]", "it has no schema"),
        ("{}", "it has no schema"),
        ("NaN", "it is no JSON"),
        ("", "it is cut short"),
        (&manifest[..200], "it is cut short"),
        ("{\"schema\": \"tautline.manifest/1\"}", "it makes no sense"),
    ] {
        let said = said(text);
        assert!(
            said.starts_with("manifest.json: ") && said.contains(why),
            "{said}"
        );
    }
    fs::write(written.path("manifest.json"), [0xff, 0xfe]).unwrap();
    assert_eq!(written.faults(), ["manifest.json: it is no text"]);

    let written = Written::new(&whole());
    let report = written.text("report.json");
    written.forge("report.json", &report.replacen("report/1", "report/7", 1));
    assert!(written.faults()[0].contains("a later version wrote it"));
    written.forge(
        "report.json",
        &report.replacen("\"interrupted\":false", "\"interrupted\":NaN", 1),
    );
    assert!(written.faults()[0].starts_with("report.json: it is no JSON"));
}

/// Whoever also corrects all checksums is found out by the figures.
#[test]
fn figures_that_are_not_those_of_the_histograms_are_found() {
    let written = Written::new(&whole());
    let report = written.text("report.json");

    let mut better = whole();
    better.latency[0].drivers[0].summary.p99_ns = Some(31_000);
    let mut json = Vec::new();
    crate::report::export::json(&better, &mut json).unwrap();
    written.forge("report.json", &String::from_utf8(json).unwrap());
    let driver = &better.latency[0].drivers[0].driver;
    let faults = written.faults();
    let found = faults.iter().find(|fault| {
        fault.starts_with(&format!(
            "report.json: latency tcp 64 B {driver}: p99_ns is 31000"
        ))
    });
    assert!(found.is_some(), "{faults:?}");
    written.forge("report.json", &report);
    assert_eq!(written.faults(), Vec::<String>::new());

    let csv = written.text("ping.csv");
    written.forge("ping.csv", &csv.replacen("412345", "412344", 1));
    let fault = &written.faults()[0];
    assert!(
        fault.starts_with("ping.csv: line 2: sent is 412344, and in report.json 412345"),
        "{fault}"
    );
    written.forge("ping.csv", csv.lines().next().unwrap());
    assert_eq!(
        written.faults(),
        ["ping.csv: it has 0 rows, and report.json has 2"]
    );
    written.forge("ping.csv", &csv);

    let log = written.text("soak.hlog");
    written.forge("soak.hlog", &log.replace("primes_0", "none_1"));
    assert_eq!(
        written.faults(),
        ["soak.hlog: none_1 stands where report.json has primes_0"]
    );
    let ping = written.text("ping.hlog");
    let other = ping.lines().last().unwrap().rsplit(',').next().unwrap();
    let own = log.lines().last().unwrap().rsplit(',').next().unwrap();
    written.forge("soak.hlog", &log.replacen(own, other, 1));
    assert_eq!(
        written.faults(),
        ["soak.hlog: the histogram none_0 is not the one in report.json"]
    );
    written.forge("soak.hlog", &log);

    let page = written.text("environment.txt");
    written.forge("environment.txt", &page.replacen("System", "Systems", 1));
    assert_eq!(
        written.faults(),
        ["environment.txt: line 3 is not what report.json says"]
    );
}

#[test]
fn a_table_taken_out_of_the_manifest_too_is_missed() {
    let written = Written::new(&whole());
    let mut manifest: Manifest = serde_json::from_str(&written.text("manifest.json")).unwrap();
    manifest.files.retain(|file| file.path != "stream.csv");
    written.list(&manifest);
    fs::remove_file(written.path("stream.csv")).unwrap();
    assert_eq!(
        written.faults(),
        ["stream.csv: it is missing: report.json has what it shows"]
    );
}

/// Every file of a small bundle and its bytes.
fn small() -> Vec<(String, Vec<u8>)> {
    let mut report = whole();
    report.latency.truncate(1);
    report.strategy.truncate(1);
    report.soak = None;
    let written = Written::new(&report);
    let read = |name: String| (name.clone(), fs::read(written.path(&name)).unwrap());
    written.names().into_iter().map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_in_any_file_is_found_and_the_file_named(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        thread_local! {
            static FILES: Vec<(String, Vec<u8>)> = small();
        }
        let (name, flipped, folder) = FILES.with(|files| {
            let (name, bytes) = &files[file.index(files.len())];
            let folder = tempfile::tempdir().unwrap();
            for (name, bytes) in files {
                fs::write(folder.path().join(name), bytes).unwrap();
            }
            let mut flipped = bytes.clone();
            let at = at.index(flipped.len());
            flipped[at] ^= 1 << bit;
            (name.clone(), flipped, folder)
        });
        fs::write(folder.path().join(&name), flipped).unwrap();
        let faults = verify(folder.path()).unwrap().faults;
        let named = faults.iter().any(|fault| fault.to_string().contains(&name));
        prop_assert!(named, "{}: {:?}", name, faults);
    }

    #[test]
    fn any_bytes_as_any_document_are_refused_without_a_panic(
        file in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        thread_local! {
            static WRITTEN: Written = Written::new(&whole());
        }
        WRITTEN.with(|written| {
            let names: Vec<String> = written.names().into_iter().collect();
            let name = &names[file.index(names.len())];
            let kept = fs::read(written.path(name)).unwrap();
            fs::write(written.path(name), &bytes).unwrap();
            let faults = written.verified().faults;
            fs::write(written.path(name), kept).unwrap();
            assert!(!faults.is_empty());
        });
    }
}
