//! Errors with their sources as one line of text. Each crate defines its own error types.

use std::error::Error;

/// The error's text followed by those of its sources, separated by colons.
pub fn with_sources(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}
