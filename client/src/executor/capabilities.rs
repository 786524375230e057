//! Step "capabilities": the capabilities of root that an isolated task holds, and those that it can ever hold.
//!
//! Attacks that it stops: a task that runs as `root`, or that becomes root through a setuid program, and then loads
//! modules, mounts, creates devices or reads another process's memory; and a task of another user with root's
//! capabilities left in its ambient set. The bounding set is limited before the user changes; the ambient set holds
//! only the capabilities that the job names.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

/// Names of capabilities in the kernel's order: the position of a name is the capability's number.
pub const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// A set of capabilities: bit n is capability n.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set(pub u64);

impl Set {
    /// No capability.
    pub const EMPTY: Set = Set(0);
    /// Every capability that has a name here.
    pub const ALL: Set = Set((1 << NAMES.len()) - 1);
    /// Capabilities that tasks may hold unless their job or their node sets others: the container engines' default
    /// without `net_raw`.
    pub const DEFAULT: Set = Set(0xA804_05FB);

    /// The set of one capability. Case and a leading `CAP_` do not matter; `all` is every one. `None` for an unknown
    /// name.
    pub fn named(name: &str) -> Option<Set> {
        let name = name.to_lowercase();
        let name = name.strip_prefix("cap_").unwrap_or(&name);
        if name == "all" {
            return Some(Set::ALL);
        }
        NAMES.iter().position(|known| *known == name).map(|number| Set(1 << number))
    }

    /// Whether the set has the capability of this name.
    pub fn has(self, name: &str) -> bool {
        Set::named(name).is_some_and(|one| self.and(one) == one)
    }

    /// The capabilities that are in both sets.
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// The capabilities that are in either set.
    pub fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// The capabilities that are in this set and not in the other.
    pub fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// The names of its members, sorted.
    pub fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> =
            NAMES.iter().enumerate().filter(|(number, _)| self.0 >> number & 1 == 1).map(|(_, name)| *name).collect();
        names.sort_unstable();
        names
    }
}

/// The capabilities of an isolated task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Capabilities that the task, and every program that it starts, can ever hold. A task of root holds all of them.
    pub bounding: Set,
    /// Capabilities that a task of another user than root holds.
    pub ambient: Set,
}

/// Limits the calling thread's bounding set. Done while the thread still has root's powers.
pub(super) fn limit(to: Set) -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::capability_is_in_bounding_set(one) {
            Ok(true) if to.0 >> number & 1 == 0 => rustix::thread::remove_capability_from_bounding_set(one)?,
            Ok(_) => {}
            // The kernel has no capability of this number, nor of higher ones.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    // Without this flag the thread loses all capabilities when its user changes from root to another one.
    rustix::thread::set_keep_capabilities(true)
}

/// Gives up the capabilities that the calling thread holds beyond `wanted`. Done when the thread has the task's user.
/// No task gets a capability that the agent itself lacks.
pub(super) fn hold(wanted: &Capabilities, is_root: bool) -> rustix::io::Result<()> {
    let own = Set(rustix::thread::capabilities(None)?.permitted.bits());
    // Root's programs get the bounding set when they start; the inheritable set is for users that are not root.
    let (held, inheritable) = if is_root {
        (own.and(wanted.bounding), Set::EMPTY)
    } else {
        let ambient = own.and(wanted.bounding).and(wanted.ambient);
        (ambient, ambient)
    };
    let bits = |set: Set| CapabilitySet::from_bits_retain(set.0);
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: bits(held), permitted: bits(held), inheritable: bits(inheritable) };
    rustix::thread::set_capabilities(None, sets)?;
    for number in (0..u64::BITS).filter(|number| inheritable.0 >> number & 1 == 1) {
        rustix::thread::configure_capability_in_ambient_set(bits(Set(1 << number)), true)?;
    }
    Ok(())
}

/// Union of the sets of these names; the error lists the unknown names.
pub(crate) fn union(names: &[String]) -> Result<Set, Vec<String>> {
    let (known, unknown): (Vec<_>, Vec<_>) =
        names.iter().map(|name| (name, Set::named(name))).partition(|(_, set)| set.is_some());
    if !unknown.is_empty() {
        let mut unknown: Vec<String> = unknown.into_iter().map(|(name, _)| name.to_lowercase()).collect();
        unknown.sort_unstable();
        return Err(unknown);
    }
    Ok(known.into_iter().filter_map(|(_, set)| set).fold(Set::EMPTY, Set::or))
}

/// Sets `no_new_privs`: programs that the task starts gain no privileges, regardless of their file's bits and
/// capabilities.
pub(super) fn gain_no_more() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_capability_set_matches_the_recorded_one() {
        let names = [
            "audit_write",
            "chown",
            "dac_override",
            "fowner",
            "fsetid",
            "kill",
            "mknod",
            "net_bind_service",
            "setfcap",
            "setgid",
            "setpcap",
            "setuid",
            "sys_chroot",
        ];
        assert_eq!(Set::DEFAULT.names(), names);
    }

    #[test]
    fn capability_names_have_the_kernels_numbers() {
        let numbers =
            [("chown", 0), ("net_raw", 13), ("sys_admin", 21), ("mknod", 27), ("bpf", 39), ("checkpoint_restore", 40)];
        for (name, number) in numbers {
            assert_eq!(Set::named(name), Some(Set(1 << number)), "{name}");
        }
        assert_eq!(Set::named("CAP_KILL"), Set::named("kill"));
        assert_eq!(Set::named("ALL"), Some(Set::ALL));
        assert_eq!(Set::named("odd"), None);
        assert_eq!(
            union(&["odd".to_owned(), "kill".to_owned(), "Even".to_owned()]),
            Err(vec!["even".to_owned(), "odd".to_owned()])
        );
    }
}
