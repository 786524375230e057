//! The API over a server that applies commands at once and has no log.

mod blocking;
mod cluster;
mod evals;
mod jobs;
mod listen;
mod lists;
mod namespaces;
mod routes;
mod search;
mod server;
mod stream;
