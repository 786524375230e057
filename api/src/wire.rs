//! Wire forms that differ from the rows: list stubs, derived fields, request bodies, events. The rows themselves are
//! in `model`.

pub mod acl;
pub mod alloc;
pub mod csi;
pub mod deployment;
mod display;
pub mod eval;
pub mod event;
pub mod go_time;
pub mod job;
pub mod node;
pub mod responses;
pub mod sso;
pub mod work;
