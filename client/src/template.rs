//! Templates of tasks: files that are rendered before a task starts, and again whenever an answer of the servers changes.
//!
//! One worker for each task renders ([`render`]), asks the servers ([`answers`]) with the task's own identity, the node's
//! Consul agent ([`consul`]) with the agent's token and Vault ([`secrets`]) with the task's token, writes files ([`plan`]
//! says where), and tells the task's state machine what has changed. The language is `songline_lang::template`.

mod answers;
mod change;
mod consul;
mod env_file;
mod plan;
mod reads;
mod render;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;
mod worker;

pub use reads::{ReadAnswer, ServerReads};
pub use settings::{Retry, TemplateSettings};

pub(crate) use plan::{Dirs, Plan, plan};
pub(crate) use secrets::ReadsVault;
pub(crate) use worker::{Hooks, Rendering, Task as TaskTemplates, rendered, start};

use std::sync::Arc;

/// The reads of an agent that has no servers to ask.
pub(crate) type Reads = Option<Arc<dyn ServerReads>>;
