//! The JSON syntax of HCL 2: values with their ranges, and their conversion to expressions. A string is a template.
//! `jobspec` decides which members are blocks, since that depends on the schema. `go_json` decodes JSON requests.

use super::ast::Expression;
use super::number::Number;
use super::parse::{self, NESTING_DEPTH_MAX};
use super::value::Value;
use super::{Diagnostic, Position, Range};

/// A value and its range.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) range: Range,
    /// Number of arrays and objects around the value.
    depth: usize,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) name_range: Range,
    pub(crate) value: Node,
}

/// Parses a text that is one object.
pub(crate) fn parse(text: &str) -> Result<Node, Diagnostic> {
    let mut parser = Parser { text, at: Position::START, depth: 0 };
    parser.white();
    let node = parser.value()?;
    parser.white();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.wrong("Extraneous data after value", "Extra characters appear after the JSON value.")),
    }
}

impl Node {
    /// The value as an expression: strings and names of members are templates.
    pub(crate) fn expression(&self, file: &str, found: &mut Vec<Diagnostic>) -> Expression {
        let range = self.range;
        match &self.kind {
            NodeKind::Null => Expression::Literal(Value::Null, range),
            NodeKind::Bool(truth) => Expression::Literal(Value::Bool(*truth), range),
            NodeKind::Number(number) => Expression::Literal(Value::Number(*number), range),
            NodeKind::Text(text) => template(text, range, self.depth, file, found),
            NodeKind::Array(items) => Expression::Tuple {
                items: items.iter().map(|item| item.expression(file, found)).collect(),
                open: first_letter(range),
                range,
            },
            NodeKind::Object(members) => {
                let pairs = members.iter().map(|member| {
                    let key = template(&member.name, member.name_range, self.depth, file, found);
                    (key, member.value.expression(file, found))
                });
                Expression::Object { items: pairs.collect(), open: first_letter(range), range }
            }
        }
    }

    /// The expression inside a string, such as the name of a type. A value that is not a string is converted as is.
    pub(crate) fn spelled(&self, file: &str, found: &mut Vec<Diagnostic>) -> Expression {
        let NodeKind::Text(text) = &self.kind else { return self.expression(file, found) };
        let (expression, wrong) = parse::fragment(text, inside(self.range), false, self.depth, file);
        found.extend(wrong);
        expression
    }

    /// The value's kind in error texts.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "boolean",
            NodeKind::Number(_) => "number",
            NodeKind::Text(_) => "string",
            NodeKind::Array(_) => "array",
            NodeKind::Object(_) => "object",
        }
    }

    /// The range of the opening brace or bracket, or of the whole value.
    pub(crate) fn open(&self) -> Range {
        match self.kind {
            NodeKind::Array(_) | NodeKind::Object(_) => first_letter(self.range),
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => self.range,
        }
    }
}

fn template(text: &str, range: Range, depth: usize, file: &str, found: &mut Vec<Diagnostic>) -> Expression {
    if !text.contains("${") && !text.contains("%{") {
        return Expression::Template(vec![Expression::Literal(Value::text(text), range)], range);
    }
    let (expression, wrong) = parse::fragment(text, inside(range), true, depth, file);
    found.extend(wrong);
    expression
}

/// The position after the opening quote of a string.
fn inside(range: Range) -> Position {
    first_letter(range).end
}

fn first_letter(range: Range) -> Range {
    let start = range.start;
    Range { start, end: Position { byte: start.byte + 1, line: start.line, column: start.column + 1 } }
}

struct Parser<'a> {
    text: &'a str,
    at: Position,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at.byte..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at.byte += letter.len_utf8();
        self.at.column += 1;
        if letter == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        }
        Some(letter)
    }

    fn white(&mut self) {
        while self.peek().is_some_and(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    /// An error at the next character.
    fn wrong(&self, summary: &str, detail: &str) -> Diagnostic {
        let mut end = self.at;
        if let Some(letter) = self.peek() {
            end.byte += letter.len_utf8();
            end.column += 1;
        }
        Diagnostic::new(Range { start: self.at, end }, summary, detail)
    }

    fn value(&mut self) -> Result<Node, Diagnostic> {
        let (start, depth) = (self.at, self.depth);
        let kind = match self.peek() {
            Some('{') => self.nested(Self::object)?,
            Some('[') => self.nested(Self::array)?,
            Some('"') => NodeKind::Text(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            Some(letter) if letter.is_ascii_alphabetic() => self.word()?,
            Some(_) => {
                return Err(self.wrong("Invalid start of value", "A JSON value cannot begin with this character."));
            }
            None => {
                return Err(self.wrong(
                    "Missing JSON value",
                    "A JSON value must start with a brace, a bracket, a number, a string, or a keyword.",
                ));
            }
        };
        Ok(Node { kind, range: Range { start, end: self.at }, depth })
    }

    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<NodeKind, Diagnostic>,
    ) -> Result<NodeKind, Diagnostic> {
        // The same bound as for expressions and blocks, since both recurse on the same stack.
        if self.depth >= NESTING_DEPTH_MAX {
            return Err(self.wrong("Nesting too deep", "Arrays and objects nest deeper than is supported here."));
        }
        self.depth += 1;
        self.next();
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn object(&mut self) -> Result<NodeKind, Diagnostic> {
        let mut members = Vec::new();
        loop {
            self.white();
            match self.peek() {
                Some('}') if members.is_empty() => break,
                Some('"') => {}
                Some('}') => {
                    return Err(self.wrong(
                        "Trailing comma in object",
                        "JSON does not permit a trailing comma after the final property in an object.",
                    ));
                }
                Some(_) => {
                    return Err(
                        self.wrong("Invalid object property name", "A JSON object property name must be a string.")
                    );
                }
                None => return Err(self.wrong("Unclosed object", "No closing brace was found for this JSON object.")),
            }
            let start = self.at;
            let name = self.string()?;
            let name_range = Range { start, end: self.at };
            self.white();
            if self.peek() != Some(':') {
                return Err(self.wrong(
                    "Missing property value colon",
                    "A colon must appear between an object property's name and its value.",
                ));
            }
            self.next();
            self.white();
            let value = self.value()?;
            members.push(Member { name, name_range, value });
            self.white();
            match self.peek() {
                Some(',') => self.next(),
                Some('}') => break,
                Some(_) => {
                    return Err(self.wrong(
                        "Missing attribute separator comma",
                        "A comma must appear between each property definition in an object.",
                    ));
                }
                None => return Err(self.wrong("Unclosed object", "No closing brace was found for this JSON object.")),
            };
        }
        self.next();
        Ok(NodeKind::Object(members))
    }

    fn array(&mut self) -> Result<NodeKind, Diagnostic> {
        let mut items = Vec::new();
        loop {
            self.white();
            match self.peek() {
                Some(']') if items.is_empty() => break,
                Some(']') => {
                    return Err(self.wrong(
                        "Trailing comma in array",
                        "JSON does not permit a trailing comma after the final value in an array.",
                    ));
                }
                _ => {}
            }
            items.push(self.value()?);
            self.white();
            match self.peek() {
                Some(',') => self.next(),
                Some(']') => break,
                Some(_) => {
                    return Err(self.wrong(
                        "Missing array element separator comma",
                        "A comma must appear between each array element.",
                    ));
                }
                None => return Err(self.wrong("Unclosed array", "No closing bracket was found for this JSON array.")),
            };
        }
        self.next();
        Ok(NodeKind::Array(items))
    }

    fn word(&mut self) -> Result<NodeKind, Diagnostic> {
        let start = self.at;
        while self.peek().is_some_and(|letter| letter.is_ascii_alphanumeric()) {
            self.next();
        }
        Ok(match &self.text[start.byte..self.at.byte] {
            "null" => NodeKind::Null,
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            other => {
                let detail = format!("{other:?} is not a valid JSON keyword.");
                return Err(Diagnostic::new(Range { start, end: self.at }, "Invalid JSON keyword", detail));
            }
        })
    }

    fn number(&mut self) -> Result<NodeKind, Diagnostic> {
        let start = self.at;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.' | 'e' | 'E'))
        {
            self.next();
        }
        let written = &self.text[start.byte..self.at.byte];
        let number = serde_json::from_str::<serde_json::Number>(written).ok().and_then(|_| Number::parse(written));
        number.map(NodeKind::Number).ok_or_else(|| {
            let detail = "There is a syntax error at the given position: this is no JSON number.";
            Diagnostic::new(Range { start, end: self.at }, "Invalid JSON number", detail)
        })
    }

    fn string(&mut self) -> Result<String, Diagnostic> {
        let start = self.at;
        self.next();
        loop {
            match self.next() {
                Some('"') => break,
                Some('\\') => {
                    self.next();
                }
                Some('\n') | None => {
                    let detail = "A JSON string ends on the line that it begins on, with a quote.";
                    return Err(Diagnostic::new(Range { start, end: self.at }, "Unclosed string literal", detail));
                }
                Some(_) => {}
            }
        }
        serde_json::from_str(&self.text[start.byte..self.at.byte]).map_err(|_| {
            let detail = "There is a syntax error inside of the string: an escape that JSON does not have, or a control character.";
            Diagnostic::new(Range { start, end: self.at }, "Invalid JSON string", detail)
        })
    }
}
