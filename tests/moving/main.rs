//! Moving over from Nomad: archives of it are imported, and every answer afterwards is compared with its own; a cluster
//! moves while its nodes keep running. Not here: nodes of Nomad, which `tests/cluster` and the tests of the node RPC have.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
mod cli;
mod expected;
mod hostile;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod importing;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
mod running;
