//! Announcements of ACL objects. Their tables are small, so the table's key also wakes readers of one row.

use serde::Serialize;
use songline_model::{AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, Str};
use songline_projections::tables;
use songline_wire::acl::{AuthMethodView, TokenView};

use super::{Announce, text};
use crate::event::Topic;

impl Announce for tables::AclPolicy {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("ACLPolicy").and_deleted());

    fn key(row: &AclPolicy) -> Str {
        row.name.clone()
    }
}

impl Announce for tables::AclToken {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("ACLToken").and_deleted());

    fn key(row: &AclToken) -> Str {
        text(row.accessor_id)
    }

    /// Without the secret.
    fn view(row: &AclToken) -> impl Serialize {
        TokenView::event(row)
    }
}

impl Announce for tables::AclRoles {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("ACLRole").and_deleted());

    fn key(row: &AclRole) -> Str {
        text(row.id)
    }

    fn filter_keys(row: &AclRole) -> Option<Vec<Str>> {
        Some(vec![row.name.clone()])
    }
}

impl Announce for tables::AclAuthMethods {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("ACLAuthMethod").shown_as("AuthMethod").and_deleted());

    fn key(row: &AclAuthMethod) -> Str {
        row.name.clone()
    }

    /// Without the client secret.
    fn view(row: &AclAuthMethod) -> impl Serialize {
        AuthMethodView::new(row)
    }
}

impl Announce for tables::AclBindingRules {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("ACLBindingRule").and_deleted());

    fn key(row: &AclBindingRule) -> Str {
        text(row.id)
    }

    fn filter_keys(row: &AclBindingRule) -> Option<Vec<Str>> {
        Some(vec![row.auth_method.clone()])
    }
}

// The bootstrap's entry announces the management token that it creates.
impl Announce for tables::AclTokenBootstrap {}

// The whole row is a secret for a few minutes; the token behind it is announced as a token.
impl Announce for tables::OneTimeToken {}
