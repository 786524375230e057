//! Claims, keys and logins: signed tokens of other issuers, logins by their claims, and the identities of this
//! cluster's own tasks. Pure functions: no key is fetched, generated or stored here, and no clock is
//! read.

pub mod jwt;
pub mod login;
pub mod workload;
