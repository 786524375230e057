//! One-time tokens: at most one for each token; deleted when exchanged or expired. The restore of an archive drops
//! them.

use std::sync::Arc;

use songline_commands::{DeleteOneTimeTokens, ExpireOneTimeTokens, UpsertOneTimeToken};
use songline_model::{AccessorId, OneTimeToken, SecretId};

use super::present;
use crate::index::move_key;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<AccessorId, OneTimeToken> for tables::OneTimeToken {
    fn key(row: &OneTimeToken) -> AccessorId {
        row.accessor_id
    }

    #[cfg(test)]
    fn in_story(row: &OneTimeToken) -> String {
        format!("once:{}", crate::story::name(row.accessor_id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<OneTimeToken>>, after: Option<&Arc<OneTimeToken>>) {
        let secret = |row: &Arc<OneTimeToken>| (row.one_time_secret_id, row.accessor_id);
        move_key(&mut state.by.acl.one_time_by_secret, before.map(secret), after.map(secret));
    }
}

impl State {
    /// The one-time token of this secret, expired or not.
    pub fn one_time_token_by_secret(&self, secret: &SecretId) -> Option<&Arc<OneTimeToken>> {
        let (found, id) = self.by.acl.one_time_by_secret.range((*secret, AccessorId::NIL)..).next()?;
        if found == secret { self.tables.one_time_token.get(id) } else { None }
    }

    /// The one-time token of the token with this accessor.
    pub fn one_time_token(&self, accessor: AccessorId) -> Option<&Arc<OneTimeToken>> {
        self.tables.one_time_token.get(&accessor)
    }

    /// All one-time tokens, by the accessor of their token.
    pub fn one_time_tokens(&self) -> impl DoubleEndedIterator<Item = &Arc<OneTimeToken>> {
        self.tables.one_time_token.iter()
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertOneTimeToken) -> Result<(), Rejected> {
    let token = &cmd.token;
    if token.expires_at.is_none() {
        return Err(Rejected::OneTimeTokenEndless);
    }
    present("one-time token", "accessor ID", !token.accessor_id.is_nil())?;
    present("one-time token", "secret ID", !token.one_time_secret_id.is_none())?;
    let create_index =
        tx.tables.one_time_token.get(&token.accessor_id).map_or(tx.index(), |stored| stored.create_index);
    let row = OneTimeToken { create_index, modify_index: tx.index(), ..token.clone() };
    tx.put::<tables::OneTimeToken>(row);
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteOneTimeTokens) -> Result<(), Rejected> {
    for id in &cmd.accessor_ids {
        let stored = tx.tables.one_time_token.get(id).map(|row| row.modify_index);
        if cmd.exchanged.is_some() && cmd.exchanged != stored {
            return Err(Rejected::OneTimeTokenGone);
        }
        tx.delete::<tables::OneTimeToken>(id);
    }
    Ok(())
}

pub(crate) fn expire(tx: &mut Tx<'_>, cmd: &ExpireOneTimeTokens) -> Result<(), Rejected> {
    let is_over = |row: &&Arc<OneTimeToken>| row.expires_at.is_none_or(|at| at <= cmd.timestamp);
    let over: Vec<AccessorId> = tx.one_time_tokens().filter(is_over).map(|row| row.accessor_id).collect();
    for id in over {
        tx.delete::<tables::OneTimeToken>(&id);
    }
    Ok(())
}

/// Deletes every one-time token.
pub(crate) fn drop_all(tx: &mut Tx<'_>) {
    let all: Vec<AccessorId> = tx.one_time_tokens().map(|row| row.accessor_id).collect();
    for id in all {
        tx.delete::<tables::OneTimeToken>(&id);
    }
}
