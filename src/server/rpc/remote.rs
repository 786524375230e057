//! A node that is somewhere else, asked like one that is here.

mod frames;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use songline_client::reverse::SNAPSHOT;
use songline_model::{AllocId, NodeId, Str};
use songline_rpc::message::{
    AllocationsExec, AllocationsGarbageCollect, AllocationsGarbageCollectAll, AllocationsRestart, AllocationsSignal, AllocationsStats,
    AllocationsStatsAnswer, Call, ClientStats, ClientStatsAnswer, FileSystemList, FileSystemLogs, FileSystemStat, FileSystemStream,
    NodeMetaApply, NodeMetaRead, StreamCall,
};
use songline_rpc::msgpack::{RawValue, from_slice, to_vec};
use songline_rpc::net::Channel;
use songline_rpc::{AllocFileInfo, ExecCommand, ExecSession, NodeAgent, NodeMeta, Origin, ReadFile, ReadLogs, RpcError, StreamFrame};
use tokio::sync::mpsc;

use super::super::Core;

/// A node that some server has a session with.
pub struct RemoteNode {
    core: Weak<Core>,
    id: NodeId,
    region: Str,
}

impl RemoteNode {
    pub(super) fn new(core: &Weak<Core>, id: NodeId, region: Str) -> Self {
        Self { core: Weak::clone(core), id, region }
    }

    fn core(&self) -> Result<Arc<Core>, RpcError> {
        self.core.upgrade().ok_or_else(|| RpcError::Lost("server is shutting down".into()))
    }

    async fn call<C: Call + Sync>(&self, request: &C) -> Result<C::Answer, RpcError> {
        let request = to_vec(request).map_err(|error| RpcError::remote(error.to_string()))?;
        let answer = self.core()?.call_node(self.id, C::METHOD, &request).await?;
        from_slice(&answer).map_err(|error| RpcError::remote(error.on_wire(0)))
    }

    async fn stream(&self, method: &str, request: &impl serde::Serialize) -> Result<Channel, RpcError> {
        let request = to_vec(request).map_err(|error| RpcError::remote(error.to_string()))?;
        self.core()?.stream_of_node(self.id, method, &request).await
    }
}

fn origin(origin: Origin) -> Str {
    match origin {
        Origin::Start => "start".into(),
        Origin::End => "end".into(),
    }
}

/// A document that the node has measured, as JSON.
fn json(value: &RawValue) -> Result<Bytes, RpcError> {
    let tree: serde_json::Value = value.read().map_err(|error| RpcError::remote(error.on_wire(0)))?;
    serde_json::to_vec(&tree).map(Bytes::from).map_err(|error| RpcError::remote(error.to_string()))
}

impl NodeAgent for RemoteNode {
    async fn fs_list(&self, alloc: AllocId, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        let region = self.region.clone();
        let answer = self.call(&FileSystemList { alloc_id: alloc, path: path.into(), region, ..FileSystemList::default() }).await?;
        Ok(answer.files.into_iter().flatten().map(Into::into).collect())
    }

    async fn fs_stat(&self, alloc: AllocId, path: &str) -> Result<AllocFileInfo, RpcError> {
        let region = self.region.clone();
        let answer = self.call(&FileSystemStat { alloc_id: alloc, path: path.into(), region, ..FileSystemStat::default() }).await?;
        answer.info.map(Into::into).ok_or_else(|| RpcError::remote("the node says nothing of the file"))
    }

    async fn fs_read(&self, read: ReadFile) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        let request = FileSystemStream {
            alloc_id: read.alloc,
            path: read.path,
            offset: read.offset,
            origin: origin(read.origin),
            limit: i64::try_from(read.limit).unwrap_or(i64::MAX),
            follow: read.follow,
            region: self.region.clone(),
            ..FileSystemStream::default()
        };
        Ok(frames::of(self.stream(FileSystemStream::METHOD, &request).await?).await)
    }

    async fn fs_logs(&self, logs: ReadLogs) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        let request = FileSystemLogs {
            alloc_id: logs.alloc,
            task: logs.task,
            log_type: logs.kind,
            offset: logs.offset,
            origin: origin(logs.origin),
            follow: logs.follow,
            region: self.region.clone(),
            ..FileSystemLogs::default()
        };
        // What cannot be read is said as the first message; who asked is to hear of it as such.
        frames::begun(frames::of(self.stream(FileSystemLogs::METHOD, &request).await?).await).await
    }

    async fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> Result<(), RpcError> {
        let region = self.region.clone();
        let request =
            AllocationsRestart { alloc_id: alloc, task_name: task.into(), all_tasks: all, region, ..AllocationsRestart::default() };
        self.call(&request).await.map(drop)
    }

    async fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> Result<(), RpcError> {
        let region = self.region.clone();
        let request =
            AllocationsSignal { alloc_id: alloc, task: task.into(), signal: signal.into(), region, ..AllocationsSignal::default() };
        self.call(&request).await.map(drop)
    }

    async fn alloc_gc(&self, alloc: AllocId) -> Result<(), RpcError> {
        let region = self.region.clone();
        self.call(&AllocationsGarbageCollect { alloc_id: alloc, region, ..AllocationsGarbageCollect::default() }).await.map(drop)
    }

    async fn gc_all(&self) -> Result<(), RpcError> {
        let (node_id, region) = (self.id, self.region.clone());
        self.call(&AllocationsGarbageCollectAll { node_id, region, ..AllocationsGarbageCollectAll::default() }).await.map(drop)
    }

    async fn alloc_stats(&self, alloc: AllocId, task: &str) -> Result<Bytes, RpcError> {
        let region = self.region.clone();
        let request = AllocationsStats { alloc_id: alloc, task: task.into(), region, ..AllocationsStats::default() };
        let AllocationsStatsAnswer { stats, .. } = self.call(&request).await?;
        json(&stats)
    }

    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        self.call(&NodeMetaRead { node_id: self.id, region: self.region.clone(), ..NodeMetaRead::default() }).await
    }

    async fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        let (node_id, region) = (self.id, self.region.clone());
        self.call(&NodeMetaApply { node_id, meta: Some(change), region, ..NodeMetaApply::default() }).await
    }

    async fn alloc_exec(&self, command: ExecCommand) -> Result<ExecSession, RpcError> {
        let request = AllocationsExec {
            alloc_id: command.alloc,
            task: command.task,
            tty: command.tty,
            cmd: Some(command.command.into_iter().map(Str::from).collect()),
            region: self.region.clone(),
            ..AllocationsExec::default()
        };
        Ok(frames::session(self.stream(AllocationsExec::METHOD, &request).await?))
    }

    async fn alloc_snapshot(&self, alloc: AllocId) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError> {
        let request = AllocationsGarbageCollect { alloc_id: alloc, region: self.region.clone(), ..AllocationsGarbageCollect::default() };
        Ok(frames::pieces(self.stream(SNAPSHOT, &request).await?))
    }

    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        let answer: ClientStatsAnswer =
            self.call(&ClientStats { node_id: self.id, region: self.region.clone(), ..ClientStats::default() }).await?;
        json(&answer.host_stats)
    }
}
