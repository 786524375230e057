//! HTTP: listeners, routes, and the layers around handlers. This crate decides what a request means; `projections`
//! decides what a command does, `wire` has the JSON forms, and `events` the streams and the record that routes read.
//!
//! The server behind the API is a trait ([`Server`]) that the shell implements. A handler translates a request to a
//! command or a query, and nothing more; parameters, headers, blocking, paging and compression belong to the layers
//! around it.

pub mod about;
pub mod caller;
pub mod error;
pub mod http;
pub mod keyring;
mod listen;
pub mod monitor;
pub mod openapi;
mod server;
pub mod sso;
mod ui;

pub use error::{ApiError, Leaderless};
pub use http::ask_region::{NoAnswer, OfRegion, ToRegion, ask_region, query_value};
pub use http::is_kept_apart;
pub use http::{
    Api, Counted, Encoding, NODE_RPC_TYPE, OnlyNew, Rate, RateOp, Route, Shared, identity_label, openapi_document,
    routes, routes_text,
};
pub use listen::{
    Answer, Answering, ForTask, Limits, Secure, serve, serve_passed, serve_relayed, serve_task, serve_with,
};
pub use server::*;
pub use ui::{UiLabel, UiSettings};
