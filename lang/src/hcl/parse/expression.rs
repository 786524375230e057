//! Parser of expressions: operators by precedence, terms, parentheses and calls.

mod collection;
mod steps;

use super::{CHAIN_LENGTH_MAX, Parser};
use crate::hcl::Range;
use crate::hcl::ast::{Expression, Operator};
use crate::hcl::lex::{Kind, Token};
use crate::hcl::value::{Number, Value};

/// Operators by level, lowest precedence first.
const LEVELS: [&[(Kind, Operator)]; 6] = [
    &[(Kind::Or, Operator::Or)],
    &[(Kind::And, Operator::And)],
    &[(Kind::EqualEqual, Operator::Equal), (Kind::NotEqual, Operator::NotEqual)],
    &[
        (Kind::Greater, Operator::Greater),
        (Kind::GreaterEqual, Operator::GreaterEqual),
        (Kind::Less, Operator::Less),
        (Kind::LessEqual, Operator::LessEqual),
    ],
    &[(Kind::Plus, Operator::Add), (Kind::Minus, Operator::Subtract)],
    &[(Kind::Star, Operator::Multiply), (Kind::Slash, Operator::Divide), (Kind::Percent, Operator::Modulo)],
];

/// Expression in place of one that could not be parsed.
fn placeholder(range: Range) -> Expression {
    Expression::Literal(Value::Unknown, range)
}

impl<'a> Parser<'a> {
    pub(in crate::hcl) fn expression(&mut self) -> Expression {
        self.deeper(Self::conditional, placeholder)
    }

    fn conditional(&mut self) -> Expression {
        let start = self.peek().range;
        let (condition, lost) = self.attempt(|parser| parser.binary(0));
        if lost || self.peek_kind() != Kind::Question {
            return condition;
        }
        self.read();
        let (yes, lost) = self.attempt(Self::expression);
        if lost {
            return condition;
        }
        let colon = self.peek();
        if colon.kind != Kind::Colon {
            self.report(
                colon.range,
                "Missing false expression in conditional",
                "The conditional operator (...?...:...) requires a false expression, delimited by a colon.",
            );
            return condition;
        }
        self.read();
        let (no, lost) = self.attempt(Self::expression);
        if lost {
            return condition;
        }
        let range = start.to(no.range());
        Expression::Conditional { condition: Box::new(condition), yes: Box::new(yes), no: Box::new(no), range }
    }

    fn binary(&mut self, level: usize) -> Expression {
        let Some(operators) = LEVELS.get(level) else { return self.term_with_steps() };
        let (mut left, lost) = self.attempt(|parser| parser.binary(level + 1));
        if lost {
            return left;
        }
        for length in 0.. {
            if length > CHAIN_LENGTH_MAX {
                self.chain_too_long();
                break;
            }
            let next = self.peek_kind();
            let Some((_, operator)) = operators.iter().find(|(kind, _)| *kind == next) else { return left };
            self.read();
            let (right, lost) = self.attempt(|parser| parser.binary(level + 1));
            if lost {
                return left;
            }
            let range = left.range().to(right.range());
            left = Expression::Binary { left: Box::new(left), operator: *operator, right: Box::new(right), range };
        }
        left
    }

    fn term_with_steps(&mut self) -> Expression {
        let (term, lost) = self.attempt(Self::term);
        if lost { term } else { self.steps(term) }
    }

    // ---- terms

    fn term(&mut self) -> Expression {
        let start = self.peek();
        match start.kind {
            Kind::OpenParen => self.parentheses(),
            Kind::Number => {
                self.read();
                Expression::Literal(Value::Number(Number::parse_literal(start.text)), start.range)
            }
            Kind::Identifier => {
                self.read();
                if self.peek_kind() == Kind::OpenParen {
                    return self.call(start);
                }
                match start.text {
                    "true" => Expression::Literal(Value::Bool(true), start.range),
                    "false" => Expression::Literal(Value::Bool(false), start.range),
                    "null" => Expression::Literal(Value::Null, start.range),
                    name => Expression::Scope {
                        root: name.to_string(),
                        steps: Vec::new(),
                        text: name.to_string(),
                        range: start.range,
                    },
                }
            }
            // A template inside a template takes twice the stack of other nesting, so it counts as two levels.
            Kind::OpenQuote => self.deeper(|parser| parser.template(Kind::CloseQuote, false), placeholder),
            Kind::OpenHeredoc { flush } => {
                self.deeper(|parser| parser.template(Kind::CloseHeredoc, flush), placeholder)
            }
            Kind::Minus => {
                self.read();
                let operand = self.deeper(Self::term_with_steps, placeholder);
                let range = start.range.to(operand.range());
                Expression::Negate { operand: Box::new(operand), symbol: start.range, range }
            }
            Kind::Bang => {
                self.read();
                let operand = self.deeper(Self::term_with_steps, placeholder);
                let range = start.range.to(operand.range());
                Expression::Not { operand: Box::new(operand), symbol: start.range, range }
            }
            Kind::OpenBracket => self.tuple(),
            Kind::OpenBrace => self.object(),
            _ => {
                self.report_new(
                    start.range,
                    "Invalid expression",
                    "Expected the start of an expression, but found an invalid expression token.",
                );
                self.recovery = true;
                placeholder(start.range)
            }
        }
    }

    fn parentheses(&mut self) -> Expression {
        let open = self.read();
        self.with_newlines(false, |parser| {
            let before = parser.diagnostics.len();
            let inner = parser.expression();
            if parser.diagnostics.len() > before {
                parser.recover(Kind::CloseParen);
                return inner;
            }
            if parser.peek_kind() != Kind::CloseParen {
                let close = parser.peek();
                parser.report(
                    close.range,
                    "Unbalanced parentheses",
                    "Expected a closing parenthesis to terminate the expression.",
                );
                parser.recovery = true;
            }
            let close = parser.read();
            Expression::Parentheses(Box::new(inner), open.range.to(close.range))
        })
    }

    fn call(&mut self, name: Token<'a>) -> Expression {
        let open = self.read();
        let mut arguments = Vec::new();
        let mut expand_last = false;
        let close = self.with_newlines(false, |parser| {
            loop {
                if parser.peek_kind() == Kind::CloseParen {
                    return parser.read();
                }
                let (argument, lost) = parser.attempt(Self::expression);
                arguments.push(argument);
                if lost {
                    return parser.recover(Kind::CloseParen);
                }
                let separator = parser.read();
                match separator.kind {
                    Kind::CloseParen => return separator,
                    Kind::Comma => {}
                    Kind::Ellipsis => {
                        expand_last = true;
                        if parser.peek_kind() == Kind::CloseParen {
                            return parser.read();
                        }
                        parser.report_new(
                            separator.range,
                            "Missing closing parenthesis",
                            "An expanded function argument (with ...) must be immediately followed by closing parentheses.",
                        );
                        return parser.recover(Kind::CloseParen);
                    }
                    _ => {
                        parser.report(
                            separator.range,
                            "Missing argument separator",
                            "A comma is required to separate each function argument from the next.",
                        );
                        return parser.recover(Kind::CloseParen);
                    }
                }
            }
        });
        Expression::Call {
            name: name.text.to_string(),
            arguments,
            expand_last,
            name_range: name.range,
            open: open.range,
            close: close.range,
        }
    }
}
