//! Errors in single tokens.

use super::{Kind, Token};
use crate::hcl::Diagnostic;

/// Errors in single tokens. Errors that tend to repeat are reported only once.
pub(in crate::hcl) fn complaints(tokens: &[Token<'_>]) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut told = Vec::new();
    for token in tokens {
        let (once, summary, detail) = match token.kind {
            Kind::Bitwise => {
                let instead = match token.text {
                    "&" => " Did you mean boolean AND (\"&&\")?",
                    "|" => " Did you mean boolean OR (\"||\")?",
                    "~" => " Did you mean boolean NOT (\"!\")?",
                    _ => "",
                };
                (true, "Unsupported operator", format!("Bitwise operators are not supported.{instead}"))
            }
            Kind::Backtick => (
                true,
                "Invalid character",
                "The \"`\" character is not valid. To create a multi-line string, use the \"heredoc\" syntax, like \"<<EOT\".".to_string(),
            ),
            Kind::Apostrophe => {
                (true, "Invalid character", "Single quotes are not valid. Use double quotes (\") to enclose strings.".to_string())
            }
            Kind::Semicolon => (
                true,
                "Invalid character",
                "The \";\" character is not valid. Use newlines to separate arguments and blocks, and commas to separate items in collection \
                 values."
                    .to_string(),
            ),
            Kind::QuotedNewline => (
                false,
                "Invalid multi-line string",
                "Quoted strings may not be split over multiple lines. To produce a multi-line string, either use the \\n escape to \
                 represent a newline character or use the \"heredoc\" multi-line template syntax."
                    .to_string(),
            ),
            Kind::Invalid => (false, "Invalid character", "This character is not used within the language.".to_string()),
            _ => continue,
        };
        if once {
            if told.contains(&token.kind) {
                continue;
            }
            told.push(token.kind);
        }
        found.push(Diagnostic::new(token.range, summary, detail));
    }
    found
}
