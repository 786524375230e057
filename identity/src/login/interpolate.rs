//! Names with interpolated claims: `team-${value.team}`. The braces contain a variable, a text or a number; `$${` is
//! an escaped `${`. Functions and arithmetic are not supported; the error names the position.

use std::iter::Peekable;
use std::str::Chars;

/// A name template could not be filled in; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template does not parse.
    #[error("parse error at {0}: expected {1} but found {2}")]
    Syntax(Place, &'static str, String),
    /// An unknown variable.
    #[error("{0}: unknown variable accessed: {1}")]
    Variable(Place, String),
    /// A function call; functions are not supported.
    #[error("{0}: unknown function called: {1}")]
    Function(Place, String),
}

/// Position: line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    line: usize,
    column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

enum Piece {
    Text(String),
    Variable(Place, String),
    Function(Place, String),
}

/// Fills in the variables. The whole template is parsed before the first variable is looked up.
pub(super) fn fill_in(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
    let pieces = Reader::new(text).pieces()?;
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Variable(place, name) => out.push_str(&variable(&name).ok_or(TemplateError::Variable(place, name))?),
            Piece::Function(place, name) => return Err(TemplateError::Function(place, name)),
        }
    }
    Ok(out)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    at: Place,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), at: Place { line: 1, column: 1 } }
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        self.at = if letter == '\n' {
            Place { line: self.at.line + 1, column: 1 }
        } else {
            Place { column: self.at.column + 1, ..self.at }
        };
        Some(letter)
    }

    fn next_is(&mut self, letter: char) -> bool {
        let is = self.rest.peek() == Some(&letter);
        if is {
            self.next();
        }
        is
    }

    fn spaces(&mut self) {
        while self.rest.peek().is_some_and(|letter| letter.is_whitespace()) {
            self.next();
        }
    }

    fn pieces(&mut self) -> Result<Vec<Piece>, TemplateError> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        while let Some(letter) = self.next() {
            if letter != '$' {
                text.push(letter);
            } else if self.rest.peek() == Some(&'{') {
                self.next();
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(self.braces()?);
            } else if self.rest.peek() == Some(&'$') && self.rest.clone().nth(1) == Some('{') {
                self.next();
                self.next();
                text.push_str("${");
            } else {
                text.push(letter);
            }
        }
        pieces.push(Piece::Text(text));
        Ok(pieces)
    }

    /// Parses the content of the braces and the closing brace.
    fn braces(&mut self) -> Result<Piece, TemplateError> {
        self.spaces();
        let place = self.at;
        let piece = match self.rest.peek() {
            Some('"') => Piece::Text(self.quoted()?),
            Some(first) if first.is_alphabetic() || *first == '_' => {
                let name = self.word(|letter| letter.is_alphanumeric() || "_-.*".contains(letter));
                self.spaces();
                match name.as_str() {
                    "true" => Piece::Text("1".to_owned()),
                    "false" => Piece::Text("0".to_owned()),
                    // The unsupported function is reported before errors in its arguments.
                    _ if self.rest.peek() == Some(&'(') => return self.function(place, name),
                    _ => Piece::Variable(place, name),
                }
            }
            Some(first) if first.is_ascii_digit() => {
                Piece::Text(self.word(|letter| letter.is_ascii_digit() || letter == '.'))
            }
            Some(_) | None => return Err(self.unexpected("expression")),
        };
        self.spaces();
        if self.next_is('}') { Ok(piece) } else { Err(self.unexpected("\"}\"")) }
    }

    fn function(&mut self, place: Place, name: String) -> Result<Piece, TemplateError> {
        let mut depth = 0;
        loop {
            match self.rest.peek() {
                Some('"') => {
                    self.quoted()?;
                    continue;
                }
                Some('(') => depth += 1,
                Some(')') => depth -= 1,
                Some('}') if depth == 0 => {
                    self.next();
                    return Ok(Piece::Function(place, name));
                }
                Some(_) => {}
                None => return Err(self.unexpected("\")\"")),
            }
            self.next();
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut word = String::new();
        while let Some(letter) = self.rest.peek().copied().filter(|letter| belongs(*letter)) {
            word.push(letter);
            self.next();
        }
        word
    }

    fn quoted(&mut self) -> Result<String, TemplateError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(letter) => text.push(letter),
                    None => return Err(self.unexpected("\"\\\"\"")),
                },
                Some(letter) => text.push(letter),
                None => return Err(self.unexpected("\"\\\"\"")),
            }
        }
    }

    fn unexpected(&mut self, expected: &'static str) -> TemplateError {
        let found =
            self.rest.peek().map_or_else(|| "end of string".to_owned(), |letter| format!("{:?}", letter.to_string()));
        TemplateError::Syntax(self.at, expected, found)
    }
}
