//! `release_notes.md`: the page of a `bench` run for those who publish it, every section and table in the
//! order that readers of such pages know, and what the figures do and do not show.

use std::fmt::Write as _;

use super::summary::one_line;
use super::{Contents, Hardware, pieces, summary};
use crate::report::Report;
use crate::report::text::figures::{micros, optional};
use crate::report::text::{media, severity};

/// Whether a run is one that is published so: `bench`, whole or one of its tables.
pub(super) fn belong(report: &Report) -> bool {
    !report.latency.is_empty() || !report.strategy.is_empty() || !report.udp_smoke.is_empty()
}

/// The whole page.
pub(super) fn release_notes(contents: &Contents<'_>) -> String {
    let report = contents.report;
    let mut page = Page::titled(&format!(
        "Benchmark results for Tautline {} on {}",
        report.version,
        platform(contents)
    ));
    page.words(&format!(
        "Results of tautline {}, measured by its own `tautline bench` beside raw sockets.",
        report.version
    ));
    page.outcome(report);
    page.target(contents);
    page.machine(contents.hardware);
    page.doubts(report);
    if !report.latency.is_empty() {
        page.latency(contents);
    }
    if !report.strategy.is_empty() {
        page.strategy(contents);
    }
    if !report.udp_smoke.is_empty() {
        page.udp_smoke(contents);
    }
    page.notes(report);
    page.text
}

/// What the machine is called: by its owner, else by its maker.
fn platform(contents: &Contents<'_>) -> String {
    let environment = &contents.hardware.environment;
    let jetson = environment.jetson.as_ref();
    let named = contents
        .origin
        .platform
        .as_ref()
        .or_else(|| jetson.and_then(|jetson| jetson.model.as_ref()))
        .or(environment.board.as_ref())
        .or(environment.cpu.model.as_ref());
    named.cloned().unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The same for the name of a file.
fn suffix(platform: &str, hardware: &Hardware) -> String {
    let architecture = hardware.environment.kernel.architecture.as_deref();
    let words = format!("linux {} {platform}", architecture.unwrap_or(UNKNOWN)).to_lowercase();
    let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Markdown by and by.
#[derive(Debug)]
struct Page {
    text: String,
}

impl Page {
    fn titled(title: &str) -> Self {
        Self {
            text: format!("# {}\n", one_line(title)),
        }
    }

    fn heading(&mut self, heading: &str) {
        let _ = write!(self.text, "\n## {heading}\n\n");
    }

    fn words(&mut self, words: &str) {
        let _ = write!(self.text, "\n{}\n", one_line(words));
    }

    fn item(&mut self, words: &str) {
        let _ = writeln!(self.text, "- {}", one_line(words));
    }

    /// What is not known is `unknown`, never left out.
    fn fact(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
        self.item(&format!("{name}: {value}"));
    }

    /// A table with its heading, `deeper` below where it stands by itself.
    fn table(&mut self, table: &str, deeper: bool) {
        self.text.push('\n');
        if deeper {
            let lines = table.lines().map(|line| match line.starts_with("## ") {
                true => format!("#{line}\n"),
                false => format!("{line}\n"),
            });
            self.text.extend(lines);
        } else {
            self.text.push_str(table);
        }
    }

    fn outcome(&mut self, report: &Report) {
        if report.interrupted {
            self.words("The run was interrupted: these are its figures until then.");
        }
        if let Some(error) = &report.error {
            self.words(&format!("The run ended early: {error}"));
        }
    }

    fn target(&mut self, contents: &Contents<'_>) {
        let (report, hardware, origin) = (contents.report, contents.hardware, contents.origin);
        let platform = platform(contents);
        let modified = match hardware.build.modified {
            Some(true) => ", with changes of its own",
            Some(false) | None => "",
        };
        self.heading("Benchmark Target");
        self.fact("tautline version", Some(&report.version));
        self.fact(
            "tautline commit",
            Some(format!("{}{modified}", hardware.build.commit)),
        );
        self.fact("reference platform", Some(&platform));
        self.fact("platform suffix", Some(suffix(&platform, hardware)));
        self.fact("run id", origin.run_id.as_ref());
        self.fact("measured at UTC", Some(&report.started_at));
        self.fact("command", Some(report.command_line.join(" ")));
        self.fact("label", report.label.as_ref());
        let servers = report.servers_elsewhere();
        if !servers.is_empty() {
            self.fact("servers elsewhere", Some(servers.join(" ")));
        }
    }

    fn machine(&mut self, hardware: &Hardware) {
        let environment = &hardware.environment;
        self.heading("Runner Environment");
        self.fact("board", environment.board.as_ref());
        self.fact("OS", environment.os.as_ref());
        self.fact("kernel", environment.kernel.release.as_ref());
        self.fact("architecture", environment.kernel.architecture.as_ref());
        self.fact("CPU", environment.cpu.model.as_ref());
        self.fact("logical CPUs", environment.cpu.logical);
        self.fact("physical cores", environment.cpu.cores);
        let memory_kib = environment.memory.total_bytes.map(|bytes| bytes / 1_024);
        self.fact("memory KiB", memory_kib);
        self.fact("preemption", environment.kernel.preemption.as_ref());
        self.fact("hypervisor", environment.hypervisor.as_ref());
        let build = &hardware.build;
        self.fact("compiler", Some(&build.compiler));
        let profile = format!(
            "{}, opt-level {}, {}",
            build.profile, build.opt_level, build.target
        );
        self.fact("build", Some(profile));
        let Some(jetson) = &environment.jetson else {
            return;
        };
        self.heading("Jetson Environment");
        self.fact("Jetson model", jetson.model.as_ref());
        self.fact("L4T release", jetson.l4t_release.as_ref());
        let mode = jetson.power_mode_id.map_or_else(
            || jetson.power_mode.clone(),
            |id| {
                let name = jetson.power_mode.as_deref().unwrap_or(UNKNOWN);
                Some(format!("{name} ({id})"))
            },
        );
        self.fact("power mode", mode);
        for clock in &jetson.clocks {
            let hz = |hz: Option<u64>| optional(hz, |hz| format!("{:.0}", hz as f64 / 1e6));
            self.item(&format!(
                "clock {}: {} MHz within {} to {}, governor {}",
                clock.name,
                hz(clock.current_hz),
                hz(clock.min_hz),
                hz(clock.max_hz),
                clock.governor.as_deref().unwrap_or(UNKNOWN)
            ));
        }
    }

    /// Before the figures: whoever reads one has read what makes it doubtful.
    fn doubts(&mut self, report: &Report) {
        if report.warnings.is_empty() {
            return;
        }
        self.heading("Doubts");
        for doubt in &report.warnings {
            let severity = severity(doubt.severity);
            self.item(&format!(
                "{severity} {}: {}; try: `{}`",
                doubt.code, doubt.message, doubt.advice
            ));
        }
    }

    fn latency(&mut self, contents: &Contents<'_>) {
        self.table(&summary::latency(contents), false);
        let rows = &contents.report.latency;
        if let Some(driver) = rows.iter().find_map(|row| row.driver.as_ref()) {
            self.words(&format!("The figures are those of the driver {driver}."));
        }
        self.text.push_str(
            "\n### Beside raw blocking sockets\n\n| transport | payload | control p50 us |",
        );
        let mut drivers: Vec<&str> = Vec::new();
        for driver in rows.iter().flat_map(|row| &row.drivers) {
            if !drivers.contains(&driver.driver.as_str()) {
                drivers.push(&driver.driver);
            }
        }
        for driver in &drivers {
            let _ = write!(self.text, " {driver} ratio (95 %) |");
        }
        self.text.push_str("\n| --- | ---: | ---: |");
        self.text.extend(drivers.iter().map(|_| " ---: |"));
        self.text.push('\n');
        for row in rows {
            let _ = write!(
                self.text,
                "| {} | {} | {} |",
                one_line(&row.transport),
                row.payload_bytes,
                micros(row.control.p50_ns)
            );
            for name in &drivers {
                let driver = row.drivers.iter().find(|driver| driver.driver == *name);
                let ratio = optional(driver.and_then(|driver| driver.p50_ratio), two);
                let interval = driver.and_then(|driver| driver.ratio_low.zip(driver.ratio_high));
                let interval = interval
                    .map(|(low, high)| format!(" ({low:.2} to {high:.2})"))
                    .unwrap_or_default();
                let _ = write!(self.text, " {ratio}{interval} |");
            }
            self.text.push('\n');
        }
        self.went_over(&media::of_latency(contents.report));
    }

    /// What the rows went over, where that is more than a transport.
    fn went_over(&mut self, sentences: &[String]) {
        if !sentences.is_empty() {
            self.text.push('\n');
        }
        for sentence in sentences {
            self.item(sentence);
        }
    }

    fn strategy(&mut self, contents: &Contents<'_>) {
        self.table(&summary::strategy(contents), false);
        self.went_over(&media::of_strategy(contents.report));
        self.words(
            "What besteffort and keeplatest accept is not what arrives: their accepted rate says little \
             without the received rate, the delivery, what was dropped and how full the queue was.",
        );
        self.words(
            "Reliable drops nothing, so its dropped counters are 0; a failed send there was refused \
             before anything was accepted.",
        );
    }

    fn udp_smoke(&mut self, contents: &Contents<'_>) {
        self.heading("UDP Payload Smoke Summary");
        // Each table brings its heading, and its empty line before.
        self.text.truncate(self.text.trim_end().len() + 1);
        self.table(&summary::raw_smoke(contents), true);
        self.table(&summary::smoke(contents), true);
        self.heading("UDP Classification Guide");
        self.item(
            "Raw sockets lose what the library loses: the environment; look at the kernel's drop \
             counters, the socket buffers and the MTU.",
        );
        self.item("Raw sockets are clean and the library is not: the library's own path.");
        self.item(
            "Raw sockets are clean and the library refused or gave up messages because its queue was \
             full: the pressure model, not the path.",
        );
        self.item(
            "Each payload's class above is computed from the counters that stand beside it, and from \
             nothing else.",
        );
    }

    fn notes(&mut self, report: &Report) {
        self.heading("Notes");
        let files: Vec<&str> = pieces::of(report).map(|piece| piece.name).collect();
        self.item(&format!(
            "Beside this page: {}; manifest.json has the size and SHA-256 of each, and `sha256sum -c \
             SHA256SUMS` or `tautline verify` checks them.",
            files.join(", ")
        ));
        if !report.latency.is_empty() {
            self.item(if report.evidence.loopback {
                "Latencies are round trips of local echoes, in microseconds: there is no card and no \
                 wire in them."
            } else {
                "Latencies are round trips to the server elsewhere, in microseconds."
            });
        }
        if !report.strategy.is_empty() {
            self.item("Strategies were measured one way, from an unpaced producer.");
        }
        for absent in &report.absent {
            self.item(&format!(
                "Not measured: {} {} {} B: {}.",
                absent.table, absent.transport, absent.payload_bytes, absent.reason
            ));
        }
    }
}

fn two(ratio: f64) -> String {
    format!("{ratio:.2}")
}

const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{Build, Origin};
    use crate::environment::Jetson;
    use crate::report::sample;

    fn notes(report: &Report, origin: &Origin) -> String {
        let mut hardware = Hardware::now(report.environment.clone(), Build::default());
        hardware.environment.jetson = Some(Jetson {
            model: Some("NVIDIA Jetson | Orin\nNano".to_owned()),
            l4t_release: Some("# R36 (release)".to_owned()),
            power_mode_id: Some(2),
            power_mode: Some("MAXN_SUPER".to_owned()),
            clocks: Vec::new(),
        });
        release_notes(&Contents {
            report,
            hardware: &hardware,
            origin,
        })
    }

    #[test]
    fn every_section_stands_in_the_order_that_readers_know() {
        let text = notes(&sample::report(), &Origin::default());
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(
            headings,
            [
                "# Benchmark results for Tautline 0.1.0 on NVIDIA Jetson \\| Orin Nano",
                "## Benchmark Target",
                "## Runner Environment",
                "## Jetson Environment",
                "## Doubts",
                "## Latency Summary",
                "### Beside raw blocking sockets",
                "## Strategy Summary",
                "## UDP Payload Smoke Summary",
                "### Raw UDP Control",
                "### Classification",
                "### Tautline UDP",
                "### Classification",
                "### RuntimeStats",
                "## UDP Classification Guide",
                "## Notes",
            ]
        );
        assert!(text.contains("- power mode: MAXN_SUPER (2)\n"), "{text}");
        assert!(text.contains("- run id: unknown\n"), "{text}");
        assert!(text.contains("| tcp | 64 | 3 | 8631 | 0.53 |"), "{text}");
        assert!(!text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn the_owner_names_the_platform_and_the_run() {
        let origin = Origin {
            platform: Some("Rack 7, Böard".to_owned()),
            run_id: Some("4711".to_owned()),
            ..Origin::default()
        };
        let text = notes(&sample::report(), &origin);
        assert!(text.starts_with("# Benchmark results for Tautline 0.1.0 on Rack 7, Böard\n"));
        assert!(text.contains("- run id: 4711\n"), "{text}");
        assert!(text.contains("-rack-7-b-ard\n"), "{text}");
    }

    #[test]
    fn a_table_that_was_not_measured_has_no_section() {
        let mut report = sample::report();
        report.udp_smoke.clear();
        report.strategy.clear();
        let text = notes(&report, &Origin::default());
        assert!(!text.contains("UDP Payload") && !text.contains("Strategy Summary"));
        assert!(text.contains("## Latency Summary"));
    }
}
