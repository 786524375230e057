//! Bodies, attributes and blocks.

use super::Parser;
use crate::hcl::Range;
use crate::hcl::ast::{Attribute, Block, Body};
use crate::hcl::lex::{Kind, Token};

impl<'a> Parser<'a> {
    pub(super) fn body(&mut self, end: Kind) -> Body {
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
                        Kind::OpenQuote => {
                            self.report_new(bad.range, "Invalid argument name", "Argument names must not be quoted.")
                        }
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
            self.report_new(
                after.range,
                "Missing newline after block definition",
                "A block definition must end with a newline.",
            );
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
            self.report(
                name.range,
                "Argument or block definition required",
                "An argument or block definition is required here.",
            );
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
