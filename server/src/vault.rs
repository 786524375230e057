//! Vault, as the servers use it: the leader creates tokens for the tasks of allocations. Talking to Vault is the
//! program's part.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::future::try_join_all;
use songline_model::{AllocId, Allocation, NodeId, Secret, Str, Task};
use songline_projections::State;
use songline_rpc::{NoVaultToken, WrappedTokens};

/// Answer to [`Vault::create_token`].
pub type Created<'a> = Pin<Box<dyn Future<Output = Result<Secret, VaultError>> + Send + 'a>>;

/// Creates tokens.
pub trait Vault: fmt::Debug + Send + Sync + 'static {
    /// Creates a token and wraps it. The secret is that of the wrapping: the token can be taken out of it once, within
    /// a few minutes.
    fn create_token(&self, wanted: TaskToken) -> Created<'_>;
}

/// A token that a task is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskToken {
    /// Name of the token in Vault's audit.
    pub display_name: String,
    /// Vault's policies that the token has.
    pub policies: Vec<Str>,
    /// Vault's namespace; empty is the one that the server is configured with.
    pub namespace: Str,
    /// Purpose of the token (allocation, job, task, node), kept by Vault beside it.
    pub meta: BTreeMap<&'static str, String>,
}

/// Reason why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Vault gave no answer, is sealed or has no leader: a later attempt may succeed.
    #[error("Vault at {address}: {reason}")]
    Away {
        /// Address of Vault.
        address: String,
        /// The reason.
        reason: String,
    },
    /// Vault refused.
    #[error("Vault refused to create a token: status {status}: {text}")]
    Refused {
        /// Status code.
        status: u16,
        /// Beginning of the answer.
        text: String,
    },
}

impl VaultError {
    /// Whether the same request may succeed later.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}

/// Creates a token for each of these tasks of an allocation on the node.
pub(crate) async fn derive(
    vault: Option<&dyn Vault>,
    view: &State,
    node: NodeId,
    alloc: AllocId,
    tasks: &[Str],
) -> Result<WrappedTokens, NoVaultToken> {
    let for_good = |why: String| NoVaultToken { why: why.into(), recoverable: false };
    let derived = match (vault, wanted(view, node, alloc, tasks)) {
        (None, _) => Err(for_good("Vault is not enabled".to_owned())),
        (Some(_), Err(why)) => Err(for_good(why)),
        (Some(vault), Ok(wanted)) => {
            let each = wanted.into_iter().map(|(name, wanted)| async move {
                Ok::<_, VaultError>((name.clone(), vault.create_token(wanted).await?))
            });
            let all = try_join_all(each).await.map(|tokens| tokens.into_iter().collect());
            all.map_err(|error| NoVaultToken { why: error.to_string().into(), recoverable: error.is_recoverable() })
        }
    };
    derived.inspect_err(|error| tracing::warn!(%alloc, %error, "creating Vault tokens"))
}

/// The tokens that the tasks are to have, or why there are none and never will be.
fn wanted<'a>(
    view: &State,
    node: NodeId,
    alloc: AllocId,
    tasks: &'a [Str],
) -> Result<Vec<(&'a Str, TaskToken)>, String> {
    let row = view.alloc(alloc).filter(|row| row.node_id == Some(node));
    let row = row.ok_or_else(|| format!("allocation {:?} is not on this node", alloc.to_string()))?;
    // An allocation that the servers stop may still have tasks to run: those of the hook poststop.
    if row.client_terminal() {
        return Err("can't request Vault token for terminal allocation".to_owned());
    }
    let of_task = |name: &'a Str| {
        let task = row.group().and_then(|group| group.task(name));
        let wanted = task.and_then(|task| token_of(row, task));
        wanted.map(|wanted| (name, wanted)).ok_or_else(|| format!("task {name:?} has no vault block"))
    };
    let wanted: Vec<_> = tasks.iter().map(of_task).collect::<Result<_, _>>()?;
    if wanted.is_empty() { Err("missing task names".to_owned()) } else { Ok(wanted) }
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
