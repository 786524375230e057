//! Tokens of a template.

use super::Options;

/// Longest text of a token that is quoted in full.
const QUOTED_LETTERS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Error,
    Eof,
    Text,
    LeftDelim,
    RightDelim,
    LeftParen,
    RightParen,
    Space,
    Assign,
    Declare,
    Pipe,
    Comma,
    /// Another printable character.
    Other,
    Bool,
    Char,
    Number,
    Quoted,
    Raw,
    Field,
    Identifier,
    Variable,
    Dot,
    Nil,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A token with its place.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub token: Token,
    pub pos: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Its text; the message of an error.
    pub text: String,
}

impl Item {
    /// The token as messages show it.
    pub fn shown(&self) -> String {
        match self.token {
            Token::Eof => "EOF".to_owned(),
            Token::Error => self.text.clone(),
            Token::Dot | Token::Nil => format!("<{}>", self.text),
            _ if keyword(&self.text) == Some(self.token) => format!("<{}>", self.text),
            _ if self.text.chars().count() > QUOTED_LETTERS_MAX => {
                let start: String = self.text.chars().take(QUOTED_LETTERS_MAX).collect();
                format!("{}...", super::literal::quoted(&start))
            }
            _ => super::literal::quoted(&self.text),
        }
    }
}

fn keyword(word: &str) -> Option<Token> {
    Some(match word {
        "." => Token::Dot,
        "block" => Token::Block,
        "break" => Token::Break,
        "continue" => Token::Continue,
        "define" => Token::Define,
        "else" => Token::Else,
        "end" => Token::End,
        "if" => Token::If,
        "range" => Token::Range,
        "nil" => Token::Nil,
        "template" => Token::Template,
        "with" => Token::With,
        _ => return None,
    })
}

/// Reads all tokens. The last one is the end or an error.
pub(super) fn items(text: &str, options: &Options) -> Vec<Item> {
    let or = |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
    let mut lexer = Lexer {
        text,
        left: or(&options.left, "{{"),
        right: or(&options.right, "}}"),
        at: 0,
        line: 1,
        parens: 0,
        items: Vec::new(),
    };
    // An error token has ended the list already.
    let _ = lexer.all();
    lexer.items
}

struct Lexer<'t> {
    text: &'t str,
    left: String,
    right: String,
    at: usize,
    line: usize,
    parens: usize,
    items: Vec<Item>,
}

/// The lexer has written an error token and stops.
struct Stop;

type Step = Result<(), Stop>;

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

fn is_word(letter: char) -> bool {
    letter == '_' || letter.is_alphabetic() || letter.is_numeric()
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token, bytes: usize) {
        let text = &self.text[self.at..self.at + bytes];
        self.items.push(Item { token, pos: self.at, line: self.line, text: text.to_owned() });
        self.skip(bytes);
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.text[self.at..self.at + bytes].matches('\n').count();
        self.at += bytes;
    }

    fn fail(&mut self, message: impl Into<String>) -> Step {
        self.items.push(Item { token: Token::Error, pos: self.at, line: self.line, text: message.into() });
        Err(Stop)
    }

    fn all(&mut self) -> Step {
        loop {
            let Some(found) = self.rest().find(&self.left) else {
                if !self.rest().is_empty() {
                    self.push(Token::Text, self.rest().len());
                }
                self.push(Token::Eof, 0);
                return Ok(());
            };
            let before = &self.rest()[..found];
            let trims = self.trims(found + self.left.len());
            let kept = if trims { before.trim_end_matches(is_space).len() } else { found };
            if kept > 0 {
                self.push(Token::Text, kept);
            }
            self.skip(found - kept);
            self.action(trims)?;
        }
    }

    /// Whether the mark at this distance from here begins with a trim marker.
    fn trims(&self, distance: usize) -> bool {
        let mut letters = self.rest()[distance..].chars();
        letters.next() == Some('-') && letters.next().is_some_and(is_space)
    }

    fn action(&mut self, trims: bool) -> Step {
        let marker = if trims { 2 } else { 0 };
        let after = self.left.len() + marker;
        if self.rest()[after..].starts_with("/*") {
            self.skip(after);
            return self.comment();
        }
        self.push(Token::LeftDelim, self.left.len());
        self.skip(marker);
        self.parens = 0;
        while !self.ends_action() {
            self.inside()?;
        }
        Ok(())
    }

    fn comment(&mut self) -> Step {
        let Some(end) = self.rest().find("*/") else { return self.fail("unclosed comment") };
        self.skip(end + 2);
        let Some((distance, trims)) = self.right_delim() else {
            return self.fail("comment ends before closing delimiter");
        };
        self.skip(distance + self.right.len());
        self.trim_after(trims);
        Ok(())
    }

    /// Distance to a closing mark that follows at once, or after a trim marker.
    fn right_delim(&self) -> Option<(usize, bool)> {
        let rest = self.rest();
        let mut letters = rest.chars();
        if letters.next().is_some_and(is_space) && letters.next() == Some('-') && rest[2..].starts_with(&self.right) {
            return Some((2, true));
        }
        rest.starts_with(&self.right).then_some((0, false))
    }

    fn trim_after(&mut self, trims: bool) {
        if trims {
            let rest = self.rest();
            self.skip(rest.len() - rest.trim_start_matches(is_space).len());
        }
    }

    fn ends_action(&mut self) -> bool {
        let Some((distance, trims)) = self.right_delim().filter(|_| self.parens == 0) else { return false };
        self.skip(distance);
        self.push(Token::RightDelim, self.right.len());
        self.trim_after(trims);
        true
    }

    fn inside(&mut self) -> Step {
        if self.right_delim().is_some() {
            return self.fail("unclosed left paren");
        }
        let rest = self.rest();
        let Some(letter) = rest.chars().next() else { return self.fail("unclosed action") };
        match letter {
            _ if is_space(letter) => self.space(),
            '=' => self.push(Token::Assign, 1),
            ':' if rest.starts_with(":=") => self.push(Token::Declare, 2),
            ':' => return self.fail("expected :="),
            '|' => self.push(Token::Pipe, 1),
            '"' => return self.quoted(),
            '`' => return self.raw(),
            '\'' => return self.character(),
            '$' => return self.name(Token::Variable),
            '.' if !rest[1..].starts_with(|next: char| next.is_ascii_digit()) => return self.name(Token::Field),
            '.' | '+' | '-' | '0'..='9' => return self.number(),
            '(' => {
                self.push(Token::LeftParen, 1);
                self.parens += 1;
            }
            ')' if self.parens == 0 => return self.fail("unexpected right paren"),
            ')' => {
                self.push(Token::RightParen, 1);
                self.parens -= 1;
            }
            ',' => self.push(Token::Comma, 1),
            _ if is_word(letter) => return self.word(),
            '!'..='~' => self.push(Token::Other, 1),
            _ => return self.fail(format!("unrecognized character in action: {}", unicode(letter))),
        }
        Ok(())
    }

    /// White space, up to that of a closing mark with a trim marker.
    fn space(&mut self) {
        let start = self.at;
        let mut end = 0;
        for letter in self.rest().chars().take_while(|letter| is_space(*letter)) {
            let tail = &self.text[start + end + 1..];
            if end > 0 && tail.starts_with('-') && tail[1..].starts_with(&self.right) {
                break;
            }
            end += letter.len_utf8();
        }
        self.push(Token::Space, end);
    }

    fn quoted(&mut self) -> Step {
        match self.closing('"') {
            Some(length) => {
                self.push(Token::Quoted, length);
                Ok(())
            }
            None => self.fail("unterminated quoted string"),
        }
    }

    fn raw(&mut self) -> Step {
        match self.rest()[1..].find('`') {
            Some(end) => {
                self.push(Token::Raw, end + 2);
                Ok(())
            }
            None => self.fail("unterminated raw quoted string"),
        }
    }

    fn character(&mut self) -> Step {
        match self.closing('\'') {
            Some(length) => {
                self.push(Token::Char, length);
                Ok(())
            }
            None => self.fail("unterminated character constant"),
        }
    }

    /// Length of the literal that begins here, to the quote that ends it on its line. A backslash escapes a quote.
    fn closing(&self, quote: char) -> Option<usize> {
        let mut escaped = false;
        for (at, letter) in self.rest().char_indices().skip(1) {
            match letter {
                '\n' => return None,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if letter == quote => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    /// A field or a variable: its mark, then a word.
    fn name(&mut self, token: Token) -> Step {
        let length = 1 + word_bytes(&self.rest()[1..]);
        self.terminated(length)?;
        self.push(if length == 1 && token == Token::Field { Token::Dot } else { token }, length);
        Ok(())
    }

    fn word(&mut self) -> Step {
        let length = word_bytes(self.rest());
        self.terminated(length)?;
        let word = &self.rest()[..length];
        let token = match word {
            "true" | "false" => Token::Bool,
            _ => keyword(word).unwrap_or(Token::Identifier),
        };
        self.push(token, length);
        Ok(())
    }

    /// Refuses a word that is followed by what cannot follow one.
    fn terminated(&mut self, length: usize) -> Step {
        let after = &self.rest()[length..];
        let fits = after.is_empty()
            || after.starts_with(|letter: char| is_space(letter) || ".,|:)(".contains(letter))
            || after.starts_with(&self.right);
        match after.chars().next() {
            Some(letter) if !fits => self.fail(format!("bad character {}", unicode(letter))),
            _ => Ok(()),
        }
    }

    fn number(&mut self) -> Step {
        let rest = self.rest();
        let length = super::literal::number_bytes(rest);
        if let Some(letter) = rest[length..].chars().next().filter(|letter| is_word(*letter)) {
            return self.fail(format!(
                "bad number syntax: {}",
                super::literal::quoted(&format!("{}{letter}", &rest[..length]))
            ));
        }
        self.push(Token::Number, length);
        Ok(())
    }
}

fn word_bytes(text: &str) -> usize {
    text.find(|letter| !is_word(letter)).unwrap_or(text.len())
}

/// A character as Go's `%#U` prints it.
fn unicode(letter: char) -> String {
    format!("U+{:04X} '{letter}'", u32::from(letter))
}
