//! Rights that decide on the content of answers about the past, beside the requested object. Nodes are shown to
//! callers that may read nodes; tokens to management tokens and to their owners; jobs of other namespaces to callers
//! that may read these. `docs/history.md` lists the fields.

use std::sync::Arc;

use songline_commands::Kind;
use songline_lang::acl::{Access, Acl, NamespaceCapability};
use songline_model::Str;

use crate::caller::Caller;

/// Rights of one caller, as far as answers about the past depend on them.
#[derive(Clone)]
pub(super) struct Shown {
    acl: Arc<Acl>,
    /// Accessor id of the caller's own token.
    own: Option<Str>,
}

impl Shown {
    /// Rights of this caller. With ACLs disabled everything is shown.
    pub(super) fn to(caller: &Caller) -> Self {
        Self { acl: caller.shared_acl(), own: caller.token().map(|token| token.accessor_id.to_string().into()) }
    }

    /// Whether names and events of nodes are shown.
    pub(super) fn nodes(&self) -> bool {
        self.acl.node(Access::Read)
    }

    /// Whether jobs of a namespace, their evaluations and allocations are shown.
    pub(super) fn jobs_in(&self, namespace: &str) -> bool {
        self.acl.namespace(namespace, NamespaceCapability::ReadJob)
    }

    /// Whether answers name the token with this accessor id. Management tokens may read all tokens, and each owner
    /// its own.
    pub(super) fn token(&self, accessor: &str) -> bool {
        self.acl.is_management() || self.own.as_deref() == Some(accessor)
    }

    /// The `Actor` field of an answer. Only the word `token` remains of a token that may not be named.
    pub(super) fn actor<'t>(&self, actor: &'t str) -> &'t str {
        match actor.split_once(':') {
            Some((kind @ "token", accessor)) if !self.token(accessor) => kind,
            Some(_) | None => actor,
        }
    }

    /// The `Command` field of an answer. It is empty for a command about a node when nodes are not shown.
    pub(super) fn command(&self, kind: Kind) -> &'static str {
        let of_node = matches!(
            kind,
            Kind::NodeRegister
                | Kind::NodeDeregister
                | Kind::NodeBatchDeregister
                | Kind::NodeUpdateStatus
                | Kind::NodeUpdateDrain
                | Kind::BatchNodeUpdateDrain
                | Kind::NodeUpdateEligibility
                | Kind::UpsertNodeEvents
        );
        if of_node && !self.nodes() { "" } else { kind.name() }
    }
}
