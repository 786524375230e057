//! Errors as one line of text: what went wrong, and because of what. Which errors there are is everybody's own.

use std::error::Error;

/// What an error says, and what each of those that led to it says, with colons between.
pub fn with_sources(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}
