//! A container engine of the tests' own: `dockerd`, or Podman's service, on a socket and with a data folder of its own,
//! and the images that the recorded cases expect, made without a registry from a static busybox. Not here: the agent
//! that uses it.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Longest time from the engine's start until it answers.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Longest time of an orderly stop.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Parent of the data folder: `/tmp` is a host volume of some cases.
const DATA_PARENT: &str = "/var/tmp";
/// Programs that every engine and its images need: Podman's service is asked by Docker's client, too.
const PROGRAMS: &[&str] = &["docker", "busybox", "tar"];
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

/// Folders of all services of Podman: addresses that are taken, and where layers of images were seen.
const PODMAN_FOLDERS: &[&str] = &["/run/containers", "/var/lib/containers"];
/// Bridge of Podman's default network. Two engines with the same one would disturb each other.
static PODMAN_BRIDGE: Mutex<()> = Mutex::new(());

/// The default network, on a bridge that the machine's own Podman does not use.
const PODMAN_NETWORK: &str = r#"{
    "name": "podman", "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9", "driver": "bridge",
    "network_interface": "songline-test", "created": "2026-01-01T00:00:00Z",
    "subnets": [{"subnet": "10.213.0.0/24", "gateway": "10.213.0.1"}],
    "ipv6_enabled": false, "internal": false, "dns_enabled": false, "ipam_options": {"driver": "host-local"}
}"#;

/// Storage that needs nothing of the machine's file system.
const PODMAN_STORAGE: &str = r#"
[storage]
driver = "vfs"
graphroot = "DIR/data"
runroot = "DIR/run"
"#;
const PODMAN_SETTINGS: &str = r#"
[containers]
# Others than the driver's.
default_capabilities = ["CHOWN", "SYS_TIME"]
# The service's own are more than the root of a virtual machine may have.
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
# Locks in shared memory are those of the whole machine.
lock_type = "file"
tmp_dir = "DIR/tmp"
volume_path = "DIR/volumes"
[network]
network_config_dir = "DIR/networks"
"#;

/// A program that answers Docker's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

impl Kind {
    /// Programs that the engine needs, itself first.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Kind::Docker => &["dockerd"],
            Kind::Podman => &["podman", "netavark", "iptables"],
        }
    }

    fn program(self) -> &'static str {
        self.programs()[0]
    }
}

/// A running engine. Dropping it stops its containers and removes its data.
pub struct Engine {
    kind: Kind,
    child: Child,
    dir: tempfile::TempDir,
    /// State that Podman shares with all of the machine; dropped last.
    _shared: Option<Shared>,
}

impl Engine {
    /// Why this machine cannot run an engine, if it cannot.
    fn missing(kind: Kind) -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("an engine needs root".to_owned());
        }
        let programs = PROGRAMS.iter().chain(kind.programs());
        let missing: Vec<&str> = programs.copied().filter(|program| found(program).is_none()).collect();
        (!missing.is_empty()).then(|| format!("{} not installed", missing.join(", ")))
    }

    /// Starts an engine with the images, or says why this machine cannot. In CI the programs have to be there; a kernel
    /// on which the engine does not start is no defect of the product, and is told like a missing program elsewhere.
    pub fn available(kind: Kind) -> Result<std::result::Result<Engine, String>> {
        if let Some(missing) = Self::missing(kind) {
            let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            ensure!(!in_ci, "in CI no case may be left out: {missing}");
            return Ok(Err(missing));
        }
        let mut engine = Self::spawn(kind)?;
        if let Err(error) = engine.wait_until_it_answers() {
            return Ok(Err(error.to_string()));
        }
        engine.make_images().context("making the images")?;
        Ok(Ok(engine))
    }

    fn spawn(kind: Kind) -> Result<Engine> {
        let shared = (kind == Kind::Podman).then(Shared::new);
        let dir = tempfile::Builder::new().prefix("songline-engine-").tempdir_in(DATA_PARENT)?;
        let log = File::create(dir.path().join("log"))?;
        let mut command = match kind {
            Kind::Docker => dockerd(dir.path()),
            Kind::Podman => podman(dir.path())?,
        };
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {}", kind.program()))?;
        Ok(Engine { kind, child, dir, _shared: shared })
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        host(self.dir.path())
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
                bail!("{} does not answer: {}", self.kind.program(), last.join(" | "));
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
        // Podman has a process behind each container, which cleans up after it, and behind each command that ran in a
        // container, which stays for five minutes.
        let left = process::mentioning(&[self.dir.path().display().to_string()]);
        let of_commands = process::running("conmon", "--exec-process-spec");
        of_commands.iter().filter(|process| left.contains(process)).for_each(process::Process::kill);
        let deadline = Instant::now() + STOP_WITHIN;
        for process in left {
            process.ends_before(deadline);
        }
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

/// Remains of Podman's service on the machine beside its folder. Those that were not there before are removed.
struct Shared {
    chains: bool,
    folders: Vec<&'static str>,
    _bridge: MutexGuard<'static, ()>,
}

impl Shared {
    fn new() -> Shared {
        let bridge = PODMAN_BRIDGE.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = PODMAN_FOLDERS.iter().copied().filter(|folder| !Path::new(folder).exists()).collect();
        Shared { chains: !rules("filter").contains("NETAVARK"), folders, _bridge: bridge }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _none = fs::remove_dir_all(folder);
        }
        if !self.chains {
            return;
        }
        for table in ["filter", "nat"] {
            let listed = rules(table);
            let of_podman = |rule: &&str| rule.contains("NETAVARK");
            let added = listed.lines().filter(of_podman).filter_map(|rule| rule.strip_prefix("-A "));
            let chains = listed.lines().filter(of_podman).filter_map(|rule| rule.strip_prefix("-N "));
            // The list quotes its words as a shell reads them.
            for rule in added.map(|rule| format!("-D {rule}")).chain(chains.map(|chain| format!("-X {chain}"))) {
                let _gone = Command::new("sh").args(["-c", &format!("iptables -w -t {table} {rule}")]).output();
            }
        }
    }
}

/// The rules of a table, as `iptables` takes them.
fn rules(table: &str) -> String {
    let listed = Command::new("iptables").args(["-w", "-t", table, "-S"]).output();
    listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default()
}

/// Address of the engine's socket.
fn host(dir: &Path) -> String {
    format!("unix://{}", dir.join("docker.sock").display())
}

fn dockerd(dir: &Path) -> Command {
    let at = |name: &str| dir.join(name).display().to_string();
    let mut command = Command::new("dockerd");
    command
        .args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")])
        .args(["--host", &host(dir)])
        // The rules of an engine that this machine may have stay as they are.
        .args(["--iptables=false", "--ip-masq=false"]);
    command
}

/// Podman's service with all that it keeps in the folder: nothing of the machine's own Podman is used or changed.
fn podman(dir: &Path) -> Result<Command> {
    let at = |name: &str| dir.join(name).display().to_string();
    fs::create_dir(dir.join("networks"))?;
    fs::write(dir.join("networks/podman.json"), PODMAN_NETWORK)?;
    let at_dir = |text: &str| text.replace("DIR", &dir.display().to_string());
    fs::write(dir.join("storage.conf"), at_dir(PODMAN_STORAGE))?;
    fs::write(dir.join("containers.conf"), at_dir(PODMAN_SETTINGS))?;
    let mut command = Command::new("podman");
    command
        .args(["system", "service", "--time=0", &host(dir)])
        // Some versions leave the word of a container that was out of memory where they are, and archives of images.
        .current_dir(dir)
        .env("TMPDIR", dir)
        .env("CONTAINERS_CONF", at("containers.conf"))
        .env("CONTAINERS_STORAGE_CONF", at("storage.conf"));
    Ok(command)
}

/// The file of a program in the search path, or among Podman's own.
fn found(program: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    let of_podman = ["/usr/lib/podman", "/usr/libexec/podman"].map(PathBuf::from);
    std::env::split_paths(&search).chain(of_podman).map(|dir| dir.join(program)).find(|path| path.is_file())
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
