//! Parser of expressions: operators by precedence, terms, and steps into values.

use super::{CHAIN_LENGTH_MAX, Parser};
use crate::hcl::Range;
use crate::hcl::ast::{Expression, ForExpression, Operator, Step};
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

    // ---- steps into a value

    fn steps(&mut self, from: Expression) -> Expression {
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
                            self.report(next.range, "Invalid attribute name", "An attribute name is required after a dot.");
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
                self.report(number.range, "Invalid number literal", "Failed to recognize the value of this number literal.");
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
                parser.report(close.range, "Missing close bracket on index", "The index operator must end with a closing bracket (\"]\").");
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
                    name => Expression::Scope { root: name.to_string(), steps: Vec::new(), text: name.to_string(), range: start.range },
                }
            }
            // A template inside a template takes twice the stack of other nesting, so it counts as two levels.
            Kind::OpenQuote => self.deeper(|parser| parser.template(Kind::CloseQuote, false), placeholder),
            Kind::OpenHeredoc { flush } => self.deeper(|parser| parser.template(Kind::CloseHeredoc, flush), placeholder),
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
                parser.report(close.range, "Unbalanced parentheses", "Expected a closing parenthesis to terminate the expression.");
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

    fn starts_for(&self) -> bool {
        let next = self.peek();
        next.kind == Kind::Identifier && next.text == "for"
    }

    fn tuple(&mut self) -> Expression {
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
                        parser.report_new(next.range, "Missing item separator", "Expected a comma to mark the beginning of the next item.");
                        break parser.recover(Kind::CloseBracket);
                    }
                }
            };
            Expression::Tuple { items, open: open.range, range: open.range.to(close.range) }
        })
    }

    fn object(&mut self) -> Expression {
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
            self.report_new(next.range, "Missing attribute value", "Expected an attribute value, introduced by an equals sign (\"=\").");
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
