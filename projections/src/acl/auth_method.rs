//! Auth methods, at most one of which is the default.

use std::sync::Arc;

use songline_commands::{DeleteAclAuthMethods, UpsertAclAuthMethods};
use songline_model::{AclAuthMethod, Str, Time};

use super::{is_hash, present};
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<Str, AclAuthMethod> for tables::AclAuthMethods {
    fn key(row: &AclAuthMethod) -> Str {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &AclAuthMethod) -> String {
        format!("method:{}", row.name)
    }
}

impl State {
    /// The auth method of this name.
    pub fn acl_auth_method(&self, name: &str) -> Option<&Arc<AclAuthMethod>> {
        self.tables.acl_auth_methods.get(&Str::new(name))
    }

    /// All auth methods, by name.
    pub fn acl_auth_methods(&self) -> impl DoubleEndedIterator<Item = &Arc<AclAuthMethod>> {
        self.tables.acl_auth_methods.iter()
    }

    /// The auth method of a login that names none.
    pub fn default_acl_auth_method(&self) -> Option<&Arc<AclAuthMethod>> {
        self.acl_auth_methods().find(|method| method.default)
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertAclAuthMethods) -> Result<(), Rejected> {
    for method in &cmd.auth_methods {
        present("auth method", "name", !method.name.is_empty())?;
        present("auth method", "hash", is_hash(method.hash.as_ref()))?;
        present("auth method", "create time", method.create_time != Time::default())?;
        present("auth method", "modify time", method.modify_time != Time::default())?;
        if method.default
            && let Some(default) = tx.default_acl_auth_method().filter(|default| default.name != method.name)
        {
            return Err(Rejected::AclAuthMethodDefaultTaken(default.name.clone()));
        }
        let stored = tx.acl_auth_method(&method.name);
        if stored.is_some_and(|stored| stored.hash == method.hash) {
            continue;
        }
        let (create_index, create_time) =
            stored.map_or((tx.index(), method.create_time), |stored| (stored.create_index, stored.create_time));
        let row = AclAuthMethod { create_index, create_time, modify_index: tx.index(), ..method.clone() };
        tx.put::<tables::AclAuthMethods>(row);
    }
    Ok(())
}

/// Deletes auth methods. Their binding rules stay, without effect.
pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteAclAuthMethods) -> Result<(), Rejected> {
    for name in &cmd.names {
        if !tx.delete::<tables::AclAuthMethods>(name) {
            return Err(Rejected::AclAuthMethodNotFound);
        }
    }
    Ok(())
}
