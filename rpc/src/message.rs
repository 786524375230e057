//! What is said over the node RPC: a request and an answer for each method, with the wire's names. How they travel, who may
//! say them and what they do is elsewhere.
//!
//! Every request carries its caller's metadata beside its own fields, as the wire has it. Rows of ours stand in them as they are; where the
//! wire's shape differs the message has a type of its own with a conversion.

mod acl;
mod alloc;
mod client;
mod controller;
mod csi;
mod header;
mod job;
mod meta;
mod node;
mod service;
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
pub use header::*;
pub use job::*;
pub use meta::*;
pub use node::*;
pub use service::*;
pub use status::*;
pub use stream::*;
pub use variable::*;

/// The request of a method that has one answer.
pub trait Call: Serialize + DeserializeOwned + Default {
    /// `Service.Method`.
    const METHOD: &'static str;
    /// What is answered.
    type Answer: Serialize + DeserializeOwned;
}

/// The request of a method that answers with a stream of messages.
pub trait StreamCall: Serialize + DeserializeOwned + Default {
    /// `Service.Method`.
    const METHOD: &'static str;
}

/// Calls a macro with all requests that have one answer.
#[macro_export]
macro_rules! every_call {
    ($with:ident) => {
        $with! {
            StatusPing StatusLeader StatusPeers StatusMembers StatusHasNodeConn StatusRaftStats
            NodeRegister NodeUpdateStatus NodeGetClientAllocs NodeUpdateAlloc NodeEmitEvents NodeGetNode NodeUpdateDrain
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

/// Writes down messages: `read`, `stream` and `write` are requests with the caller's metadata, `answer` and `written` are answers with that of the
/// server, `plain` ones have nothing but their own fields.
macro_rules! message {
    ($(#[$meta:meta])* read $name:ident $(($method:literal -> $answer:ty))? { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Of which region something is asked.
            pub region: songline_model::Str,
            /// In which namespace, where that matters.
            pub namespace: songline_model::NamespaceName,
            /// Answer when the index is above this one; 0 answers at once.
            pub min_query_index: u64,
            /// Answer after this time in any case; 0 means 300 s.
            pub max_query_time: songline_model::Dur,
            /// Whether any server may answer from what it has.
            pub allow_stale: bool,
            /// Of ids, for lists.
            pub prefix: songline_model::Str,
            /// Who asks.
            pub auth_token: songline_model::Secret,
            /// Which rows, for lists.
            pub filter: songline_model::Str,
            /// How many rows; 0 is all.
            pub per_page: i64,
            /// From which row on.
            pub next_token: songline_model::Str,
            /// Whether in the other order.
            pub reverse: bool,
            /// Whether another server passed it on.
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
            /// In which region something is to be written.
            pub region: songline_model::Str,
            /// In which namespace, where that matters.
            pub namespace: songline_model::NamespaceName,
            /// Who writes.
            pub auth_token: songline_model::Secret,
            /// The same for the same write, sent again.
            pub idempotency_token: songline_model::Str,
            /// Whether another server passed it on.
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
            /// For the next question.
            pub index: u64,
            /// How long ago the server that answers heard of its leader.
            pub last_contact: songline_model::Dur,
            /// Whether there is a leader.
            pub known_leader: bool,
            /// Where the next page begins; empty when there is none.
            pub next_token: songline_model::Str,
        }
    };
    ($(#[$meta:meta])* written $name:ident { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Of the entry that was written; 0 when none was.
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
