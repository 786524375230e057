//! ACL roles: unique by name, indexed by id and by name.

use std::sync::Arc;

use songline_commands::{DeleteAclRoles, UpsertAclRoles};
use songline_model::{AclRole, RoleId, Str};

use super::{is_hash, present};
use crate::index::move_key;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<RoleId, AclRole> for tables::AclRoles {
    fn key(row: &AclRole) -> RoleId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &AclRole) -> String {
        format!("role:{}", crate::story::name(row.id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<AclRole>>, after: Option<&Arc<AclRole>>) {
        let name = |row: &Arc<AclRole>| (row.name.clone(), row.id);
        move_key(&mut state.by.acl.roles_by_name, before.map(name), after.map(name));
    }
}

impl State {
    /// The role of this id.
    pub fn acl_role(&self, id: RoleId) -> Option<&Arc<AclRole>> {
        self.tables.acl_roles.get(&id)
    }

    /// The role of this name.
    pub fn acl_role_by_name(&self, name: &str) -> Option<&Arc<AclRole>> {
        let (found, id) = self.by.acl.roles_by_name.range((Str::new(name), RoleId::NIL)..).next()?;
        if found == name { self.acl_role(*id) } else { None }
    }

    /// All roles, by id.
    pub fn acl_roles(&self) -> impl DoubleEndedIterator<Item = &Arc<AclRole>> {
        self.tables.acl_roles.iter()
    }
}

/// Creates or updates roles. Policies and names are checked again here: another entry may have deleted a policy or
/// taken a name since the proposer checked.
pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertAclRoles) -> Result<(), Rejected> {
    for role in &cmd.roles {
        present("role", "ID", !role.id.is_nil())?;
        present("role", "name", !role.name.is_empty())?;
        present("role", "hash", is_hash(role.hash.as_ref()))?;
        if !cmd.allow_missing_policies && role.policy_names().any(|name| tx.acl_policy(name).is_none()) {
            return Err(Rejected::AclPolicyNotFound);
        }
        if tx.acl_role_by_name(&role.name).is_some_and(|holder| holder.id != role.id) {
            return Err(Rejected::AclRoleNameTaken(role.name.clone()));
        }
        let stored = tx.acl_role(role.id);
        if stored.is_some_and(|stored| stored.hash == role.hash) {
            continue;
        }
        let create_index = stored.map_or(tx.index(), |stored| stored.create_index);
        let row = AclRole { create_index, modify_index: tx.index(), ..role.clone() };
        tx.put::<tables::AclRoles>(row);
    }
    Ok(())
}

/// Deletes roles. Tokens keep their links, which reads of a token leave out.
pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteAclRoles) -> Result<(), Rejected> {
    for id in &cmd.ids {
        if !tx.delete::<tables::AclRoles>(id) {
            return Err(Rejected::AclRoleNotFound);
        }
    }
    Ok(())
}
