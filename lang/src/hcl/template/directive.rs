//! Directives of templates: `%{ if }` and `%{ for }` with their ends.

use super::{Ending, Part};
use crate::hcl::Range;
use crate::hcl::ast::{Expression, ForExpression};
use crate::hcl::lex::{Kind, Token};
use crate::hcl::parse::Parser;
use crate::hcl::value::Value;

pub(super) struct Parts {
    pub(super) parts: std::iter::Peekable<std::vec::IntoIter<Part>>,
}

fn clause(mut parts: Vec<Expression>, range: Range) -> Expression {
    if parts.is_empty() {
        parts.push(Expression::Literal(Value::Text(String::new()), range));
    }
    let whole = match (parts.first(), parts.last()) {
        (Some(first), Some(last)) => first.range().to(last.range()),
        _ => range,
    };
    Expression::Template(parts, whole)
}

impl<'a> Parser<'a> {
    /// Parses a `%{ }` sequence. Returns whether the following white space is trimmed.
    pub(super) fn directive(&mut self, open: Token<'a>, parts: &mut Vec<Part>) -> bool {
        let keyword = self.peek();
        if keyword.kind != Kind::Identifier {
            self.report_new(
                keyword.range,
                "Invalid template directive",
                "A template directive keyword (\"if\", \"for\", etc) is expected at the beginning of a %{ sequence.",
            );
            self.recover(Kind::SequenceEnd { trim: false });
            return false;
        }
        self.read();
        let Some(part) = self.directive_part(open, keyword) else {
            self.recover(Kind::SequenceEnd { trim: false });
            return false;
        };
        parts.push(part);
        let close = self.peek();
        let Kind::SequenceEnd { trim } = close.kind else {
            self.report_new(
                close.range,
                &format!("Extra characters in {} marker", keyword.text),
                "Expected a closing brace to end the sequence, but found extra characters.",
            );
            self.recover(Kind::SequenceEnd { trim: false });
            return false;
        };
        self.read();
        trim
    }

    /// The rest of a directive after its keyword. `None`: it is not a directive, and an error was reported.
    fn directive_part(&mut self, open: Token<'a>, keyword: Token<'a>) -> Option<Part> {
        Some(match keyword.text {
            "if" => {
                let (condition, _) = self.attempt(Self::expression);
                Part::If(condition, open.range.to(self.peek().range))
            }
            "else" => Part::Ending(Ending::Else, open.range.to(self.peek().range)),
            "endif" => Part::Ending(Ending::EndIf, open.range.to(self.peek().range)),
            "endfor" => Part::Ending(Ending::EndFor, open.range.to(self.peek().range)),
            "for" => match self.for_names() {
                Ok((key, value)) => {
                    let (collection, _) = self.attempt(Self::expression);
                    Part::For { key, value, collection, range: open.range.to(self.peek().range) }
                }
                Err(detail) => {
                    let here = self.peek().range;
                    self.report_new(here, "Invalid 'for' directive", format!("For directive requires {detail}"));
                    return None;
                }
            },
            other => {
                let detail = format!("{other:?} is not a valid template control keyword.");
                self.report_new(keyword.range, "Invalid template control keyword", detail);
                return None;
            }
        })
    }

    // ---- matching directives

    /// The next part with all parts that belong to it. `None`: the template is malformed.
    pub(super) fn part_expression(&mut self, queue: &mut Parts) -> Option<Expression> {
        match queue.parts.next()? {
            Part::Literal(text, range) => Some(Expression::Literal(Value::Text(text), range)),
            Part::Value(expression) => Some(expression),
            Part::If(condition, range) => self.deeper(|parser| parser.if_directive(queue, condition, range), |_| None),
            Part::For { key, value, collection, range } => {
                self.deeper(|parser| parser.for_directive(queue, key, value, collection, range), |_| None)
            }
            Part::Ending(ending, range) => {
                self.report(
                    range,
                    &format!("Unexpected {} directive", ending.name()),
                    "The control directives within this template are unbalanced.",
                );
                None
            }
            Part::End(_) => None,
        }
    }

    fn if_directive(&mut self, queue: &mut Parts, condition: Expression, range: Range) -> Option<Expression> {
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        let mut in_else = false;
        let end = loop {
            match queue.parts.peek() {
                None => return None,
                Some(Part::End(end)) => {
                    let detail = format!(
                        "The if directive at {} is missing its corresponding endif directive.",
                        self.shown(range)
                    );
                    self.report(*end, "Unexpected end of template", detail);
                    return None;
                }
                Some(Part::Ending(ending, at)) => {
                    let (ending, at) = (*ending, *at);
                    queue.parts.next();
                    match ending {
                        Ending::Else if !in_else => in_else = true,
                        Ending::EndIf => break at,
                        Ending::Else => {
                            let detail =
                                format!("Already in the else clause for the if started at {}.", self.shown(range));
                            self.report(at, "Unexpected else directive", detail);
                            return None;
                        }
                        Ending::EndFor => {
                            let detail =
                                format!("Expecting an endif directive for the if started at {}.", self.shown(range));
                            self.report(at, "Unexpected endfor directive", detail);
                            return None;
                        }
                    }
                }
                Some(_) => {
                    let expression = self.part_expression(queue)?;
                    if in_else { no.push(expression) } else { yes.push(expression) }
                }
            }
        };
        Some(Expression::Conditional {
            condition: Box::new(condition),
            yes: Box::new(clause(yes, range)),
            no: Box::new(clause(no, range)),
            range: range.to(end),
        })
    }

    fn for_directive(
        &mut self,
        queue: &mut Parts,
        key_name: Option<String>,
        value_name: String,
        collection: Expression,
        range: Range,
    ) -> Option<Expression> {
        let mut content = Vec::new();
        let end = loop {
            match queue.parts.peek() {
                None => return None,
                Some(Part::End(end)) => {
                    let detail = format!(
                        "The for directive at {} is missing its corresponding endfor directive.",
                        self.shown(range)
                    );
                    self.report(*end, "Unexpected end of template", detail);
                    return None;
                }
                Some(Part::Ending(ending, at)) => {
                    let (ending, at) = (*ending, *at);
                    queue.parts.next();
                    if ending == Ending::EndFor {
                        break at;
                    }
                    let detail =
                        format!("Expecting an endfor directive for the for directive at {}.", self.shown(range));
                    self.report(at, &format!("Unexpected {} directive", ending.name()), detail);
                    return None;
                }
                Some(_) => content.push(self.part_expression(queue)?),
            }
        };
        Some(Expression::TemplateJoin(Box::new(Expression::For(Box::new(ForExpression {
            key_name,
            value_name,
            collection,
            key: None,
            value: clause(content, range),
            condition: None,
            group: false,
            open: range,
            range: range.to(end),
        })))))
    }
}
