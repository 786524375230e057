//! Tuples, objects and `for` expressions.

use super::placeholder;
use crate::hcl::Range;
use crate::hcl::ast::{Expression, ForExpression};
use crate::hcl::lex::{Kind, Token};
use crate::hcl::parse::Parser;

impl<'a> Parser<'a> {
    fn starts_for(&self) -> bool {
        let next = self.peek();
        next.kind == Kind::Identifier && next.text == "for"
    }

    pub(super) fn tuple(&mut self) -> Expression {
        let open = self.read();
        self.with_newlines(false, |parser| {
            if parser.starts_for() {
                return parser.for_expression(open, Kind::CloseBracket);
            }
            let mut items = Vec::new();
            let close = loop {
                if parser.peek_kind() == Kind::CloseBracket {
                    break parser.read();
                }
                let (item, lost) = parser.attempt(Self::expression);
                items.push(item);
                if lost {
                    break parser.recover(Kind::CloseBracket);
                }
                let next = parser.peek();
                match next.kind {
                    Kind::CloseBracket => break parser.read(),
                    Kind::Comma => {
                        parser.read();
                    }
                    _ => {
                        parser.report_new(
                            next.range,
                            "Missing item separator",
                            "Expected a comma to mark the beginning of the next item.",
                        );
                        break parser.recover(Kind::CloseBracket);
                    }
                }
            };
            Expression::Tuple { items, open: open.range, range: open.range.to(close.range) }
        })
    }

    pub(super) fn object(&mut self) -> Expression {
        let open = self.read();
        if self.with_newlines(false, |parser| parser.starts_for()) {
            return self.with_newlines(false, |parser| parser.for_expression(open, Kind::CloseBrace));
        }
        self.with_newlines(true, |parser| {
            let mut items = Vec::new();
            let close = loop {
                match parser.peek_kind() {
                    Kind::Newline => {
                        parser.read();
                        continue;
                    }
                    Kind::CloseBrace => break parser.read(),
                    _ => {}
                }
                let Some(item) = parser.object_item() else { break parser.recover(Kind::CloseBrace) };
                items.push(item);
                let next = parser.peek();
                match next.kind {
                    Kind::CloseBrace => break parser.read(),
                    Kind::Comma | Kind::Newline => {
                        parser.read();
                    }
                    _ => {
                        parser.report_new(
                            next.range,
                            "Missing attribute separator",
                            "Expected a newline or comma to mark the beginning of the next attribute.",
                        );
                        break parser.recover(Kind::CloseBrace);
                    }
                }
            };
            Expression::Object { items, open: open.range, range: open.range.to(close.range) }
        })
    }

    fn object_item(&mut self) -> Option<(Expression, Expression)> {
        let computed = self.peek_kind() == Kind::OpenParen;
        let (key, lost) = self.attempt(Self::expression);
        if lost {
            return None;
        }
        let next = self.peek();
        if !matches!(next.kind, Kind::Equal | Kind::Colon) {
            self.report_new(
                next.range,
                "Missing attribute value",
                "Expected an attribute value, introduced by an equals sign (\"=\").",
            );
            return None;
        }
        self.read();
        let (value, lost) = self.attempt(Self::expression);
        if lost {
            return None;
        }
        Some((Expression::Key { wrapped: Box::new(key), computed }, value))
    }

    /// Parses the rest of a `for` expression, in which line breaks are ignored.
    fn for_expression(&mut self, open: Token<'a>, close: Kind) -> Expression {
        const SUMMARY: &str = "Invalid 'for' expression";
        self.read();
        match self.for_parts(close) {
            Err(closed) => placeholder(open.range.to(closed.range)),
            Ok(mut parts) => {
                if close == Kind::CloseBracket {
                    if let Some(key) = &parts.key {
                        self.report(key.range(), SUMMARY, "Key expression is not valid when building a tuple.");
                    }
                    if let (true, Some(ellipsis)) = (parts.group, parts.ellipsis) {
                        self.report(ellipsis, SUMMARY, "Grouping ellipsis (...) cannot be used when building a tuple.");
                    }
                } else if parts.key.is_none() {
                    self.report(parts.value.range(), SUMMARY, "Key expression is required when building an object.");
                }
                if close == Kind::CloseBracket {
                    parts.key = None;
                }
                Expression::For(Box::new(ForExpression {
                    key_name: parts.key_name,
                    value_name: parts.value_name,
                    collection: parts.collection,
                    key: parts.key,
                    value: parts.value,
                    condition: parts.condition,
                    group: parts.group,
                    open: open.range,
                    range: open.range.to(parts.close),
                }))
            }
        }
    }

    fn for_parts(&mut self, close: Kind) -> Result<ForParts, Token<'a>> {
        const SUMMARY: &str = "Invalid 'for' expression";
        let (key_name, value_name) = match self.for_names() {
            Ok(names) => names,
            Err(detail) => {
                let here = self.peek().range;
                self.report_new(here, SUMMARY, format!("For expression requires {detail}"));
                return Err(self.recover(close));
            }
        };
        let (collection, lost) = self.attempt(Self::expression);
        if lost {
            return Err(self.recover(close));
        }
        if self.peek_kind() != Kind::Colon {
            let here = self.peek().range;
            self.report_new(here, SUMMARY, "For expression requires a colon after the collection expression.");
            return Err(self.recover(close));
        }
        self.read();
        let (mut value, mut lost) = self.attempt(Self::expression);
        let mut key = None;
        if self.peek_kind() == Kind::FatArrow {
            self.read();
            let (second, lost_again) = self.attempt(Self::expression);
            key = Some(std::mem::replace(&mut value, second));
            lost |= lost_again;
        }
        if lost {
            return Err(self.recover(close));
        }
        let ellipsis = (self.peek_kind() == Kind::Ellipsis).then(|| self.read().range);
        let next = self.peek();
        let mut condition = None;
        if next.kind == Kind::Identifier && next.text == "if" {
            self.read();
            let (expression, lost) = self.attempt(Self::expression);
            if lost {
                return Err(self.recover(close));
            }
            condition = Some(expression);
        }
        let end = if self.peek_kind() == close {
            self.read()
        } else {
            let here = self.peek().range;
            self.report_new(here, SUMMARY, "Extra characters after the end of the 'for' expression.");
            self.recover(close)
        };
        let group = ellipsis.is_some();
        Ok(ForParts { key_name, value_name, collection, key, value, condition, group, ellipsis, close: end.range })
    }

    /// Parses `name in` or `name, name in`, including the `in`. The error names the missing element.
    pub(in crate::hcl) fn for_names(&mut self) -> Result<(Option<String>, String), &'static str> {
        if self.peek_kind() != Kind::Identifier {
            return Err("variable name after 'for'.");
        }
        let first = self.read().text.to_string();
        let (key, value) = if self.peek_kind() == Kind::Comma {
            self.read();
            if self.peek_kind() != Kind::Identifier {
                return Err("value variable name after comma.");
            }
            (Some(first), self.read().text.to_string())
        } else {
            (None, first)
        };
        let next = self.peek();
        if next.kind != Kind::Identifier || next.text != "in" {
            return Err("the 'in' keyword after its name declarations.");
        }
        self.read();
        Ok((key, value))
    }
}

struct ForParts {
    key_name: Option<String>,
    value_name: String,
    collection: Expression,
    key: Option<Expression>,
    value: Expression,
    condition: Option<Expression>,
    group: bool,
    ellipsis: Option<Range>,
    close: Range,
}
