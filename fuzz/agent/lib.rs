//! The part of the agent that reads what strangers send: configurations. The same files as in the agent, without the
//! rest of it, which takes half an hour to build under a sanitizer.

#![allow(dead_code, reason = "parts of a whole that is not here")]

#[path = "../../src"]
mod parts {
    pub mod config;
}

pub use parts::config;
pub use songline_model as model;
