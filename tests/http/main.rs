//! Tests of the whole: a running agent, real processes, and HTTP as users and tools use it. Not here: all variants of
//! single routes, which the recorded conversations of `tests/conformance` cover.

mod acl;
#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
mod cli;
mod cli_calls;
mod cli_jobs;
mod clients;
mod dev;
mod eval;
mod events;
mod exec;
mod export_history;
#[path = "../support/exposition.rs"]
mod exposition;
mod federation;
#[path = "../support/fleet.rs"]
mod fleet;
mod history;
mod hostile;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod isolation;
mod job;
mod login;
mod metrics;
mod monitor;
mod multiregion;
mod node;
mod on_terminal;
mod openapi;
mod planted;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
mod quota;
mod refusals;
mod regions;
mod reload;
mod replay;
mod restored;
mod secrets;
#[path = "../support/openapi.rs"]
mod shapes;
mod sinks;
mod snapshots;
mod story;
mod task_api;
mod tls;
mod trust;
mod vault;
#[path = "../support/vault.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod vault_api;
