//! Stories of volumes that allocations use, from the mount to the last unmount.

use songline_model::{AllocId, CsiMountOptions, CsiVolume, CsiVolumeKey, Dur, NodeEvent, TaskCsiPluginConfig};
use songline_rpc::ClaimedVolume;

use super::super::registry::Registry;
use super::super::supervisor::Place;
use super::super::volumes::{Usage, Use, Volumes};
use super::*;
use crate::clock::Clock;

/// A node with a running plugin.
struct Node {
    folder: tempfile::TempDir,
    script: Arc<Mutex<Script>>,
    volumes: Volumes,
    events: Arc<Mutex<Vec<NodeEvent>>>,
}

fn alloc(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

impl Node {
    fn start() -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let config = TaskCsiPluginConfig {
            id: "disks".into(),
            kind: "node".into(),
            mount_dir: "/csi".into(),
            stage_publish_base_dir: "/local/csi".into(),
            health_timeout: Dur::from_secs(30),
        };
        let place = Place::of(folder.path(), &alloc(9), &config);
        place.make().expect("makes the directories");
        let socket = PathBuf::from(place.endpoint(false).trim_start_matches("unix://"));
        let script = Arc::<Mutex<Script>>::default();
        script.lock().root = place.volumes();
        tokio::spawn(serve(UnixListener::bind(&socket).expect("a socket"), script.clone()));
        let registry = Arc::<Registry>::default();
        let instance = Instance { plugin_id: "disks".into(), alloc_id: "a9".into(), parts: Parts::Node };
        registry.enter(&instance, &Plugin::at(&socket).expect("a short path"), &place);
        let clock = Clock::start(Arc::new(songline_rpc::world::Machine::default()));
        let events = Arc::<Mutex<Vec<NodeEvent>>>::default();
        let told = events.clone();
        let volumes = Volumes::new(registry, clock, move |event| told.lock().push(event));
        Node { folder, script, volumes, events }
    }

    /// Calls about volumes since the last look, and the paths that they named.
    fn calls(&self) -> (Vec<String>, Vec<String>) {
        let mut script = self.script.lock();
        let calls = std::mem::take(&mut script.calls).into_iter();
        let calls = calls.filter_map(|call| Some(call.strip_prefix("Node/Node")?.to_owned()));
        (calls.filter(|call| call != "GetCapabilities").collect(), std::mem::take(&mut script.paths))
    }

    /// All entries of the directory of volumes.
    fn entries(&self) -> Vec<String> {
        let root = self.folder.path().join("csi/node/disks");
        let mut found = Vec::new();
        let mut dirs = vec![root.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).expect("a directory") {
                let path = entry.expect("an entry").path();
                found.push(path.strip_prefix(&root).expect("is below").display().to_string());
                dirs.push(path);
            }
        }
        found.sort();
        found
    }
}

fn of(n: u8, read_only: bool) -> Use {
    Use {
        alloc: alloc(n),
        volume: CsiVolumeKey::new("default", "vol"),
        usage: Usage {
            read_only,
            access_mode: "multi-node-multi-writer".into(),
            attachment_mode: "file-system".into(),
        },
        plugin_id: "disks".into(),
        remote_id: "ext-vol".into(),
    }
}

fn claimed() -> ClaimedVolume {
    ClaimedVolume { volume: CsiVolume { id: "vol".into(), ..CsiVolume::default() }, publish_context: BTreeMap::new() }
}

#[tokio::test]
async fn a_volume_is_staged_once_for_all_allocations_that_use_it_in_the_same_form() {
    let node = Node::start();
    let first = node.volumes.mount(&of(1, false), &claimed(), None).await.expect("mounted");
    assert!(first.is_dir() && first.ends_with("default/vol/rw-file-system-multi-node-multi-writer"));
    let (calls, paths) = node.calls();
    assert_eq!(calls, ["StageVolume", "PublishVolume"]);
    assert!(paths[0].starts_with("/local/csi/per-alloc/01010101-"), "{paths:?}");
    node.volumes.mount(&of(2, false), &claimed(), None).await.expect("mounted");
    node.calls();

    node.volumes.unmount(&of(1, false)).await.expect("unmounted");
    assert_eq!(node.calls().0, ["UnpublishVolume"], "the second allocation uses it still");
    assert!(!first.exists());
    node.volumes.unmount(&of(2, false)).await.expect("unmounted");
    assert_eq!(node.calls().0, ["UnpublishVolume", "UnstageVolume"]);
    assert_eq!(node.entries(), ["per-alloc", "staging"]);
    let told: Vec<_> = node.events.lock().iter().map(|event| event.message.to_string()).collect();
    assert_eq!(told, ["Mount volume", "Mount volume", "Unmount volume", "Unmount volume"]);
}

#[tokio::test]
async fn readers_and_writers_are_staged_apart() {
    let node = Node::start();
    node.volumes.mount(&of(1, false), &claimed(), None).await.expect("mounted");
    node.volumes.mount(&of(2, true), &claimed(), None).await.expect("mounted");
    node.volumes.unmount(&of(2, true)).await.expect("unmounted");
    let calls = node.calls().0;
    assert_eq!(calls[4..], ["UnpublishVolume", "UnstageVolume"], "{calls:?}");
    let left = node.entries();
    assert!(left.iter().any(|path| path.starts_with("staging/default/vol/rw-")), "{left:?}");
    assert!(!left.iter().any(|path| path.contains("/ro-")), "{left:?}");
}

#[tokio::test]
async fn a_volume_that_could_not_be_staged_leaves_nothing_after_the_unmount() {
    let node = Node::start();
    node.script.lock().failures = [Status::invalid_argument("not staged")].into();
    let error = node.volumes.mount(&of(1, false), &claimed(), None).await.expect_err("refused");
    assert_eq!(error.to_string(), "rpc error: code = InvalidArgument desc = not staged");
    let event = node.events.lock().pop().expect("an event");
    let details = event.details.expect("details");
    assert_eq!((&*details["success"], &*details["error"]), ("false", &*error.to_string()));
    node.volumes.unmount(&of(1, false)).await.expect("unmounted");
    assert_eq!(node.entries(), ["staging"]);
}

#[tokio::test]
async fn an_unmount_that_fails_keeps_the_volume_and_can_be_repeated() {
    let node = Node::start();
    let place = node.volumes.mount(&of(1, false), &claimed(), None).await.expect("mounted");
    std::fs::write(place.join("data"), b"precious").expect("writes");
    node.script.lock().failures = [Status::internal("stuck")].into();
    let error = node.volumes.unmount(&of(1, false)).await.expect_err("refused");
    let text = "node plugin returned an internal error, check the plugin allocation logs for more information";
    assert!(error.to_string().starts_with(text), "{error}");
    let error = node.volumes.unmount(&of(1, false)).await.expect_err("content is never removed");
    assert!(error.to_string().contains("not empty"), "{error}");
    assert!(node.volumes.mounted(&of(1, false)).await.expect("examined").is_some());
    std::fs::remove_file(place.join("data")).expect("removes");
    node.volumes.unmount(&of(1, false)).await.expect("unmounted");
    node.volumes.unmount(&of(1, false)).await.expect("nothing is left to do");
    assert!(node.volumes.mounted(&of(1, false)).await.expect("examined").is_none());
}

#[tokio::test]
async fn options_of_the_group_replace_those_of_the_volume() {
    let node = Node::start();
    let options = CsiMountOptions { fs_type: "xfs".into(), mount_flags: Some(vec!["noatime".into()]) };
    node.volumes.mount(&of(1, false), &claimed(), Some(&options)).await.expect("mounted");
    let stage = node.script.lock().stage.clone().expect("staged");
    let mount = MountVolume { fs_type: "xfs".to_owned(), mount_flags: vec!["noatime".to_owned()] };
    let capability = stage.volume_capability.expect("a capability");
    assert_eq!(capability.access_type, Some(access_type::AccessType::Mount(mount)));
    assert_eq!(capability.access_mode, Some(AccessMode { mode: 5 }));
    assert_eq!(stage.volume_id, "ext-vol");
}

#[tokio::test]
async fn names_of_volumes_lead_out_of_no_directory() {
    let node = Node::start();
    for id in ["../x", "a/b", "..", ""] {
        let used = Use { volume: CsiVolumeKey::new("default", id), ..of(1, false) };
        node.volumes.mount(&used, &claimed(), None).await.expect_err("refused");
        node.volumes.unmount(&used).await.expect_err("refused");
    }
    assert!(node.calls().0.is_empty());
}
