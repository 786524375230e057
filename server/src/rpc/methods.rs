//! The methods of the node RPC, and the parties that answer them.

use songline_lang::acl::Access;
use songline_lang::acl::NamespaceCapability::{
    self, AllocExec, AllocLifecycle, AllocNodeExec, ReadFs, ReadJob, ReadLogs, SubmitJob,
};

use super::routes::{self, ROUTES};

/// The party that answers a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The server that is asked. Requests may leave the region out.
    Asked,
    /// The leader; any server for callers that accept stale answers.
    Leader,
    /// The server that is asked, if it leads; only for the workers of other servers.
    Workers,
    /// A node, for callers with this right.
    Node(Right),
}

/// A right that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// One of these capabilities in the allocation's namespace.
    Any(&'static [NamespaceCapability]),
    /// All of these capabilities in the allocation's namespace.
    All(&'static [NamespaceCapability]),
    /// Access to nodes.
    Node(Access),
    /// Access to agents.
    Agent(Access),
    /// The caller has to be a server, about an allocation.
    Server,
    /// The caller has to be a server, about a node.
    ServerToNode,
}

/// Methods with one answer, beside those of `routes`, which the leader answers.
pub(super) const CALLS: &[(&str, By)] = &[
    ("Status.Ping", By::Asked),
    ("Status.Leader", By::Asked),
    ("Status.Peers", By::Asked),
    ("Status.Members", By::Asked),
    ("Status.HasNodeConn", By::Asked),
    ("Status.RaftStats", By::Asked),
    ("Node.Register", By::Leader),
    ("Node.UpdateStatus", By::Leader),
    ("Node.GetClientAllocs", By::Leader),
    ("Node.UpdateAlloc", By::Leader),
    ("Node.EmitEvents", By::Leader),
    ("Node.GetNode", By::Leader),
    ("Alloc.GetAllocs", By::Leader),
    ("Alloc.GetAlloc", By::Leader),
    ("ServiceRegistration.Upsert", By::Leader),
    ("ServiceRegistration.DeleteByID", By::Leader),
    ("ServiceRegistration.GetService", By::Leader),
    ("Variables.Read", By::Leader),
    ("Variables.List", By::Leader),
    ("ACL.WhoAmI", By::Leader),
    ("ACL.GetPolicies", By::Leader),
    ("ACL.GetClaimPolicies", By::Leader),
    ("ACL.GetRolesByID", By::Leader),
    ("Node.UpdateDrain", By::Leader),
    ("Node.DeriveVaultToken", By::Leader),
    ("Job.GetJob", By::Leader),
    ("Job.Evaluations", By::Leader),
    ("Job.List", By::Leader),
    ("Job.Register", By::Leader),
    ("Variables.Apply", By::Leader),
    ("Eval.Dequeue", By::Workers),
    ("Eval.Ack", By::Workers),
    ("Eval.Nack", By::Workers),
    ("Eval.Update", By::Workers),
    ("Eval.Reblock", By::Workers),
    ("Plan.Submit", By::Workers),
    ("CSIVolume.Claim", By::Leader),
    ("CSIVolume.Unpublish", By::Leader),
    ("Allocations.Restart", By::Node(Right::Any(&[AllocLifecycle]))),
    ("Allocations.Signal", By::Node(Right::Any(&[AllocLifecycle]))),
    ("Allocations.GarbageCollect", By::Node(Right::Any(&[SubmitJob]))),
    ("Allocations.GarbageCollectAll", By::Node(Right::Node(Access::Write))),
    ("Allocations.Stats", By::Node(Right::Any(&[ReadJob]))),
    ("Allocations.Checks", By::Node(Right::Any(&[ReadJob]))),
    ("ClientStats.Stats", By::Node(Right::Node(Access::Read))),
    ("FileSystem.List", By::Node(Right::Any(&[ReadFs]))),
    ("FileSystem.Stat", By::Node(Right::Any(&[ReadFs]))),
    ("NodeMeta.Apply", By::Node(Right::Node(Access::Write))),
    ("Agent.Host", By::Node(Right::Agent(Access::Read))),
    ("Agent.Profile", By::Node(Right::Agent(Access::Write))),
    ("NodeMeta.Read", By::Node(Right::Node(Access::Read))),
    ("CSI.ControllerAttachVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerDetachVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerValidateVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerCreateVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerDeleteVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerListVolumes", By::Node(Right::ServerToNode)),
    ("CSI.ControllerExpandVolume", By::Node(Right::ServerToNode)),
    ("CSI.ControllerCreateSnapshot", By::Node(Right::ServerToNode)),
    ("CSI.ControllerDeleteSnapshot", By::Node(Right::ServerToNode)),
    ("CSI.ControllerListSnapshots", By::Node(Right::ServerToNode)),
    ("CSI.NodeDetachVolume", By::Node(Right::ServerToNode)),
    ("CSI.NodeExpandVolume", By::Node(Right::ServerToNode)),
];

/// Methods that are answered with a stream, all of them by nodes.
pub(super) const STREAMS: &[(&str, Right)] = &[
    ("FileSystem.Logs", Right::Any(&[ReadLogs, ReadFs])),
    ("FileSystem.Stream", Right::Any(&[ReadFs])),
    // Whether the task has the node's rights is not checked here, so both capabilities are required.
    ("Allocations.Exec", Right::All(&[AllocExec, AllocNodeExec])),
    ("Agent.Monitor", Right::Agent(Access::Read)),
    (songline_rpc::agent_wire::ALLOC_SNAPSHOT, Right::Server),
];

/// Prefix of the methods that servers call under another name than nodes do.
const SERVER_NAME: &str = "ClientAllocations.";

/// Name of a method on nodes.
pub(super) fn on_nodes(method: &str) -> std::borrow::Cow<'_, str> {
    match method.strip_prefix(SERVER_NAME) {
        Some(name) => format!("Allocations.{name}").into(),
        None => method.into(),
    }
}

/// The party that answers a method. `None` for an unknown method.
pub(super) fn by(method: &str) -> Option<By> {
    let method = on_nodes(method);
    let own = CALLS.iter().find(|(name, _)| *name == method).map(|(_, by)| *by);
    own.or_else(|| routes::find(&method).map(|_| By::Leader))
}

/// Whether a service of this name exists.
pub(super) fn is_service(name: &str) -> bool {
    let of = |method: &str| method.split_once('.').is_some_and(|(service, _)| service == name);
    CALLS.iter().any(|(method, _)| of(method))
        || STREAMS.iter().any(|(method, _)| of(method))
        || ROUTES.iter().any(|route| of(route.method))
}
