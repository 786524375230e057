//! The core reads no clock, environment or files, uses no randomness, starts no threads and has no unordered maps. In
//! the core packages clippy enforces this by a `clippy.toml` in each; these tests check that the files exist and
//! agree.
//! `client/src/core` is only a part of a package, so its text is searched. Not here: which packages the core uses
//! (`layers.rs`).

use std::fs;

use anyhow::{Context, Result};

use crate::layers::CORE;
use crate::tree;

/// Texts that the sources of `client/src/core` must not contain, outside their tests.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "Utc::now",
    "Local::now",
    "Uuid::new_v4",
    "std::env",
    "std::fs",
    "std::io::",
    "std::net",
    "std::process",
    "std::thread",
    "HashMap",
    "HashSet",
    "tokio",
    "rand::",
    "rustix",
    "parking_lot",
    "println!",
    "eprintln!",
    "async fn",
    ".await",
];

#[test]
fn every_core_package_has_the_same_clippy_rules() -> Result<()> {
    let read = |folder: &str| {
        let path = tree::root().join(folder).join("clippy.toml");
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let model = read("model")?;
    for rule in ["Instant::now", "env::var", "fs::read", "thread::spawn", "HashMap"] {
        assert!(model.contains(rule), "model/clippy.toml does not forbid {rule}");
    }
    for folder in CORE {
        assert_eq!(read(folder)?, model, "{folder}/clippy.toml differs from model/clippy.toml");
    }
    Ok(())
}

#[test]
fn pure_half_of_the_node_agent_uses_no_io_and_no_clock() -> Result<()> {
    let files = tree::files(&[".rs"])?;
    let mut complaints = Vec::new();
    let pure = |path: &str| path.starts_with("client/src/core/") || path == "client/src/core.rs";
    for file in files.iter().filter(|file| pure(&file.path)) {
        for (at, line) in file.code() {
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}:{at}: {word}", file.path));
            }
        }
    }
    tree::no_complaints(complaints)
}
