//! ACL tokens, indexed by accessor and by secret, with the current names of their roles; and the bootstrap of the
//! first token.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::{BootstrapAclToken, DeleteAclTokens, UpsertAclTokens};
use songline_model::{AccessorId, AclToken, AclTokenRoleLink, SecretId, Str, Time};

use super::{is_hash, present};
use crate::index::move_key;
use crate::prefix::IdPrefix;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

/// Largest number of expired tokens that one collection pass deletes.
pub const EXPIRED_TOKENS_MAX: usize = 4096;

/// Record of the bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclBootstrap {
    /// Log index of the last bootstrap: a caller that names it may bootstrap again.
    pub index: u64,
}

impl Rules<(), AclBootstrap> for tables::AclTokenBootstrap {
    fn key(_row: &AclBootstrap) {}

    #[cfg(test)]
    fn in_story(row: &AclBootstrap) -> String {
        format!("bootstrap:{}", row.index)
    }
}

impl Rules<AccessorId, AclToken> for tables::AclToken {
    fn key(row: &AclToken) -> AccessorId {
        row.accessor_id
    }

    #[cfg(test)]
    fn in_story(row: &AclToken) -> String {
        format!("token:{}", crate::story::name(row.accessor_id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<AclToken>>, after: Option<&Arc<AclToken>>) {
        let by = &mut state.by.acl;
        let secret = |row: &Arc<AclToken>| (row.secret_id, row.accessor_id);
        move_key(&mut by.tokens_by_secret, before.map(secret), after.map(secret));
        let create = |row: &Arc<AclToken>| (row.create_index, row.accessor_id);
        move_key(&mut by.tokens_by_create, before.map(create), after.map(create));
        let expiry = |row: &Arc<AclToken>| row.expiration_time.map(|at| (row.global, at, row.accessor_id));
        move_key(&mut by.tokens_by_expiry, before.and_then(expiry), after.and_then(expiry));
    }
}

impl State {
    /// The token of this accessor, with its current roles: links to missing roles are left out, the others have the
    /// role's name.
    pub fn acl_token(&self, id: AccessorId) -> Option<Arc<AclToken>> {
        self.tables.acl_token.get(&id).map(|row| self.with_current_roles(row))
    }

    /// The token of this secret, with its current roles.
    pub fn acl_token_by_secret(&self, secret: &SecretId) -> Option<Arc<AclToken>> {
        self.acl_token(self.accessor_of_secret(secret)?)
    }

    fn accessor_of_secret(&self, secret: &SecretId) -> Option<AccessorId> {
        let (found, id) = self.by.acl.tokens_by_secret.range((*secret, AccessorId::NIL)..).next()?;
        (found == secret && !secret.is_none()).then_some(*id)
    }

    /// All tokens in their stored form, with links to roles by id only, by (create index, accessor).
    pub fn acl_tokens(&self) -> impl DoubleEndedIterator<Item = &Arc<AclToken>> {
        self.by.acl.tokens_by_create.iter().filter_map(|(_, id)| self.tables.acl_token.get(id))
    }

    /// The tokens in their stored form whose accessor has this prefix.
    pub fn acl_tokens_with_prefix(&self, prefix: &IdPrefix) -> impl DoubleEndedIterator<Item = &Arc<AclToken>> {
        let (low, high) = prefix.bounds();
        self.tables.acl_token.range(AccessorId::from_bytes(low)..=AccessorId::from_bytes(high))
    }

    /// The global or the local tokens that expired before `now`, in order of expiration; only those with a create
    /// index up to `created_max`, and at most `EXPIRED_TOKENS_MAX`.
    pub fn expired_acl_tokens(
        &self,
        global: bool,
        now: Time,
        created_max: u64,
    ) -> impl Iterator<Item = &Arc<AclToken>> {
        let expired = (global, Time::from_nanos(i64::MIN), AccessorId::NIL)..(global, now, AccessorId::NIL);
        let rows = self.by.acl.tokens_by_expiry.range(expired).filter_map(|(_, _, id)| self.tables.acl_token.get(id));
        rows.filter(move |row| row.create_index <= created_max).take(EXPIRED_TOKENS_MAX)
    }

    /// The index of the last bootstrap. `None`: there was none, so any caller may bootstrap.
    pub fn acl_bootstrap_index(&self) -> Option<u64> {
        self.tables.acl_token_bootstrap.get(&()).map(|row| row.index)
    }

    fn with_current_roles(&self, row: &Arc<AclToken>) -> Arc<AclToken> {
        let Some(links) = &row.roles else { return Arc::clone(row) };
        let named = |link: &AclTokenRoleLink| {
            self.acl_role(link.id).map(|role| AclTokenRoleLink { id: link.id, name: role.name.clone() })
        };
        Arc::new(AclToken { roles: Some(links.iter().filter_map(named).collect()), ..AclToken::clone(row) })
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertAclTokens) -> Result<(), Rejected> {
    cmd.tokens.iter().try_for_each(|token| put(tx, token))
}

/// Creates or updates a token. An update keeps the stored secret, creation, locality and expiration: an update without
/// an expiration must not make the token permanent.
fn put(tx: &mut Tx<'_>, token: &AclToken) -> Result<(), Rejected> {
    present("token", "accessor ID", !token.accessor_id.is_nil())?;
    present("token", "hash", is_hash(token.hash.as_ref()))?;
    present("token", "role ID", token.role_links().iter().all(|link| !link.id.is_nil()))?;
    let mut row = AclToken {
        create_index: tx.index(),
        modify_index: tx.index(),
        roles: ids_only(token.roles.as_ref()),
        ..token.clone()
    };
    if let Some(stored) = tx.tables.acl_token.get(&token.accessor_id) {
        row.secret_id = stored.secret_id;
        row.create_time = stored.create_time;
        row.global = stored.global;
        row.expiration_time = stored.expiration_time;
        row.expiration_ttl = stored.expiration_ttl;
        row.create_index = stored.create_index;
    }
    present("token", "secret ID", !row.secret_id.is_none())?;
    present("token", "create time", row.create_time != Time::default())?;
    if tx.accessor_of_secret(&row.secret_id).is_some_and(|holder| holder != row.accessor_id) {
        return Err(Rejected::AclTokenSecretTaken);
    }
    tx.put::<tables::AclToken>(row);
    Ok(())
}

/// Links by role id without duplicates. A role's name may change, so it is not stored.
fn ids_only(links: Option<&Vec<AclTokenRoleLink>>) -> Option<Vec<AclTokenRoleLink>> {
    let mut seen = BTreeSet::new();
    let ids = links?.iter().map(|link| link.id).filter(|id| seen.insert(*id));
    Some(ids.map(|id| AclTokenRoleLink { id, name: Str::default() }).collect())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteAclTokens) -> Result<(), Rejected> {
    for id in &cmd.accessor_ids {
        tx.delete::<tables::AclToken>(id);
    }
    Ok(())
}

/// Creates the first management token. Tokens of an earlier bootstrap stay valid.
pub(crate) fn bootstrap(tx: &mut Tx<'_>, cmd: &BootstrapAclToken) -> Result<(), Rejected> {
    match tx.acl_bootstrap_index() {
        Some(_) if cmd.reset_index == 0 => return Err(Rejected::AclBootstrapDone),
        Some(last) if cmd.reset_index != last => return Err(Rejected::AclBootstrapResetIndex),
        Some(_) | None => {}
    }
    put(tx, &cmd.token)?;
    let index = tx.index();
    tx.put::<tables::AclTokenBootstrap>(AclBootstrap { index });
    Ok(())
}
