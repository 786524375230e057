//! Random entries about CSI: volumes, claims, instances that nodes report, tasks that run plugins.

use super::*;

const PLUGINS: [&str; 2] = ["p", "q"];
const ACCESS: [&str; 4] =
    ["single-node-writer", "multi-node-reader-only", "multi-node-single-writer", "multi-node-multi-writer"];

/// Plugin instances that a node reports.
pub(super) fn instances(dice: &mut Dice) -> Option<BTreeMap<Str, CsiInfo>> {
    let mut told = BTreeMap::new();
    for plugin in PLUGINS {
        if dice.chance(50) {
            let info = CsiInfo {
                plugin_id: plugin.into(),
                alloc_id: dice.alloc().to_string().into(),
                healthy: dice.chance(80),
                requires_controller_plugin: dice.chance(20),
                controller_info: Some(CsiControllerInfo::default()),
                node_info: Some(CsiNodeInfo::default()),
                ..CsiInfo::default()
            };
            told.insert(plugin.into(), info);
        }
    }
    dice.chance(90).then_some(told)
}

/// A group whose task may be a plugin instance.
pub(super) fn group(dice: &mut Dice, group: TaskGroup) -> TaskGroup {
    if dice.chance(70) {
        return group;
    }
    let kind = dice.pick(&["node", "controller", "monolith"]).into();
    let config = TaskCsiPluginConfig { id: dice.pick(&PLUGINS).into(), kind, ..TaskCsiPluginConfig::default() };
    TaskGroup { tasks: Some(vec![Task { csi_plugin_config: Some(config), ..Task::default() }]), ..group }
}

pub(super) fn command(dice: &mut Dice, state: &State) -> Command {
    match dice.below(10) {
        0 | 1 => RegisterCsiVolumes { volumes: (0..1 + dice.below(2)).map(|_| volume(dice)).collect() }.into(),
        2 => {
            let key = key(dice);
            DeregisterCsiVolumes { namespace: key.namespace, ids: vec![key.id], force: dice.chance(50) }.into()
        }
        3 => ClaimCsiVolumes { claims: vec![claim(dice, state), claim(dice, state)] }.into(),
        4 => DeleteCsiPlugin { id: dice.pick(&PLUGINS).into() }.into(),
        _ => claim(dice, state).into(),
    }
}

fn key(dice: &mut Dice) -> CsiVolumeKey {
    CsiVolumeKey::new(dice.pick(&["default", "default", "dev"]), format!("v{}", dice.below(3)))
}

fn volume(dice: &mut Dice) -> CsiVolume {
    let key = key(dice);
    let capability =
        CsiVolumeCapability { access_mode: dice.pick(&ACCESS).into(), attachment_mode: CsiAttachmentMode::FileSystem };
    CsiVolume {
        id: key.id,
        namespace: key.namespace,
        plugin_id: dice.pick(&["p", "p", "p", "q"]).into(),
        requested_capabilities: Some(vec![capability]),
        secrets: CsiSecrets::new([(Str::new("k"), Str::new("v"))].into()),
        ..CsiVolume::default()
    }
}

fn claim(dice: &mut Dice, state: &State) -> ClaimCsiVolume {
    let known: Vec<AllocId> = state.allocs().map(|alloc| alloc.id).collect();
    let allocation_id =
        if known.is_empty() || dice.chance(10) { dice.pick(&[AllocId::NIL, dice_alloc()]) } else { dice.pick(&known) };
    let taken = CsiClaimState::Taken;
    let state = dice.pick(&[
        taken,
        taken,
        CsiClaimState::ReadyToFree,
        CsiClaimState::NodeDetached,
        CsiClaimState::Unpublishing,
    ]);
    ClaimCsiVolume {
        volume: key(dice),
        claim: CsiVolumeClaim {
            allocation_id,
            node_id: dice.node(),
            external_node_id: Str::default(),
            mode: dice.pick(&[CsiClaimMode::Read, CsiClaimMode::Write, CsiClaimMode::Gc]),
            access_mode: dice.pick(&ACCESS).into(),
            attachment_mode: CsiAttachmentMode::FileSystem,
            state,
        },
    }
}

/// The id of an alloc that does not exist.
fn dice_alloc() -> AllocId {
    AllocId::from_bytes(id("nowhere"))
}
