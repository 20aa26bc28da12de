//! Telling whoever waits that the server listens: through a file, through a descriptor.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tautline::Address;
use tautline_gauge::leftovers::Leftover;
use tautline_gauge::serve::Descriptor;

use crate::exit::{Exit, Failure};

/// Where to tell it; the file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Ready {
    file: Option<ReadyFile>,
    descriptor: Option<Descriptor>,
}

#[derive(Debug)]
struct ReadyFile {
    path: Leftover,
    /// What is to become the file, so that nobody reads half of it.
    beside: Leftover,
}

impl Ready {
    /// Takes what was asked for before anything listens. A file of an earlier server goes: it would
    /// announce this one too soon.
    pub(super) fn prepare(file: Option<&Path>, descriptor: Option<i32>) -> Result<Self, Failure> {
        let unavailable = |what: String, error: io::Error| {
            Failure::new(Exit::Unavailable, format!("{what}: {error}"))
        };
        let descriptor = descriptor
            .map(|number| {
                Descriptor::adopt(number)
                    .map_err(|error| unavailable(format!("--ready-fd {number}"), error))
            })
            .transpose()?;
        let file = file
            .map(|path| {
                ReadyFile::prepare(path)
                    .map_err(|error| unavailable(format!("--ready-file {}", path.display()), error))
            })
            .transpose()?;
        Ok(Self { file, descriptor })
    }

    /// Tells the addresses, one a line.
    pub(super) fn announce(&mut self, addresses: &[Address]) -> Result<(), Failure> {
        let lines: String = addresses
            .iter()
            .map(|address| format!("{address}\n"))
            .collect();
        if let Some(file) = &self.file {
            file.publish(&lines).map_err(|error| {
                let name = format!("--ready-file {}", file.path.path().display());
                Failure::new(Exit::Partial, format!("write {name}: {error}"))
            })?;
        }
        if let Some(descriptor) = self.descriptor.take() {
            // Whoever gave it to us may not want to know any more; then there is nobody to tell.
            let _ = descriptor.write_and_close(lines.as_bytes());
        }
        Ok(())
    }
}

impl ReadyFile {
    fn prepare(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() => fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::other("it is there and no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        File::create_new(&beside)?;
        Ok(Self {
            path: Leftover::new(path.to_owned()),
            beside: Leftover::new(beside),
        })
    }

    fn publish(&self, lines: &str) -> io::Result<()> {
        let mut file = File::create(self.beside.path())?;
        file.write_all(lines.as_bytes())?;
        drop(file);
        fs::rename(self.beside.path(), self.path.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_appears_whole_and_goes_with_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        fs::write(&path, "stale").unwrap();
        let mut ready = Ready::prepare(Some(&path), None).unwrap();
        assert!(!path.exists());
        ready
            .announce(&[
                "tcp://[::]:6001".parse().unwrap(),
                "uds://@a".parse().unwrap(),
            ])
            .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "tcp://[::]:6001\nuds://@a\n"
        );
        drop(ready);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_noticed_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/ready");
        let failure = Ready::prepare(Some(&path), None).unwrap_err();
        assert_eq!(failure.exit, Exit::Unavailable);
        let failure = Ready::prepare(Some(folder.path()), None).unwrap_err();
        assert!(failure.message.unwrap().ends_with("no regular file"));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        let failure = Ready::prepare(None, Some(987)).unwrap_err();
        assert!(failure.message.unwrap().starts_with("--ready-fd 987: "));
    }
}
