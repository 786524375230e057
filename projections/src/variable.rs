//! Variables: compare-and-set, and the size of a namespace's variables. Rows are ciphertext; decryption is in another
//! crate.

use std::ops::Bound;
use std::sync::Arc;

use songline_commands::ApplyVariable;
use songline_model::{
    NamespaceName, RootKeyId, Str, Variable, VariableKey, VariableMetadata, VariableOp, VariablesQuota,
};

use crate::Outcome;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<VariableKey, Variable> for tables::Variables {
    fn key(row: &Variable) -> VariableKey {
        row.key()
    }

    #[cfg(test)]
    fn in_story(row: &Variable) -> String {
        format!("var:{}", row.meta.path)
    }

    fn reindex(state: &mut State, before: Option<&Arc<Variable>>, after: Option<&Arc<Variable>>) {
        let by_path = |row: &Arc<Variable>| (row.meta.path.clone(), row.meta.namespace.clone());
        crate::index::move_key(&mut state.by.variables_by_path, before.map(by_path), after.map(by_path));
        let by_key = |row: &Arc<Variable>| (row.encrypted.key_id, row.key());
        crate::index::move_key(&mut state.by.variables_by_root_key, before.map(by_key), after.map(by_key));
    }
}

impl Rules<NamespaceName, VariablesQuota> for tables::VariablesQuota {
    fn key(row: &VariablesQuota) -> NamespaceName {
        row.namespace.clone()
    }

    #[cfg(test)]
    fn in_story(row: &VariablesQuota) -> String {
        format!("quota:{}={}", row.namespace, row.size)
    }
}

impl State {
    /// The variable at this path.
    pub fn variable(&self, key: &VariableKey) -> Option<&Arc<Variable>> {
        self.tables.variables.get(key)
    }

    /// All variables, by namespace and path.
    pub fn variables(&self) -> impl DoubleEndedIterator<Item = &Arc<Variable>> {
        self.tables.variables.iter()
    }

    /// The variables of a namespace whose path has this prefix, by path.
    pub fn variables_in(&self, namespace: &str, prefix: &str) -> impl Iterator<Item = &Arc<Variable>> {
        let namespace = NamespaceName::from(namespace);
        let first = VariableKey { namespace: namespace.clone(), path: Str::new(prefix) };
        let same = move |row: &&Arc<Variable>| row.meta.namespace == namespace && row.meta.path.starts_with(prefix);
        self.tables.variables.range(first..).take_while(same)
    }

    /// The variables of every namespace whose path has this prefix, by path and namespace.
    pub fn variables_with_prefix(&self, prefix: &str) -> impl Iterator<Item = &Arc<Variable>> {
        let first = (Str::new(prefix), NamespaceName::default());
        let keys = self.by.variables_by_path.range(first..).take_while(move |(path, _)| path.starts_with(prefix));
        keys.filter_map(|(path, namespace)| {
            self.variable(&VariableKey { namespace: namespace.clone(), path: path.clone() })
        })
    }

    /// The variables that were encrypted with a root key, by namespace and path.
    pub fn variables_of_root_key(&self, id: RootKeyId) -> impl Iterator<Item = &Arc<Variable>> {
        let first = Bound::Included((id, VariableKey::default()));
        let keys =
            self.by.variables_by_root_key.range((first, Bound::Unbounded)).take_while(move |(key, _)| *key == id);
        keys.filter_map(|(_, key)| self.variable(key))
    }

    /// The size of the namespace's variables; `None` if it never had one.
    pub fn variables_quota(&self, namespace: &str) -> Option<&Arc<VariablesQuota>> {
        self.tables.variables_quota.get(&NamespaceName::from(namespace))
    }
}

/// Writes or deletes a variable. A conflict is an outcome, not a refusal: it shows the stored variable, and writes
/// nothing, not even the table's index.
pub(crate) fn apply(tx: &mut Tx<'_>, cmd: &ApplyVariable) -> Result<Outcome, Rejected> {
    let key = cmd.var.key();
    let stored = tx.variable(&key).cloned();
    let conditional = matches!(cmd.op, VariableOp::Cas | VariableOp::DeleteCas);
    let known = cmd.var.meta.modify_index;
    if conditional && known != stored.as_ref().map_or(0, |row| row.meta.modify_index) {
        return Ok(Outcome::VariableConflict(stored.unwrap_or_else(|| Arc::new(Variable::absent(&key)))));
    }
    match cmd.op {
        VariableOp::Set | VariableOp::Cas => write(tx, &cmd.var, stored.as_deref()),
        VariableOp::Delete | VariableOp::DeleteCas => {
            if let Some(row) = stored {
                count(tx, &key.namespace, -length(&row))?;
                tx.delete::<tables::Variables>(&key);
            }
            Ok(Outcome::Done)
        }
    }
}

fn write(tx: &mut Tx<'_>, var: &Variable, stored: Option<&Variable>) -> Result<Outcome, Rejected> {
    // The key may have been deleted since the items were encrypted, which would make them unreadable.
    if tx.root_key(var.encrypted.key_id).is_none() {
        return Err(Rejected::RootKeyUnknown(var.encrypted.key_id));
    }
    let (create_index, create_time) =
        stored.map_or((tx.index(), var.meta.create_time), |row| (row.meta.create_index, row.meta.create_time));
    let meta = VariableMetadata { create_index, create_time, modify_index: tx.index(), ..var.meta.clone() };
    let row = Variable { meta, encrypted: var.encrypted.clone() };
    if let Some(stored) = stored
        && *stored
            == (Variable {
                meta: VariableMetadata { modify_index: stored.meta.modify_index, ..row.meta.clone() },
                ..row.clone()
            })
    {
        return Ok(Outcome::Done);
    }
    count(tx, &row.meta.namespace, length(&row) - stored.map_or(0, length))?;
    let meta = row.meta.clone();
    tx.put::<tables::Variables>(row);
    crate::quota::check(tx)?;
    Ok(Outcome::VariableWritten(meta))
}

fn length(row: &Variable) -> i64 {
    i64::try_from(row.encrypted.data.len()).unwrap_or(i64::MAX)
}

/// Adds to the size of the namespace's variables.
fn count(tx: &mut Tx<'_>, namespace: &NamespaceName, change: i64) -> Result<(), Rejected> {
    if change == 0 {
        return Ok(());
    }
    let stored = tx.variables_quota(namespace).cloned();
    let size = stored.as_ref().map_or(0, |row| row.size).checked_add(change).ok_or(Rejected::VariablesTooLarge)?.max(0);
    let create_index = stored.map_or(tx.index(), |row| row.create_index);
    tx.put::<tables::VariablesQuota>(VariablesQuota {
        namespace: namespace.clone(),
        size,
        create_index,
        modify_index: tx.index(),
    });
    Ok(())
}

#[cfg(test)]
mod tests;
