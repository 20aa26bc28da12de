//! Each file that is rendered from the report, held against the report.

use super::Checks;
use crate::bundle::pieces::{self, Contents, Kind};
use crate::bundle::{Hardware, Manifest, Origin};
use crate::report::{Report, hlog};

impl Checks<'_> {
    /// Renders again what can be rendered, and says where a file differs.
    pub(super) fn tables(
        &mut self,
        manifest: &Manifest,
        report: &Report,
        hardware: Option<&Hardware>,
    ) {
        for piece in pieces::of(report) {
            let listed = manifest.files.iter().any(|file| file.path == piece.name);
            if !listed {
                self.fault(piece.name, "it is missing: report.json has what it shows");
            }
            if !self.is_good(piece.name) {
                continue;
            }
            let told = self.read(piece.name).and_then(|text| match &piece.kind {
                Kind::Report | Kind::Hardware => Ok(()),
                Kind::Table(write) => {
                    let mut bytes = Vec::new();
                    write(report, &mut bytes).map_err(|cause| cause.to_string())?;
                    same_table(&text, &String::from_utf8_lossy(&bytes), manifest)
                }
                Kind::Log(lines) => same_histograms(&text, &lines(report)),
                Kind::Words(words) => match hardware {
                    Some(hardware) if written_by_us(manifest) => {
                        let origin = Origin {
                            command: manifest.run.command.clone(),
                            platform: manifest.run.platform.clone(),
                            run_id: manifest.run.run_id.clone(),
                        };
                        same_words(
                            &text,
                            &words(&Contents {
                                report,
                                hardware,
                                origin: &origin,
                            }),
                        )
                    }
                    // Another version says it in other words.
                    Some(_) | None => Ok(()),
                },
            });
            if let Err(why) = told {
                self.fault(piece.name, why);
            }
        }
    }
}

fn written_by_us(manifest: &Manifest) -> bool {
    manifest.version == env!("CARGO_PKG_VERSION")
}

/// Field by field, by the names of the columns. A version may add columns: what only one of them has is a
/// fault only where both are of one version.
fn same_table(found: &str, expected: &str, manifest: &Manifest) -> Result<(), String> {
    let (found, expected) = (records(found)?, records(expected)?);
    let names = |records: &[csv::StringRecord]| -> Vec<String> {
        let heading = records.first();
        heading.map_or_else(Vec::new, |row| row.iter().map(str::to_owned).collect())
    };
    let (columns, ours) = (names(&found), names(&expected));
    if written_by_us(manifest) && columns != ours {
        return Err("its columns are not those of this version".to_owned());
    }
    if found.len() != expected.len() {
        let (found, expected) = (found.len().max(1) - 1, expected.len().max(1) - 1);
        return Err(format!(
            "it has {found} rows, and report.json has {expected}"
        ));
    }
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        for (at, column) in columns.iter().enumerate() {
            let Some(there) = ours.iter().position(|name| name == column) else {
                continue;
            };
            let (here, there) = (found.get(at), expected.get(there));
            if here != there {
                let (here, there) = (here.unwrap_or("-"), there.unwrap_or("-"));
                return Err(format!(
                    "line {}: {column} is {}, and in report.json {}",
                    number + 1,
                    super::quoted(here),
                    super::quoted(there)
                ));
            }
        }
    }
    Ok(())
}

fn records(text: &str) -> Result<Vec<csv::StringRecord>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let records: Result<Vec<_>, _> = reader.records().collect();
    records.map_err(|why| format!("it is no CSV: {why}"))
}

fn same_histograms(found: &str, expected: &[hlog::Line<'_>]) -> Result<(), String> {
    let found = hlog::read(found)?;
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!(
            "it has {found} histograms, and report.json has {expected}"
        ));
    }
    for ((tag, times), line) in found.iter().zip(expected) {
        if *tag != line.tag {
            let (tag, expected) = (super::quoted(tag), super::quoted(&line.tag));
            return Err(format!("{tag} stands where report.json has {expected}"));
        }
        if times != line.times {
            let tag = super::quoted(tag);
            return Err(format!("the histogram {tag} is not the one in report.json"));
        }
    }
    Ok(())
}

fn same_words(found: &str, expected: &str) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let lines = found.lines().zip(expected.lines());
    let alike = lines.take_while(|(here, there)| here == there).count();
    Err(format!("line {} is not what report.json says", alike + 1))
}
