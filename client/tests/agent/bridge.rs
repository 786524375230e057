//! Bridge networks with real CNI plugins: allocations reach each other, and leave nothing behind, whatever the agent
//! does. Needs root, the plugins and `iptables`; elsewhere each test passes with a message, or fails where `CI` is set.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use songline_client::{ClientConfig, NetworkSettings};
use songline_model::{
    AllocClientStatus, AllocId, AllocatedPortMapping, AllocatedResources, Allocation, DnsConfig, Dur, Job, JobType,
    NetworkResource, Str, Task,
};
use songline_rpc::AllocReport;

use crate::attacks::can_isolate;
use crate::escapes::may_run;
use crate::fake::{Stage, alloc, is_running, messages, shell, task, until};
use crate::session::{begin, hear_all};

/// Plugins as the Debian package installs them.
const PLUGINS: &str = "/usr/lib/cni";
/// A web server of the allocation, on port 8080.
const SERVER: &str = "mkdir -p local/w; echo served > local/w/index.html; exec python3 -m http.server -d local/w 8080";
/// Stands before each plugin: notes each call, and stops for ever where the file `stop` names the place.
const WATCHED: &str = r#"#!/bin/sh
dir=$(dirname "$0"); name=${0##*/}; stop=$(cat "$dir/stop" 2>/dev/null)
config=$(cat); echo "$CNI_COMMAND $name" >> "$dir/told"
[ "$stop" != "$CNI_COMMAND before $name" ] || { touch "$dir/reached"; exec sleep 1000; }
out=$(printf %s "$config" | /usr/lib/cni/$name); code=$?
[ "$stop" != "$CNI_COMMAND after $name" ] || { touch "$dir/reached"; exec sleep 1000; }
printf '%s' "$out"; exit $code
"#;

fn may_bridge() -> bool {
    let plugins = ["bridge", "firewall", "host-local", "portmap"].map(|name| Path::new(PLUGINS).join(name).exists());
    let iptables = Command::new("iptables").arg("--version").output().is_ok();
    let all = rustix::process::geteuid().is_root() && plugins.iter().all(|there| *there) && iptables;
    may_run("root, CNI plugins in /usr/lib/cni, iptables", all)
}

/// A bridge of one test.
#[derive(Clone, Copy)]
struct Bridge {
    name: &'static str,
    subnet: &'static str,
}

/// Removes a bridge with its rule when the test ends.
struct Removed(Bridge);

impl Drop for Removed {
    fn drop(&mut self) {
        let Bridge { name, subnet } = self.0;
        let _ = Command::new("ip").args(["link", "del", name]).output();
        let rule = ["-w", "-D", "NOMAD-ADMIN", "-o", name, "-d", subnet, "-j", "ACCEPT"];
        let _ = Command::new("iptables").args(rule).output();
    }
}

impl Bridge {
    /// Rules, namespaces and interfaces left of an allocation with this address.
    fn left_over(&self, id: AllocId, address: &str) -> Vec<String> {
        let mut left = Vec::new();
        let namespace = Path::new("/var/run/netns").join(id.to_string());
        if namespace.exists() {
            left.push(namespace.display().to_string());
        }
        let leases = Path::new("/var/lib/cni/networks").join(self.name);
        let of_id =
            |name: &String| std::fs::read_to_string(leases.join(name)).is_ok_and(|text| text.contains(&id.to_string()));
        left.extend(entries(&leases).into_iter().filter(of_id));
        let rules = Command::new("iptables-save").output().expect("it runs").stdout;
        let rules = String::from_utf8_lossy(&rules).into_owned();
        let of_alloc = |rule: &&str| rule.contains(&id.to_string()) || rule.contains(address) && rule.contains("/32");
        left.extend(rules.lines().filter(of_alloc).map(str::to_owned));
        left
    }

    async fn until_gone(&self, id: AllocId, address: &str) {
        until("nothing to be left", || self.left_over(id, address).is_empty().then_some(())).await;
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn use_bridge(config: &mut ClientConfig, bridge: Bridge) {
    config.network = NetworkSettings {
        cni_path: PLUGINS.to_owned(),
        bridge_name: bridge.name.into(),
        bridge_subnet: bridge.subnet.into(),
        ..NetworkSettings::default()
    };
}

/// As [`use_bridge`], with plugins that are watched. They are in the agent's directory.
fn use_watched_bridge(config: &mut ClientConfig, bridge: Bridge) {
    use_bridge(config, bridge);
    let dir = config.data_dir.join("cni");
    config.network.cni_path = dir.display().to_string();
    if dir.exists() {
        return;
    }
    std::fs::create_dir(&dir).expect("makes");
    for name in ["bridge", "firewall", "portmap"] {
        std::fs::write(dir.join(name), WATCHED).expect("writes");
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).expect("its own file");
    }
    // The bridge plugin starts this one by itself.
    std::os::unix::fs::symlink("/usr/lib/cni/host-local", dir.join("host-local")).expect("links");
}

/// An allocation of one task in a network of this mode; port 8080 inside is mapped to `port`, if that is not 0.
/// The ports are below the range of dynamic ports: the rules of an allocation whose agent was killed may still take one
/// of that range.
fn networked(task: Task, mode: &str, port: i64, change: impl FnOnce(&mut NetworkResource)) -> Allocation {
    let mut network = NetworkResource { mode: mode.into(), ..NetworkResource::default() };
    change(&mut network);
    let mut alloc = alloc(JobType::Service, vec![task]);
    let mut job = alloc.job.as_deref().cloned().unwrap_or_default();
    for group in job.task_groups.iter_mut().flatten() {
        group.networks = Some(vec![network.clone()]);
    }
    alloc.job = Some(Arc::new(Job { ..job }));
    let mut resources = alloc.allocated_resources.as_deref().cloned().unwrap_or_default();
    let mapping = AllocatedPortMapping { label: "http".into(), value: port, to: 8080, host_ip: "127.0.0.1".into() };
    resources.shared.ports = (port > 0).then(|| vec![mapping]);
    alloc.allocated_resources = Some(Arc::new(AllocatedResources { ..resources }));
    alloc
}

fn address(update: &AllocReport) -> String {
    let status = update.network_status.as_ref().expect("it is reported");
    assert_eq!(status.interface_name, "eth0");
    status.address.to_string()
}

/// The answer of a web server, once it answers.
async fn served(place: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(place).ok()?;
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned())
    };
    until(&format!("an answer of {place}"), ask).await
}

#[tokio::test(flavor = "multi_thread")]
async fn allocations_reach_each_other_by_address_and_by_mapped_port_and_leave_nothing() {
    const BRIDGE: Bridge = Bridge { name: "slt-reach", subnet: "172.27.240.0/24" };
    if !may_bridge() {
        return;
    }
    let _removed = Removed(BRIDGE);
    let stage = Stage::with(|config| use_bridge(config, BRIDGE)).await;
    let server = stage.servers.place(networked(shell(SERVER), "bridge", 19461, |_| {}));
    let at = address(&stage.until("running", server, is_running).await);
    assert!(at.starts_with("172.27.240."), "{at}");
    assert_eq!(served("127.0.0.1:19461").await, "served");
    assert_eq!(served(&format!("{at}:8080")).await, "served");
    assert!(TcpStream::connect("127.0.0.1:8080").is_err(), "the inner port is not the host's");

    let places = format!("('{at}:8080', '172.27.240.1:19461')");
    let client = stage.servers.place(networked(shell(&asking(&places)), "bridge", 19462, |_| {}));
    let other = address(&stage.until("running", client, is_running).await);
    assert_ne!(at, other);
    assert_eq!(file(&stage, client, "web/local/out").await, "served served\n");

    for (id, address) in [(server, at), (client, other)] {
        stage.servers.stop(id);
        stage.until_status(id, AllocClientStatus::Complete).await;
        BRIDGE.until_gone(id, &address).await;
    }
    assert_eq!(entries(&PathBuf::from("/sys/class/net/slt-reach/brif")), Vec::<String>::new());
}

/// A script that writes the answers of web servers to a file, and runs on.
fn asking(places: &str) -> String {
    format!(
        "python3 -c \"
import urllib.request as u
ask = lambda place: u.urlopen('http://' + place + '/index.html', timeout=10).read().decode().strip()
print(*[ask(place) for place in {places}])
\" > local/out.new; mv local/out.new local/out; exec sleep 1000"
    )
}

/// A file of an allocation, once it is there.
async fn file(stage: &Stage, id: AllocId, name: &str) -> String {
    let path = stage.alloc_dir(id).join(name);
    until(name, || std::fs::read_to_string(&path).ok()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_allocation_keeps_its_network_when_the_agent_crashes() {
    const BRIDGE: Bridge = Bridge { name: "slt-keep", subnet: "172.27.241.0/24" };
    if !may_bridge() {
        return;
    }
    let _removed = Removed(BRIDGE);
    let stage = Stage::with(|config| use_watched_bridge(config, BRIDGE)).await;
    let id = stage.servers.place(networked(shell(SERVER), "bridge", 19463, |_| {}));
    let at = address(&stage.until("running", id, is_running).await);
    assert_eq!(served("127.0.0.1:19463").await, "served");
    let stage = stage.crash().await;
    stage.servers.edit(id, |alloc| alloc.modify_time = alloc.modify_time.plus(Dur(1)));
    assert_eq!(served("127.0.0.1:19463").await, "served");
    assert_eq!(address(&stage.servers.updates_of(id).pop().expect("was told")), at);
    assert_eq!(told(&stage), ["ADD bridge", "ADD firewall", "ADD portmap"], "nothing is added again");
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    BRIDGE.until_gone(id, &at).await;
}

/// Calls of watched plugins for an allocation. Without a command plugins are asked for their version.
fn told(stage: &Stage) -> Vec<String> {
    let told = std::fs::read_to_string(watched(stage).join("told")).unwrap_or_default();
    told.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect()
}

/// Directory of watched plugins.
fn watched(stage: &Stage) -> PathBuf {
    let of_any = stage.alloc_dir(AllocId::from_bytes([1; 16]));
    of_any.parent().and_then(Path::parent).expect("is in the agent's directory").join("cni")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_in_any_step_leaves_nothing_after_its_next_start() {
    const BRIDGE: Bridge = Bridge { name: "slt-crash", subnet: "172.27.242.0/24" };
    if !may_bridge() {
        return;
    }
    let _removed = Removed(BRIDGE);
    let mut stage = Stage::with(|config| use_watched_bridge(config, BRIDGE)).await;
    for step in ["ADD before bridge", "ADD after bridge", "ADD after firewall", "ADD after portmap"] {
        let cni = watched(&stage);
        std::fs::write(cni.join("stop"), step).expect("writes");
        let id = stage.servers.place(networked(shell("exec sleep 1000"), "bridge", 19464, |_| {}));
        until(step, || cni.join("reached").exists().then_some(())).await;
        assert!(!BRIDGE.left_over(id, "none").is_empty(), "something is made at {step}");
        stage.client.shutdown(false).await;
        stage.servers.forget(id);
        std::fs::remove_file(cni.join("stop")).expect("removes");
        std::fs::remove_file(cni.join("reached")).expect("removes");
        stage = stage.start_again().await;
        BRIDGE.until_gone(id, "172.27.242.").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_that_was_set_up_by_half_is_run_by_the_next_agent() {
    const BRIDGE: Bridge = Bridge { name: "slt-half", subnet: "172.27.243.0/24" };
    if !may_bridge() {
        return;
    }
    let _removed = Removed(BRIDGE);
    let stage = Stage::with(|config| use_watched_bridge(config, BRIDGE)).await;
    let cni = watched(&stage);
    std::fs::write(cni.join("stop"), "ADD after firewall").expect("writes");
    let id = stage.servers.place(networked(shell(SERVER), "bridge", 19465, |_| {}));
    until("the step", || cni.join("reached").exists().then_some(())).await;
    std::fs::remove_file(cni.join("stop")).expect("removes");
    let stage = stage.restart().await;
    let at = address(&stage.until("running", id, is_running).await);
    assert_eq!(served("127.0.0.1:19465").await, "served");
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    BRIDGE.until_gone(id, &at).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cannot_be_made_fails_the_allocation_with_the_reason() {
    const BRIDGE: Bridge = Bridge { name: "slt-fail", subnet: "no subnet" };
    if !may_bridge() {
        return;
    }
    let stage = Stage::with(|config| use_bridge(config, BRIDGE)).await;
    let id = stage.servers.place(networked(shell("exit 0"), "bridge", 0, |_| {}));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let said = messages(&update).join("\n");
    let expected = "failed to setup alloc: pre-run hook \"network\" failed: failed to configure networking for alloc: ";
    assert!(said.contains(expected), "{said}");
    assert!(!Path::new("/var/run/netns").join(id.to_string()).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_without_a_network_has_a_loopback_only() {
    if !may_bridge() {
        return;
    }
    let stage = Stage::new().await;
    let script =
        "grep -c : /proc/net/dev > local/out.new; mv local/out.new local/out; exec python3 -m http.server 8080";
    let id = stage.servers.place(networked(shell(script), "none", 0, |_| {}));
    stage.until("running", id, is_running).await;
    assert_eq!(file(&stage, id, "web/local/out").await, "1\n", "one interface");
    let session = begin(&stage, id, &["grep", "-c", ":", "/proc/net/dev"]).await.expect("the task runs");
    let (printed, _) = hear_all(session).await;
    assert_eq!(printed, "1\n", "a command beside the task is in the same namespace");
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    let namespace = Path::new("/var/run/netns").join(id.to_string());
    until("the namespace to be gone", || (!namespace.exists()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_task_has_the_network_and_the_name_resolution_of_its_job() {
    const BRIDGE: Bridge = Bridge { name: "slt-exec", subnet: "172.27.244.0/24" };
    if !may_bridge() || !can_isolate() {
        return;
    }
    let _removed = Removed(BRIDGE);
    let stage = Stage::with(|config| use_bridge(config, BRIDGE)).await;
    let script = "ls /sys/class/net | tr '\\n' ' '; cat /etc/resolv.conf; sleep 1000";
    let task = task("exec", json!({ "command": "/bin/sh", "args": ["-c", script] }));
    let words = |word: &str| Some(vec![Str::new(word)]);
    let dns = DnsConfig { servers: words("10.1.2.3"), searches: words("lan"), options: words("ndots:2") };
    let id = stage.servers.place(networked(task, "bridge", 0, |network| network.dns = Some(dns.clone())));
    let update = stage.until("running", id, is_running).await;
    assert_eq!(update.network_status.as_ref().and_then(|status| status.dns.clone()), Some(dns));
    let log = stage.alloc_dir(id).join("alloc/logs/web.stdout.0");
    let expected = "eth0 lo search lan\nnameserver 10.1.2.3\noptions ndots:2\n";
    until("the log", || (std::fs::read_to_string(&log).ok()? == expected).then_some(())).await;
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    BRIDGE.until_gone(id, &address(&update)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_name_is_refused_for_drivers_that_cannot_set_it() {
    let stage = Stage::new().await;
    let id = stage.servers.place(networked(shell("exit 0"), "bridge", 0, |network| network.hostname = "web".into()));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert_eq!(
        update.client_description,
        "Unable to add allocation due to error: failed to configure network manager: hostname is not currently \
         supported on driver raw_exec"
    );
}
