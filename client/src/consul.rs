//! Consul on this node: the node's description of the local Consul agent, and the services and checks of the provider
//! `consul`, which are registered there. The state machines of allocations decide when; Consul runs the checks, except
//! scripts, which run in tasks of the allocation.

mod agent;
mod definition;
mod fingerprint;
mod registrations;
mod scripts;
mod settings;

pub(crate) use agent::{Agent, Found};
pub(crate) use definition::{Of, ServiceDefinition, check_plans, definitions};
pub(crate) use fingerprint::{PERIOD, Print, print};
pub(crate) use registrations::Registrations;
pub(crate) use scripts::{FindProcess, Scripts};
pub use settings::ConsulSettings;

/// Provider whose services are registered at the node's Consul agent.
pub(crate) const PROVIDER: &str = "consul";

#[cfg(test)]
mod tests;
