//! Rates and timers of the node RPC's methods. A call counts at the server that serves it, not at one that forwards
//! it. A call to a node counts at the server that was asked first. Methods of `routes` count as requests of their
//! routes.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use songline_api::RateOp::{self, List, Read, Write};
use songline_api::{Agent as _, Served, Status as _, identity_label};
use songline_model::{NodeId, Secret};
use songline_rpc::message::{Call as _, PlanSubmit, RequestMeta};
use songline_rpc::msgpack::from_slice;
use songline_rpc::net::{Caller, Channel, Dispatch, Refusal};
use songline_rpc::servers_wire::SERVED;

use super::super::Core;
use super::dispatch::NodeRpc;
use super::methods::{self, By};

/// Method, endpoint, operation, and the part of the timer's name after `nomad.nomad.`, which is empty where the
/// reference has no timer.
const RATES: &[(&str, &str, RateOp, &str)] = &[
    ("Status.Ping", "status", Read, ""),
    ("Status.Leader", "status", Read, ""),
    ("Status.Peers", "status", Read, ""),
    ("Status.Members", "status", Read, ""),
    ("Status.HasNodeConn", "status", Read, ""),
    ("Status.RaftStats", "status", Read, ""),
    ("Node.Register", "node", Write, "client.register"),
    ("Node.UpdateStatus", "node", Write, "client.update_status"),
    ("Node.GetClientAllocs", "node", List, "client.get_client_allocs"),
    ("Node.UpdateAlloc", "node", Write, "client.update_alloc"),
    ("Node.EmitEvents", "node", Write, "client.emit_events"),
    ("Node.GetNode", "node", Read, "client.get_node"),
    ("Node.UpdateDrain", "node", Write, "client.update_drain"),
    ("Node.DeriveVaultToken", "node", Write, "client.derive_vault_token"),
    ("Alloc.GetAllocs", "alloc", List, "alloc.get_allocs"),
    ("Alloc.GetAlloc", "alloc", Read, "alloc.get_alloc"),
    ("ServiceRegistration.Upsert", "service_registration", Write, "service_registration.upsert"),
    ("ServiceRegistration.DeleteByID", "service_registration", Write, "service_registration.delete_by_id"),
    ("ServiceRegistration.GetService", "service_registration", Read, "service_registration.get_service"),
    ("Variables.Read", "variables", Read, "variables.read"),
    ("Variables.List", "variables", List, "variables.list"),
    ("Variables.Apply", "variables", Write, "variables.apply"),
    ("ACL.WhoAmI", "acl", Read, ""),
    ("ACL.GetPolicies", "acl", List, "acl.get_policies"),
    ("ACL.GetClaimPolicies", "acl", List, ""),
    ("ACL.GetRolesByID", "acl", List, ""),
    ("Job.GetJob", "job", Read, "job.get_job"),
    ("Job.Evaluations", "job", List, "job.evaluations"),
    ("Job.List", "job", List, "job.list"),
    ("Job.Register", "job", Write, "job.register"),
    ("Eval.Dequeue", "eval", Write, ""),
    ("Eval.Ack", "eval", Write, ""),
    ("Eval.Nack", "eval", Write, ""),
    ("Eval.Update", "eval", Write, "eval.update"),
    ("Eval.Reblock", "eval", Write, "eval.reblock"),
    ("Plan.Submit", "plan", Write, ""),
    ("CSIVolume.Claim", "csi_volume", Write, "volume.claim"),
    ("CSIVolume.Unpublish", "csi_volume", Write, "volume.unpublish"),
    ("CSI.ControllerAttachVolume", "client_csi", Write, "client_csi_controller.publish_volume"),
    ("CSI.ControllerDetachVolume", "client_csi", Write, "client_csi_controller.unpublish_volume"),
    ("CSI.ControllerValidateVolume", "client_csi", Write, "client_csi_controller.validate_volume"),
    ("CSI.ControllerCreateVolume", "client_csi", Write, "client_csi_controller.create_volume"),
    ("CSI.ControllerDeleteVolume", "client_csi", Write, "client_csi_controller.delete_volume"),
    ("CSI.ControllerListVolumes", "client_csi", List, "client_csi_controller.list_volumes"),
    ("CSI.ControllerExpandVolume", "client_csi", Write, "client_csi_controller.expand_volume"),
    ("CSI.ControllerCreateSnapshot", "client_csi", Write, "client_csi_controller.create_snapshot"),
    ("CSI.ControllerDeleteSnapshot", "client_csi", Write, "client_csi_controller.delete_snapshot"),
    ("CSI.ControllerListSnapshots", "client_csi", List, "client_csi_controller.list_snapshots"),
    ("CSI.NodeDetachVolume", "client_csi", Write, "client_csi_node.detach_volume"),
    ("CSI.NodeExpandVolume", "client_csi", Write, "client_csi_node.expand_volume"),
    ("Allocations.Restart", "client_allocations", Write, "client_allocations.restart"),
    ("Allocations.Signal", "client_allocations", Write, "client_allocations.signal"),
    ("Allocations.GarbageCollect", "client_allocations", Write, "client_allocations.garbage_collect"),
    ("Allocations.GarbageCollectAll", "client_allocations", Write, "client_allocations.garbage_collect_all"),
    ("Allocations.Stats", "client_allocations", Read, "client_allocations.stats"),
    ("Allocations.Checks", "client_allocations", Read, ""),
    ("ClientStats.Stats", "client_stats", Read, "client_stats.stats"),
    ("FileSystem.List", "file_system", List, "file_system.list"),
    ("FileSystem.Stat", "file_system", Read, "file_system.stat"),
    ("NodeMeta.Apply", "node_meta", Write, ""),
    ("NodeMeta.Read", "node_meta", Read, ""),
    ("Agent.Host", "agent", Read, ""),
    ("Agent.Profile", "agent", Write, ""),
    ("FileSystem.Logs", "file_system", Read, "file_system.logs"),
    ("FileSystem.Stream", "file_system", Read, "file_system.stream"),
    ("Allocations.Exec", "client_allocations", Write, "client_allocations.exec"),
    ("Agent.Monitor", "agent", Read, ""),
    (songline_rpc::agent_wire::ALLOC_SNAPSHOT, "client_allocations", Read, ""),
    ("Event.Stream", "event", Read, ""),
];

impl NodeRpc {
    /// Counts a call before the rights of its caller are checked, and times its answer.
    pub(super) async fn served<T>(
        &self,
        method: &str,
        token: &Secret,
        caller: &Caller,
        work: impl Future<Output = T>,
    ) -> T {
        // Calls of nodes to servers are counted where they are answered, because a node in this process calls without
        // the wire. Plans are counted where they are submitted, because the leader has workers, too.
        if SERVED.contains(&method) || method == PlanSubmit::METHOD {
            return work.await;
        }
        let method = methods::on_nodes(method);
        let Some(&(_, endpoint, op, timer)) = RATES.iter().find(|row| row.0 == method) else { return work.await };
        let info = self.core.info();
        let identity = match info.rpc_rate_labels && info.acl.enabled {
            true => identity_label(&self.callers.authenticate(&*self.core, token.reveal()), Some(caller.from.ip())),
            false => None,
        };
        self.core.count_served(Served { endpoint, op, identity });
        let started = Instant::now();
        let answer = work.await;
        self.core.metrics.measure_call(timer, started.elapsed());
        answer
    }

    /// Counts a stream that begins.
    pub(super) async fn count_stream(&self, method: &str, token: &Secret, caller: &Caller) {
        self.served(method, token, caller, ready(())).await;
    }
}

/// The node RPC with its counters. A call that the leader serves is counted later, once it is known that this server
/// serves it.
pub(super) struct Measured(pub(super) Arc<NodeRpc>);

impl Dispatch for Measured {
    async fn call(&self, method: &str, body: Bytes, caller: &Caller) -> Result<Bytes, Refusal> {
        let metrics = &self.0.core.metrics;
        metrics.at.rpc_request.add_one();
        let meta: Option<RequestMeta> = match methods::by(method) {
            Some(By::Asked | By::Workers | By::Node(_)) => from_slice(&body).ok(),
            Some(By::Leader) | None => None,
        };
        // Boxed, because the layers of a call nest deeply, and each of them would hold the whole future on the stack.
        let call = Box::pin(self.0.call(method, body, caller));
        let answer = match meta.filter(|meta| !(meta.forwarded && caller.is_server)) {
            Some(meta) => self.0.served(method, &meta.auth_token, caller, call).await,
            None => call.await,
        };
        if answer.is_err() {
            metrics.at.rpc_request_error.add_one();
        }
        answer
    }

    fn streams(&self, method: &str) -> bool {
        self.0.streams(method)
    }

    async fn stream(&self, method: &str, channel: Channel, caller: &Caller) {
        self.0.core.metrics.at.rpc_request.add_one();
        self.0.stream(method, channel, caller).await;
    }
}

impl Core {
    /// Counts a call of a node, until the returned guard is dropped. The label is the node whose secret was shown.
    pub(crate) fn node_call(&self, method: &str, id: NodeId, secret: &Secret) -> NodeCall<'_> {
        let mut timer = "";
        if let Some(&(_, endpoint, op, name)) = RATES.iter().find(|row| row.0 == method) {
            let info = self.info();
            let identity = (info.rpc_rate_labels && info.acl.enabled).then(|| {
                let known = self.view().node(id).is_some_and(|node| node.secret_id == *secret);
                if known { format!("client:{id}") } else { "unauthenticated".to_owned() }
            });
            self.count_served(Served { endpoint, op, identity });
            timer = name;
        }
        NodeCall { core: self, timer, started: Instant::now() }
    }
}

/// Guard of a node's call that is being answered.
pub(crate) struct NodeCall<'a> {
    core: &'a Core,
    timer: &'static str,
    started: Instant,
}

impl Drop for NodeCall<'_> {
    fn drop(&mut self) {
        self.core.metrics.measure_call(self.timer, self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use songline_rpc::message::{EventStream, StreamCall as _};

    use super::super::methods::{CALLS, STREAMS};
    use super::RATES;

    #[test]
    fn every_rpc_method_is_measured_once() {
        let calls = CALLS.iter().map(|(method, _)| *method);
        let streams = STREAMS.iter().map(|(method, _)| *method);
        let methods: BTreeSet<&str> = calls.chain(streams).chain([EventStream::METHOD]).collect();
        assert_eq!(RATES.iter().map(|row| row.0).collect::<BTreeSet<_>>(), methods);
        assert_eq!(RATES.len(), methods.len());
    }
}
