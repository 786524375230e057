//! The parts of the server that read what strangers send, identities and archives, and its settings. The same files as
//! in the server, without the rest of it, which takes half an hour to build under a sanitizer.

#![allow(dead_code, reason = "parts of a whole that is not here")]

#[path = "../../server/src"]
mod parts {
    pub mod archive;
    pub mod config;
    pub(crate) mod hex;

    pub(crate) mod keyring {
        pub mod known_key;
        mod material;
    }
}

pub use parts::keyring::known_key::KnownKey;
pub use parts::{archive, config};

pub(crate) use parts::hex;
