//! The machine's cgroup mounts, their layout, and the names of limits in it. Creates no cgroup but the parent of all
//! tasks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Cgroups, NewCgroups, Setting};

/// Controllers without which tasks cannot be limited.
const LIMITING: [&str; 2] = ["cpu", "memory"];
/// Controllers of version 1 that tasks are put into. Reserved cores need `cpuset` too.
const USED: [&str; 5] = ["cpu", "cpuacct", "memory", "freezer", "devices"];

/// The machine's cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    layout: Layout,
    /// Path below the mounts; all cgroups of tasks are created in it.
    parent: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Layout {
    Unified(PathBuf),
    PerController(BTreeMap<String, PathBuf>),
}

/// Resource limits of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits<'a> {
    /// Memory limit, in bytes; 0 is no limit.
    pub memory_bytes: u64,
    /// Memory that is protected from reclaim while other tasks need memory, in bytes; 0 is none.
    pub memory_kept_bytes: u64,
    /// CPU share, in MHz.
    pub cpu_shares: i64,
    /// Reserved cores; empty means any core.
    pub cores: &'a [u64],
    /// Devices that the task may use, in the notation of the kernel's device cgroup; empty means all devices.
    pub devices: &'a [&'a str],
}

impl Hierarchy {
    /// Finds the machine's cgroup mounts. `parent` is the configured parent of all tasks; empty is the default one.
    pub fn find(parent: &str) -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/self/mounts").unwrap_or_default(), parent)
    }

    /// Parses a list of mounts. A machine with mounted controllers of version 1 uses version 2 for other purposes.
    pub fn read(mounts: &str, parent: &str) -> Option<Self> {
        let (mut unified, mut controllers) = (None, BTreeMap::new());
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, at, kind, options, ..] = fields.as_slice() else { continue };
            match *kind {
                "cgroup2" => unified = unified.or(Some(PathBuf::from(at))),
                "cgroup" => {
                    for controller in options.split(',').filter(|word| USED.contains(word) || *word == "cpuset") {
                        controllers.entry(controller.to_owned()).or_insert_with(|| PathBuf::from(at));
                    }
                }
                _ => {}
            }
        }
        let layout =
            if controllers.is_empty() { Layout::Unified(unified?) } else { Layout::PerController(controllers) };
        let usual = match &layout {
            Layout::Unified(_) => "nomad.slice",
            Layout::PerController(_) => "nomad",
        };
        // The parent is a path below the mounts, with or without a leading slash.
        let told: PathBuf =
            Path::new(parent).components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
        Some(Self { layout, parent: if told.as_os_str().is_empty() { usual.into() } else { told } })
    }

    /// `v1` or `v2`.
    pub fn version(&self) -> &'static str {
        match &self.layout {
            Layout::Unified(_) => "v2",
            Layout::PerController(_) => "v1",
        }
    }

    /// Whether this hierarchy can limit the devices of tasks.
    pub fn limits_devices(&self) -> bool {
        match &self.layout {
            Layout::Unified(_) => true,
            Layout::PerController(at) => at.contains_key("devices"),
        }
    }

    /// The mount point; in version 1 the directory that contains all the mounts.
    pub fn mount(&self) -> &Path {
        match &self.layout {
            Layout::Unified(at) => at,
            Layout::PerController(at) => at.values().find_map(|at| at.parent()).unwrap_or(Path::new("/")),
        }
    }

    /// The parent of all tasks, as nodes report it.
    pub fn parent(&self) -> String {
        match &self.layout {
            Layout::Unified(_) => self.parent.display().to_string(),
            Layout::PerController(_) => format!("/{}", self.parent.display()),
        }
    }

    /// The first required controller that is missing. Creates the parent of all tasks to find out.
    pub fn lacks(&self) -> Option<&'static str> {
        match &self.layout {
            Layout::Unified(mount) => {
                self.offer(mount);
                let offered =
                    fs::read_to_string(mount.join(&self.parent).join("cgroup.subtree_control")).unwrap_or_default();
                LIMITING.into_iter().find(|needed| !offered.split_ascii_whitespace().any(|offer| offer == *needed))
            }
            Layout::PerController(at) => {
                LIMITING.into_iter().chain(["freezer"]).find(|needed| !at.contains_key(*needed))
            }
        }
    }

    /// Cgroups without limits, which only group a task's processes. `name` is the task's unique name on this machine.
    pub fn unlimited(&self, name: &str) -> NewCgroups {
        let at = match &self.layout {
            Layout::Unified(mount) => Cgroups::Unified(mount.join(&self.parent).join(name)),
            Layout::PerController(at) => Cgroups::PerController(self.dirs(at, &["freezer"], name)),
        };
        NewCgroups { at, settings: Vec::new(), devices: Vec::new() }
    }

    /// Cgroups with limits. `name` is the task's unique name on this machine.
    pub fn limited(&self, name: &str, limits: &Limits<'_>) -> NewCgroups {
        match &self.layout {
            Layout::Unified(mount) => {
                let dir = mount.join(&self.parent).join(name);
                let devices = limits.devices.iter().map(|device| (*device).to_owned()).collect();
                NewCgroups { settings: unified_settings(&dir, limits), at: Cgroups::Unified(dir), devices }
            }
            Layout::PerController(at) => {
                let pinned: &[&str] = if limits.cores.is_empty() { &[] } else { &["cpuset"] };
                let dirs = self.dirs(at, &[&USED, pinned].concat(), name);
                NewCgroups {
                    settings: self.settings(at, &dirs, limits),
                    at: Cgroups::PerController(dirs),
                    devices: Vec::new(),
                }
            }
        }
    }

    fn dirs(&self, at: &BTreeMap<String, PathBuf>, wanted: &[&str], name: &str) -> BTreeMap<String, PathBuf> {
        let wanted = at.iter().filter(|(controller, _)| wanted.contains(&controller.as_str()));
        wanted.map(|(controller, mount)| (controller.clone(), mount.join(&self.parent).join(name))).collect()
    }

    /// Enables controllers for the cgroups of tasks, where the kernel allows that below the mount.
    fn offer(&self, mount: &Path) {
        let _ = fs::create_dir_all(mount.join(&self.parent));
        let mut dir = mount.to_owned();
        for below in std::iter::once(None).chain(self.parent.components().map(Some)) {
            dir.extend(below);
            for controller in ["+cpu", "+memory", "+cpuset"] {
                // A refused controller is reported as missing later, by `lacks`.
                let _ = fs::write(dir.join("cgroup.subtree_control"), controller);
            }
        }
    }

    fn settings(
        &self,
        at: &BTreeMap<String, PathBuf>,
        dirs: &BTreeMap<String, PathBuf>,
        limits: &Limits<'_>,
    ) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut set = |dir: Option<&PathBuf>, file: &str, value: String, needed: bool| {
            settings.extend(dir.map(|dir| Setting { file: dir.join(file), value, needed }));
        };
        let memory = dirs.get("memory");
        if limits.memory_bytes > 0 {
            set(memory, "memory.limit_in_bytes", limits.memory_bytes.to_string(), true);
            // Memory and swap together: no more than memory alone, so nothing is swapped out. The file exists only if
            // the kernel counts swap.
            set(memory, "memory.memsw.limit_in_bytes", limits.memory_bytes.to_string(), false);
        }
        set(memory, "memory.swappiness", "0".to_owned(), false);
        if limits.memory_kept_bytes > 0 {
            set(memory, "memory.soft_limit_in_bytes", limits.memory_kept_bytes.to_string(), false);
        }
        set(dirs.get("cpu"), "cpu.shares", limits.cpu_shares.clamp(2, 262_144).to_string(), true);
        if !limits.devices.is_empty() {
            set(dirs.get("devices"), "devices.deny", "a".to_owned(), true);
            for device in limits.devices {
                set(dirs.get("devices"), "devices.allow", (*device).to_owned(), true);
            }
        }
        if let (Some(mount), Some(own)) = (at.get("cpuset"), dirs.get("cpuset")) {
            // A new cpuset has neither processors nor memory nodes, and its parent needs all that it is to have.
            let whole = |file: &str| fs::read_to_string(mount.join(file)).unwrap_or_default().trim().to_owned();
            let mut above = mount.clone();
            for part in self.parent.components() {
                above.push(part);
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    set(Some(&above), file, whole(file), true);
                }
            }
            set(Some(own), "cpuset.mems", whole("cpuset.mems"), true);
            set(Some(own), "cpuset.cpus", list(limits.cores), true);
        }
        settings
    }
}

fn unified_settings(dir: &Path, limits: &Limits<'_>) -> Vec<Setting> {
    let set = |file: &str, value: String, needed: bool| Setting { file: dir.join(file), value, needed };
    let mut settings = Vec::new();
    if limits.memory_bytes > 0 {
        settings.push(set("memory.max", limits.memory_bytes.to_string(), true));
        // The file is missing where the kernel does not count swap.
        settings.push(set("memory.swap.max", "0".to_owned(), false));
    }
    if limits.memory_kept_bytes > 0 {
        settings.push(set("memory.low", limits.memory_kept_bytes.to_string(), true));
    }
    settings.push(set("cpu.weight", weight(limits.cpu_shares).to_string(), true));
    if !limits.cores.is_empty() {
        settings.push(set("cpuset.cpus", list(limits.cores), true));
    }
    settings
}

fn list(cores: &[u64]) -> String {
    cores.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Weight in the unified layout that corresponds to a CPU share.
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

#[cfg(test)]
mod tests;
