//! A container engine of the tests' own: `dockerd` on a socket and with a data folder of its own, and the images that
//! the recorded cases expect, made without a registry from a static busybox. Not here: the agent that uses it.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Longest time from the engine's start until it answers.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Longest time of an orderly stop.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Parent of the data folder: `/tmp` is a host volume of some cases.
const DATA_PARENT: &str = "/var/tmp";
/// Programs that the engine and its images need.
const PROGRAMS: &[&str] = &["dockerd", "docker", "busybox", "tar"];
/// Name, `docker import` changes.
const IMAGES: &[(&str, &[&str])] = &[
    (
        "local/busybox:1",
        &[
            "ENV PATH=/usr/bin:/bin",
            "ENV IMAGE_VAR=of-the-image",
            r#"CMD ["/bin/sh", "-c", "echo the command of the image; sleep 1"]"#,
        ],
    ),
    (
        "local/entry:1",
        &[
            "ENV PATH=/usr/bin:/bin",
            r#"ENTRYPOINT ["/bin/sh", "-c", "echo entry $@; sleep 1", "x"]"#,
            r#"CMD ["cmd"]"#,
            "USER user",
            "WORKDIR /tmp",
        ],
    ),
    ("local/pause:1", &[r#"ENTRYPOINT ["/bin/sleep", "2147483647"]"#]),
];
/// Names of `local/busybox:1` at a registry that refuses connections.
const TAGS: &[&str] = &["127.0.0.1:1/busybox:1", "127.0.0.1:1/busybox:latest"];

/// A running engine. Dropping it stops its containers and removes its data.
pub struct Engine {
    child: Child,
    dir: tempfile::TempDir,
}

impl Engine {
    /// Why this machine cannot run an engine, if it cannot.
    fn missing() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("an engine needs root".to_owned());
        }
        let missing: Vec<&str> = PROGRAMS.iter().copied().filter(|program| found(program).is_none()).collect();
        (!missing.is_empty()).then(|| format!("{} not installed", missing.join(", ")))
    }

    /// Starts an engine with the images, or says why this machine cannot. In CI the programs have to be there; a kernel
    /// on which `dockerd` does not start is no defect of the product, and is told like a missing program elsewhere.
    pub fn available() -> Result<std::result::Result<Engine, String>> {
        if let Some(missing) = Self::missing() {
            let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            ensure!(!in_ci, "in CI no case may be left out: {missing}");
            return Ok(Err(missing));
        }
        let mut engine = Self::spawn()?;
        if let Err(error) = engine.wait_until_it_answers() {
            return Ok(Err(error.to_string()));
        }
        engine.make_images().context("making the images")?;
        Ok(Ok(engine))
    }

    fn spawn() -> Result<Engine> {
        let dir = tempfile::Builder::new().prefix("songline-engine-").tempdir_in(DATA_PARENT)?;
        let at = |name: &str| dir.path().join(name).display().to_string();
        let log = File::create(dir.path().join("log"))?;
        let child = Command::new("dockerd")
            .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
            .args(["--host", &format!("unix://{}", at("docker.sock"))])
            // The rules of an engine that this machine may have stay as they are.
            .args(["--iptables=false", "--ip-masq=false"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting dockerd")?;
        Ok(Engine { child, dir })
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.dir.path().join("docker.sock").display())
    }

    /// Runs `docker` against this engine. Returns its output.
    pub fn docker(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("docker").args(args).env("DOCKER_HOST", self.host()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "docker {}: {said}", args.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        while self.docker(&["version"]).is_err() {
            if Instant::now() > deadline || !matches!(self.child.try_wait(), Ok(None)) {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(5).collect();
                bail!("dockerd does not answer: {}", last.join(" | "));
            }
        }
        Ok(())
    }

    fn make_images(&self) -> Result<()> {
        let root = self.dir.path().join("root");
        file_system(&root)?;
        let archive = self.dir.path().join("root.tar").display().to_string();
        let packed = Command::new("tar").arg("-C").arg(&root).args(["-cf", &archive, "."]).status()?;
        ensure!(packed.success(), "packing the file system");
        for (name, changes) in IMAGES {
            let changes = changes.iter().flat_map(|change| ["-c", *change]);
            let args: Vec<&str> = ["import"].into_iter().chain(changes).chain([archive.as_str(), *name]).collect();
            self.docker(&args)?;
        }
        TAGS.iter().try_for_each(|tag| self.docker(&["tag", "local/busybox:1", tag]).map(drop))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process id fits in 31 bits");
        let containers = self.docker(&["ps", "-aq"]).unwrap_or_default();
        let containers: Vec<&str> = containers.split_whitespace().collect();
        if !containers.is_empty() {
            let _gone = self.docker(&[&["rm", "-f"], containers.as_slice()].concat());
        }
        let _ended = process::interrupt(pid);
        process::wait_for_end(pid, Instant::now() + STOP_WITHIN);
        let _killed = self.child.kill();
        let _status = self.child.wait();
        // The engine leaves the namespace of the host's network mounted, and a mounted folder cannot be removed.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|at| Path::new(at).starts_with(self.dir.path()));
        for at in own {
            let _busy = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// The file of a program in the search path.
fn found(program: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    std::env::split_paths(&search).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// The file system of the images: busybox with all its applets, and three users.
fn file_system(root: &Path) -> Result<()> {
    for dir in ["bin", "etc", "tmp", "root", "usr/bin"] {
        fs::create_dir_all(root.join(dir))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    let busybox = found("busybox").context("busybox is there")?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    let applets = Command::new(&busybox).arg("--list").output()?;
    for applet in String::from_utf8(applets.stdout)?.lines().filter(|applet| *applet != "busybox") {
        symlink("/bin/busybox", root.join("bin").join(applet))?;
    }
    let users =
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\nuser:x:1000:1000:user:/:/bin/sh\n";
    fs::write(root.join("etc/passwd"), users)?;
    fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\nuser:x:1000:\n")?;
    Ok(())
}
