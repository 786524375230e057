//! The parts of the agent that read what strangers send: configurations, identities, archives. The same files as in the agent, without the
//! server and the node around them, which take half an hour to build under a sanitizer.

#![allow(dead_code, reason = "parts of a whole that is not here")]

#[path = "../../src"]
mod parts {
    pub mod archive;
    pub mod config;
    pub(crate) mod hex;

    pub mod server {
        pub(crate) mod keyring {
            pub mod known_key;
            mod material;
        }
    }
}

pub use parts::{archive, config};
pub use songline_model as model;

pub(crate) use parts::hex;

/// As the agent shows them.
pub mod server {
    pub use crate::parts::server::keyring::known_key::KnownKey;
}
