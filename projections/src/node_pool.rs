//! Node pools. Whether another region still uses a pool is checked before a deletion is proposed.

use std::sync::Arc;

use songline_commands::{DeleteNodePools, UpsertNodePools};
use songline_model::{ALL_NODE_POOL, DEFAULT_NODE_POOL, NodePool, NodePoolName};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<NodePoolName, NodePool> for tables::NodePools {
    fn key(row: &NodePool) -> NodePoolName {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &NodePool) -> String {
        format!("pool:{}", row.name)
    }
}

impl State {
    /// The pool of this name.
    pub fn node_pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.tables.node_pools.get(&NodePoolName::from(name))
    }

    /// All pools, by name.
    pub fn node_pools(&self) -> impl DoubleEndedIterator<Item = &Arc<NodePool>> {
        self.tables.node_pools.iter()
    }
}

fn is_built_in(name: &NodePoolName) -> bool {
    *name == ALL_NODE_POOL || *name == DEFAULT_NODE_POOL
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertNodePools) -> Result<(), Rejected> {
    for node_pool in &cmd.node_pools {
        if is_built_in(&node_pool.name) {
            return Err(Rejected::NodePoolBuiltIn(node_pool.name.clone()));
        }
        let create_index = tx.node_pool(&node_pool.name).map_or(tx.index(), |stored| stored.create_index);
        let row = NodePool { create_index, modify_index: tx.index(), ..node_pool.clone() };
        tx.put::<tables::NodePools>(row);
    }
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteNodePools) -> Result<(), Rejected> {
    for name in &cmd.names {
        if tx.node_pool(name).is_none() {
            return Err(Rejected::NodePoolNotFound(name.clone()));
        }
        if is_built_in(name) {
            return Err(Rejected::NodePoolDeleteBuiltIn(name.clone()));
        }
        tx.delete::<tables::NodePools>(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
