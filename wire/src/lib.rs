//! JSON forms of objects that differ from their rows: list stubs, derived fields, bodies of requests and responses.
//! Answers of the HTTP API and events use the same forms. The rows themselves are in `model`; routes and streams are
//! elsewhere.

pub mod acl;
pub mod alloc;
pub mod csi;
pub mod deployment;
mod display;
pub mod eval;
pub mod event_sink;
pub mod go_time;
pub mod job;
pub mod node;
pub mod quota;
pub mod responses;
pub mod sso;
pub mod work;
