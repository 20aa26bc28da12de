//! What a run leaves while it lasts, files and processes, so that a program that ends at once can take
//! it away.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys;

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A file or folder of ours; gone with everything in it when this is dropped.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
}

impl Leftover {
    /// Takes charge of a file or folder that was just made.
    pub fn new(path: PathBuf) -> Self {
        paths().push(path.clone());
        Self { path }
    }

    /// Lets it stay: it has become what somebody asked for.
    pub fn keep(self) {
        paths().retain(|path| *path != self.path);
        // Its drop is what takes the file away.
        std::mem::forget(self);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        remove(&self.path);
        paths().retain(|path| *path != self.path);
    }
}

/// Takes all of it away: for a program that ends without unwinding.
pub fn remove_all() {
    paths().drain(..).for_each(|path| remove(&path));
    for leader in groups().drain(..) {
        // It may have ended by itself.
        let _ = sys::process::kill_group(leader, libc::SIGKILL);
    }
}

/// A group of processes that we started, by its leader; [`group_ended`] when it has been waited for.
pub(crate) fn group_started(leader: u32) {
    groups().push(leader);
}

/// The number may be somebody else's from now on.
pub(crate) fn group_ended(leader: u32) {
    groups().retain(|&group| group != leader);
}

fn groups() -> MutexGuard<'static, Vec<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(path: &Path) {
    // Nothing can be done about a failure here, and it holds empty socket files at most.
    let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
}

fn paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_leftover() {
        let path = tempfile::tempdir().unwrap().keep();
        fs::write(path.join("x.sock"), "").unwrap();
        drop(Leftover::new(path.clone()));
        assert!(!path.exists());
    }
}
