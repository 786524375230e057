//! Story words for CSI: volumes, claims, plugins, reports of nodes, and tasks that run plugins.

use std::fmt::Write;

use super::*;

/// `p1:healthy:a1,p2` are instances: plugin, whether it is healthy, the alloc that runs it.
pub(super) fn node(words: &Words<'_>) -> Node {
    let told = |name: &str, part: CsiPluginPart| {
        let infos: BTreeMap<Str, CsiInfo> =
            words.list(name).map(|text| (text.split(':').next().unwrap_or(text).into(), info(text, part))).collect();
        (!infos.is_empty()).then_some(infos)
    };
    Node {
        csi_controller_plugins: told("controllers", CsiPluginPart::Controller),
        csi_node_plugins: told("plugins", CsiPluginPart::Node),
        ..Node::default()
    }
}

fn info(text: &str, part: CsiPluginPart) -> CsiInfo {
    let mut parts = text.split(':');
    let plugin_id: Str = parts.next().unwrap_or_default().into();
    let healthy = parts.next() == Some("healthy");
    let alloc = parts.next().map(|name| AllocId::from_bytes(id(name)).to_string());
    let is_controller = part == CsiPluginPart::Controller;
    CsiInfo {
        plugin_id,
        healthy,
        alloc_id: alloc.unwrap_or_default().into(),
        provider: "org.x".into(),
        provider_version: "1".into(),
        requires_controller_plugin: is_controller,
        controller_info: is_controller.then(CsiControllerInfo::default),
        node_info: (!is_controller).then(CsiNodeInfo::default),
        ..CsiInfo::default()
    }
}

/// A group; with `csi=p:node` its task is a plugin instance.
pub(super) fn group(words: &Words<'_>, name: &str, count: i64) -> TaskGroup {
    let task = |text: &str| {
        let (plugin, kind) = text.split_once(':').unwrap_or((text, "node"));
        let config = TaskCsiPluginConfig { id: plugin.into(), kind: kind.into(), ..TaskCsiPluginConfig::default() };
        Task { name: "t".into(), csi_plugin_config: Some(config), ..Task::default() }
    };
    let tasks: Vec<Task> = words.list("csi").map(task).collect();
    TaskGroup { tasks: (!tasks.is_empty()).then_some(tasks), ..super::group(name, count) }
}

fn volume_key(name: &str) -> CsiVolumeKey {
    let key = job_key(name);
    CsiVolumeKey::new(&*key.namespace, &*key.id)
}

fn volume(words: &Words<'_>, name: &str) -> CsiVolume {
    let key = volume_key(name);
    let capability =
        |text: &str| CsiVolumeCapability { access_mode: text.into(), attachment_mode: CsiAttachmentMode::FileSystem };
    let capabilities: Vec<CsiVolumeCapability> = words.list("offers").map(capability).collect();
    CsiVolume {
        id: key.id,
        namespace: key.namespace,
        name: words.get("name").unwrap_or_default().into(),
        plugin_id: words.get("plugin").unwrap_or_default().into(),
        access_mode: words.get("held").unwrap_or_default().into(),
        requested_capabilities: Some(capabilities),
        ..CsiVolume::default()
    }
}

/// `alloc=a1 node=n1 mode=read access=.. attach=.. state=..`.
fn claim(words: &Words<'_>, name: &str, alloc: &str) -> ClaimCsiVolume {
    ClaimCsiVolume {
        volume: volume_key(name),
        claim: CsiVolumeClaim {
            allocation_id: AllocId::from_bytes(id(alloc)),
            node_id: words.get("node").map_or(NodeId::NIL, |name| NodeId::from_bytes(id(name))),
            external_node_id: words.get("external").unwrap_or_default().into(),
            mode: match words.get("mode") {
                None | Some("read") => CsiClaimMode::Read,
                Some("write") => CsiClaimMode::Write,
                Some("gc") => CsiClaimMode::Gc,
                Some(other) => panic!("no claim mode {other}"),
            },
            access_mode: words.get("access").unwrap_or_default().into(),
            attachment_mode: words.get("attach").unwrap_or_default().into(),
            state: match words.get("state") {
                None => CsiClaimState::Taken,
                Some("node-detached") => CsiClaimState::NodeDetached,
                Some("controller-detached") => CsiClaimState::ControllerDetached,
                Some("ready-to-free") => CsiClaimState::ReadyToFree,
                Some("unpublishing") => CsiClaimState::Unpublishing,
                Some(other) => panic!("no claim state {other}"),
            },
        },
    }
}

pub(super) fn command(words: &Words<'_>) -> Command {
    let what = words.plain.get(2).copied().unwrap_or_default();
    match (words.plain[0], words.plain[1]) {
        ("volume", "register") => {
            RegisterCsiVolumes { volumes: words.plain[2..].iter().map(|name| volume(words, name)).collect() }.into()
        }
        ("volume", "deregister") => {
            let force = words.has("force");
            let keys: Vec<CsiVolumeKey> =
                words.plain[2..].iter().filter(|word| **word != "force").map(|name| volume_key(name)).collect();
            let namespace = keys.first().map(|key| key.namespace.clone()).unwrap_or_default();
            DeregisterCsiVolumes { namespace, ids: keys.into_iter().map(|key| key.id).collect(), force }.into()
        }
        ("volume", "claim") => claim(words, what, words.get("alloc").unwrap_or_default()).into(),
        ("volume", "claims") => {
            ClaimCsiVolumes { claims: words.list("allocs").map(|alloc| claim(words, what, alloc)).collect() }.into()
        }
        ("plugin", "delete") => DeleteCsiPlugin { id: what.into() }.into(),
        (noun, verb) => panic!("no command {noun} {verb}"),
    }
}

pub(super) fn show(state: &State, noun: &str, what: &str) -> String {
    if noun == "plugin" {
        return state.csi_plugin(what).map_or_else(|| format!("plugin {what}: none"), |row| show_plugin(row));
    }
    // The row itself, and the denormalized volume where it differs.
    match state.csi_volume_by_key(&volume_key(what)) {
        None => format!("volume {what}: none"),
        Some(row) => {
            let seen = state.denormalize(row);
            let mut told = show_volume(row);
            let health = seen.health;
            write!(told, " healthy={}/{}", health.nodes_healthy, health.controllers_healthy).expect("writes");
            if health.schedulable() {
                told.push_str(" schedulable");
            }
            if seen.volume.past_claims != row.past_claims {
                write!(told, "; seen: past({})", show_claims(&seen.volume.past_claims, How::Long)).expect("writes");
            }
            told
        }
    }
}

fn show_volume(row: &CsiVolume) -> String {
    let mut told = format!("volume {}: create={} modify={}", row.id, row.create_index, row.modify_index);
    for (name, word) in [
        ("provider", row.provider.as_str()),
        ("access", row.access_mode.as_str()),
        ("attach", row.attachment_mode.as_str()),
    ] {
        if !word.is_empty() {
            write!(told, " {name}={word}").expect("writes");
        }
    }
    let offers: Vec<&str> = row.requested_capabilities.iter().flatten().map(|one| one.access_mode.as_str()).collect();
    write!(told, " offers={}", offers.join(",")).expect("writes");
    for (name, claims, how) in [
        ("read", &row.read_claims, How::Short),
        ("write", &row.write_claims, How::Short),
        ("past", &row.past_claims, How::Long),
    ] {
        if !claims.is_empty() {
            write!(told, " {name}({})", show_claims(claims, how)).expect("writes");
        }
    }
    told
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Short,
    Long,
}

fn show_claims(claims: &BTreeMap<AllocId, CsiVolumeClaim>, how: How) -> String {
    let show = |claim: &CsiVolumeClaim| {
        let mut told = format!("{}@{}", name(claim.allocation_id.as_bytes()), name(claim.node_id.as_bytes()));
        if how == How::Long {
            write!(told, " {:?} {:?} {} {}", claim.state, claim.mode, claim.access_mode, claim.attachment_mode)
                .expect("writes");
            if !claim.external_node_id.is_empty() {
                write!(told, " on {}", claim.external_node_id).expect("writes");
            }
        }
        told
    };
    claims.values().map(show).collect::<Vec<_>>().join(", ")
}

fn show_plugin(row: &CsiPlugin) -> String {
    let mut told = format!(
        "plugin {}: {:?} create={} modify={}",
        row.id,
        row.provider.as_str(),
        row.create_index,
        row.modify_index
    );
    let parts = [
        ("controllers", &row.controllers, &row.controller_jobs, row.controllers_healthy, row.controllers_expected),
        ("nodes", &row.nodes, &row.node_jobs, row.nodes_healthy, row.nodes_expected),
    ];
    for (part, instances, jobs, healthy, expected) in parts {
        let on: Vec<String> = instances.keys().map(|node| name(node.as_bytes())).collect();
        let jobs: Vec<String> = jobs.values().flatten().map(|(id, job)| format!("{id}:{}", job.expected)).collect();
        write!(told, " {part}={healthy}/{expected} on [{}] of [{}]", on.join(","), jobs.join(",")).expect("writes");
    }
    if row.controller_required {
        told.push_str(" controller-required");
    }
    told
}
