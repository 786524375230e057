//! Steps into a value: attributes, indexes and splats.

use super::placeholder;
use crate::hcl::Range;
use crate::hcl::ast::{Expression, Step};
use crate::hcl::lex::{Kind, Token};
use crate::hcl::parse::{CHAIN_LENGTH_MAX, Parser};
use crate::hcl::value::{Number, Value};

impl<'a> Parser<'a> {
    pub(super) fn steps(&mut self, from: Expression) -> Expression {
        let whole = from.range();
        let mut value = from;
        let mut length = 0;
        loop {
            length += 1;
            if length > CHAIN_LENGTH_MAX {
                self.chain_too_long();
                return value;
            }
            match self.peek_kind() {
                Kind::Dot => {
                    let dot = self.read();
                    let next = self.peek();
                    match next.kind {
                        Kind::Identifier => {
                            self.read();
                            value = self.step(value, Step::Attribute(next.text.to_string(), dot.range.to(next.range)));
                        }
                        Kind::Number => {
                            self.read();
                            value = self.number_steps(value, dot, next);
                        }
                        Kind::Star => {
                            self.read();
                            value = self.attribute_splat(value, dot.range.to(next.range));
                        }
                        _ => {
                            self.report(
                                next.range,
                                "Invalid attribute name",
                                "An attribute name is required after a dot.",
                            );
                            self.recovery = true;
                            return value;
                        }
                    }
                }
                Kind::OpenBracket => {
                    let open = self.read();
                    if self.peek_kind() == Kind::Star {
                        value = self.full_splat(value, open);
                    } else {
                        value = self.index(value, open, whole);
                    }
                }
                _ => return value,
            }
        }
    }

    fn step(&self, value: Expression, step: Step) -> Expression {
        let (Step::Attribute(_, at) | Step::Index(_, at)) = &step;
        let at = *at;
        match value {
            Expression::Scope { root, mut steps, range, .. } => {
                steps.push(step);
                let range = range.to(at);
                Expression::Scope { root, steps, text: self.source(range).to_string(), range }
            }
            Expression::Relative { source, mut steps, range } => {
                steps.push(step);
                Expression::Relative { source, steps, range: range.to(at) }
            }
            other => {
                let range = other.range().to(at);
                Expression::Relative { source: Box::new(other), steps: vec![step], range }
            }
        }
    }

    /// `.0`, an index in the form of an attribute; the lexer reads `.0.1` as one number.
    fn number_steps(&mut self, mut value: Expression, dot: Token<'a>, number: Token<'a>) -> Expression {
        for part in number.text.split('.') {
            let Ok(index) = part.parse::<i128>() else {
                self.report(
                    number.range,
                    "Invalid number literal",
                    "Failed to recognize the value of this number literal.",
                );
                return value;
            };
            value = self.step(value, Step::Index(Value::Number(Number::from(index)), dot.range.to(number.range)));
        }
        value
    }

    fn attribute_splat(&mut self, source: Expression, marker: Range) -> Expression {
        let mut each = Expression::SplatItem(marker);
        let mut last = marker;
        while self.peek_kind() == Kind::Dot {
            let dot = self.read();
            let next = self.peek();
            match next.kind {
                Kind::Identifier => {
                    self.read();
                    each = self.step(each, Step::Attribute(next.text.to_string(), dot.range.to(next.range)));
                }
                Kind::Number => {
                    self.read();
                    each = self.number_steps(each, dot, next);
                }
                Kind::Star => {
                    self.report(
                        dot.range.to(next.range),
                        "Nested splat expression not allowed",
                        "A splat expression (*) cannot be used inside another attribute-only splat expression.",
                    );
                    self.recovery = true;
                    break;
                }
                _ => {
                    self.report(next.range, "Invalid attribute name", "An attribute name is required after a dot.");
                    self.recovery = true;
                    break;
                }
            }
            last = next.range;
        }
        let range = source.range().to(last);
        Expression::Splat { source: Box::new(source), each: Box::new(each), marker, range }
    }

    fn full_splat(&mut self, source: Expression, open: Token<'a>) -> Expression {
        self.read();
        let mut close = self.read();
        if close.kind != Kind::CloseBracket && !self.recovery {
            self.report(
                close.range,
                "Missing close bracket on splat index",
                "The star for a full splat operator must be immediately followed by a closing bracket (\"]\").",
            );
            close = self.recover(Kind::CloseBracket);
        }
        let marker = open.range.to(close.range);
        let each = self.deeper(|parser| parser.steps(Expression::SplatItem(marker)), placeholder);
        let range = source.range().to(each.range());
        Expression::Splat { source: Box::new(source), each: Box::new(each), marker, range }
    }

    fn index(&mut self, collection: Expression, open: Token<'a>, whole: Range) -> Expression {
        let (key, close) = self.with_newlines(false, |parser| {
            let (key, lost) = parser.attempt(Self::expression);
            if lost {
                return (key, parser.recover(Kind::CloseBracket));
            }
            let mut close = parser.read();
            if close.kind != Kind::CloseBracket && !parser.recovery {
                parser.report(
                    close.range,
                    "Missing close bracket on index",
                    "The index operator must end with a closing bracket (\"]\").",
                );
                close = parser.recover(Kind::CloseBracket);
            }
            (key, close)
        });
        let bracket = open.range.to(close.range);
        match &key {
            Expression::Literal(value, _) => self.step(collection, Step::Index(value.clone(), bracket)),
            _ => match key.literal_text() {
                Some(text) => {
                    let step = Step::Index(Value::Text(text.to_string()), bracket);
                    self.step(collection, step)
                }
                None => Expression::Index {
                    collection: Box::new(collection),
                    key: Box::new(key),
                    open: open.range,
                    bracket,
                    range: whole.to(bracket),
                },
            },
        }
    }
}
