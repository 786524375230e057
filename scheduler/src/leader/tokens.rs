//! Garbage collection of expired ACL tokens and one-time tokens. A token is invalid from its expiry on; this only
//! deletes the rows.

use songline_commands::{Command, DeleteAclTokens, ExpireOneTimeTokens};
use songline_projections::State;

use songline_model::Time;

/// The commands that delete local and global ACL tokens which have expired by `now` and were created at or before their
/// index of `created_max`, and expired one-time tokens. Bounded: the ACL tokens that expired first go first, the rest at the next collection.
pub fn collect(view: &State, created_max: [u64; 2], now: Time) -> Vec<Command> {
    let mut commands = Vec::new();
    for (global, created_max) in [false, true].into_iter().zip(created_max) {
        let accessor_ids: Vec<_> =
            view.expired_acl_tokens(global, now, created_max).map(|row| row.accessor_id).collect();
        if !accessor_ids.is_empty() {
            commands.push(DeleteAclTokens { accessor_ids }.into());
        }
    }
    if view.one_time_tokens().any(|row| row.expires_at.is_none_or(|at| at <= now)) {
        commands.push(ExpireOneTimeTokens { timestamp: now }.into());
    }
    commands
}

#[cfg(test)]
mod tests;
