//! Job files of `dev`: those that were named and those of named directories, the jobs in them, and their changes since
//! they were read. Talking to an agent is not here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use serde_json::Value;
use songline_cli::client::text;
use songline_cli::jobfile::JobFile;

/// Names of job files in directories.
const SUFFIXES: [&str; 3] = [".nomad", ".nomad.hcl", ".nomad.json"];

/// A change of a file.
#[derive(Debug)]
pub(super) enum Change {
    /// The file has another job than before.
    Job {
        file: PathBuf,
        /// The registration.
        body: Value,
        /// The id of the job that was in the file, if now no file has it.
        replaces: Option<String>,
    },
    /// The file has no job that can be read.
    Unreadable { file: PathBuf, reason: String },
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Read {
    file: PathBuf,
    /// The registration of its job.
    pub body: Value,
}

impl Read {
    fn id(&self) -> &str {
        text(&self.body["Job"]["ID"])
    }
}

/// Time and length of a file; `None`: it is not there.
type Stamp = Option<(SystemTime, u64)>;

/// The files and their jobs.
#[derive(Debug)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    variables: JobFile,
    read: Vec<Read>,
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl Files {
    /// Reads the jobs of all files.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, a directory without job files, a job that is in two files.
    pub fn open(paths: Vec<PathBuf>, var: Vec<String>, var_file: Vec<String>) -> anyhow::Result<Self> {
        let mut variables = JobFile { var, var_file, ..JobFile::default() };
        let found = found(&paths)?;
        for dir in paths.iter().filter(|path| path.is_dir()) {
            let has_some = found.iter().any(|file| file.starts_with(dir));
            ensure!(
                has_some,
                "{} has no file {}",
                dir.display(),
                SUFFIXES.map(|suffix| format!("*{suffix}")).join(", ")
            );
        }
        // Not each of several files has all variables.
        variables.hcl2_strict = found.len() == 1;
        let stamps = stamps(&found, &variables);
        let mut read: Vec<Read> = Vec::new();
        for file in found {
            let body = variables.registration(&file.to_string_lossy())?;
            let new = Read { file, body };
            if let Some(other) = read.iter().find(|other| other.id() == new.id()) {
                anyhow::bail!("{} and {} have the same job {:?}", other.file.display(), new.file.display(), new.id());
            }
            read.push(new);
        }
        Ok(Self { paths, variables, read, stamps })
    }

    /// The files with their jobs.
    pub fn read(&self) -> &[Read] {
        &self.read
    }

    /// The changes since the last call. A file that is gone is no change: editors replace files.
    pub fn changes(&mut self) -> Vec<Change> {
        let Ok(found) = found(&self.paths) else { return Vec::new() };
        let now = stamps(&found, &self.variables);
        let has_changed = |path: &Path| self.stamps.get(path) != now.get(path);
        let all = self.variables.var_file.iter().any(|file| has_changed(Path::new(file)));
        let changed = found.into_iter().filter(|file| all || has_changed(file));
        let changed: Vec<PathBuf> = changed.filter(|file| now.get(file).is_some_and(Option::is_some)).collect();
        self.stamps.extend(now);
        changed.into_iter().filter_map(|file| self.change(file)).collect()
    }

    fn change(&mut self, file: PathBuf) -> Option<Change> {
        let body = match self.variables.registration(&file.to_string_lossy()) {
            Ok(body) => body,
            Err(error) => return Some(Change::Unreadable { file, reason: error.message().to_owned() }),
        };
        let id = text(&body["Job"]["ID"]).to_owned();
        if let Some(other) = self.read.iter().find(|read| read.file != file && read.id() == id) {
            let reason = format!("{} has the job {id:?} already", other.file.display());
            return Some(Change::Unreadable { file, reason });
        }
        let mut replaces = None;
        match self.read.iter_mut().find(|read| read.file == file) {
            Some(read) if read.body["Job"] == body["Job"] => return None,
            Some(read) => {
                replaces = Some(read.id().to_owned()).filter(|old| *old != id);
                read.body = body.clone();
            }
            None => self.read.push(Read { file: file.clone(), body: body.clone() }),
        }
        Some(Change::Job { file, body, replaces })
    }
}

/// The named files, and the job files of named directories in alphabetical order.
fn found(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))? {
            let file = entry?.path();
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if file.is_file() && SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
                files.push(file);
            }
        }
        files.sort();
        found.extend(files);
    }
    let mut once = Vec::new();
    found.retain(|file| {
        let is_new = !once.contains(file);
        once.push(file.clone());
        is_new
    });
    Ok(found)
}

fn stamps(found: &[PathBuf], variables: &JobFile) -> BTreeMap<PathBuf, Stamp> {
    let stamp = |path: &Path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    let files = found.iter().cloned().chain(variables.var_file.iter().map(PathBuf::from));
    files.map(|path| (path.clone(), stamp(&path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, count: &str) -> String {
        format!(
            "variable \"count\" {{ default = 1 }}\njob \"{id}\" {{\n group \"g\" {{\n count = {count}\n \
             task \"t\" {{\n driver = \"mock_driver\"\n }}\n }}\n}}\n"
        )
    }

    fn counts(files: &Files) -> Vec<(String, i64)> {
        let count = |read: &Read| read.body["Job"]["TaskGroups"][0]["Count"].as_i64().unwrap_or_default();
        files.read().iter().map(|read| (read.id().to_owned(), count(read))).collect()
    }

    fn shown(changes: Vec<Change>) -> Vec<String> {
        let name = |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let show = |change: &Change| match change {
            Change::Job { file, body, replaces } => {
                format!("{} {} replaces {replaces:?}", name(file), text(&body["Job"]["ID"]))
            }
            Change::Unreadable { file, .. } => format!("{} unreadable", name(file)),
        };
        changes.iter().map(show).collect()
    }

    #[test]
    fn files_and_directories_are_read_with_variables_and_changes_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, content: String| std::fs::write(dir.path().join(name), content).expect("it is written");
        write("a.nomad.hcl", job("a", "var.count"));
        write("b.nomad", job("b", "2"));
        write("values.hcl", "count = 3\n".to_owned());
        let values = dir.path().join("values.hcl").display().to_string();
        let paths = vec![dir.path().to_owned(), dir.path().join("b.nomad")];
        let mut files = Files::open(paths, Vec::new(), vec![values]).expect("they are read");
        assert_eq!(counts(&files), [("a".to_owned(), 3), ("b".to_owned(), 2)]);
        assert!(files.changes().is_empty(), "nothing has changed");

        write("values.hcl", "count = 40\n".to_owned());
        assert_eq!(shown(files.changes()), ["a.nomad.hcl a replaces None"]);
        write("b.nomad", job("renamed", "2"));
        write("c.nomad.hcl", job("c", "1"));
        assert_eq!(shown(files.changes()), ["b.nomad renamed replaces Some(\"b\")", "c.nomad.hcl c replaces None"]);
        write("c.nomad.hcl", "job {".to_owned());
        assert_eq!(shown(files.changes()), ["c.nomad.hcl unreadable"]);
        write("c.nomad.hcl", job("a", "1"));
        assert_eq!(shown(files.changes()), ["c.nomad.hcl unreadable"]);
        std::fs::remove_file(dir.path().join("b.nomad")).expect("it is removed");
        assert!(files.changes().is_empty());
        assert_eq!(counts(&files).len(), 3);
    }

    #[test]
    fn directory_without_job_files_and_doubled_jobs_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || Files::open(vec![dir.path().to_owned()], Vec::new(), Vec::new());
        assert!(
            open().expect_err("it is empty").to_string().ends_with("has no file *.nomad, *.nomad.hcl, *.nomad.json")
        );
        for name in ["one.nomad", "two.nomad"] {
            std::fs::write(dir.path().join(name), job("same", "1")).expect("it is written");
        }
        assert!(open().expect_err("it is doubled").to_string().ends_with("have the same job \"same\""));
    }
}
