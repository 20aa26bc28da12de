//! `--out` and `--archive`: the folder of evidence of a run, opened before it and written after it.

use std::env;
use std::path::PathBuf;

use tautline_gauge::bundle::{Archive, Build, Bundle, Hardware, Origin};
use tautline_gauge::report::Report;

use crate::exit::{Exit, Failure, say};
use crate::options::Output;
use crate::values;

/// The evidence of one run.
#[derive(Debug)]
pub(crate) struct Evidence {
    folder: PathBuf,
    bundle: Bundle,
    archive: Option<Archive>,
    origin: Origin,
}

impl Evidence {
    /// Opens what was asked for, if it was.
    pub(crate) fn open(output: &Output, command: &str) -> Result<Option<Self>, Failure> {
        let Some(folder) = &output.out else {
            return Ok(None);
        };
        let refused = |option: &str, why: &dyn std::fmt::Display| {
            Failure::new(Exit::Unavailable, format_args!("{option}: {why}"))
        };
        let bundle = Bundle::open(folder).map_err(|why| refused("--out", &why))?;
        let archive = match output.archive {
            true => Some(Archive::open(folder).map_err(|why| refused("--archive", &why))?),
            false => None,
        };
        Ok(Some(Self {
            folder: folder.clone(),
            bundle,
            archive,
            origin: Origin {
                command: command.to_owned(),
                platform: output.platform.clone(),
                run_id: output.run_id.clone().or_else(run_of_ci),
            },
        }))
    }

    /// Writes it, and says what to do with it.
    pub(crate) fn write(self, report: &Report) -> Result<(), Failure> {
        let hardware = Hardware::after_run(report, build());
        let manifest = self.bundle.write(report, &hardware, &self.origin);
        let manifest = manifest.map_err(|error| {
            Failure::new(
                Exit::Partial,
                format_args!("write --out {error}; the folder has no manifest and does not verify"),
            )
        })?;
        let folder = self.folder.display();
        // With the manifest itself and the checksums.
        let files = manifest.files.len() + 2;
        say(format_args!(
            "tautline: {folder}: {files} files of evidence; to check them: tautline verify {folder}"
        ));
        let packed = self.archive.map(|archive| archive.write(&manifest));
        match packed {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(Failure::new(
                Exit::Partial,
                format_args!("write --archive {error}; the folder itself is whole"),
            )),
        }
    }
}

/// How this program was built.
pub(crate) fn build() -> Build {
    Build {
        compiler: env!("TAUTLINE_COMPILER").to_owned(),
        profile: env!("TAUTLINE_PROFILE").to_owned(),
        opt_level: env!("TAUTLINE_OPT_LEVEL").to_owned(),
        target: env!("TAUTLINE_TARGET").to_owned(),
        commit: env!("TAUTLINE_COMMIT").to_owned(),
        modified: match env!("TAUTLINE_MODIFIED") {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        },
    }
}

/// What a CI calls the run that this is part of.
fn run_of_ci() -> Option<String> {
    let set = |name: &&str| {
        let id = env::var(name).ok().filter(|id| !id.is_empty());
        id.and_then(|id| values::name(&id).ok())
    };
    RUN_IDS.iter().find_map(set)
}

/// Of GitHub Actions, GitLab, Buildkite, CircleCI and Jenkins, as `--run-id`'s help lists them.
const RUN_IDS: [&str; 5] = [
    "GITHUB_RUN_ID",
    "CI_JOB_ID",
    "BUILDKITE_BUILD_ID",
    "CIRCLE_WORKFLOW_ID",
    "BUILD_TAG",
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_help_names_every_variable_that_is_read() {
        let mut cli = Cli::command();
        cli.build();
        let ping = cli.find_subcommand("ping").unwrap();
        let option = ping
            .get_arguments()
            .find(|option| option.get_id() == "run_id");
        let help = option.unwrap().get_help().unwrap().to_string();
        for name in RUN_IDS {
            assert!(help.contains(name), "{name} is not in: {help}");
        }
    }

    #[test]
    fn the_build_knows_its_compiler() {
        assert!(build().compiler.starts_with("rustc "), "{:?}", build());
        assert_ne!(build().target, "unknown");
    }
}
