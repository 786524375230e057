//! The API over a server that applies commands at once and has no log.

mod autopilot;
mod blocking;
mod cluster;
mod csi;
mod evals;
mod every_list;
mod identity;
mod jobs;
mod listen;
mod lists;
mod namespaces;
mod periodic;
mod routes;
mod search;
mod server;
mod services;
#[path = "../../../tests/support/openapi.rs"]
mod shapes;
mod stream;
mod variables;
