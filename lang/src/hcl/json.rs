//! The JSON syntax of HCL 2: values with their ranges, and their conversion to expressions. A string is a template.
//! `jobspec` decides which members are blocks, since that depends on the schema. `go_json` decodes JSON requests.
//!
//! After an error the parser goes on as the reference's does, because the number of errors is part of the response.

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
    /// A value with an error, which was reported.
    Invalid,
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

/// Parses a text that is one object, or an array of objects.
pub(crate) fn parse(text: &str) -> Result<Node, Vec<Diagnostic>> {
    let mut parser = Parser { text, at: Position::START, depth: 0, too_deep: false, found: Vec::new() };
    let node = parser.value();
    if parser.found.is_empty() && parser.peek().is_some() {
        parser.report("Extraneous data after value", "Extra characters appear after the JSON value.");
    }
    if !matches!(node.kind, NodeKind::Object(_) | NodeKind::Array(_)) {
        let detail =
            "The root value in a JSON-based configuration must be either a JSON object or a JSON array of objects.";
        parser.report_at(node.range, "Root value must be object", detail);
    }
    if parser.found.is_empty() { Ok(node) } else { Err(parser.found) }
}

impl Node {
    /// The value as an expression: strings and names of members are templates.
    pub(crate) fn expression(&self, file: &str, found: &mut Vec<Diagnostic>) -> Expression {
        let range = self.range;
        match &self.kind {
            NodeKind::Invalid => Expression::Literal(Value::Unknown, range),
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
            NodeKind::Invalid => "invalid value",
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
            NodeKind::Invalid | NodeKind::Null | NodeKind::Bool(_) | NodeKind::Number(_) | NodeKind::Text(_) => {
                self.range
            }
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
    /// Whether the text nests too deeply, after which nothing else is reported.
    too_deep: bool,
    found: Vec<Diagnostic>,
}

/// Error of a value that begins with a wrong character.
const VALUE_STARTS: &str = "A JSON value must start with a brace, a bracket, a number, a string, or a keyword.";

impl Parser<'_> {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.here().is_some_and(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
        self.here()
    }

    fn here(&self) -> Option<char> {
        self.text[self.at.byte..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.here()?;
        self.at.byte += letter.len_utf8();
        self.at.column += 1;
        if letter == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        }
        Some(letter)
    }

    /// The range of the next character; empty at the end of the text.
    fn next_range(&self) -> Range {
        let mut end = self.at;
        if let Some(letter) = self.here() {
            end.byte += letter.len_utf8();
            end.column += 1;
        }
        Range { start: self.at, end }
    }

    /// Reports an error at the next character.
    fn report(&mut self, summary: &str, detail: &str) {
        self.report_at(self.next_range(), summary, detail);
    }

    fn report_at(&mut self, range: Range, summary: &str, detail: impl Into<String>) {
        if !self.too_deep {
            self.found.push(Diagnostic::new(range, summary, detail));
        }
    }

    fn value(&mut self) -> Node {
        let first = self.peek();
        let (start, depth) = (self.at, self.depth);
        let kind = match first {
            Some('{') => self.nested(Self::object),
            Some('[') => self.nested(Self::array),
            Some('"') => self.string().map(NodeKind::Text),
            Some('-' | '0'..='9') => self.number(),
            Some(letter) if letter.is_ascii_alphabetic() => self.word(),
            other => {
                match other {
                    Some('}') => self.report("Missing JSON value", VALUE_STARTS),
                    Some(']') => self.report("Missing array element value", VALUE_STARTS),
                    Some(_) => self.report("Invalid start of value", VALUE_STARTS),
                    None => self.report("Missing value", "The JSON data ends prematurely."),
                }
                None
            }
        };
        Node { kind: kind.unwrap_or(NodeKind::Invalid), range: Range { start, end: self.at }, depth }
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self, Range) -> Option<NodeKind>) -> Option<NodeKind> {
        // The same bound as for expressions and blocks, since both recurse on the same stack.
        if self.depth >= NESTING_DEPTH_MAX {
            if !self.too_deep {
                self.report("Nesting too deep", "Arrays and objects nest deeper than is supported here.");
            }
            // The rest of the text is skipped, and with it all that would follow from this error.
            self.too_deep = true;
            self.at.byte = self.text.len();
            return None;
        }
        self.depth += 1;
        let open = self.next_range();
        self.next();
        let parsed = parse(self, open);
        self.depth -= 1;
        parsed
    }

    fn object(&mut self, open: Range) -> Option<NodeKind> {
        let mut members = Vec::new();
        while self.peek() != Some('}') {
            members.push(self.member()?);
            match self.peek() {
                Some(',') => {
                    let comma = self.next_range();
                    self.next();
                    if self.peek() == Some('}') {
                        let detail = "JSON does not permit a trailing comma after the final property in an object.";
                        self.report_at(comma, "Trailing comma in object", detail);
                        return None;
                    }
                }
                Some('}') => {}
                Some(']') => {
                    let detail = "A JSON object must be closed with a brace, not a bracket.";
                    self.report("Mismatched braces", detail);
                    return None;
                }
                Some(_) => {
                    let detail = "A comma must appear between each property definition in an object.";
                    self.report("Missing attribute separator comma", detail);
                    self.skip_object();
                    return None;
                }
                None => {
                    self.report_at(open, "Unclosed object", "No closing brace was found for this JSON object.");
                    return None;
                }
            }
        }
        self.next();
        Some(NodeKind::Object(members))
    }

    fn member(&mut self) -> Option<Member> {
        let key = self.value();
        let (open, name_range) = (key.open(), key.range);
        let NodeKind::Text(name) = key.kind else {
            self.report_at(open, "Invalid object property name", "A JSON object property name must be a string");
            return None;
        };
        let next = self.peek();
        if next != Some(':') {
            match next {
                Some('}' | ',') => self.report(
                    "Missing object value",
                    "A JSON object attribute must have a value, introduced by a colon.",
                ),
                Some('=') => self.report(
                    "Missing property value colon",
                    "JSON uses a colon as its name/value delimiter, not an equals sign.",
                ),
                Some(_) | None => self.report(
                    "Missing property value colon",
                    "A colon must appear between an object property's name and its value.",
                ),
            }
            self.skip_object();
            return None;
        }
        self.next();
        Some(Member { name, name_range, value: self.value() })
    }

    /// Skips the rest of an object with an error.
    fn skip_object(&mut self) {
        let mut open = 1;
        loop {
            match self.peek() {
                None => return,
                Some('"') => {
                    let before = self.found.len();
                    self.string();
                    self.found.truncate(before);
                    continue;
                }
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(_) => {}
            }
            let closed = self.next() == Some('}');
            if closed && open <= 1 {
                return;
            }
        }
    }

    fn array(&mut self, open: Range) -> Option<NodeKind> {
        let mut items = Vec::new();
        while self.peek() != Some(']') {
            items.push(self.value());
            match self.peek() {
                Some(',') => {
                    let comma = self.next_range();
                    self.next();
                    if self.peek() == Some(']') {
                        let detail = "JSON does not permit a trailing comma after the final value in an array.";
                        self.report_at(comma, "Trailing comma in array", detail);
                        return None;
                    }
                }
                Some(']') => {}
                Some(':') => {
                    self.report("Invalid array value", "A colon is not used to introduce values in a JSON array.");
                    return None;
                }
                Some('}') => {
                    self.report("Mismatched brackets", "A JSON array must be closed with a bracket, not a brace.");
                    return None;
                }
                Some(_) => {
                    let detail = "A comma must appear between each array element.";
                    self.report("Missing array element separator comma", detail);
                    return None;
                }
                None => {
                    self.report_at(open, "Unclosed array", "No closing bracket was found for this JSON array.");
                    return None;
                }
            }
        }
        self.next();
        Some(NodeKind::Array(items))
    }

    fn word(&mut self) -> Option<NodeKind> {
        let start = self.at;
        while self.here().is_some_and(|letter| letter.is_ascii_alphanumeric()) {
            self.next();
        }
        match &self.text[start.byte..self.at.byte] {
            "null" => Some(NodeKind::Null),
            "true" => Some(NodeKind::Bool(true)),
            "false" => Some(NodeKind::Bool(false)),
            other => {
                let detail = format!("{other:?} is not a valid JSON keyword.");
                self.report_at(Range { start, end: self.at }, "Invalid JSON keyword", detail);
                None
            }
        }
    }

    fn number(&mut self) -> Option<NodeKind> {
        let start = self.at;
        while self.here().is_some_and(|letter| letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.' | 'e' | 'E'))
        {
            self.next();
        }
        let written = &self.text[start.byte..self.at.byte];
        let number = serde_json::from_str::<serde_json::Number>(written).ok().and_then(|_| Number::parse(written));
        if number.is_none() {
            let detail = "There is a syntax error at the given position: this is no JSON number.";
            self.report_at(Range { start, end: self.at }, "Invalid JSON number", detail);
        }
        number.map(NodeKind::Number)
    }

    fn string(&mut self) -> Option<String> {
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
                    self.report_at(Range { start, end: self.at }, "Unclosed string literal", detail);
                    return None;
                }
                Some(_) => {}
            }
        }
        let text = serde_json::from_str(&self.text[start.byte..self.at.byte]).ok();
        if text.is_none() {
            let detail = "There is a syntax error inside of the string: an escape that JSON does not have, or a control character.";
            self.report_at(Range { start, end: self.at }, "Invalid JSON string", detail);
        }
        text
    }
}
