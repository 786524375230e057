//! Requests of servers and the HTTP API to this node: files, logs, restarts, signals, statistics.

mod exec;
mod files;
mod follow;
mod logs;
mod snapshot;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use songline_model::{AllocId, Allocation, Str, migrate_token};
use songline_rpc::message::CheckResult;
use songline_rpc::net::Refusal;
use songline_rpc::{
    AllocFileInfo, AskMonitor, AskProfile, ExecCommand, ExecSession, NodeAgent, NodeMeta, Origin, Profile, ReadFile,
    ReadLogs, RpcError, Servers, StreamFrame,
};
use tokio::sync::mpsc;

use crate::about::AboutAgent;
use crate::agent::Client;
use crate::core::signalled;
use crate::csi;
use crate::fingerprint::mhz_per_core;
use crate::reverse::CsiNode;
use crate::runner::Runner;
use crate::stats::{self, CpuTimes, Detail, Interval, TaskUsage};

pub(crate) use exec::SESSIONS_MAX;

/// Number of frames that are buffered for a slow reader.
const FRAMES_MAX: usize = 16;
/// Interval over which processor usage is measured for one answer.
const USAGE_INTERVAL: Duration = Duration::from_millis(200);

/// Error of a task that does not run, and of each task of a collected allocation.
const NOT_RUNNING: &str = "Task not running";

/// Frames of an answer.
type Frames = mpsc::Receiver<Result<StreamFrame, RpcError>>;

impl<S: Servers> Client<S> {
    /// The servers' last copy of an allocation on this node.
    pub fn alloc(&self, id: AllocId) -> Option<Arc<Allocation>> {
        self.inner.loops.all().get(&id).map(|runner| runner.view().alloc)
    }

    /// Whether a token is the migration token of an allocation on this node.
    pub fn is_migrate_token(&self, token: &str, alloc: AllocId) -> bool {
        migrate_token::is_of(token, alloc, &self.inner.loops.auth().secret)
    }

    fn about(&self) -> Result<&dyn AboutAgent, RpcError> {
        let nobody = || RpcError::Coded { code: 501, text: "this agent tells nothing about itself".to_owned() };
        self.inner.shared.config.about.as_deref().ok_or_else(nobody)
    }

    fn runner(&self, id: AllocId) -> Result<Arc<Runner>, RpcError> {
        let runner = self.inner.loops.all().remove(&id);
        runner.ok_or_else(|| RpcError::Coded { code: 404, text: format!("Unknown allocation \"{id}\"") })
    }

    /// Runner of an allocation whose directory still exists.
    fn present(&self, id: AllocId) -> Result<Arc<Runner>, RpcError> {
        let runner = self.runner(id)?;
        if runner.view().destroyed {
            return Err(RpcError::Coded { code: 404, text: format!("state for allocation {id} not found on client") });
        }
        Ok(runner)
    }
}

/// The names in a path below the directory of an allocation.
fn below(path: &str) -> impl Iterator<Item = Component<'_>> {
    Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)))
}

impl<S: Servers> NodeAgent for Client<S> {
    async fn fs_list(&self, alloc: AllocId, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        let runner = self.runner(alloc)?;
        if runner.view().destroyed {
            let shown: PathBuf = runner.dir.root().components().chain(below(path)).collect();
            let text = format!("open {}: no such file or directory", shown.display());
            return Err(RpcError::Coded { code: 404, text });
        }
        let (dir, path) = (runner.dir.clone(), path.to_owned());
        blocking(move || files::list(&dir, &path)).await
    }

    async fn fs_stat(&self, alloc: AllocId, path: &str) -> Result<AllocFileInfo, RpcError> {
        let (dir, path) = (self.present(alloc)?.dir.clone(), path.to_owned());
        blocking(move || files::stat(&dir, &path)).await
    }

    async fn fs_read(&self, read: ReadFile) -> Result<Frames, RpcError> {
        let dir = self.present(read.alloc)?.dir.clone();
        let (show, path) = (read.path.clone(), read.path.to_string());
        let (offset, origin) = (read.offset, read.origin);
        let file = blocking(move || {
            let file = files::readable(&dir, &path)?;
            if offset < 0 && origin == Origin::Start {
                // The reference shows the offset as the character of this number, of which there is none.
                let shown: PathBuf = dir.root().components().chain(below(&path)).collect();
                let text = format!("can't seek to offset '\u{FFFD}': seek {}: invalid argument", shown.display());
                return Err(RpcError::Remote(text));
            }
            Ok(file)
        })
        .await?;
        let (to, frames) = mpsc::channel(FRAMES_MAX);
        self.inner.shared.tracker.spawn(follow::file(self.inner.shared.cancel.clone(), file, show, read, to));
        Ok(frames)
    }

    async fn fs_logs(&self, logs: ReadLogs) -> Result<Frames, RpcError> {
        let runner = self.present(logs.alloc)?;
        let (to, frames) = mpsc::channel(FRAMES_MAX);
        let reading = logs::open(&runner, logs).await?;
        self.inner.shared.tracker.spawn(reading.run(self.inner.shared.cancel.clone(), to));
        Ok(frames)
    }

    async fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> Result<(), RpcError> {
        if all && !task.is_empty() {
            return Err(RpcError::remote("task name cannot be set when restarting all tasks"));
        }
        let reason = match (task.is_empty(), all) {
            (false, _) => "User requested task to restart",
            (true, true) => "User requested all tasks to restart",
            (true, false) => "User requested running tasks to restart",
        };
        let runner = self.runner(alloc)?;
        if runner.view().destroyed {
            let why = if task.is_empty() { "restart of an alloc that should not run" } else { NOT_RUNNING };
            return Err(RpcError::remote(why));
        }
        runner.restart(task, all, reason).await.map_err(RpcError::Remote)
    }

    async fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> Result<(), RpcError> {
        let runner = self.runner(alloc)?;
        let view = runner.view();
        if !view.destroyed {
            return runner.signal(task, signal).await.map_err(RpcError::Remote);
        }
        let names: Vec<Str> = view.update.tasks().map(|(name, _)| name.clone()).collect();
        if !task.is_empty() && !names.iter().any(|name| name == task) {
            return Err(RpcError::remote("Task not found"));
        }
        let failed = names.into_iter().map(|name| (name, NOT_RUNNING.to_owned())).collect();
        signalled(task, failed).map_err(RpcError::Remote)
    }

    async fn alloc_gc(&self, alloc: AllocId) -> Result<(), RpcError> {
        let collected = self.inner.loops.all().get(&alloc).is_some_and(|runner| runner.view().destroyed);
        if collected || self.inner.collector.collect_one(&alloc).await {
            return Ok(());
        }
        Err(RpcError::remote("No such allocation on client, or allocation not eligible for GC"))
    }

    async fn gc_all(&self) -> Result<(), RpcError> {
        self.inner.collector.collect_all();
        Ok(())
    }

    async fn alloc_stats(&self, alloc: AllocId, task: &str) -> Result<Bytes, RpcError> {
        let runner = self.runner(alloc)?;
        let view = runner.view();
        let names: Vec<_> =
            view.update.tasks().map(|(name, _)| name.clone()).filter(|name| task.is_empty() || name == task).collect();
        let look = async |detail: Detail| -> BTreeMap<String, TaskUsage> {
            let usages = names.iter().map(async |name| Some((name.to_string(), runner.usage(name, detail).await?)));
            futures_util::future::join_all(usages).await.into_iter().flatten().collect()
        };
        let before = look(Detail::Sums).await;
        tokio::time::sleep(USAGE_INTERVAL).await;
        let both = look(Detail::Processes)
            .await
            .into_iter()
            .map(|(name, after)| (name.clone(), (before.get(&name).cloned().unwrap_or_else(|| after.clone()), after)))
            .collect();
        let interval = Interval { secs: USAGE_INTERVAL.as_secs_f64(), mhz_per_core: mhz_per_core() };
        Ok(stats::alloc_usage(&both, interval, self.inner.shared.clock.now().nanos()).into())
    }

    async fn alloc_checks(&self, alloc: AllocId) -> Result<BTreeMap<Str, CheckResult>, RpcError> {
        Ok(BTreeMap::clone(&self.runner(alloc)?.view().checks))
    }

    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        Ok(self.inner.meta().await)
    }

    async fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        self.inner.change_meta(change).await
    }

    async fn alloc_exec(&self, command: ExecCommand) -> Result<ExecSession, RpcError> {
        let runner = self.runner(command.alloc)?;
        exec::begin(&self.inner.shared, &runner, command)
    }

    async fn alloc_snapshot(&self, alloc: AllocId) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError> {
        let runner = self.present(alloc)?;
        let (to, pieces) = mpsc::channel(FRAMES_MAX);
        let tasks = runner.view().update.tasks().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        let dir = runner.dir.clone();
        tokio::task::spawn_blocking(move || snapshot::write(&dir, alloc, &tasks, to));
        Ok(pieces)
    }

    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        let before = CpuTimes::read();
        tokio::time::sleep(USAGE_INTERVAL).await;
        let (dir, now) = (self.inner.shared.config.alloc_dir(), self.inner.shared.clock.now().nanos());
        blocking(move || Ok(stats::host_usage(&before, &CpuTimes::read(), mhz_per_core(), &dir, now).into())).await
    }

    async fn agent_host(&self) -> Result<Bytes, RpcError> {
        self.about()?.host().await
    }

    async fn agent_profile(&self, ask: AskProfile) -> Result<Profile, RpcError> {
        self.about()?.profile(ask).await
    }

    async fn agent_monitor(&self, ask: AskMonitor) -> Result<Frames, RpcError> {
        self.about()?.log(ask)
    }
}

impl<S: Servers> CsiNode for Client<S> {
    async fn csi(&self, method: &str, body: &[u8]) -> Result<Bytes, Refusal> {
        let namespace_of = |alloc| Some(self.alloc(alloc)?.namespace.clone());
        csi::serve(&self.inner.shared.volumes, namespace_of, method, body).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| RpcError::Lost(error.to_string()))?
}
