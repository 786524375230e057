//! The configuration language HCL 2: text to syntax tree to values, with the reference's diagnostics. `jobspec` and
//! `config` know the attributes and blocks.
//!
//! Not an existing crate, because responses to job files have the reference's error texts and positions, and
//! references to names known only at run time (`${attr.cpu.arch}`) must be kept as text.

pub(crate) mod ast;
pub(crate) mod convert;
pub(crate) mod eval;
pub(crate) mod format;
pub(crate) mod functions;
pub(crate) mod json;
mod lex;
mod number;
pub(crate) mod parse;
pub(crate) mod references;
mod scope;
mod suggest;
mod template;
#[cfg(test)]
mod tests;
mod traverse;
pub(crate) mod types;
pub(crate) mod value;

pub(crate) use suggest::suggestion;

/// Position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// Offset in bytes, from 0.
    pub(crate) byte: usize,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Position = Position { byte: 0, line: 1, column: 1 };
}

/// Range in a text; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

impl Range {
    /// From the start of `self` to the end of `last`.
    pub(crate) fn to(self, last: Range) -> Range {
        Range { start: self.start, end: last.end }
    }

    /// The range in a diagnostic: `input.hcl:2,9-13`, or `input.hcl:2,9-3,1`.
    pub(crate) fn shown(self, file: &str) -> String {
        let (start, end) = (self.start, self.end);
        if start.line == end.line {
            format!("{file}:{},{}-{}", start.line, start.column, end.column)
        } else {
            format!("{file}:{},{}-{},{}", start.line, start.column, end.line, end.column)
        }
    }
}

/// One error in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// Range of the error; `None` if it has none.
    pub(crate) range: Option<Range>,
    pub(crate) summary: String,
    pub(crate) detail: String,
}

impl Diagnostic {
    pub(crate) fn new(range: Range, summary: impl Into<String>, detail: impl Into<String>) -> Diagnostic {
        Diagnostic { range: Some(range), summary: summary.into(), detail: detail.into() }
    }

    /// A diagnostic without a range.
    pub(crate) fn nowhere(summary: impl Into<String>, detail: impl Into<String>) -> Diagnostic {
        Diagnostic { range: None, summary: summary.into(), detail: detail.into() }
    }

    /// The diagnostic as an item of a list of several.
    pub(crate) fn as_item(&self, file: &str) -> String {
        let place = self.range.map(|range| format!(" (at {})", range.shown(file))).unwrap_or_default();
        format!("- {}{place}\n  {}\n", self.summary, self.detail)
    }

    /// `place: summary; detail`.
    pub(crate) fn shown(&self, file: &str) -> String {
        let place = self.range.map_or_else(|| "<nil>".to_string(), |range| range.shown(file));
        format!("{place}: {}; {}", self.summary, self.detail)
    }
}

/// The first diagnostic, and the number of others.
pub(crate) fn first_of(diagnostics: &[Diagnostic], file: &str) -> String {
    match diagnostics {
        [] => "no diagnostics".to_string(),
        [only] => only.shown(file),
        [first, others @ ..] => format!("{}, and {} other diagnostic(s)", first.shown(file), others.len()),
    }
}
