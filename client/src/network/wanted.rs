//! The network that an allocation wants: mode, host name, name resolution and mapped ports, from the job and the
//! resources that the scheduler granted. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use songline_model::{AllocatedPortMapping, Allocation, DnsConfig, NetworkResource, Str};

use super::settings::NetworkSettings;
use crate::driver::Driver;
use crate::env::TaskEnv;

/// Longest host name, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Longest part of a host name between dots, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// Network of an allocation as its job asks for it, with resolved texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub mode: Mode,
    /// Host name; empty leaves the name to the driver.
    pub hostname: String,
    pub dns: Option<DnsConfig>,
    /// Ports of the host that lead to ports of the allocation.
    pub ports: Vec<AllocatedPortMapping>,
    /// Driver that creates the namespace; `None` is the agent.
    pub owner: Option<Str>,
}

/// Mode of a group's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The network of the host.
    Host,
    /// A namespace with nothing but a loopback interface.
    None,
    /// A namespace on the agent's own bridge.
    Bridge,
    /// A namespace in the network that the configuration of this name describes.
    Cni(String),
}

impl Mode {
    fn of(word: &str) -> Result<Self, String> {
        match word {
            "" | "host" => Ok(Self::Host),
            "none" => Ok(Self::None),
            "bridge" => Ok(Self::Bridge),
            other => match other.strip_prefix("cni/") {
                Some(name) if !name.is_empty() => Ok(Self::Cni(name.to_owned())),
                Some(_) | None => Err(format!("network mode {other:?} is not supported")),
            },
        }
    }
}

/// Whether the tasks of the allocation have another network than the host's, or name resolution of their own.
pub(crate) fn is_wanted(alloc: &Allocation) -> bool {
    network(alloc).is_some_and(|network| network.dns.is_some() || !matches!(network.mode.as_str(), "" | "host"))
}

/// Reason why no task runner is made for the allocation: its drivers cannot do what its network asks for.
pub(crate) fn refusal(alloc: &Allocation, drivers: &BTreeMap<Str, Arc<dyn Driver>>) -> Option<String> {
    let network = network(alloc)?;
    let refused = |error: String| Some(format!("failed to configure network manager: {error}"));
    if matches!(network.mode.as_str(), "" | "host") {
        return None;
    }
    let owns = |task: &&songline_model::Task| drivers.get(&task.driver).is_some_and(|driver| driver.owns_network());
    let tasks = || alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
    for task in tasks() {
        if drivers.get(&task.driver).is_some_and(|driver| !driver.joins_networks()) {
            let (name, mode) = (&task.name, network.mode.as_str());
            return refused(format!("task {name} does not support {mode:?} networking mode"));
        }
        if !network.hostname.is_empty() && !owns(&task) {
            return refused(format!("hostname is not currently supported on driver {}", task.driver));
        }
    }
    let mut owners = tasks().filter(owns).map(|task| &task.driver);
    let first = owners.next()?;
    match owners.find(|other| *other != first) {
        Some(other) => refused(format!("drivers {first} and {other} both make the network of the group")),
        None => None,
    }
}

/// The network that the allocation wants. The error is the reason shown in its tasks' events.
pub(crate) fn of(
    alloc: &Allocation,
    env: &TaskEnv,
    drivers: &BTreeMap<Str, Arc<dyn Driver>>,
) -> Result<Wanted, String> {
    let network = network(alloc).cloned().unwrap_or_default();
    let hostname = env.replace(&network.hostname);
    if !hostname.is_empty() && !is_domain_name(&hostname) {
        return Err(format!("network hostname {hostname:?} is not a valid DNS name"));
    }
    let replaced = |list: &Option<Vec<Str>>| {
        list.as_ref().map(|list| list.iter().map(|text| Str::from(env.replace(text))).collect::<Vec<_>>())
    };
    let dns = network.dns.as_ref().map(|dns| DnsConfig {
        servers: replaced(&dns.servers),
        searches: replaced(&dns.searches),
        options: replaced(&dns.options),
    });
    let ports = alloc.allocated_resources.as_ref().and_then(|all| all.shared.ports.clone()).unwrap_or_default();
    let tasks = alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
    let owner =
        tasks.map(|task| &task.driver).find(|name| drivers.get(*name).is_some_and(|found| found.owns_network()));
    Ok(Wanted { mode: Mode::of(&network.mode)?, hostname, dns, ports, owner: owner.cloned() })
}

/// The group's network, as the job asks for it.
fn network(alloc: &Allocation) -> Option<&NetworkResource> {
    alloc.group()?.networks.as_ref()?.first()
}

/// Whether a text has the form of a domain name. Characters are not checked, as in the reference.
fn is_domain_name(name: &str) -> bool {
    let labels = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_BYTES_MAX && labels.split('.').all(|label| (1..=LABEL_BYTES_MAX).contains(&label.len()))
}

impl Wanted {
    /// The parameters of the plugins that map ports.
    pub fn capabilities(&self, settings: &NetworkSettings) -> Map<String, Value> {
        let anywhere = settings.wildcard_ports && settings.host_networks.is_empty();
        let mapping = |port: &AllocatedPortMapping, protocol: &str| {
            let inside = if port.to > 0 { port.to } else { port.value };
            let mut mapping = json!({ "hostPort": port.value, "containerPort": inside, "protocol": protocol });
            if !anywhere && !port.host_ip.is_empty() {
                mapping["hostIP"] = port.host_ip.as_str().into();
            }
            mapping
        };
        let mappings = self.ports.iter().flat_map(|port| ["tcp", "udp"].map(|protocol| mapping(port, protocol)));
        Map::from_iter([("portMappings".to_owned(), mappings.collect())])
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use songline_model::{Job, Task, TaskGroup};

    use super::*;
    use crate::config::ClientConfig;
    use crate::driver;

    fn port(label: &str, value: i64, to: i64) -> AllocatedPortMapping {
        AllocatedPortMapping { label: label.into(), value, to, host_ip: "10.0.0.7".into() }
    }

    fn mapped(settings: &NetworkSettings) -> String {
        let ports = vec![port("http", 25000, 8080), port("same", 25001, 0)];
        let wanted = Wanted { mode: Mode::Bridge, hostname: String::new(), dns: None, ports, owner: None };
        let all = wanted.capabilities(settings);
        let lines: Vec<String> = all["portMappings"].as_array().into_iter().flatten().map(Value::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn ports_are_mapped_for_both_protocols_on_every_address() {
        expect![[r#"
            {"hostPort":25000,"containerPort":8080,"protocol":"tcp"}
            {"hostPort":25000,"containerPort":8080,"protocol":"udp"}
            {"hostPort":25001,"containerPort":25001,"protocol":"tcp"}
            {"hostPort":25001,"containerPort":25001,"protocol":"udp"}"#]]
        .assert_eq(&mapped(&NetworkSettings::default()));
    }

    #[test]
    fn ports_are_mapped_on_their_own_address_where_host_networks_are_told_apart() {
        let host_networks = [("dmz".into(), super::super::settings::HostNetwork::default())].into();
        let settings = NetworkSettings { host_networks, ..NetworkSettings::default() };
        let first = r#"{"hostPort":25000,"containerPort":8080,"protocol":"tcp","hostIP":"10.0.0.7"}"#;
        assert_eq!(mapped(&settings).lines().next(), Some(first));
        let exact = NetworkSettings { wildcard_ports: false, ..NetworkSettings::default() };
        assert_eq!(mapped(&exact).lines().next(), Some(first));
    }

    /// Refusal of a group whose tasks, named after their drivers, have these drivers.
    fn refused(mode: &str, hostname: &str, tasks: &[&str]) -> String {
        let config = ClientConfig::default();
        let drivers: Vec<(Str, Arc<dyn Driver>)> = vec![
            ("mock_driver".into(), Arc::new(driver::mock::Mock::new(&config))),
            ("raw_exec".into(), Arc::new(driver::raw_exec::RawExec::new(&config))),
        ];
        let task = |name: &&str| Task { name: (*name).into(), driver: (*name).into(), ..Task::default() };
        let network = NetworkResource { mode: mode.into(), hostname: hostname.into(), ..NetworkResource::default() };
        let group = TaskGroup {
            name: "group".into(),
            tasks: Some(tasks.iter().map(task).collect()),
            networks: Some(vec![network]),
            ..TaskGroup::default()
        };
        let job = Job { task_groups: Some(vec![group]), ..Job::default() };
        let alloc = Allocation { task_group: "group".into(), job: Some(Arc::new(job)), ..Allocation::default() };
        refusal(&alloc, &drivers.into_iter().collect()).unwrap_or_else(|| "not refused".to_owned())
    }

    #[test]
    fn tasks_whose_driver_knows_only_the_network_of_the_host_are_refused_in_other_networks() {
        let texts = [
            refused("host", "", &["mock_driver"]),
            refused("bridge", "", &["raw_exec", "gone"]),
            refused("bridge", "", &["raw_exec", "mock_driver"]),
            refused("none", "", &["mock_driver"]),
            refused("cni/lan", "web", &["mock_driver", "raw_exec"]),
            refused("cni/lan", "web", &["raw_exec", "mock_driver"]),
        ];
        expect![[r#"
            not refused
            not refused
            failed to configure network manager: task mock_driver does not support "bridge" networking mode
            failed to configure network manager: task mock_driver does not support "none" networking mode
            failed to configure network manager: task mock_driver does not support "cni/lan" networking mode
            failed to configure network manager: hostname is not currently supported on driver raw_exec"#]]
        .assert_eq(&texts.join("\n"));
    }

    #[test]
    fn domain_names_are_checked_by_the_lengths_of_their_parts() {
        for name in ["web", "web-0", "not_0!", "a.b.example", "a.b."] {
            assert!(is_domain_name(name), "{name}");
        }
        for name in ["", ".", "a..b", &"x".repeat(64), &"x.".repeat(140)] {
            assert!(!is_domain_name(name), "{name}");
        }
    }

    #[test]
    fn modes_are_those_of_job_files() {
        assert_eq!(Mode::of(""), Ok(Mode::Host));
        assert_eq!(Mode::of("cni/lan"), Ok(Mode::Cni("lan".to_owned())));
        assert_eq!(Mode::of("cni/"), Err("network mode \"cni/\" is not supported".to_owned()));
    }
}
