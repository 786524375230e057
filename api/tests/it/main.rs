//! The API over a server that applies commands at once and has no log.

mod acl;
mod auth_methods;
mod autopilot;
mod blocking;
mod bodies;
mod bounded;
mod callers;
mod cluster;
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
mod csi;
mod deliberate;
mod early;
mod eval;
mod event_sink;
mod every_list;
mod federation;
mod forward;
#[path = "../../../fuzz/src/frames.rs"]
mod frames;
mod hostile;
#[path = "../../../fuzz/src/http.rs"]
mod http;
mod identity;
mod job;
mod listen;
mod lists;
mod login;
mod matrix;
mod multiregion;
mod namespace;
mod node;
mod periodic;
mod place;
mod provider;
mod quota;
mod record;
mod refusals;
mod rights;
mod routes;
mod run_once;
mod search;
mod server;
mod service_registration;
#[path = "../../../tests/support/openapi.rs"]
mod shapes;
mod storage;
mod stream;
mod variable;
mod weaknesses;
mod what_if;
mod world;
