//! A whole node agent with fake servers in the same process: real processes, real files, real restarts.

mod artifacts;
mod attacks;
mod bridge;
mod cgroups;
mod consul;
mod consul_api;
mod consul_store;
mod consul_templates;
mod escapes;
mod fake;
mod fs;
mod identity;
mod isolation;
mod java;
mod lifecycle;
mod meta;
mod mock;
mod previous;
mod qemu;
mod raw_exec;
mod reattach;
mod restored;
mod services;
mod session;
mod storm;
mod vault;
#[path = "../../../tests/support/vault.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod vault_api;
mod volumes;
