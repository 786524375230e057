//! HTTP: routes, wire forms and the event stream. This crate decides what a request means; `projections` decides what
//! a command does.
//!
//! The server behind the API is a trait ([`Server`]) that the shell implements. A handler translates a request to a command or a query,
//! and nothing more; parameters, headers, blocking, paging and compression belong to the layers around it.

pub mod about;
mod background;
pub mod caller;
pub mod error;
mod event;
pub mod http;
pub mod hub;
pub mod keyring;
mod listen;
pub mod monitor;
pub mod openapi;
mod past;
pub mod refill;
mod server;
pub mod sso;
mod sweep;
pub mod touches;
pub mod watch;

pub use background::give_way;
pub use error::{ApiError, Leaderless};
pub use http::is_kept_apart;
pub use http::{Api, Counted, Rate, RateOp, Route, Shared, identity_label, openapi_document, routes, routes_text};
pub use listen::{Answer, Limits, Secure, serve, serve_passed, serve_relayed, serve_task, serve_with};
pub use past::{LoggedCommand, Past, PastError, PastFuture};
pub use server::*;
