//! Parser from tokens to the syntax tree: the token stream that all parsers share, and recovery from errors. Bodies are
//! in `parse/body.rs`, expressions in `parse/expression.rs`, strings in `template.rs`.
//!
//! After an error the parser skips to a likely position and continues, but does not report consequences of that error:
//! the number of diagnostics is part of the response.

mod body;
mod expression;

pub(crate) use super::lex::is_name;

use super::ast::{Body, Expression};
use super::lex::{self, Kind, Token};
use super::value::Value;
use super::{Diagnostic, Position, Range};

/// Deepest nesting of blocks, brackets and operators: evaluation and drop recurse to the same depth, on small stacks.
pub(super) const NESTING_DEPTH_MAX: usize = 64;
/// Largest number of operators of one level, or of indexes after one term, in a row: they nest to the left.
const CHAIN_LENGTH_MAX: usize = 128;

/// Parses a text. Returns its body and the diagnostics.
pub(crate) fn body(text: &str, file: &str) -> (Body, Vec<Diagnostic>) {
    let tokens = lex::tokens(text);
    let mut parser = Parser::new(text, &tokens, file);
    parser.diagnostics = lex::complaints(&tokens);
    let body = parser.body(Kind::End);
    (body, parser.diagnostics)
}

/// Parses an expression that begins at `start` in its file, inside `depth` levels. If `template`, the text is a
/// template without quotes.
pub(crate) fn fragment(
    text: &str,
    start: Position,
    template: bool,
    depth: usize,
    file: &str,
) -> (Expression, Vec<Diagnostic>) {
    let tokens = lex::tokens_at(text, start, template);
    let mut parser = Parser { base: start.byte, depth, ..Parser::new(text, &tokens, file) };
    parser.diagnostics = lex::complaints(&tokens);
    let whole = |parser: &mut Parser<'_>| {
        if template {
            return parser.bare_template(start);
        }
        let expression = parser.expression();
        let next = parser.peek();
        if next.kind != Kind::End {
            parser.report_new(
                next.range,
                "Extra characters after expression",
                "An expression was successfully parsed, but extra characters were found after it.",
            );
        }
        expression
    };
    let nothing = |here| Expression::Literal(Value::Unknown, here);
    let expression = parser.deeper(whole, nothing);
    (expression, parser.diagnostics)
}

pub(super) struct Parser<'a> {
    text: &'a str,
    /// Offset in bytes of the text in its file.
    base: usize,
    tokens: &'a [Token<'a>],
    at: usize,
    file: &'a str,
    /// Whether line breaks are tokens, innermost level last.
    newlines: Vec<bool>,
    /// Whether an error was reported, after which the parser's position is a guess.
    pub(super) recovery: bool,
    depth: usize,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, tokens: &'a [Token<'a>], file: &'a str) -> Parser<'a> {
        Parser {
            text,
            base: 0,
            tokens,
            at: 0,
            file,
            newlines: vec![true],
            recovery: false,
            depth: 0,
            diagnostics: Vec::new(),
        }
    }

    // ---- the stream

    /// The next significant token, and the index after it.
    fn look(&self) -> (Token<'a>, usize) {
        let newlines = self.newlines.last().copied().unwrap_or(true);
        let mut at = self.at;
        loop {
            let token = self.tokens[at.min(self.tokens.len() - 1)];
            match token.kind {
                Kind::Comment if newlines && token.text.ends_with('\n') => {
                    return (Token { kind: Kind::Newline, ..token }, at + 1);
                }
                Kind::Comment => at += 1,
                Kind::Newline if !newlines => at += 1,
                _ => return (token, (at + 1).min(self.tokens.len())),
            }
        }
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.look().0
    }

    pub(super) fn peek_kind(&self) -> Kind {
        self.peek().kind
    }

    pub(super) fn read(&mut self) -> Token<'a> {
        let (token, next) = self.look();
        self.at = next;
        token
    }

    pub(super) fn previous(&self) -> Range {
        match self.at.checked_sub(1).and_then(|before| self.tokens.get(before)) {
            Some(token) => token.range,
            None => self.peek().range,
        }
    }

    pub(super) fn source(&self, range: Range) -> &'a str {
        self.text.get(range.start.byte - self.base..range.end.byte - self.base).unwrap_or_default()
    }

    pub(super) fn shown(&self, range: Range) -> String {
        range.shown(self.file)
    }

    pub(super) fn with_newlines<T>(&mut self, matter: bool, parse: impl FnOnce(&mut Self) -> T) -> T {
        self.newlines.push(matter);
        let parsed = parse(self);
        self.newlines.pop();
        parsed
    }

    // ---- errors

    pub(super) fn report(&mut self, range: Range, summary: &str, detail: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(range, summary, detail));
    }

    /// Reports an error, unless it may be a consequence of an earlier one.
    pub(super) fn report_new(&mut self, range: Range, summary: &str, detail: impl Into<String>) {
        if !self.recovery {
            self.report(range, summary, detail);
        }
    }

    /// Runs a parser. Returns its result, and whether it failed and needs recovery.
    pub(super) fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> T) -> (T, bool) {
        let before = self.diagnostics.len();
        let parsed = parse(self);
        (parsed, self.recovery && self.diagnostics.len() > before)
    }

    /// Runs a parser one level deeper; exceeding the bound is an error that ends the parse.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> T, give_up: impl FnOnce(Range) -> T) -> T {
        self.depth += 1;
        if self.depth > NESTING_DEPTH_MAX {
            let here = self.peek().range;
            self.report_new(here, "Nesting too deep", "Expressions and blocks nest deeper than is supported here.");
            self.recovery = true;
            self.at = self.tokens.len() - 1;
            self.depth -= 1;
            return give_up(here);
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Reports an expression that is too long, and ends the parse.
    fn chain_too_long(&mut self) {
        let here = self.peek().range;
        self.report_new(
            here,
            "Expression too long",
            "The expression has more operators in a row than is supported here.",
        );
        self.recovery = true;
        self.at = self.tokens.len() - 1;
    }

    /// Skips past the bracket that closes the open one.
    pub(super) fn recover(&mut self, end: Kind) -> Token<'a> {
        self.recovery = true;
        let mut nest = 0usize;
        loop {
            let token = self.read();
            if same_bracket(token.kind, end) {
                if nest == 0 {
                    return token;
                }
                nest -= 1;
            } else if opens(token.kind, end) {
                nest += 1;
            } else if token.kind == Kind::End {
                return token;
            }
        }
    }

    /// Skips past the line that ends the current item.
    fn recover_item(&mut self) {
        self.recovery = true;
        let mut open: Vec<Kind> = Vec::new();
        loop {
            let token = self.read();
            match token.kind {
                Kind::Newline if open.is_empty() => return,
                Kind::End => return,
                Kind::OpenBrace
                | Kind::OpenBracket
                | Kind::OpenParen
                | Kind::OpenQuote
                | Kind::OpenHeredoc { .. }
                | Kind::Interpolation { .. }
                | Kind::Control { .. } => open.push(token.kind),
                Kind::CloseBrace
                | Kind::CloseBracket
                | Kind::CloseParen
                | Kind::CloseQuote
                | Kind::CloseHeredoc
                | Kind::SequenceEnd { .. } => while open.pop().is_some_and(|opener| !opens(opener, token.kind)) {},
                _ => {}
            }
        }
    }
}

/// Whether two closers are the same bracket, ignoring `~`.
fn same_bracket(kind: Kind, end: Kind) -> bool {
    match (kind, end) {
        (Kind::SequenceEnd { .. }, Kind::SequenceEnd { .. }) => true,
        _ => kind == end,
    }
}

/// Whether `closer` closes `opener`.
fn opens(opener: Kind, closer: Kind) -> bool {
    matches!(
        (opener, closer),
        (Kind::OpenBrace, Kind::CloseBrace)
            | (Kind::OpenBracket, Kind::CloseBracket)
            | (Kind::OpenParen, Kind::CloseParen)
            | (Kind::OpenQuote, Kind::CloseQuote)
            | (Kind::OpenHeredoc { .. }, Kind::CloseHeredoc)
            | (Kind::Interpolation { .. } | Kind::Control { .. }, Kind::SequenceEnd { .. })
    )
}
