//! The HTTP server of the files that cases about artifacts download: a program in Python, whose docstring lists the
//! paths. Its port is part of the cases.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Address of the server, as the cases name it.
pub const ADDRESS: &str = "127.0.0.1:7299";
const PYTHON: &str = "/usr/bin/python3";

/// The running server, which ends with this value.
pub struct Files {
    server: Child,
}

impl Files {
    /// Starts the server, or says why this machine cannot run it.
    pub fn available() -> Result<std::result::Result<Files, String>> {
        if let Some(missing) = missing() {
            return Ok(Err(missing));
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/files/files.py");
        let server = Command::new(PYTHON).arg(program).stdout(Stdio::piped()).spawn().context("starting files.py")?;
        let mut files = Files { server };
        let mut first = String::new();
        BufReader::new(files.server.stdout.take().context("its output")?).read_line(&mut first)?;
        ensure!(first == "serving\n", "files.py does not serve: {first:?}");
        Ok(Ok(files))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _already_gone = self.server.kill();
        let _status = self.server.wait();
    }
}

/// Why this machine cannot run the server, if it cannot.
fn missing() -> Option<String> {
    let runs =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    [PYTHON, "git"].into_iter().find(|program| !runs(program)).map(|program| format!("{program} is not installed"))
}
