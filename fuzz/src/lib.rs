//! The functions that the targets run on an input. Ordinary tests of the crates concerned include these files and play the
//! corpora through them, so what is fuzzed and what is replayed cannot drift apart.

pub mod jwt;
pub mod lang;
pub mod paths;
pub mod template;

#[cfg(feature = "rpc")]
pub mod rpc;
#[cfg(feature = "tables")]
pub mod tables;

#[cfg(feature = "frames")]
pub mod frames;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "server")]
#[path = "../../api/tests/it/place.rs"]
pub mod place;
#[cfg(feature = "server")]
#[path = "../../api/tests/it/server.rs"]
pub mod server;
#[cfg(feature = "server")]
#[path = "../../tests/support/openapi.rs"]
pub mod shapes;
#[cfg(feature = "shell")]
pub mod shell;
