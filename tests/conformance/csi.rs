//! The plugins that cases about CSI expect: a program of no real storage, in Python, whose messages are made from the
//! protocol's definition by the first run. Its docstring says how names choose outcomes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::http::{self, Request};

/// Longest time until the plugins of an agent are healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);
/// The Python for which Debian packages gRPC.
const PYTHON: &str = "/usr/bin/python3";

/// A folder with the modules of the protocol and the program that runs a plugin.
pub struct Plugin {
    folder: tempfile::TempDir,
}

impl Plugin {
    /// Makes the modules, or says why this machine cannot run plugins. In CI it has to.
    pub fn available() -> Result<std::result::Result<Plugin, String>> {
        if let Some(missing) = missing() {
            let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            ensure!(!in_ci, "in CI no case may be left out: {missing}");
            return Ok(Err(missing));
        }
        let folder = tempfile::tempdir()?;
        let made = Command::new(PYTHON)
            .args(["-m", "grpc_tools.protoc", "-I", "."])
            .arg(format!("--python_out={}", folder.path().display()))
            .arg(format!("--grpc_python_out={}", folder.path().display()))
            .arg("csi.proto")
            .current_dir(source())
            .output()?;
        ensure!(made.status.success(), "making the plugin's messages: {}", String::from_utf8_lossy(&made.stderr));
        let run = folder.path().join("run.sh");
        let plugin = source().join("plugin.py").display().to_string();
        let text = format!(
            "#!/bin/sh\nPYTHONPATH={} PYTHONDONTWRITEBYTECODE=1 exec {PYTHON} {plugin} \"$@\"\n",
            folder.path().display()
        );
        std::fs::write(&run, text)?;
        std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(Ok(Plugin { folder }))
    }

    /// Path of the program.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("run.sh")
    }

    /// Folder of the modules.
    pub fn home(&self) -> &Path {
        self.folder.path()
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/csi")
}

/// Why this machine cannot run plugins, if it cannot.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("tasks of driver exec need root".to_owned());
    }
    let found = Command::new(PYTHON).args(["-c", "import grpc, grpc_tools"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    (!found).then(|| "python3-grpcio and python3-grpc-tools not installed".to_owned())
}

/// Runs the two plugins `vt-mono` and `vt-node` on an agent, and waits until they are healthy.
pub fn run(server: std::net::SocketAddr, program: &Path) -> Result<()> {
    let deadline = Instant::now() + HEALTHY_WITHIN;
    for (id, kind, arg) in [("vt-mono", "monolith", None), ("vt-node", "node", Some("--node-only"))] {
        let args: Vec<&str> = ["--id", id].into_iter().chain(arg).collect();
        let task = json!({
            "Name": "plugin", "Driver": "raw_exec", "Config": {"command": program, "args": args},
            "CSIPluginConfig": {"ID": id, "Type": kind, "MountDir": "/csi"},
            "Resources": {"CPU": 20, "MemoryMB": 64},
        });
        let job = json!({"Job": {
            "ID": format!("plugin-{id}"), "TaskGroups": [{"Name": "plugin", "Tasks": [task]}],
        }});
        let answer = http::call(server, &Request::new("PUT", "/v1/jobs").json(&job), deadline)?;
        ensure!(answer.head.status == 200, "running a plugin was answered {}: {}", answer.head.status, answer.text());
    }
    let mut index = 0;
    loop {
        let request = Request::new("GET", &format!("/v1/plugins?type=csi&index={index}&wait=1s"));
        let answer = http::call(server, &request, deadline).context("the plugins did not become healthy")?;
        let plugins = answer.json()?;
        let healthy = |id: &str, count: &str| {
            let of = plugins.as_array().into_iter().flatten().find(|plugin| plugin["ID"] == id);
            of.is_some_and(|plugin| plugin[count] == 1)
        };
        if healthy("vt-mono", "NodesHealthy")
            && healthy("vt-mono", "ControllersHealthy")
            && healthy("vt-node", "NodesHealthy")
        {
            return Ok(());
        }
        index = answer.index().context("a read that waits has an index")?;
    }
}
