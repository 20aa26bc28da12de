//! The last line of the page: the next command to type.

use super::lines::quoted;
use crate::report::Report;

/// What a reader of this page would do next: rid it of its largest doubt, measure in full, keep it,
/// make it firmer. In words for a shell.
pub(super) fn next_command(report: &Report) -> Vec<String> {
    let typed: Vec<&str> = report.command_line.iter().map(String::as_str).collect();
    let has = |option: &str| typed.iter().any(|word| word.starts_with(option));
    let waking = report
        .warnings
        .iter()
        .any(|doubt| doubt.code == "wake-cost");
    let pinged = !report.cells.is_empty();
    let streamed = !report.stream.is_empty();
    let anew = [
        typed.first().copied().unwrap_or("tautline"),
        match (pinged, streamed) {
            (true, _) => "ping",
            (false, true) => "stream",
            (false, false) => "bench",
        },
    ];
    if let Some(folder) = out_folder(&typed) {
        let page = format!("{folder}.html");
        let words = [anew[0], "report", folder, "--html", &page];
        return words.map(quoted).to_vec();
    }
    let in_full: Vec<&str> = typed
        .iter()
        .copied()
        .filter(|&word| word != "--quick")
        .collect();
    let (command, more): (&[&str], &[&str]) = if waking && !has("--stay-awake") {
        (&typed, &["--stay-awake"])
    } else if waking && !has("--keep-cpus-busy") {
        // Holding the CPUs awake was refused; keeping them busy needs no privilege.
        (&typed, &["--keep-cpus-busy"])
    } else if has("--quick") && !has("--json") {
        (&in_full, &["--json", "report.json"])
    } else if !has("--json") {
        (&typed, &["--json", "report.json"])
    } else if pinged && !has("--samples") {
        (&typed, &["--samples", "samples.csv"])
    } else if !pinged && !streamed && !has("--repeats") {
        (&typed, &["--repeats", "8"])
    } else {
        (&anew, &["--help"])
    };
    command
        .iter()
        .chain(more)
        .map(|word| quoted(word))
        .collect()
}

/// Where the run's evidence lies, if it was kept.
fn out_folder<'a>(typed: &[&'a str]) -> Option<&'a str> {
    let at = typed.iter().position(|word| word.starts_with("--out"))?;
    match typed[at].strip_prefix("--out=") {
        Some(folder) => Some(folder),
        None => typed.get(at + 1).copied(),
    }
    .map(|folder| folder.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_next_command_can_be_typed() {
        let mut report = sample::report();
        report.warnings.clear();
        let mut next = |words: &[&str]| {
            report.command_line = words.iter().map(|&word| word.to_owned()).collect();
            next_command(&report).join(" ")
        };
        assert_eq!(
            next(&["tautline", "bench", "--quick"]),
            "tautline bench --json report.json"
        );
        assert_eq!(
            next(&["tautline", "bench", "latency", "--quick", "--sizes", "64"]),
            "tautline bench latency --sizes 64 --json report.json"
        );
        assert_eq!(
            next(&["tautline", "ping", "10.0.0.5", "--out", "results/net/"]),
            "tautline report results/net --html results/net.html"
        );
        assert_eq!(
            next(&["./tautline", "bench", "--label", "it's 1"]),
            r"./tautline bench --label 'it'\''s 1' --json report.json"
        );
        assert_eq!(
            next(&["tautline", "bench", "--json=x"]),
            "tautline bench --json=x --repeats 8"
        );
        assert_eq!(
            next(&["tautline", "bench", "--json=x", "--repeats=8"]),
            "tautline bench --help"
        );
    }
}
