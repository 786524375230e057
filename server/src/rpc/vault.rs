//! Tokens of Vault for the tasks of a node's allocations.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::try_join_all;
use songline_model::{Allocation, Secret, Str, Task};
use songline_rpc::RpcError;
use songline_rpc::message::{NodeDeriveVaultToken, RecoverableError, VaultTokens};
use songline_rpc::net::Refusal;

use super::dispatch::NodeRpc;
use super::reads::encode;
use crate::vault::{TaskToken, VaultError};

impl NodeRpc {
    /// Creates a token for each of the named tasks. What keeps tasks from having one is part of the answer, so that
    /// the node knows whether to ask again.
    pub(super) async fn derive_vault_token(&self, ask: NodeDeriveVaultToken) -> Result<Bytes, Refusal> {
        if ask.secret_id.is_empty() {
            return Err(RpcError::remote("missing node secret ID").into());
        }
        let view = self.core.view();
        let node = view.node(ask.node_id).ok_or_else(|| RpcError::remote("node not found"))?;
        if node.secret_id != ask.secret_id {
            return Err(RpcError::remote("node secret ID does not match").into());
        }
        let found = self.vault_tokens(&ask).await;
        let (tasks, error) = match found {
            Ok(tasks) => (Some(tasks), None),
            Err((err, recoverable)) => {
                tracing::warn!(alloc = %ask.alloc_id, error = err, "creating Vault tokens");
                (None, Some(RecoverableError { err: err.into(), recoverable }))
            }
        };
        let index = view.applied_index();
        encode(&VaultTokens { tasks, error, index, known_leader: true, ..VaultTokens::default() })
    }

    /// The wrapped tokens by task, or why there are none and whether a later attempt may succeed.
    async fn vault_tokens(&self, ask: &NodeDeriveVaultToken) -> Result<BTreeMap<Str, Secret>, (String, bool)> {
        let lasting = |text: String| (text, false);
        let vault = self.core.facts.config.vault.clone().ok_or_else(|| lasting("Vault is not enabled".to_owned()))?;
        let view = self.core.view();
        let alloc = view.alloc(ask.alloc_id).filter(|alloc| alloc.node_id == Some(ask.node_id));
        let alloc =
            alloc.ok_or_else(|| lasting(format!("allocation {:?} is not on this node", ask.alloc_id.to_string())))?;
        if alloc.terminal() {
            return Err(lasting("can't request Vault token for terminal allocation".to_owned()));
        }
        let names = ask.tasks.iter().flatten();
        let wanted = names.map(|name| {
            let task = alloc.group().and_then(|group| group.task(name));
            let wanted = task.and_then(|task| token_of(alloc, task));
            wanted.map(|wanted| (name, wanted)).ok_or_else(|| lasting(format!("task {name:?} has no vault block")))
        });
        let wanted: Vec<_> = wanted.collect::<Result<_, _>>()?;
        if wanted.is_empty() {
            return Err(lasting("missing task names".to_owned()));
        }
        let vault = &vault;
        let each = wanted.into_iter().map(|(name, wanted)| async move {
            Ok::<_, VaultError>((name.clone(), vault.create_token(wanted).await?))
        });
        let tokens = try_join_all(each).await.map_err(|error| (error.to_string(), error.is_recoverable()))?;
        Ok(tokens.into_iter().collect())
    }
}

/// The token of a task; `None` if it has no `vault` block.
fn token_of(alloc: &Allocation, task: &Task) -> Option<TaskToken> {
    let vault = task.vault.as_ref()?;
    let meta = [
        ("AllocationID", alloc.id.to_string()),
        ("JobID", alloc.job_id.to_string()),
        ("Namespace", alloc.namespace.to_string()),
        ("TaskGroup", alloc.task_group.to_string()),
        ("Task", task.name.to_string()),
        ("NodeID", alloc.node_id.map(|id| id.to_string()).unwrap_or_default()),
    ];
    Some(TaskToken {
        display_name: format!("{}-{}", alloc.id, task.name),
        policies: vault.policies.iter().flatten().cloned().collect(),
        namespace: vault.namespace.clone(),
        meta: meta.into(),
    })
}

#[cfg(test)]
mod tests;
