//! The files of the repository, and cargo's metadata of its packages. Not here: any rule.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
    manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// Kind of the dependency: `dev`, `build`, or `None` for an ordinary one.
    pub kind: Option<String>,
}

impl Package {
    /// Folder relative to the root; `src` for the package of the root itself.
    pub fn folder(&self) -> String {
        let folder = self.manifest_path.parent();
        let folder = folder.and_then(|f| f.strip_prefix(root()).ok());
        match folder.map(|f| f.display().to_string()) {
            Some(name) if !name.is_empty() => name,
            _ => "src".to_string(),
        }
    }

    pub fn manifest(&self) -> Result<String> {
        fs::read_to_string(&self.manifest_path).context("reading a manifest")
    }
}

pub fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo's metadata")?;
    Ok(metadata.packages)
}

/// A file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    /// Whether the whole file is test code.
    pub fn is_test(&self) -> bool {
        let folders = ["tests/", "benches/"];
        let inside = |folder: &str| self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"));
        self.path.ends_with("/tests.rs") || folders.iter().any(|folder| inside(folder))
    }

    /// Lines up to the first test module, numbered from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = if self.is_test() { "" } else { &self.text };
        let code = lines.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        code.enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// All files with one of these suffixes, except build output and git's own files.
pub fn files(endings: &[&str]) -> Result<Vec<File>> {
    let mut found = Vec::new();
    collect(root(), endings, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<File>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with("target") && name != ".git" {
                collect(&path, endings, found)?;
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let path = path.strip_prefix(root())?.display().to_string();
            found.push(File { path, text });
        }
    }
    Ok(())
}

/// Fails with all complaints at once.
pub fn no_complaints(complaints: Vec<String>) -> Result<()> {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}
