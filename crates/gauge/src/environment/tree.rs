//! Reading small files below a root: text, numbers, names, lists of CPUs. It knows no file's meaning.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file system, or a fixture that looks like one.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The file's text without surrounding white space and without device-tree's closing NUL.
    /// An empty file is `Some("")`: it was readable, and says "none".
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        Some(
            text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned(),
        )
    }

    /// The file's text, where an empty one says nothing.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty())
    }

    /// The file's only number.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The file's `0` or `1`.
    pub(crate) fn switch(&self, path: &str) -> Option<bool> {
        match self.text(path)?.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// The file's list of CPUs.
    pub(crate) fn cpus(&self, path: &str) -> Option<Vec<usize>> {
        cpu_list(&self.text(path)?)
    }

    /// What a folder holds whose name starts with `prefix`, those that end in numbers in their order.
    pub(crate) fn names(&self, folder: &str, prefix: &str) -> Option<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(self.root.join(folder))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        Some(names)
    }

    /// The last name of what a symbolic link points to.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// `key separator value` lines, the first of each key.
pub(crate) fn fields(text: &str, separator: char) -> BTreeMap<&str, &str> {
    let mut fields = BTreeMap::new();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(separator) {
            let (key, value) = (key.trim(), value.trim());
            fields.entry(key).or_insert(value);
        }
    }
    fields
}

/// `0-3,8` as the kernel writes it; an empty list is a list.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text
        .split(',')
        .map(str::trim)
        .filter(|range| !range.is_empty())
    {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The kernel's own bound is 8,192 (`NR_CPUS` of the largest builds); beyond twice that the file is not
/// what it seems, and a range must not fill memory.
const MOST_CPUS: usize = 16_384;

/// Builds a fixture: each path with its text.
#[cfg(test)]
pub(crate) fn fixture(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        assert_eq!(cpu_list(""), Some(vec![]));
        assert_eq!(cpu_list("0-x"), None);
        assert_eq!(cpu_list("0-18446744073709551615"), None);
    }

    #[test]
    fn a_missing_file_is_none_and_an_empty_one_is_empty() {
        let root = fixture(&[
            ("sys/empty", "\n"),
            ("sys/seven", "7\n"),
            ("sys/dt", "Board X\0"),
        ]);
        let tree = Tree::new(root.path());
        assert_eq!(tree.text("sys/absent"), None);
        assert_eq!(tree.text("sys/empty"), Some(String::new()));
        assert_eq!(tree.word("sys/empty"), None);
        assert_eq!(tree.number::<u64>("sys/seven"), Some(7));
        assert_eq!(tree.switch("sys/seven"), None);
        assert_eq!(tree.text("sys/dt").as_deref(), Some("Board X"));
    }
}
