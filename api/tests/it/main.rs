//! The API over a server that applies commands at once and has no log.

mod autopilot;
mod blocking;
mod cluster;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
mod csi;
mod evals;
mod hostile;
#[path = "../../../fuzz/src/http.rs"]
mod http;
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
mod stream;
mod variables;
