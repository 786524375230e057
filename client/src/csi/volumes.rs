//! Volumes on this node: staged once for each kind of usage, and published for each allocation.
//!
//! The directories are the record of what is in use: an allocation uses a volume while its target is there. An agent
//! that restarts finds them again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use songline_model::{
    AllocId, CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiMountOptions, CsiVolumeKey, CsiVolumeMountOptions,
    NodeEvent, Str,
};
use songline_rpc::ClaimedVolume;
use songline_rpc::message::ClientMountOptions;
use tokio::sync::OwnedMutexGuard;
use tonic::Code;

use super::capability::{UnknownMode, capability};
use super::fingerprint::{Parts, expands, requires_stage};
use super::messages::{
    CapacityRange, Method, NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, texts,
};
use super::plugin::{CallError, Plugin};
use super::registry::{NoInstance, Registry, Running};
use crate::beneath::Dir;
use crate::clock::Clock;

const STAGING: &str = "staging";
const PER_ALLOC: &str = "per-alloc";

/// The form in which an allocation uses a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub read_only: bool,
    pub access_mode: CsiAccessMode,
    pub attachment_mode: CsiAttachmentMode,
}

impl Usage {
    /// The mode of a claim for it.
    pub fn claim_mode(&self) -> CsiClaimMode {
        if self.read_only { CsiClaimMode::Read } else { CsiClaimMode::Write }
    }

    fn dir(&self) -> String {
        let read = if self.read_only { "ro" } else { "rw" };
        format!("{read}-{}-{}", self.attachment_mode, self.access_mode)
    }
}

/// The use of a volume by an allocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Use {
    pub alloc: AllocId,
    pub volume: CsiVolumeKey,
    pub usage: Usage,
    pub plugin_id: Str,
    /// Id of the volume in the storage.
    pub remote_id: Str,
}

/// A volume that cannot be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error(transparent)]
    NoInstance(#[from] NoInstance),
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    #[error("{0:?} is not the name of a directory")]
    Name(Str),
    #[error("{what}: {error}")]
    Explained { what: String, error: CallError },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
}

impl Use {
    fn staging(&self) -> PathBuf {
        [STAGING, &self.volume.namespace, &self.volume.id, &self.usage.dir()].iter().collect()
    }

    fn target(&self, alloc: &str) -> PathBuf {
        [PER_ALLOC, alloc, &self.volume.namespace, &self.volume.id, &self.usage.dir()].iter().collect()
    }

    /// Refuses names that would lead elsewhere.
    fn check(&self) -> Result<(), VolumeError> {
        let wrong = |name: &str| name.is_empty() || name == "." || name == ".." || name.contains('/');
        let names = [self.volume.namespace.as_str(), self.volume.id.as_str(), &self.usage.dir()];
        match names.into_iter().find(|name| wrong(name)) {
            Some(name) => Err(VolumeError::Name(name.into())),
            None => Ok(()),
        }
    }
}

/// Mounts and unmounts volumes through the plugins of this node.
pub(crate) struct Volumes {
    pub registry: Arc<Registry>,
    clock: Clock,
    /// Held while a volume is mounted or unmounted.
    locks: Mutex<BTreeMap<CsiVolumeKey, Arc<tokio::sync::Mutex<()>>>>,
    tell: Box<dyn Fn(NodeEvent) + Send + Sync>,
}

impl Volumes {
    /// `tell` gets the events of the node.
    pub fn new(registry: Arc<Registry>, clock: Clock, tell: impl Fn(NodeEvent) + Send + Sync + 'static) -> Self {
        Self { registry, clock, locks: Mutex::default(), tell: Box::new(tell) }
    }

    /// Makes a claimed volume available, with the group's mount options over its own. Returns its place on this machine.
    pub async fn mount(
        &self,
        used: &Use,
        claimed: &ClaimedVolume,
        of_group: Option<&CsiMountOptions>,
    ) -> Result<PathBuf, VolumeError> {
        let mounted = self.try_mount(used, claimed, of_group).await;
        self.tell("Mount volume", used, mounted.as_ref().err());
        mounted
    }

    async fn try_mount(
        &self,
        used: &Use,
        claimed: &ClaimedVolume,
        of_group: Option<&CsiMountOptions>,
    ) -> Result<PathBuf, VolumeError> {
        used.check()?;
        let ClaimedVolume { volume, publish_context } = claimed;
        let running = self.registry.expected(Parts::Node, &used.plugin_id).await?;
        let _alone = self.lock(&used.volume).await;
        let paths = Paths::of(&running, used);
        let options = options(volume.mount_options.as_ref(), of_group);
        let capability = capability(&used.usage.access_mode, &used.usage.attachment_mode, Some(&options))?;
        let context = texts(Some(publish_context));
        let stages = requires_stage(&running.plugin).await?;
        if stages && paths.make_staging().await? {
            let request = NodeStageVolumeRequest {
                volume_id: used.remote_id.to_string(),
                publish_context: context.clone(),
                staging_target_path: paths.in_task(&paths.staging),
                volume_capability: Some(capability.clone()),
                secrets: texts(volume.secrets.reveal()),
                volume_context: texts(volume.context.as_ref()),
            };
            ask(&running.plugin, request, used).await?;
        }
        if paths.make_parent_of_target().await? {
            let request = NodePublishVolumeRequest {
                volume_id: used.remote_id.to_string(),
                publish_context: context,
                staging_target_path: if stages { paths.in_task(&paths.staging) } else { String::new() },
                target_path: paths.in_task(&paths.target),
                volume_capability: Some(capability),
                readonly: used.usage.read_only,
                secrets: texts(volume.secrets.reveal()),
                volume_context: texts(volume.context.as_ref()),
            };
            ask(&running.plugin, request, used).await?;
        }
        Ok(paths.root.join(&paths.target))
    }

    /// The place of a volume that an earlier agent mounted; `None` if it is not there any more. Waits for the plugin,
    /// without which the volume could not be unmounted.
    pub async fn mounted(&self, used: &Use) -> Result<Option<PathBuf>, VolumeError> {
        let running = self.registry.expected(Parts::Node, &used.plugin_id).await?;
        let paths = Paths::of(&running, used);
        let place = paths.root.join(&paths.target);
        let (root, target) = (paths.root, paths.target);
        let found = blocking(&place, move || Dir::open(&root)?.kind(target)).await?;
        Ok(found.map(|_| place))
    }

    /// Reverts [`Volumes::mount`], whatever of it was done.
    pub async fn unmount(&self, used: &Use) -> Result<(), VolumeError> {
        let unmounted = self.try_unmount(used).await;
        self.tell("Unmount volume", used, unmounted.as_ref().err());
        unmounted
    }

    async fn try_unmount(&self, used: &Use) -> Result<(), VolumeError> {
        used.check()?;
        let running = self.registry.newest(Parts::Node, &used.plugin_id)?;
        let _alone = self.lock(&used.volume).await;
        let paths = Paths::of(&running, used);
        let done = running.plugin.unpublish(&used.remote_id, &paths.in_task(&paths.target)).await;
        let left = paths.remove_target(done.is_ok()).await?;
        // A plugin may complain about a target that is gone, as after a repeated request.
        if left {
            done.map_err(|error| explained(error, used))?;
        }
        if paths.is_used(used).await? {
            return Ok(());
        }
        if paths.is_staged().await? {
            let done = running.plugin.unstage(&used.remote_id, &paths.in_task(&paths.staging)).await;
            done.map_err(|error| explained(error, used))?;
            paths.remove_staging().await?;
        }
        Ok(())
    }

    /// Has the file system of a mounted volume take a larger size. Returns the size in bytes.
    pub async fn expand(&self, used: &Use, range: Option<CapacityRange>) -> Result<i64, VolumeError> {
        used.check()?;
        let running = self.registry.newest(Parts::Node, &used.plugin_id)?;
        let _alone = self.lock(&used.volume).await;
        if !expands(&running.plugin).await? {
            return Ok(range.map_or(0, |range| range.required_bytes));
        }
        let paths = Paths::of(&running, used);
        let staged = paths.is_staged().await?;
        let request = NodeExpandVolumeRequest {
            volume_id: used.remote_id.to_string(),
            volume_path: paths.in_task(&paths.target),
            capacity_range: range,
            staging_target_path: if staged { paths.in_task(&paths.staging) } else { String::new() },
            volume_capability: Some(capability(&used.usage.access_mode, &used.usage.attachment_mode, None)?),
        };
        Ok(ask(&running.plugin, request, used).await?.capacity_bytes)
    }

    async fn lock(&self, volume: &CsiVolumeKey) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(volume.clone()).or_default())
        };
        lock.lock_owned().await
    }

    fn tell(&self, message: &str, used: &Use, error: Option<&VolumeError>) {
        let mut details: BTreeMap<Str, Str> =
            [("volume_id".into(), used.volume.id.0.clone()), ("success".into(), error.is_none().to_string().into())]
                .into();
        if let Some(error) = error {
            details.insert("error".into(), error.to_string().into());
        }
        (self.tell)(NodeEvent {
            message: message.into(),
            subsystem: "Storage".into(),
            details: Some(details),
            timestamp: Some(self.clock.now()),
            create_index: 0,
        });
    }
}

/// The paths of a use on this machine and in the plugin's task.
struct Paths {
    /// Directory of the plugin's volumes.
    root: PathBuf,
    /// The same directory in the plugin's task.
    root_in_task: PathBuf,
    /// Directory of the staged volume, below both.
    staging: PathBuf,
    /// Place of the published volume, below both.
    target: PathBuf,
}

impl Paths {
    fn of(running: &Running, used: &Use) -> Self {
        let (root, root_in_task) = (running.place.volumes(), running.place.volumes_in_task());
        Self { root, root_in_task, staging: used.staging(), target: used.target(&used.alloc.to_string()) }
    }

    fn in_task(&self, path: &Path) -> String {
        self.root_in_task.join(path).display().to_string()
    }

    /// Makes the directory for staging; `false` if a volume is mounted there.
    async fn make_staging(&self) -> Result<bool, VolumeError> {
        let (root, path) = (self.root.clone(), self.staging.clone());
        blocking(&self.staging, move || {
            let root = Dir::open(&root)?;
            if root.is_mount_point(&path)? {
                return Ok(false);
            }
            root.make_dirs(&path, 0o700)?;
            Ok(true)
        })
        .await
    }

    /// Makes the directory in which the plugin makes the target; `false` if a volume is mounted there.
    async fn make_parent_of_target(&self) -> Result<bool, VolumeError> {
        let (root, path) = (self.root.clone(), self.target.clone());
        blocking(&self.target, move || {
            let root = Dir::open(&root)?;
            if root.is_mount_point(&path)? {
                return Ok(false);
            }
            root.make_dirs(path.parent().unwrap_or(&path), 0o700)?;
            Ok(true)
        })
        .await
    }

    /// Removes what is left of the target; without `unpublished` only the empty directories around it. Returns whether
    /// there is a target. Never removes content: it could be the volume's.
    async fn remove_target(&self, unpublished: bool) -> Result<bool, VolumeError> {
        let (root, path) = (self.root.clone(), self.target.clone());
        blocking(&self.target, move || {
            let root = Dir::open(&root)?;
            match root.kind(&path)? {
                Some(_) if !unpublished => return Ok(true),
                Some(kind) => {
                    let (parent, name) = parent_of(&root, &path)?;
                    if kind == FileType::Directory { parent.remove_empty_dir(name) } else { parent.remove(name) }?;
                }
                None => {}
            }
            // The directories of the allocation, unless it uses more.
            remove_empty_parents(&root, &path, PER_ALLOC)?;
            Ok(false)
        })
        .await
    }

    async fn remove_staging(&self) -> Result<(), VolumeError> {
        let (root, path) = (self.root.clone(), self.staging.clone());
        blocking(&self.staging, move || {
            let root = Dir::open(&root)?;
            let (parent, name) = parent_of(&root, &path)?;
            parent.remove_empty_dir(name)?;
            remove_empty_parents(&root, &path, STAGING)
        })
        .await
    }

    async fn is_staged(&self) -> Result<bool, VolumeError> {
        let (root, path) = (self.root.clone(), self.staging.clone());
        blocking(&self.staging, move || Ok(Dir::open(&root)?.kind(&path)?.is_some())).await
    }

    /// Whether any allocation uses the volume in the same form.
    async fn is_used(&self, used: &Use) -> Result<bool, VolumeError> {
        let (root, used) = (self.root.clone(), used.clone());
        blocking(&self.target, move || {
            let root = Dir::open(&root)?;
            if root.kind(PER_ALLOC)?.is_none() {
                return Ok(false);
            }
            for alloc in root.dir(PER_ALLOC)?.names()? {
                if root.kind(used.target(&alloc.to_string_lossy()))?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }
}

/// The directory of an entry below `root`, and the entry's name.
fn parent_of<'a>(root: &Dir, path: &'a Path) -> io::Result<(Dir, &'a OsStr)> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| root.try_clone(), |parent| root.dir(parent))?;
    Ok((parent, path.file_name().unwrap_or_default()))
}

/// Removes the directories above a path that are empty, up to the directory `last`, which stays.
fn remove_empty_parents(root: &Dir, path: &Path, last: &str) -> io::Result<()> {
    for dir in path.ancestors().skip(1).take_while(|dir| *dir != Path::new(last)) {
        if root.kind(dir)?.is_none() {
            continue;
        }
        let (parent, name) = parent_of(root, dir)?;
        match parent.remove_empty_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
            removed => removed?,
        }
    }
    Ok(())
}

/// File systems of volumes may hang.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, VolumeError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| VolumeError::File { path: path.to_owned(), error })
}

async fn ask<M: Method>(plugin: &Plugin, request: M, used: &Use) -> Result<M::Answer, VolumeError> {
    plugin.ask(request).await.map_err(|error| explained(error, used))
}

fn explained(error: CallError, used: &Use) -> VolumeError {
    let volume = used.remote_id.as_str();
    let what = match error.0.code() {
        Code::NotFound => format!("volume {volume:?} could not be found"),
        Code::AlreadyExists => {
            format!("volume {volume:?} is already mounted with capabilities that are incompatible with this request")
        }
        Code::FailedPrecondition => format!(
            "volume {volume:?} is already published on another node and does not have MULTI_NODE volume capability"
        ),
        Code::OutOfRange => format!("unsupported capacity_range for volume {volume:?}"),
        Code::Internal => {
            "node plugin returned an internal error, check the plugin allocation logs for more information".to_owned()
        }
        _ => return VolumeError::Call(error),
    };
    VolumeError::Explained { what, error }
}

fn options(of_volume: Option<&CsiVolumeMountOptions>, of_group: Option<&CsiMountOptions>) -> ClientMountOptions {
    let mut options = of_volume.map(ClientMountOptions::from).unwrap_or_default();
    if let Some(group) = of_group {
        if !group.fs_type.is_empty() {
            options.filesystem = group.fs_type.clone();
        }
        if group.mount_flags.is_some() {
            options.mount_flags = group.mount_flags.clone();
        }
    }
    options
}
