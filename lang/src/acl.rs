//! The language of ACL policies, and what several policies together allow.
//!
//! A policy's text becomes rules, and the rules of all of a caller's policies become one `Acl` that answers questions. Who the caller is,
//! and which policies are his, is not here.

mod capability;
mod compiled;
mod decode;
mod parse;
mod rules;
#[cfg(test)]
mod tests;
mod written;

pub use capability::{Access, HostVolumeCapability, NamespaceCapability, NodePoolCapability, UnknownCapability, VariableCapability};
pub use compiled::{Acl, Workload};
pub use parse::{PolicyError, parse, written};
pub use rules::{HostVolumeRule, NamespaceRule, NodePoolRule, PathRule, Policy};
pub use written::Written;
