//! The parts of one run on this machine: a data folder, a bridge, cgroups and an engine that nothing else uses, a
//! server that is never killed, and what is left of the allocations in the end. Not here: the jobs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::csi::Plugin;
use crate::engine::{Engine, Kind};
use crate::nodes::instances;
use crate::process;
use crate::story::Story;

/// CNI plugins as the Debian package installs them.
const CNI: &str = "/usr/lib/cni";
const SUBNET: &str = "172.27.232.0/22";
/// First two and a half numbers of the addresses in the subnet.
const ADDRESSES: &str = "172.27.23";

/// Directories of a node's data.
const ALLOCS: &str = "client/alloc";
const NETWORKS: &str = "client/state/networks";
/// Longest time until killed processes are gone.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Fields are dropped in their order: the server before the engine, and the folders last.
pub struct Machine {
    pub server: Story,
    pub engine: Engine,
    pub plugin: Plugin,
    /// Folder of all files, short because of the sockets of CSI plugins below it.
    dir: tempfile::TempDir,
    bridge: String,
    cgroup: String,
}

impl Machine {
    /// Prepares the parts, or says why this machine cannot run them. In CI it has to.
    pub fn available() -> Result<std::result::Result<Machine, String>> {
        if let Some(missing) = missing() {
            let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            ensure!(!in_ci, "in CI the kills of nodes may not be left out: {missing}");
            return Ok(Err(missing));
        }
        let plugin = match Plugin::available()? {
            Ok(plugin) => plugin,
            Err(missing) => return Ok(Err(missing)),
        };
        let engine = match Engine::available(Kind::Docker)? {
            Ok(engine) => engine,
            Err(missing) => return Ok(Err(missing)),
        };
        // Not in /tmp: the engine has other directories there.
        let dir = tempfile::Builder::new().prefix("slk").rand_bytes(4).tempdir_in("/var/tmp")?;
        let (told, starts) = (dir.path().join("told"), dir.path().join("told/starts"));
        fs::create_dir(&told)?;
        fs::write(&starts, "")?;
        for path in [dir.path(), &told, &starts] {
            // Tasks of `exec` run as nobody.
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        }
        let server = Agent::start_as(&json!({
            "data_dir": dir.path().join("server"), "bind_addr": "127.0.0.1", "ports": {"http": 0, "rpc": 0, "serf": 0},
            // A node that is killed and started again is never down.
            "server": {"enabled": true, "bootstrap_expect": 1, "heartbeat_grace": "10m"},
        }))?;
        let bridge = format!("slk{}", std::process::id());
        let cgroup = format!("songline-kill-{}", std::process::id());
        Ok(Ok(Machine { server: Story { agent: server }, engine, plugin, dir, bridge, cgroup }))
    }

    /// Configuration of the node that is killed.
    pub fn node(&self) -> Result<Value> {
        Ok(json!({
            "data_dir": self.data(), "bind_addr": "127.0.0.1", "ports": {"http": 0}, "log_level": "DEBUG",
            "client": {
                "enabled": true,
                "servers": [self.server.get("/v1/status/leader")?],
                "cni_path": CNI, "bridge_network_name": self.bridge, "bridge_network_subnet": SUBNET,
                "cgroup_parent": self.cgroup,
                "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100,
                "host_volume": {"told": {"path": self.told()}},
                "options": {"driver.denylist": "java,qemu"},
            },
            "plugin": {
                "raw_exec": {"config": {"enabled": true}},
                "docker": {"config": {
                    "endpoint": self.engine.host(), "infra_image": "local/pause:1", "volumes": {"enabled": true},
                    // The engine may finish the creation of a container after the agent that asked for it was killed.
                    // The search for dangling containers finds it, when it is old enough not to be a new task's.
                    "gc": {
                        "image": false, "dangling_containers": {"period": "5s", "creation_grace": "30s"},
                    },
                }},
            },
        }))
    }

    /// Folder in which tasks leave a word of their start.
    pub fn told(&self) -> PathBuf {
        self.dir.path().join("told")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("node")
    }

    /// All that is left on this machine of these allocations, which have ended and were collected.
    pub fn left_over(&self, allocs: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let data = self.data();
        for id in allocs.iter().filter(|id| Path::new("/var/run/netns").join(id).exists()) {
            left.push(format!("network namespace {id}"));
        }
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        left.extend(places.filter(|at| Path::new(at).starts_with(&data)).map(|at| format!("mount {at}")));
        let containers = self.engine.docker(&["ps", "-a", "--format", "{{.ID}} {{.State}} {{.Names}}"])?;
        left.extend(containers.lines().map(|container| format!("container {container}")));
        left.extend(self.cgroups().into_iter().map(|dir| format!("cgroup {}", dir.display())));
        let rules = Command::new("iptables-save").output().context("listing rules")?.stdout;
        let rules = String::from_utf8_lossy(&rules).into_owned();
        let of_alloc = |rule: &&str| {
            allocs.iter().any(|id| rule.contains(id.as_str())) || rule.contains(ADDRESSES) && rule.contains("/32")
        };
        left.extend(rules.lines().filter(of_alloc).map(|rule| format!("rule {rule}")));
        for interface in entries(&Path::new("/sys/class/net").join(&self.bridge).join("brif")) {
            left.push(format!("interface {interface}"));
        }
        let leases = entries(&Path::new("/var/lib/cni/networks").join(&self.bridge));
        // The plugin's own: the newest address, and its lock.
        let of_plugin = |name: &String| name.starts_with("last_reserved_ip") || name == "lock";
        left.extend(leases.into_iter().filter(|name| !of_plugin(name)).map(|address| format!("lease {address}")));
        for (what, dir) in [
            ("directory of an allocation", ALLOCS),
            ("run", "client/state/runs"),
            ("network record", NETWORKS),
            ("socket of a plugin", "client/state/csi/plugins"),
            ("published volume", "client/state/csi/monolith/vt-mono/per-alloc"),
            ("staged volume", "client/state/csi/monolith/vt-mono/staging"),
        ] {
            left.extend(entries(&data.join(dir)).into_iter().map(|name| format!("{what} {name}")));
        }
        let marks = [data.display().to_string()];
        // The agent itself has its folder in a file, not in its command line.
        left.extend(process::mentioning(&marks).into_iter().map(|process| format!("process {process:?}")));
        left.extend(instances::all(allocs).into_iter().map(|(id, of)| format!("tasks of {id}: {of:?}")));
        Ok(left)
    }

    /// Cgroups of tasks below the run's own.
    fn cgroups(&self) -> Vec<PathBuf> {
        self.cgroup_parents().iter().flat_map(|parent| dirs(parent)).collect()
    }

    /// The run's own cgroup, in each hierarchy of the machine.
    fn cgroup_parents(&self) -> Vec<PathBuf> {
        let mut parents = Vec::new();
        let mut look = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = look.pop() {
            for dir in dirs(&dir) {
                let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if name.starts_with(&self.cgroup) { parents.push(dir) } else { look.push(dir) }
            }
        }
        parents
    }
}

impl Drop for Machine {
    /// Removes what a failed run leaves, and what belongs to the run and not to its allocations.
    fn drop(&mut self) {
        let mut processes = process::mentioning(&[self.dir.path().display().to_string()]);
        for dir in self.cgroups() {
            let tasks = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            processes.extend(tasks.lines().filter_map(|id| process::Process::find(id.parse().ok()?)));
        }
        processes.iter().for_each(process::Process::kill);
        let deadline = Instant::now() + END_WITHIN;
        for process in processes {
            process.ends_before(deadline);
        }
        for dir in self.cgroups().into_iter().chain(self.cgroup_parents()) {
            let _busy = fs::remove_dir(dir);
        }
        for id in entries(&self.data().join(NETWORKS)) {
            let _none = Command::new("ip").args(["netns", "del", &id]).output();
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for at in own.filter(|at| Path::new(at).starts_with(self.dir.path())) {
            let _busy = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
        let _none = Command::new("ip").args(["link", "del", &self.bridge]).output();
        for table in ["filter", "nat"] {
            remove_rules(table);
        }
    }
}

/// Removes the rules of the subnet with their chains: that of the bridge, and what a failed run leaves.
fn remove_rules(table: &str) {
    let run = |args: &str| Command::new("sh").args(["-c", &format!("iptables -w -t {table} {args}")]).output();
    let Ok(listed) = run("-S") else { return };
    let rules = String::from_utf8_lossy(&listed.stdout).into_owned();
    let added: Vec<&str> = rules.lines().filter_map(|rule| rule.strip_prefix("-A ")).collect();
    let chains: BTreeSet<&str> = added
        .iter()
        .filter(|rule| rule.contains(ADDRESSES))
        .filter_map(|rule| rule.split(' ').next())
        .filter(|chain| chain.starts_with("CNI-") && chain.len() > 20)
        .collect();
    let doomed = |rule: &&&str| rule.contains(ADDRESSES) || chains.iter().any(|chain| rule.contains(chain));
    for rule in added.iter().filter(doomed) {
        // The list quotes its words as a shell reads them.
        let _gone = run(&format!("-D {rule}"));
    }
    for chain in chains {
        let _busy = run(&format!("-X {chain}"));
    }
}

/// Why this machine cannot run tasks of all kinds, if it cannot.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("tasks of driver exec need root".to_owned());
    }
    let plugins = ["bridge", "firewall", "host-local", "portmap"];
    if let Some(plugin) = plugins.iter().find(|plugin| !Path::new(CNI).join(plugin).exists()) {
        return Some(format!("no CNI plugin {plugin} in {CNI}"));
    }
    let programs = ["iptables-save", "ip", "busybox"];
    let missing = programs.iter().find(|program| Command::new(program).arg("--help").output().is_err());
    missing.map(|program| format!("{program} not installed"))
}

fn entries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn dirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
