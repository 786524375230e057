//! Parser from tokens to the syntax tree: bodies, attributes, blocks, and the token stream that all parsers share.
//! Expressions are in `parse/expression.rs`, strings in `template.rs`.
//!
//! After an error the parser skips to a likely position and continues, but does not report consequences of that error:
//! the number of diagnostics is part of the response.

mod expression;

pub(crate) use super::lex::is_name;

use super::ast::{Attribute, Block, Body, Expression};
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
pub(crate) fn fragment(text: &str, start: Position, template: bool, depth: usize, file: &str) -> (Expression, Vec<Diagnostic>) {
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
        Parser { text, base: 0, tokens, at: 0, file, newlines: vec![true], recovery: false, depth: 0, diagnostics: Vec::new() }
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
        self.report_new(here, "Expression too long", "The expression has more operators in a row than is supported here.");
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

    // ---- bodies

    fn body(&mut self, end: Kind) -> Body {
        self.deeper(|parser| parser.body_items(end), |_| Body::default())
    }

    fn body_items(&mut self, end: Kind) -> Body {
        let start = self.previous().start;
        let mut body = Body { missing: Some(Range { start, end: start }), ..Body::default() };
        loop {
            let next = self.peek();
            if next.kind == end {
                self.read();
                return body;
            }
            match next.kind {
                Kind::Newline => {
                    self.read();
                }
                Kind::Identifier => self.body_item(&mut body),
                _ => {
                    let bad = self.read();
                    match bad.kind {
                        Kind::OpenQuote => self.report_new(bad.range, "Invalid argument name", "Argument names must not be quoted."),
                        _ => self.report_new(
                            bad.range,
                            "Argument or block definition required",
                            "An argument or block definition is required here.",
                        ),
                    }
                    self.recover(end);
                    return body;
                }
            }
        }
    }

    fn body_item(&mut self, body: &mut Body) {
        let name = self.read();
        match self.peek_kind() {
            Kind::Equal => {
                let attribute = self.attribute(name, false);
                if let Some(existing) = body.attribute(&attribute.name) {
                    let detail = format!(
                        "The argument {:?} was already set at {}. Each argument may be set only once.",
                        attribute.name,
                        self.shown(existing.name_range)
                    );
                    self.report(attribute.name_range, "Attribute redefined", detail);
                } else {
                    body.attributes.push(attribute);
                }
            }
            Kind::OpenQuote | Kind::OpenBrace | Kind::Identifier => {
                if let Some(block) = self.block(name) {
                    body.blocks.push(block);
                }
            }
            _ => {
                self.recover_item();
                self.missing_definition(name);
            }
        }
    }

    fn missing_definition(&mut self, name: Token<'a>) {
        self.report(
            name.range,
            "Argument or block definition required",
            "An argument or block definition is required here. To set an argument, use the equals sign \"=\" to introduce the argument value.",
        );
    }

    fn attribute(&mut self, name: Token<'a>, single_line: bool) -> Attribute {
        self.read();
        let (expression, lost) = self.attempt(Self::expression);
        let range = name.range.to(self.previous());
        if lost {
            self.recover_item();
        } else if !single_line {
            let end = self.peek();
            if matches!(end.kind, Kind::Newline | Kind::End) {
                self.read();
            } else {
                let (summary, detail) = if end.kind == Kind::Comma {
                    (
                        "Unexpected comma after argument",
                        "Argument definitions must be separated by newlines, not commas. An argument definition must end with a newline.",
                    )
                } else {
                    ("Missing newline after argument", "An argument definition must end with a newline.")
                };
                self.report_new(end.range, summary, detail);
                self.recover_item();
            }
        }
        Attribute { name: name.text.to_string(), expression, range, name_range: name.range }
    }

    fn block(&mut self, kind: Token<'a>) -> Option<Block> {
        let mut labels = Vec::new();
        let open_brace = loop {
            let next = self.peek();
            match next.kind {
                Kind::OpenBrace => break self.read().range,
                Kind::OpenQuote => labels.push(self.quoted_label()),
                Kind::Identifier => {
                    self.read();
                    labels.push((next.text.to_string(), next.range));
                }
                _ => {
                    self.bad_header(next);
                    self.recover_item();
                    return None;
                }
            }
        };
        let body = match self.peek_kind() {
            Kind::Newline | Kind::End | Kind::CloseBrace => self.body(Kind::CloseBrace),
            _ => self.single_attribute_body(),
        };
        let after = self.peek();
        if matches!(after.kind, Kind::Newline | Kind::End) {
            self.read();
        } else {
            self.report_new(after.range, "Missing newline after block definition", "A block definition must end with a newline.");
            self.recover_item();
        }
        Some(Block { kind: kind.text.to_string(), labels, body, kind_range: kind.range, open_brace })
    }

    fn bad_header(&mut self, next: Token<'a>) {
        const SUMMARY: &str = "Invalid block definition";
        match next.kind {
            Kind::Equal => self.report(
                next.range,
                SUMMARY,
                "The equals sign \"=\" indicates an argument definition, and must not be used when defining a block.",
            ),
            Kind::Newline => self.report(
                next.range,
                SUMMARY,
                "A block definition must have block content delimited by \"{\" and \"}\", starting on the same line as the block header.",
            ),
            _ => self.report_new(next.range, SUMMARY, "Either a quoted string block label or an opening brace (\"{\") is expected here."),
        }
    }

    /// Parses a body on the line of its block: one attribute, then the closing brace.
    fn single_attribute_body(&mut self) -> Body {
        const SUMMARY: &str = "Invalid single-argument block definition";
        let before = self.diagnostics.len();
        let mut body = Body::default();
        if let Some(attribute) = self.single_attribute() {
            body.missing = Some(Range { start: attribute.range.start, end: attribute.range.start });
            body.attributes.push(attribute);
        }
        // Errors at the end of the block are reported before those inside.
        let inside = self.diagnostics.split_off(before);
        let next = self.peek();
        match next.kind {
            Kind::CloseBrace => {
                self.read();
            }
            Kind::Comma => {
                self.report(
                    next.range,
                    SUMMARY,
                    "Single-line block syntax can include only one argument definition. To define multiple arguments, use the multi-line \
                     block syntax with one argument definition per line.",
                );
                self.recover(Kind::CloseBrace);
            }
            Kind::Newline => {
                self.report(
                    next.range,
                    SUMMARY,
                    "An argument definition on the same line as its containing block creates a single-line block definition, which must \
                     also be closed on the same line. Place the block's closing brace immediately after the argument definition.",
                );
                self.recover(Kind::CloseBrace);
            }
            _ => {
                self.report_new(
                    next.range,
                    SUMMARY,
                    "A single-line block definition must end with a closing brace immediately after its single argument definition.",
                );
                self.recover(Kind::CloseBrace);
            }
        }
        self.diagnostics.extend(inside);
        body
    }

    fn single_attribute(&mut self) -> Option<Attribute> {
        let name = self.read();
        if name.kind != Kind::Identifier {
            self.recover_item();
            self.report(name.range, "Argument or block definition required", "An argument or block definition is required here.");
            return None;
        }
        let next = self.peek();
        match next.kind {
            Kind::Equal => Some(self.attribute(name, true)),
            Kind::OpenQuote | Kind::OpenBrace | Kind::Identifier => {
                self.recover_item();
                let detail = format!(
                    "A single-line block definition can contain only a single argument. If you meant to define argument {:?}, use an equals \
                     sign to assign it a value. To define a nested block, place it on a line of its own within its parent block.",
                    name.text
                );
                self.report(name.range.to(next.range), "Argument definition required", detail);
                None
            }
            _ => {
                self.recover_item();
                self.missing_definition(name);
                None
            }
        }
    }

    fn quoted_label(&mut self) -> (String, Range) {
        let open = self.read();
        let mut text = String::new();
        let mut end = open.range;
        loop {
            let token = self.read();
            match token.kind {
                Kind::CloseQuote => {
                    end = token.range;
                    break;
                }
                Kind::QuotedLiteral => text.push_str(&self.unescape(token)),
                Kind::Interpolation { .. } | Kind::Control { .. } => {
                    let which = if matches!(token.kind, Kind::Interpolation { .. }) { "$" } else { "%" };
                    let detail = format!(
                        "Template sequences are not allowed in this string. To include a literal {which:?}, double it (as \"{which}{which}\") \
                         to escape it."
                    );
                    self.report(token.range, "Invalid string literal", detail);
                    text.push_str(which);
                    text.push_str("{ ... }");
                    self.recover(Kind::SequenceEnd { trim: false });
                }
                Kind::End => {
                    self.report(
                        token.range,
                        "Unterminated string literal",
                        "Unable to find the closing quote mark before the end of the file.",
                    );
                    break;
                }
                _ => {
                    self.report(token.range, "Invalid string literal", "This item is not valid in a string literal.");
                    self.recover(Kind::CloseQuote);
                    break;
                }
            }
        }
        (text, open.range.to(end))
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
