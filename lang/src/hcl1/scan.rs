//! Lexer of HCL 1.

use super::{Error, Place};

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Illegal,
    End,
    Identifier,
    Number,
    Float,
    Bool,
    Text,
    Heredoc,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Comma,
    Period,
    Assign,
    Add,
    Sub,
}

impl Kind {
    /// The kind's name in error texts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Illegal => "ILLEGAL",
            Kind::End => "EOF",
            Kind::Identifier => "IDENT",
            Kind::Number => "NUMBER",
            Kind::Float => "FLOAT",
            Kind::Bool => "BOOL",
            Kind::Text => "STRING",
            Kind::Heredoc => "HEREDOC",
            Kind::OpenBracket => "LBRACK",
            Kind::CloseBracket => "RBRACK",
            Kind::OpenBrace => "LBRACE",
            Kind::CloseBrace => "RBRACE",
            Kind::Comma => "COMMA",
            Kind::Period => "PERIOD",
            Kind::Assign => "ASSIGN",
            Kind::Add => "ADD",
            Kind::Sub => "SUB",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) written: String,
    /// The token's value: the text of a string without quotes and escapes.
    pub(super) value: String,
    pub(super) place: Place,
}

impl Token {
    pub(super) fn start() -> Token {
        Token { kind: Kind::End, written: String::new(), value: String::new(), place: Place { line: 1, column: 1 } }
    }
}

pub(super) struct Scanner<'a> {
    rest: &'a str,
    place: Place,
    /// Position of the last character read; at the end of the text, of the end.
    last: Place,
    /// The last scan error.
    pub(super) error: Option<Error>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Scanner<'a> {
        let start = Place { line: 1, column: 1 };
        Scanner { rest: text, place: start, last: start, error: None }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        self.last = self.place;
        let letter = self.peek()?;
        self.rest = &self.rest[letter.len_utf8()..];
        if letter == '\n' {
            self.place.line += 1;
            self.place.column = 1;
        } else {
            self.place.column += 1;
        }
        if letter == '\0' {
            self.fail("unexpected null character (0x00)");
            return None;
        }
        Some(letter)
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.next();
        }
    }

    fn fail(&mut self, message: &str) {
        self.error = Some(Error { place: self.last, message: message.to_string() });
    }

    /// The next token; comments are skipped.
    pub(super) fn token(&mut self) -> Token {
        loop {
            self.skip_while(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r'));
            match self.peek() {
                Some('#') => self.skip_while(|letter| letter != '\n'),
                Some('/') if self.rest.starts_with("//") => self.skip_while(|letter| letter != '\n'),
                Some('/') if self.rest.starts_with("/*") => self.block_comment(),
                _ => break,
            }
        }
        let (start, place) = (self.rest, self.place);
        let (kind, value) = self.scan();
        let written = start[..start.len() - self.rest.len()].to_string();
        let value = value.unwrap_or_else(|| written.clone());
        Token { kind, written, value, place }
    }

    fn block_comment(&mut self) {
        self.next();
        self.next();
        while !self.rest.starts_with("*/") {
            if self.next().is_none() {
                return self.fail("comment not terminated");
            }
        }
        self.next();
        self.next();
    }

    fn scan(&mut self) -> (Kind, Option<String>) {
        let Some(first) = self.next() else {
            // Each read beyond the end advances the column by one, as in the reference.
            self.place.column += 1;
            return (Kind::End, None);
        };
        let kind = match first {
            '"' => return self.text(),
            '<' => return self.heredoc(),
            '[' => Kind::OpenBracket,
            ']' => Kind::CloseBracket,
            '{' => Kind::OpenBrace,
            '}' => Kind::CloseBrace,
            ',' => Kind::Comma,
            '=' => Kind::Assign,
            '+' => Kind::Add,
            '.' if self.peek().is_some_and(|letter| letter.is_ascii_digit()) => {
                self.skip_while(|letter| letter.is_ascii_digit());
                self.exponent();
                Kind::Float
            }
            '.' => Kind::Period,
            '-' if self.peek().is_some_and(|letter| letter.is_ascii_digit()) => {
                let digit = self.next().unwrap_or('0');
                self.number(digit)
            }
            '-' => Kind::Sub,
            digit if digit.is_ascii_digit() => self.number(digit),
            letter if is_letter(letter) => return self.identifier(letter),
            _ => {
                self.fail("illegal char");
                Kind::Illegal
            }
        };
        (kind, None)
    }

    fn identifier(&mut self, first: char) -> (Kind, Option<String>) {
        let start = self.rest;
        self.skip_while(|letter| is_letter(letter) || letter.is_numeric() || letter == '-' || letter == '.');
        let word = format!("{first}{}", &start[..start.len() - self.rest.len()]);
        let kind = if word == "true" || word == "false" { Kind::Bool } else { Kind::Identifier };
        (kind, Some(word))
    }

    fn number(&mut self, first: char) -> Kind {
        if first == '0' && matches!(self.peek(), Some('x' | 'X')) {
            self.next();
            self.skip_while(|letter| letter.is_ascii_hexdigit());
            return Kind::Number;
        }
        self.skip_while(|letter| letter.is_ascii_digit());
        let mut kind = Kind::Number;
        if self.peek() == Some('.') {
            self.next();
            self.skip_while(|letter| letter.is_ascii_digit());
            kind = Kind::Float;
        }
        if self.exponent() { Kind::Float } else { kind }
    }

    fn exponent(&mut self) -> bool {
        if !matches!(self.peek(), Some('e' | 'E')) {
            return false;
        }
        self.next();
        if matches!(self.peek(), Some('+' | '-')) {
            self.next();
        }
        self.skip_while(|letter| letter.is_ascii_digit());
        true
    }

    /// Reads a string after its opening quote. Quotes inside `${ }` do not end it.
    fn text(&mut self) -> (Kind, Option<String>) {
        let mut value = String::new();
        let mut braces = 0usize;
        loop {
            let Some(letter) = self.next() else {
                self.fail("literal not terminated");
                return (Kind::Text, Some(value));
            };
            match letter {
                '\n' if braces == 0 => {
                    self.fail("literal not terminated");
                    return (Kind::Text, Some(value));
                }
                '"' if braces == 0 => return (Kind::Text, Some(value)),
                '$' if braces == 0 && self.peek() == Some('{') => {
                    self.next();
                    braces = 1;
                    value.push_str("${");
                }
                '\\' if braces == 0 => self.escape(&mut value),
                other => {
                    match other {
                        '{' if braces > 0 => braces += 1,
                        '}' if braces > 0 => braces -= 1,
                        _ => {}
                    }
                    value.push(other);
                }
            }
        }
    }

    fn escape(&mut self, value: &mut String) {
        let Some(selector) = self.next() else { return };
        match selector {
            'a' => value.push('\u{7}'),
            'b' => value.push('\u{8}'),
            'f' => value.push('\u{c}'),
            'n' => value.push('\n'),
            'r' => value.push('\r'),
            't' => value.push('\t'),
            'v' => value.push('\u{b}'),
            '\\' | '"' => value.push(selector),
            'x' => self.digits(2, 16, None, value),
            'u' => self.digits(4, 16, None, value),
            'U' => self.digits(8, 16, None, value),
            octal @ '0'..='7' => self.digits(2, 8, octal.to_digit(8), value),
            _ => self.fail("illegal char escape"),
        }
    }

    fn digits(&mut self, count: usize, radix: u32, first: Option<u32>, value: &mut String) {
        let mut number = first.unwrap_or(0);
        for _ in 0..count {
            match self.peek().and_then(|letter| letter.to_digit(radix)) {
                Some(digit) => {
                    self.next();
                    number = number.saturating_mul(radix).saturating_add(digit);
                }
                None => return self.fail("illegal char escape"),
            }
        }
        value.push(char::from_u32(number).unwrap_or('\u{FFFD}'));
    }

    fn heredoc(&mut self) -> (Kind, Option<String>) {
        if self.peek() != Some('<') {
            self.fail("heredoc expected second '<', didn't see it");
            return (Kind::Illegal, None);
        }
        self.next();
        let indented = self.peek() == Some('-');
        if indented {
            self.next();
        }
        let start = self.rest;
        self.skip_while(|letter| is_letter(letter) || letter.is_numeric());
        let anchor = start[..start.len() - self.rest.len()].to_string();
        if self.peek() == Some('\r') {
            self.next();
        }
        if self.peek() != Some('\n') {
            self.fail("invalid characters in heredoc anchor");
            return (Kind::Heredoc, None);
        }
        self.next();
        if anchor.is_empty() {
            self.fail("zero-length heredoc anchor");
            return (Kind::Heredoc, None);
        }
        let mut lines: Vec<&str> = Vec::new();
        loop {
            if self.rest.is_empty() {
                self.next();
                self.fail("heredoc not terminated");
                return (Kind::Heredoc, None);
            }
            let start = self.rest;
            self.skip_while(|letter| letter != '\n');
            let line = &start[..start.len() - self.rest.len()];
            if line.trim_start().trim_end_matches('\r') == anchor {
                let text = if indented { without_indent(&lines, line) } else { verbatim(&lines, line) };
                return (Kind::Heredoc, Some(text));
            }
            self.next();
            lines.push(line);
        }
    }
}

/// Joins the lines of a heredoc without `-`. The white space before the closing anchor belongs to the text.
fn verbatim(lines: &[&str], closing: &str) -> String {
    let mut text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
    text.push_str(indent_of(closing));
    text
}

/// Joins the lines of an indented heredoc. The white space before the closing anchor is removed from all lines, if all
/// lines have it.
fn without_indent(lines: &[&str], closing: &str) -> String {
    let indent = indent_of(closing);
    let all = lines.iter().all(|line| line.starts_with(indent) || line.trim().is_empty());
    let mut text = String::new();
    for line in lines {
        let line = if all { line.strip_prefix(indent).unwrap_or(line) } else { line };
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn indent_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}
