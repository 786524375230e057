//! The ACL policy language, and the combined permissions of several policies.
//!
//! A policy's text is parsed to rules; the rules of all of a caller's policies are compiled to one `Acl` that answers
//! permission checks. The caller's identity and list of policies are determined in other crates.

mod capability;
mod compiled;
mod decode;
mod parse;
mod rules;
#[cfg(test)]
mod tests;
mod written;

pub use capability::{
    Access, HostVolumeCapability, NamespaceCapability, NodePoolCapability, UnknownCapability, VariableCapability,
};
pub use compiled::{Acl, Workload};
pub use parse::{PolicyError, parse, written};
pub use rules::{HostVolumeRule, NamespaceRule, NodePoolRule, PathRule, Policy};
pub use written::Written;
