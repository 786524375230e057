//! Programs of the host that drivers need: their files, and what they say about their version.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// Longest time in which a program tells its version.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Finds a program in the agent's own search path.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    std::env::split_paths(&search)
        .map(|dir| dir.join(name))
        .find(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

/// A path without links.
pub(super) fn real(path: &Path) -> std::io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// A program's version text, which is asked for again only when the program's file has changed: drivers are looked at
/// often.
pub(super) struct Version {
    name: &'static str,
    argument: &'static str,
    known: Mutex<Option<Known>>,
}

struct Known {
    path: PathBuf,
    modified: SystemTime,
    said: String,
}

impl Version {
    /// A program that tells its version when it is started with `argument`.
    pub const fn new(name: &'static str, argument: &'static str) -> Self {
        Self { name, argument, known: Mutex::new(None) }
    }

    /// Text that the program prints. An error is the reason why there is none.
    pub async fn text(&self) -> Result<String, String> {
        let missing = || format!("{} is not on the agent's PATH", self.name);
        let path = on_path(self.name).ok_or_else(missing)?;
        let modified = path.metadata().and_then(|meta| meta.modified()).map_err(|_| missing())?;
        let said = |known: &Known| (known.path == path && known.modified == modified).then(|| known.said.clone());
        if let Some(said) = self.known.lock().as_ref().and_then(said) {
            return Ok(said);
        }
        let said = self.ask(&path).await.map_err(|error| format!("{} {}: {error}", path.display(), self.argument))?;
        *self.known.lock() = Some(Known { path, modified, said: said.clone() });
        Ok(said)
    }

    async fn ask(&self, path: &Path) -> Result<String, String> {
        let mut command = tokio::process::Command::new(path);
        command.arg(self.argument).stdin(Stdio::null()).kill_on_drop(true);
        let told = tokio::time::timeout(ANSWER_MAX, command.output()).await.map_err(|_| "no answer".to_owned())?;
        let told = told.map_err(|error| error.to_string())?;
        if !told.status.success() {
            return Err(told.status.to_string());
        }
        // Some programs tell their version as an error.
        Ok(String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned())
    }
}
