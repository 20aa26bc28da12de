//! What a run leaves in the file system while it lasts, so that a program that ends at once can take it
//! away.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

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
