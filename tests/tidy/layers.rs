//! Allowed imports between folders. A new edge is a decision: write an ADR first. Not here: imports inside one
//! folder.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::tree::{self, Package};

/// Every folder with a package, and the folders it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("lang", &["model"]),
    ("identity", &["model", "lang"]),
    ("cli", &["model", "lang", "workspace-hack"]),
    ("commands", &["model", "migrations"]),
    ("projections", &["model", "lang", "commands", "migrations"]),
    ("wire", &["model", "lang", "commands", "projections"]),
    ("scheduler", &["model", "lang", "commands", "projections"]),
    ("migrations", &[]),
    ("log", &[]),
    ("rpc", &["model"]),
    ("events", &["model", "lang", "commands", "projections", "wire"]),
    ("api", &["model", "lang", "identity", "commands", "projections", "wire", "rpc", "events"]),
    ("client", &["model", "lang", "rpc"]),
    (
        "server",
        &[
            "model",
            "lang",
            "identity",
            "commands",
            "projections",
            "wire",
            "scheduler",
            "migrations",
            "log",
            "rpc",
            "events",
            "api",
        ],
    ),
    (
        "src",
        &[
            "model",
            "lang",
            "identity",
            "commands",
            "projections",
            "scheduler",
            "log",
            "rpc",
            "events",
            "api",
            "cli",
            "client",
            "server",
            "workspace-hack",
        ],
    ),
    (
        "sim",
        &[
            "model",
            "lang",
            "commands",
            "projections",
            "scheduler",
            "log",
            "rpc",
            "client",
            "events",
            "api",
            "server",
            "src",
            "workspace-hack",
        ],
    ),
    ("benches", &["src", "server", "sim", "workspace-hack"]),
    ("workspace-hack", &[]),
];

/// The folders without IO, clock, threads and randomness.
pub const CORE: &[&str] = &["model", "lang", "identity", "commands", "projections", "wire", "scheduler", "migrations"];

/// Packages that no core package may depend on, outside its tests: those with sockets, files, async tasks or
/// randomness.
const NOT_IN_CORE: &[&str] = &[
    "async-stream",
    "axum",
    "fjall",
    "getrandom",
    "hyper",
    "hyper-util",
    "mimalloc",
    "openraft",
    "parking_lot",
    "rand",
    "reqwest",
    "rustix",
    "tempfile",
    "tokio",
    "tokio-stream",
    "tokio-util",
    "tower",
];

fn name_of(folder: &str) -> String {
    match folder {
        "src" => "songline".to_string(),
        folder => format!("songline-{folder}"),
    }
}

#[test]
fn every_package_is_on_the_map() -> Result<()> {
    let there: BTreeMap<String, String> =
        tree::packages()?.into_iter().map(|package| (package.folder(), package.name)).collect();
    let map: BTreeMap<String, String> =
        MAY_USE.iter().map(|(folder, _)| (folder.to_string(), name_of(folder))).collect();
    assert_eq!(there, map);
    Ok(())
}

#[test]
fn no_package_imports_what_the_map_does_not_allow() -> Result<()> {
    let packages = tree::packages()?;
    tree::no_complaints(packages.iter().flat_map(forbidden_imports).collect())
}

fn forbidden_imports(package: &Package) -> Vec<String> {
    let folder = package.folder();
    let row = MAY_USE.iter().find(|(name, _)| *name == folder);
    let allowed: BTreeSet<String> = row.map(|(_, uses)| uses.iter().map(|f| name_of(f)).collect()).unwrap_or_default();
    let ours = |name: &str| name == "songline" || name.starts_with("songline-");
    let core = CORE.contains(&folder.as_str());
    let mut complaints = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        // The tests of the whole check histories with the checkers of the simulation.
        let checkers = folder == "src" && name == "songline-sim" && dependency.kind.as_deref() == Some("dev");
        if ours(name) && !allowed.contains(name) && !checkers {
            complaints.push(format!("{folder} may not use {name}"));
        }
        let shipped = dependency.kind.as_deref() != Some("dev");
        if core && shipped && NOT_IN_CORE.contains(&name) {
            complaints.push(format!("{folder} is core and may not use {name}"));
        }
    }
    complaints
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() -> Result<()> {
    let mut complaints = Vec::new();
    for package in tree::packages()? {
        if !package.manifest()?.contains("[lints]\nworkspace = true\n") {
            complaints.push(format!("{}: no `[lints] workspace = true`", package.folder()));
        }
    }
    tree::no_complaints(complaints)
}

#[test]
fn types_of_the_raft_library_stay_behind_our_trait() -> Result<()> {
    let mut complaints = Vec::new();
    for file in tree::files(&[".rs"])? {
        let inside = file.path.starts_with("log/src/raft") || file.path.starts_with("log/tests/");
        if inside || file.path.starts_with("tests/tidy/") {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("openraft") {
                complaints.push(format!("{}:{}: openraft outside log/src/raft", file.path, at + 1));
            }
        }
    }
    tree::no_complaints(complaints)
}
