//! Projections over applied entries that are no tables: change events and their durable history, the record of what
//! entries did to objects, and the watches of blocking queries. All of them can be computed again from the log.
//!
//! The shell publishes every applied entry to these; nothing here writes to the log. Routes, tokens and connections are
//! not here: `api` has those.

pub mod background;
pub mod entry;
mod event;
pub mod hub;
mod keys;
mod nouns;
pub mod object_history;
pub mod past;
pub mod refill;
mod sweep;
pub mod watch;

pub use keys::{Folder, MemoryFolder};
