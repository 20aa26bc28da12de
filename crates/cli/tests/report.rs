//! `tautline report` from the outside: what it shows of former runs, and what it says of files that are
//! none.

mod program;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use self::program::{Finished, Program};

/// A report in a folder, and the page that its run printed.
fn run(words: &str, name: &str, folder: &TempDir) -> (String, String) {
    let file = folder.path().join(name).to_str().unwrap().to_owned();
    let finished = Program::new(words, &["--json", &file, "--label", "a<b"]).run();
    let page = finished.ended_with(0).stdout;
    (file, page)
}

fn wakeup(folder: &TempDir) -> (String, String) {
    run("wakeup -t 100ms --sched other", "wakeup.json", folder)
}

fn bench(folder: &TempDir) -> (String, String) {
    let words =
        "bench latency --transports uds --sizes 64 --repeats 1 -n 60 --rounds 6 --warmup 10";
    run(words, "bench.json", folder)
}

#[track_caller]
fn report(words: &[&str], status: i32) -> Finished {
    Program::new("report", words).run().ended_with(status)
}

#[test]
fn a_run_read_back_prints_the_page_that_it_printed() {
    let folder = tempfile::tempdir().unwrap();
    for (file, page) in [wakeup(&folder), bench(&folder)] {
        assert_eq!(report(&[&file], 0).stdout, page);
    }
}

#[test]
fn a_folder_stands_for_the_report_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = wakeup(&folder);
    fs::rename(file, folder.path().join("report.json")).unwrap();
    let name = folder.path().to_str().unwrap();
    assert_eq!(report(&[name], 0).stdout, page);
    fs::remove_file(folder.path().join("report.json")).unwrap();
    assert_eq!(
        report(&[name], 3).stderr,
        format!("tautline: read {name}/report.json: No such file or directory (os error 2)\n")
    );
}

#[test]
fn several_runs_follow_each_other_each_below_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (one, first) = wakeup(&folder);
    let (two, second) = bench(&folder);
    assert_eq!(
        report(&[&one, &two], 0).stdout,
        format!("==> {one} <==\n{first}\n==> {two} <==\n{second}")
    );
    let markdown = report(&["--md", &one, &two], 0).stdout;
    assert!(
        markdown.starts_with(&format!("# {one}\n\n## tautline ")),
        "{markdown}"
    );
    assert!(
        markdown.contains(&format!("\n# {two}\n\n## tautline ")),
        "{markdown}"
    );
    assert!(
        markdown.contains("| transport | payload bytes | runs |"),
        "{markdown}"
    );
}

#[test]
fn a_page_for_a_browser_goes_to_a_file_or_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = bench(&folder);
    let html = folder.path().join("page.html");
    let finished = report(&[&file, "--html", html.to_str().unwrap()], 0);
    assert_eq!(finished.stdout, "");
    let page = fs::read_to_string(&html).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html><html lang=\"en\">"),
        "{page}"
    );
    assert!(page.contains("<title>a&lt;b, 20"), "{page}");
    assert!(page.contains("Percentiles: uds 64 B"), "{page}");
    assert_eq!(report(&["--html", "-", &file], 0).stdout, page);
    assert!(
        report(&["--html", "-", "--md", &file], 2)
            .stderr
            .contains("'--html <FILE>' cannot be used with '--md'")
    );
}

#[test]
fn a_page_that_cannot_be_written_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = wakeup(&folder);
    assert_eq!(
        report(&["--html", "/nonexistent/page.html", &file], 3).stderr,
        "tautline: open --html /nonexistent/page.html: No such file or directory (os error 2)\n"
    );
    assert_eq!(
        report(&["--html", "/dev/full", &file], 4).stderr,
        "tautline: write --html /dev/full: No space left on device (os error 28)\n"
    );
}

#[test]
fn what_is_no_report_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, _) = wakeup(&folder);
    let whole = fs::read_to_string(whole).unwrap();
    let cut = &whole[..whole.len() / 2];
    let file = folder.path().join("run.json");
    let name = file.to_str().unwrap();
    for (text, said) in [
        ("dear reader", "it is no JSON: expected value at line 1"),
        ("{}", "it is no report of this program: it has no schema"),
        (
            r#"{"schema":"somebody.else/1"}"#,
            "it is no report of this program: its schema is somebody.else/1",
        ),
        (
            r#"{"schema":"tautline.report/2"}"#,
            "its schema is tautline.report/2, and this program reads tautline.report/1: a later",
        ),
        (
            r#"{"schema":"tautline.report/1","soak":7}"#,
            "it makes no sense as tautline.report/1: ",
        ),
        (cut, "it is cut short: "),
        ("", "it is cut short: "),
    ] {
        fs::write(&file, text).unwrap();
        let finished = report(&[name], 3);
        let expected = format!("tautline: {name}: {said}");
        assert!(
            finished.stderr.starts_with(&expected),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
    fs::write(&file, b"{\"schema\":\"\xff\"}").unwrap();
    assert_eq!(
        report(&[name], 3).stderr,
        format!("tautline: read {name}: stream did not contain valid UTF-8\n")
    );
}

/// Whoever opens a pipe for reading waits until somebody writes.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for name in [pipe.as_path(), Path::new("/dev/zero")] {
        let name = name.to_str().unwrap();
        assert_eq!(
            report(&[name], 3).stderr,
            format!("tautline: read {name}: it is no regular file\n")
        );
    }
}

/// Sparse: it takes no room on the disk.
#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.json");
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    let name = file.to_str().unwrap();
    assert_eq!(
        report(&[name], 3).stderr,
        format!("tautline: read {name}: it has more than 256 MiB, which no report has\n")
    );
}

// The signal of the limit ended the program in mid-write, with neither a sentence nor a status of ours.
#[test]
fn a_limit_on_the_size_of_files_is_told_as_a_full_disk_is() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = wakeup(&folder);
    let page = folder.path().join("page.html");
    let ended = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 1; exec \"$0\" report \"$1\" --html \"$2\""])
        .arg(assert_cmd::cargo::cargo_bin!("tautline"))
        .args([Path::new(&run), page.as_path()])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(4));
    assert_eq!(
        String::from_utf8(ended.stderr).unwrap(),
        format!(
            "tautline: write --html {}: File too large (os error 27)\n",
            page.display()
        )
    );
}
