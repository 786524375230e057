//! Regular expressions of filters, constraints and templates. Users write the syntax of Go's `regexp` package (RE2);
//! `translate` rewrites it to the syntax of the `regex` crate, and refuses what Go refuses with Go's error texts.

mod class;
mod escape;
mod source;
#[cfg(test)]
mod tests;
mod translate;
mod unicode;

use regex::{Regex, RegexBuilder};

use translate::translate;

/// Largest size of a compiled expression in bytes.
const COMPILED_BYTES_MAX: usize = 10 << 20;

/// Longest expression in bytes. The parser of the `regex` crate allocates about 400 bytes for each, before
/// `COMPILED_BYTES_MAX` counts.
const EXPRESSION_BYTES_MAX: usize = 128 << 10;

/// Most Unicode classes in an expression. The parser of the `regex` crate expands each to hundreds of ranges, before
/// `COMPILED_BYTES_MAX` counts.
const UNICODE_CLASSES_MAX: usize = 1000;

/// Compiles an expression that matches anywhere in a text.
pub fn compile(expression: &str) -> Result<Regex, Error> {
    compile_within(expression, COMPILED_BYTES_MAX)
}

/// Compiles an expression as [`compile`] does, and refuses one whose compiled form takes more than `bytes_max`.
pub(crate) fn compile_within(expression: &str, bytes_max: usize) -> Result<Regex, Error> {
    let unicode_classes = expression.matches(r"\p").count() + expression.matches(r"\P").count();
    if expression.len() > EXPRESSION_BYTES_MAX || unicode_classes > UNICODE_CLASSES_MAX {
        return Err(Error::new(Mistake::TooLarge, expression));
    }
    RegexBuilder::new(&translate(expression)?).size_limit(bytes_max).build().map_err(|error| {
        let mistake = match error {
            regex::Error::CompiledTooBig(_) => Mistake::TooLarge,
            _ => Mistake::Internal,
        };
        Error::new(mistake, expression)
    })
}

/// An expression was refused; displays as `error parsing regexp: ..`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {mistake}: `{part}`")]
pub struct Error {
    mistake: Mistake,
    /// The part of the expression that the mistake is about.
    part: String,
}

impl Error {
    fn new(mistake: Mistake, part: impl Into<String>) -> Self {
        Self { mistake, part: part.into() }
    }

    /// Whether the expression is valid but takes too much memory.
    pub(crate) fn is_too_large(&self) -> bool {
        self.mistake == Mistake::TooLarge
    }
}

/// Mistakes in an expression, with the texts of Go's `syntax.ErrorCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Mistake {
    #[error("invalid character class range")]
    CharRange,
    #[error("invalid escape sequence")]
    Escape,
    /// `translate` wrote text that the `regex` crate refuses: a defect here, not of the user.
    #[error("regexp/syntax: internal error")]
    Internal,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("missing closing )")]
    MissingParen,
    #[error("missing argument to repetition operator")]
    MissingRepeatArgument,
    #[error("invalid named capture")]
    NamedCapture,
    #[error("expression nests too deeply")]
    NestingDepth,
    #[error("invalid or unsupported Perl syntax")]
    PerlSyntax,
    #[error("invalid nested repetition operator")]
    RepeatOp,
    #[error("invalid repeat count")]
    RepeatSize,
    #[error("expression too large")]
    TooLarge,
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("unexpected )")]
    UnexpectedParen,
}
