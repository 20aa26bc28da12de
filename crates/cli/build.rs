//! What the program was built with and from, for the record beside its measurements: the compiler, the
//! profile, the target, and the commit where there is one. Nothing here ever fails the build.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    let compiler = env::var("RUSTC")
        .ok()
        .and_then(|rustc| said(&rustc, &["--version"]));
    tell("COMPILER", compiler.as_deref());
    for (name, variable) in [
        ("PROFILE", "PROFILE"),
        ("OPT_LEVEL", "OPT_LEVEL"),
        ("TARGET", "TARGET"),
    ] {
        tell(name, env::var(variable).ok().as_deref());
    }
    let commit = packaged_commit().map(|commit| (commit, None));
    let commit = commit.or_else(checked_out_commit);
    tell("COMMIT", commit.as_ref().map(|(commit, _)| commit.as_str()));
    let modified = commit.and_then(|(_, modified)| modified);
    tell(
        "MODIFIED",
        modified.map(|modified| if modified { "yes" } else { "no" }),
    );
    println!("cargo::rerun-if-changed=build.rs");
}

fn tell(name: &str, value: Option<&str>) {
    let value = value.unwrap_or("unknown");
    println!("cargo::rustc-env=TAUTLINE_{name}={value}");
}

/// The commit that cargo wrote into a package when it made it.
fn packaged_commit() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    commit
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| commit.to_owned())
}

/// The commit of this checkout, and whether the sources differ from it. A checkout of something else that
/// this folder happens to lie in is none of ours.
fn checked_out_commit() -> Option<(String, Option<bool>)> {
    if said("git", &["rev-parse", "--show-prefix"])? != "crates/cli/" {
        return None;
    }
    said("git", &["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = said("git", &["rev-parse", "HEAD"])?;
    // HEAD, and what it names: a commit changes the one, a checkout the other.
    let names = [
        Some("HEAD".to_owned()),
        said("git", &["symbolic-ref", "-q", "HEAD"]),
    ];
    for name in names.into_iter().flatten() {
        if let Some(path) = said("git", &["rev-parse", "--git-path", &name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // What they hold is compiled anew with this crate anyway.
    let sources = ["src", "../gauge/src", "../tautline/src", "../session/src"];
    for folder in sources {
        println!("cargo::rerun-if-changed={folder}");
    }
    let status = ["status", "--porcelain", "--"];
    let changes = said("git", &[&status[..], &sources[..]].concat());
    Some((commit, changes.map(|changes| !changes.is_empty())))
}

/// What a program printed, without the end of its line; `None` if it failed.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
