//! Records of networks: a network is found again, undone after a failure, and removed when its allocation is gone. The
//! plugins are scripts and the namespaces a driver's, so that no test needs root.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Map, Value};
use songline_model::Blob;

use super::*;
use crate::core::StartFailure;
use crate::driver::{Boxed, Fingerprint, Process, RunId, TaskConfig};

const ALLOC: AllocId = AllocId::from_bytes([7; 16]);
/// A path at which a namespace is, in every process.
const NAMESPACE: &str = "/proc/self/ns/net";
/// Notes what it is asked, fails where the file `broken` names it, never answers where the file `stuck` does, and leaves a
/// process that notes something later where the file `lingers` does.
const PLUGIN: &str = r#"#!/bin/sh
dir=$(dirname "$0"); name=${0##*/}
cat > /dev/null
[ "$(cat "$dir/lingers" 2>/dev/null)" != "$CNI_COMMAND $name" ] || { sleep 0.3; echo late >> "$dir/told"; } &
echo "$CNI_COMMAND $name" >> "$dir/told"
[ "$(cat "$dir/broken" 2>/dev/null)" != "$CNI_COMMAND $name" ] || { echo '{"msg": "broken"}'; exit 1; }
[ "$(cat "$dir/stuck" 2>/dev/null)" != "$CNI_COMMAND $name" ] || exec sleep 1000
[ "$CNI_COMMAND" = DEL ] ||
    echo '{"interfaces": [{"name": "eth0", "sandbox": "x"}], "ips": [{"interface": 0, "address": "10.9.0.2/24"}], "dns": {}}'
"#;

/// A driver that makes namespaces, and notes it beside the plugins.
struct Engine(PathBuf);

impl Engine {
    fn note(&self, what: &str) {
        let told = std::fs::read_to_string(self.0.join("told")).unwrap_or_default();
        std::fs::write(self.0.join("told"), format!("{told}{what}\n")).expect("writes");
    }
}

impl Driver for Engine {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        Box::pin(std::future::ready(Fingerprint::default()))
    }

    fn validate(&self, _config: &Map<String, Value>) -> Result<(), String> {
        Ok(())
    }

    fn start(&self, _task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async { Err(StartFailure { error: "it starts nothing".into(), recoverable: false }) })
    }

    fn recover(&self, _run: RunId, _handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn destroy(&self, _run: RunId) -> Boxed<'_, ()> {
        Box::pin(async {})
    }

    fn owns_network(&self) -> bool {
        true
    }

    fn create_network(&self, _alloc: &AllocId, hostname: &str) -> Boxed<'_, Result<AllocNetwork, String>> {
        self.note("create");
        let network = AllocNetwork { path: NAMESPACE.into(), hostname: hostname.into(), ..AllocNetwork::default() };
        Box::pin(async { Ok(network) })
    }

    fn destroy_network(&self, _alloc: &AllocId, network: &AllocNetwork) -> Boxed<'_, Result<(), String>> {
        self.note(&format!("destroy {}", network.path.display()));
        Box::pin(async { Ok(()) })
    }
}

struct Stage {
    dir: tempfile::TempDir,
    wanted: Wanted,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["first", "second"] {
            let path = dir.path().join(name);
            std::fs::write(&path, PLUGIN).expect("writes");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its own file");
        }
        let list = r#"{"name": "lan", "cniVersion": "0.4.0", "plugins": [{"type": "first"}, {"type": "second"}]}"#;
        std::fs::write(dir.path().join("lan.conflist"), list).expect("writes");
        let wanted = Wanted {
            mode: Mode::Cni("lan".to_owned()),
            hostname: "web".to_owned(),
            dns: None,
            ports: Vec::new(),
            owner: Some("engine".into()),
        };
        Self { dir, wanted }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The networks of a new agent.
    fn agent(&self) -> Networks {
        let network = NetworkSettings {
            cni_path: self.path().display().to_string(),
            cni_config_dir: self.path().to_owned(),
            ..NetworkSettings::default()
        };
        let config = ClientConfig { data_dir: self.path().join("data"), network, ..ClientConfig::default() };
        std::fs::create_dir_all(config.state_dir()).expect("makes");
        Networks::new(&config, &BTreeMap::from([("engine".into(), Arc::new(Engine(self.path().to_owned())) as _)]))
    }

    /// The networks of an agent that restored these allocations.
    async fn agent_of(&self, kept: &[AllocId]) -> Networks {
        let agent = self.agent();
        agent.sweep(kept.iter().copied().collect()).await;
        agent
    }

    fn set(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).expect("writes");
    }

    /// Steps since the last call, in one line, and whether a record is left.
    fn check(&self, expected: Expect) {
        let told = std::fs::read_to_string(self.path().join("told")).unwrap_or_default();
        self.set("told", "");
        let left = self.path().join("data/state/networks").join(ALLOC.to_string()).exists();
        let left = if left { "recorded" } else { "nothing left" };
        expected.assert_eq(&format!("{}; {left}", told.lines().collect::<Vec<_>>().join(", ")));
    }

    /// Waits until the plugins were asked this.
    async fn until_told(&self, what: &str) {
        while !std::fs::read_to_string(self.path().join("told")).unwrap_or_default().contains(what) {
            tokio::task::yield_now().await;
        }
    }

    /// An agent that dies while it makes the network, when the plugins have been asked this.
    async fn cut_off(&self, step: &str) {
        self.set("stuck", step);
        let agent = Arc::new(self.agent_of(&[]).await);
        let wanted = self.wanted.clone();
        let work = tokio::spawn(async move { agent.create(&ALLOC, &wanted).await });
        self.until_told(step).await;
        work.abort();
        assert!(work.await.is_err(), "it was still at work");
        self.set("stuck", "");
    }
}

#[tokio::test]
async fn a_network_is_made_found_again_and_removed() {
    let stage = Stage::new();
    let agent = stage.agent_of(&[]).await;
    let made = agent.create(&ALLOC, &stage.wanted).await.expect("it is made");
    stage.check(expect!["create, ADD first, ADD second; recorded"]);
    let status = made.status.clone().expect("it has an interface");
    assert_eq!((status.interface_name.as_str(), status.address.as_str()), ("eth0", "10.9.0.2"));
    let network = made.network.clone().expect("it has a namespace");
    let hosts = std::fs::read_to_string(network.hosts_file.expect("a file")).expect("it is there");
    assert_eq!(hosts.lines().last(), Some("10.9.0.2 web"));

    let next = stage.agent_of(&[ALLOC]).await;
    assert_eq!(next.create(&ALLOC, &stage.wanted).await, Ok(made));
    stage.check(expect!["; recorded"]);
    next.destroy(&ALLOC).await;
    stage.check(expect!["DEL second, DEL first, destroy /proc/self/ns/net; nothing left"]);
    next.destroy(&ALLOC).await;
    stage.check(expect!["; nothing left"]);
}

#[tokio::test]
async fn a_network_that_cannot_be_made_is_tried_three_times_and_undone() {
    let stage = Stage::new();
    stage.set("broken", "ADD second");
    let error = stage.agent_of(&[]).await.create(&ALLOC, &stage.wanted).await.expect_err("it is broken");
    assert_eq!(error, "failed to configure networking for alloc: plugin type=\"second\" failed (add): broken");
    stage.check(expect![[
        "create, ADD first, ADD second, DEL second, DEL first, ADD first, ADD second, DEL second, DEL first, \
         ADD first, ADD second, DEL second, DEL first, destroy /proc/self/ns/net; nothing left"
    ]]);
}

#[tokio::test]
async fn a_network_of_no_configuration_is_refused_and_undone() {
    let mut stage = Stage::new();
    stage.wanted.mode = Mode::Cni("wan".to_owned());
    let error = stage.agent_of(&[]).await.create(&ALLOC, &stage.wanted).await.expect_err("it is not configured");
    assert!(
        error.starts_with("failed to configure networking for alloc: no configuration of network \"wan\""),
        "{error}"
    );
    stage.check(expect!["create, destroy /proc/self/ns/net; nothing left"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_undoes_what_an_agent_left_that_died_in_any_step() {
    let stage = Stage::new();
    for step in ["first", "second"] {
        stage.cut_off(&format!("ADD {step}")).await;
        stage.set("told", "");
        drop(stage.agent_of(&[]).await);
        stage.check(expect!["DEL second, DEL first, destroy /proc/self/ns/net; nothing left"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_that_was_set_up_by_half_is_set_up_anew() {
    let stage = Stage::new();
    stage.cut_off("ADD second").await;
    stage.set("told", "");
    let next = stage.agent_of(&[ALLOC]).await;
    assert!(next.create(&ALLOC, &stage.wanted).await.is_ok());
    stage.check(expect![["DEL second, DEL first, destroy /proc/self/ns/net, create, ADD first, ADD second; recorded"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_waits_for_a_plugin_that_outlives_its_agent() {
    let stage = Stage::new();
    stage.set("lingers", "ADD second");
    stage.cut_off("ADD second").await;
    drop(stage.agent_of(&[]).await);
    stage.check(expect![[
        "create, ADD first, ADD second, late, DEL second, DEL first, destroy /proc/self/ns/net; nothing left"
    ]]);
}

#[tokio::test]
async fn a_network_that_cannot_be_removed_is_tried_again_by_the_next_agent() {
    let stage = Stage::new();
    let agent = stage.agent_of(&[]).await;
    agent.create(&ALLOC, &stage.wanted).await.expect("it is made");
    stage.set("told", "");
    stage.set("broken", "DEL second");
    agent.destroy(&ALLOC).await;
    stage.check(expect!["DEL second, DEL first, destroy /proc/self/ns/net; recorded"]);
    stage.set("broken", "");
    drop(stage.agent_of(&[]).await);
    stage.check(expect!["DEL second, DEL first, destroy /proc/self/ns/net; nothing left"]);
}

#[tokio::test]
async fn name_resolution_in_the_network_of_the_host_is_a_file_only() {
    let mut stage = Stage::new();
    stage.wanted.mode = Mode::Host;
    let dns = DnsConfig { servers: Some(vec!["10.0.0.9".into()]), searches: Some(vec!["lan".into()]), options: None };
    stage.wanted.dns = Some(dns.clone());
    let agent = stage.agent_of(&[]).await;
    let made = agent.create(&ALLOC, &stage.wanted).await.expect("it is made");
    assert_eq!((made.network, made.status, made.dns), (None, None, Some(dns)));
    let text = std::fs::read_to_string(made.resolv_conf.expect("a file")).expect("it is there");
    assert!(text.starts_with("search lan\nnameserver 10.0.0.9\n"), "{text}");
    agent.destroy(&ALLOC).await;
    assert!(!stage.path().join("data/state/networks").join(ALLOC.to_string()).exists());
}
