//! A recorded transcript: commands, and the normalised texts that they print. Not here: running them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A story of commands in one directory.
#[derive(Debug, Deserialize)]
pub struct Transcript {
    pub name: String,
    /// Agent that the story expects: `dev` or `acl`.
    pub profile: String,
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    pub steps: Vec<Step>,
}

/// One command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Arguments.
    pub cmd: Vec<String>,
    pub exit: serde_json::Value,
    pub stdout: String,
    pub stderr: String,
    /// Text for standard input, which is empty otherwise.
    pub stdin: Option<String>,
    /// Further variables of the environment.
    pub env: BTreeMap<String, String>,
    /// The command runs again until its output matches.
    pub until: Option<String>,
    /// Longest time of these repetitions, in seconds.
    pub within: Option<f64>,
    /// Names for later steps, each with an expression whose group is the value.
    pub learn: BTreeMap<String, String>,
    /// Whether nothing is compared.
    pub hide: bool,
    /// Only these lines are compared.
    pub keep: Option<String>,
    /// These lines are not compared.
    pub drop: Option<String>,
    /// Only the text after the last match is compared.
    pub after: Option<String>,
    /// Replacements before the normalisation.
    pub norm: Vec<(String, String)>,
    /// Whether the order of the lines of standard output is free.
    pub sort: bool,
    /// Seconds after which a command without an end is killed.
    pub kill: Option<f64>,
    /// Files that are written before the command runs.
    pub write: BTreeMap<String, String>,
}

/// All transcripts of a folder, by name.
pub fn load(folder: &Path) -> Result<Vec<Transcript>> {
    let mut all: Vec<Transcript> = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        all.push(serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}
