//! Binding rules, indexed by id and by auth method.

use std::sync::Arc;

use songline_commands::{DeleteAclBindingRules, UpsertAclBindingRules};
use songline_model::{AclBindingRule, BindingRuleId, Str, Time};

use super::{is_hash, present};
use crate::index::move_key;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<BindingRuleId, AclBindingRule> for tables::AclBindingRules {
    fn key(row: &AclBindingRule) -> BindingRuleId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &AclBindingRule) -> String {
        format!("rule:{}", crate::story::name(row.id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<AclBindingRule>>, after: Option<&Arc<AclBindingRule>>) {
        let method = |row: &Arc<AclBindingRule>| (row.auth_method.clone(), row.id);
        move_key(&mut state.by.acl.rules_by_method, before.map(method), after.map(method));
    }
}

impl State {
    /// The binding rule of this id.
    pub fn acl_binding_rule(&self, id: BindingRuleId) -> Option<&Arc<AclBindingRule>> {
        self.tables.acl_binding_rules.get(&id)
    }

    /// All binding rules, by id.
    pub fn acl_binding_rules(&self) -> impl DoubleEndedIterator<Item = &Arc<AclBindingRule>> {
        self.tables.acl_binding_rules.iter()
    }

    /// The binding rules of an auth method, by id.
    pub fn acl_binding_rules_of_method<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Arc<AclBindingRule>> {
        let start = (Str::new(method), BindingRuleId::NIL);
        let of_method = self.by.acl.rules_by_method.range(start..).take_while(move |(of, _)| of == method);
        of_method.filter_map(|(_, id)| self.acl_binding_rule(*id))
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertAclBindingRules) -> Result<(), Rejected> {
    for rule in &cmd.binding_rules {
        present("binding rule", "ID", !rule.id.is_nil())?;
        present("binding rule", "hash", is_hash(rule.hash.as_ref()))?;
        present("binding rule", "create time", rule.create_time != Time::default())?;
        present("binding rule", "modify time", rule.modify_time != Time::default())?;
        if !cmd.allow_missing_auth_methods && tx.acl_auth_method(&rule.auth_method).is_none() {
            return Err(Rejected::AclBindingRuleMethodMissing);
        }
        let stored = tx.acl_binding_rule(rule.id);
        if stored.is_some_and(|stored| stored.hash == rule.hash) {
            continue;
        }
        let (create_index, create_time) =
            stored.map_or((tx.index(), rule.create_time), |stored| (stored.create_index, stored.create_time));
        let row = AclBindingRule { create_index, create_time, modify_index: tx.index(), ..rule.clone() };
        tx.put::<tables::AclBindingRules>(row);
    }
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteAclBindingRules) -> Result<(), Rejected> {
    for id in &cmd.ids {
        if !tx.delete::<tables::AclBindingRules>(id) {
            return Err(Rejected::AclBindingRuleNotFound);
        }
    }
    Ok(())
}
