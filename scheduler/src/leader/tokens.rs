//! ACL tokens past their time, and one-time tokens past theirs. A token is nobody's from its end on; here it is only swept up.

use songline_commands::{Command, DeleteAclTokens, ExpireOneTimeTokens};
use songline_projections::State;

use songline_model::Time;

/// The commands that drop tokens which have expired by `now` and were made at or before the index `created_max`, and one-time tokens that
/// have expired. Of the tokens only so many go at once, those that expired first before the others.
pub fn collect(view: &State, created_max: u64, now: Time) -> Vec<Command> {
    let mut commands = Vec::new();
    for global in [false, true] {
        let accessor_ids: Vec<_> = view.expired_acl_tokens(global, now, created_max).map(|row| row.accessor_id).collect();
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
