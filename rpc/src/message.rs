//! Messages of the node RPC: a request and an answer for each method, with the wire's field names. Transport,
//! permissions and the effects of requests are elsewhere.
//!
//! Every request carries its caller's metadata beside its own fields, as on the wire. Rows of the tables are embedded
//! as they are; where the wire's shape differs, the message has its own type with a conversion.

mod acl;
mod alloc;
mod client;
mod controller;
mod csi;
mod eval;
mod header;
mod job;
mod meta;
mod node;
mod service_registration;
mod status;
mod stream;
mod variable;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use acl::*;
pub use alloc::*;
pub use client::*;
pub use controller::*;
pub use csi::*;
pub use eval::*;
pub use header::*;
pub use job::*;
pub use meta::*;
pub use node::*;
pub use service_registration::*;
pub use status::*;
pub use stream::*;
pub use variable::*;

/// Request of a method with one answer.
pub trait Call: Serialize + DeserializeOwned + Default {
    /// Name of the method: `Service.Method`.
    const METHOD: &'static str;
    /// Type of the answer.
    type Answer: Serialize + DeserializeOwned;
}

/// Request of a method that answers with a stream of messages.
pub trait StreamCall: Serialize + DeserializeOwned + Default {
    /// Name of the method: `Service.Method`.
    const METHOD: &'static str;
}

/// Calls a macro with all requests that have one answer.
#[macro_export]
macro_rules! every_call {
    ($with:ident) => {
        $with! {
            StatusPing StatusLeader StatusPeers StatusMembers StatusHasNodeConn StatusRaftStats
            NodeRegister NodeUpdateStatus NodeGetClientAllocs NodeUpdateAlloc NodeEmitEvents NodeGetNode NodeUpdateDrain
            NodeDeriveVaultToken
            AllocGetAllocs AllocGetAlloc AllocSignIdentities
            ServiceUpsert ServiceDelete ServiceGet
            VariablesRead VariablesList VariablesApply
            AclWhoAmI AclGetPolicies AclGetClaimPolicies AclGetRolesById AclGetRoleById AclResolveToken AclGetAuthMethod AclLogin
            AclUpsertPolicies
            CsiVolumeClaimRequest CsiVolumeUnpublish
            ControllerAttachVolume ControllerDetachVolume ControllerValidateVolume ControllerCreateVolume ControllerDeleteVolume
            ControllerListVolumes ControllerExpandVolume ControllerCreateSnapshot ControllerDeleteSnapshot ControllerListSnapshots
            NodeDetachVolume NodeExpandVolume
            JobGetJob JobEvaluations JobList JobRegister
            EvalDequeue EvalAck EvalNack EvalUpdate EvalReblock PlanSubmit
            AllocationsRestart AllocationsSignal AllocationsGarbageCollect AllocationsGarbageCollectAll AllocationsStats AllocationsChecks
            ClientStats FileSystemList FileSystemStat NodeMetaApply NodeMetaRead AgentProfile AgentHost
        }
    };
}

/// Calls a macro with all requests that are answered with a stream.
#[macro_export]
macro_rules! every_stream {
    ($with:ident) => {
        $with! { FileSystemLogs FileSystemStream AllocationsExec AgentMonitor EventStream }
    };
}

/// Defines messages. `read`, `stream` and `write` are requests with the caller's metadata, `answer` and `written` are
/// answers with the server's metadata, `plain` messages have only their own fields.
macro_rules! message {
    ($(#[$meta:meta])* read $name:ident $(($method:literal -> $answer:ty))? { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Region of the request.
            pub region: songline_model::Str,
            /// Namespace, where it matters.
            pub namespace: songline_model::NamespaceName,
            /// Answer when the index is above this one; 0 answers at once.
            pub min_query_index: u64,
            /// Answer after this time in any case; 0 means 300 s.
            pub max_query_time: songline_model::Dur,
            /// Whether any server may answer from its own state.
            pub allow_stale: bool,
            /// Prefix of ids, for lists.
            pub prefix: songline_model::Str,
            /// Token of the caller.
            pub auth_token: songline_model::Secret,
            /// Filter expression for rows, for lists.
            pub filter: songline_model::Str,
            /// Most rows of a page; 0 means all.
            pub per_page: i64,
            /// First row of the page.
            pub next_token: songline_model::Str,
            /// Whether rows come in reverse order.
            pub reverse: bool,
            /// Whether another server forwarded the request.
            pub forwarded: bool,
        }
        message!(@signed $name);
        $(message!(@call $name $method $answer);)?
    };
    ($(#[$meta:meta])* stream $name:ident ($method:literal) { $($fields:tt)* }) => {
        message! { $(#[$meta])* read $name { $($fields)* } }
        impl $crate::message::StreamCall for $name {
            const METHOD: &'static str = $method;
        }
    };
    ($(#[$meta:meta])* write $name:ident $(($method:literal -> $answer:ty))? { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Region of the write.
            pub region: songline_model::Str,
            /// Namespace, where it matters.
            pub namespace: songline_model::NamespaceName,
            /// Token of the caller.
            pub auth_token: songline_model::Secret,
            /// Idempotency key: equal when the same write is sent again.
            pub idempotency_token: songline_model::Str,
            /// Whether another server forwarded the request.
            pub forwarded: bool,
        }
        message!(@signed $name);
        $(message!(@call $name $method $answer);)?
    };
    ($(#[$meta:meta])* answer $name:ident { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Index for the next blocking query.
            pub index: u64,
            /// Time since the answering server last heard its leader.
            pub last_contact: songline_model::Dur,
            /// Whether there is a leader.
            pub known_leader: bool,
            /// First row of the next page; empty without one.
            pub next_token: songline_model::Str,
        }
    };
    ($(#[$meta:meta])* written $name:ident { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Index of the entry that was written; 0 without one.
            pub index: u64,
        }
    };
    ($(#[$meta:meta])* plain $name:ident $(($method:literal -> $answer:ty))? { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
        }
        $(message!(@call $name $method $answer);)?
    };
    (@signed $name:ident) => {
        impl $crate::message::Signed for $name {
            fn sign(&mut self, caller: &$crate::message::Caller) {
                self.region = caller.region.clone();
                self.namespace = caller.namespace.clone();
                self.auth_token = caller.auth_token.clone();
            }
        }
    };
    (@call $name:ident $method:literal $answer:ty) => {
        impl $crate::message::Call for $name {
            const METHOD: &'static str = $method;
            type Answer = $answer;
        }
    };
}
use message;
