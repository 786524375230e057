//! The JSON syntax of HCL 1, parsed as leniently as in the reference: a missing closing brace or an extra comma is
//! ignored, and objects that contain only objects become labels: `{"a": {"b": {}}}` is `a "b" {}`. `go_json` decodes
//! JSON requests.

use super::{Item, NESTING_DEPTH_MAX, Node, NodeKind, Place};

/// Parses a text that begins with a brace.
pub(super) fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut parser =
        Parser { rest: text, place: Place { line: 1, column: 0 }, error: None, token: Token::End, depth: 0 };
    parser.scan();
    let items = parser.object();
    match (parser.error, items) {
        // A scanner error explains the parser's error, so it is reported instead.
        (Some(error), _) => Err(error),
        (None, Ok(items)) => Ok(flat(items)),
        (None, Err(Stop::End)) => Ok(Vec::new()),
        (None, Err(Stop::Wrong(error))) => Err(error),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    End,
    Illegal,
    Text(String),
    Number(String),
    Float(String),
    Bool(bool),
    Null,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    Comma,
    Colon,
    Period,
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::End => "EOF",
            Token::Illegal => "ILLEGAL",
            Token::Text(_) => "STRING",
            Token::Number(_) => "NUMBER",
            Token::Float(_) => "FLOAT",
            Token::Bool(_) => "BOOL",
            Token::Null => "NULL",
            Token::OpenBrace => "LBRACE",
            Token::CloseBrace => "RBRACE",
            Token::OpenBracket => "LBRACK",
            Token::CloseBracket => "RBRACK",
            Token::Comma => "COMMA",
            Token::Colon => "COLON",
            Token::Period => "PERIOD",
        }
    }
}

enum Stop {
    /// The text ended; the items read so far count.
    End,
    Wrong(String),
}

struct Parser<'a> {
    rest: &'a str,
    /// Position of the last character read.
    place: Place,
    error: Option<String>,
    token: Token,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        self.place.column += 1;
        let letter = self.peek()?;
        self.rest = &self.rest[letter.len_utf8()..];
        if letter == '\n' {
            self.place = Place { line: self.place.line + 1, column: 0 };
        }
        Some(letter)
    }

    fn fail(&mut self, message: &str) -> Token {
        self.error = Some(format!("{}: {message}", self.place));
        Token::Illegal
    }

    fn scan(&mut self) {
        while self.peek().is_some_and(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
        self.token = match self.next() {
            None => Token::End,
            Some('"') => self.text(),
            Some('{') => Token::OpenBrace,
            Some('}') => Token::CloseBrace,
            Some('[') => Token::OpenBracket,
            Some(']') => Token::CloseBracket,
            Some(',') => Token::Comma,
            Some(':') => Token::Colon,
            Some('.') => Token::Period,
            Some(first) if first == '-' || first.is_ascii_digit() => self.number(first),
            Some(first) if first.is_alphabetic() => self.word(first),
            Some(_) => self.fail("illegal char"),
        };
    }

    fn word(&mut self, first: char) -> Token {
        let mut word = String::from(first);
        while let Some(letter) = self.peek().filter(|letter| letter.is_alphanumeric() || *letter == '-') {
            self.next();
            word.push(letter);
        }
        match word.as_str() {
            "true" => Token::Bool(true),
            "false" => Token::Bool(false),
            "null" => Token::Null,
            _ => self.fail("illegal char"),
        }
    }

    fn number(&mut self, first: char) -> Token {
        let mut written = String::from(first);
        while let Some(letter) =
            self.peek().filter(|letter| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-'))
        {
            self.next();
            written.push(letter);
        }
        if written.contains(['.', 'e', 'E']) { Token::Float(written) } else { Token::Number(written) }
    }

    fn text(&mut self) -> Token {
        let mut value = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return self.fail("literal not terminated"),
                Some('"') => return Token::Text(value),
                Some('\\') => match self.next() {
                    Some('b') => value.push('\u{8}'),
                    Some('f') => value.push('\u{c}'),
                    Some('n') => value.push('\n'),
                    Some('r') => value.push('\r'),
                    Some('t') => value.push('\t'),
                    Some('u') => match self.code_point() {
                        Some(letter) => value.push(letter),
                        None => return self.fail("illegal char escape"),
                    },
                    Some(letter @ ('"' | '\\' | '/')) => value.push(letter),
                    _ => return self.fail("illegal char escape"),
                },
                Some(letter) => value.push(letter),
            }
        }
    }

    /// Reads four hexadecimal digits. Surrogates are not paired: each becomes U+FFFD.
    fn code_point(&mut self) -> Option<char> {
        let mut number = 0;
        for _ in 0..4 {
            number = number * 16 + self.next()?.to_digit(16)?;
        }
        Some(char::from_u32(number).unwrap_or('\u{FFFD}'))
    }

    /// Parses an object.
    fn object(&mut self) -> Result<Vec<Item>, Stop> {
        match self.token {
            Token::OpenBrace => self.members(),
            Token::End => Err(Stop::End),
            _ => Err(Stop::Wrong(format!("expected object, got: {}", self.token.name()))),
        }
    }

    /// Parses the members of an object after its opening brace. An error right before the closing brace is ignored.
    fn members(&mut self) -> Result<Vec<Item>, Stop> {
        self.deeper()?;
        let mut items = Vec::new();
        loop {
            match self.member() {
                Ok(item) => items.push(item),
                Err(Stop::End) => break,
                Err(Stop::Wrong(_)) if self.token == Token::CloseBrace => break,
                Err(wrong) => return Err(wrong),
            }
            self.scan();
            if self.token != Token::Comma {
                break;
            }
        }
        self.depth -= 1;
        Ok(items)
    }

    fn deeper(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        if self.depth > NESTING_DEPTH_MAX {
            return Err(Stop::Wrong("objects nest too deeply".to_string()));
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Item, Stop> {
        let mut keys = Vec::new();
        loop {
            self.scan();
            match &self.token {
                Token::Text(key) => keys.push(key.clone()),
                Token::Colon if !keys.is_empty() => break,
                Token::End => return Err(Stop::End),
                Token::Illegal => return Err(Stop::Wrong("illegal".to_string())),
                other => return Err(Stop::Wrong(format!("expected: STRING got: {}", other.name()))),
            }
        }
        let places = vec![Place::NOWHERE; keys.len()];
        self.scan();
        Ok(Item { keys, places, assigned: true, value: self.value()? })
    }

    fn value(&mut self) -> Result<Node, Stop> {
        let kind = match self.token.clone() {
            Token::Text(text) => NodeKind::Text(text),
            Token::Number(written) => NodeKind::Integer(written),
            Token::Float(written) => NodeKind::Float(written),
            Token::Bool(truth) => NodeKind::Bool(truth),
            Token::Null => NodeKind::Text(String::new()),
            Token::OpenBrace => NodeKind::Object(self.members()?),
            Token::OpenBracket => NodeKind::List(self.list()?),
            Token::End => return Err(Stop::End),
            other => return Err(Stop::Wrong(format!("Expected value, got unknown token: {}", other.name()))),
        };
        Ok(Node { kind, place: Place::NOWHERE })
    }

    fn list(&mut self) -> Result<Vec<Node>, Stop> {
        self.deeper()?;
        let mut nodes = Vec::new();
        loop {
            self.scan();
            match &self.token {
                Token::CloseBracket => break,
                Token::Comma | Token::Bool(_) | Token::OpenBracket => {}
                Token::Text(_) | Token::Number(_) | Token::Float(_) | Token::OpenBrace => nodes.push(self.value()?),
                other => return Err(Stop::Wrong(format!("unexpected token while parsing list: {}", other.name()))),
            }
        }
        self.depth -= 1;
        Ok(nodes)
    }
}

/// Converts objects of objects to labels, and lists of objects to repeated blocks.
fn flat(items: Vec<Item>) -> Vec<Item> {
    let mut out = Vec::new();
    // A stack with the first item on top, so that the order is kept.
    let mut open: Vec<Item> = items.into_iter().rev().collect();
    while let Some(Item { keys, places, assigned, value }) = open.pop() {
        let of_objects = |node: &Node| matches!(&node.kind, NodeKind::Object(_));
        let place = value.place;
        match value.kind {
            NodeKind::Object(members)
                if !members.is_empty() && members.iter().all(|member| of_objects(&member.value)) =>
            {
                for member in members.into_iter().rev() {
                    let keys = keys.iter().cloned().chain(member.keys).collect();
                    let places = places.iter().copied().chain(member.places).collect();
                    open.push(Item { keys, places, assigned, value: member.value });
                }
            }
            NodeKind::List(nodes) if !nodes.is_empty() && nodes.iter().all(of_objects) => {
                let each = |value| Item { keys: keys.clone(), places: places.clone(), assigned, value };
                open.extend(nodes.into_iter().rev().map(each));
            }
            kind => out.push(Item { keys, places, assigned, value: Node { kind: flat_below(kind), place } }),
        }
    }
    out
}

fn flat_below(kind: NodeKind) -> NodeKind {
    match kind {
        NodeKind::Object(items) => NodeKind::Object(flat(items)),
        NodeKind::List(nodes) => NodeKind::List(
            nodes.into_iter().map(|node| Node { kind: flat_below(node.kind), place: node.place }).collect(),
        ),
        NodeKind::Bool(_) | NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Text(_) => kind,
    }
}
