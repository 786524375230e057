//! Checks of services on this node: their requests as the job file describes them, and the runs of these requests.
//! [`crate::core`] decides when a check runs and what its results mean.
//!
//! A check connects from the agent, as in Nomad: to the allocation's ports, or to the address that the service
//! advertises. Attacks that this stops: a path that names another host, a redirect to anything but HTTP, proxies of
//! the agent's environment, an endless answer (3 KiB are read), an endless request (the timeout includes everything).

mod plan;
mod run;

pub(crate) use plan::plans;
pub(crate) use run::Runs;

#[cfg(test)]
mod tests;
