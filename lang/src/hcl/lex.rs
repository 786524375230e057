//! Lexer. Quoted strings and heredocs are templates: inside their `${ }`, ordinary tokens are read again.

mod complaints;

use super::{Position, Range};

pub(super) use complaints::complaints;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    OpenParen,
    CloseParen,
    OpenQuote,
    CloseQuote,
    /// `flush`: the opener has a hyphen, so indentation is removed.
    OpenHeredoc {
        flush: bool,
    },
    CloseHeredoc,
    /// `${`, with an optional `~`.
    Interpolation {
        trim: bool,
    },
    /// `%{`, with an optional `~`.
    Control {
        trim: bool,
    },
    SequenceEnd {
        trim: bool,
    },
    QuotedLiteral,
    HeredocLiteral,
    Number,
    Identifier,
    Comment,
    Newline,
    /// A line break inside quotes, where none is allowed.
    QuotedNewline,
    End,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Equal,
    EqualEqual,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Bang,
    Dot,
    Comma,
    Ellipsis,
    FatArrow,
    Question,
    Colon,
    Bitwise,
    Backtick,
    Apostrophe,
    Semicolon,
    Invalid,
}

/// A token and its range.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) range: Range,
}

/// All tokens of a text; the last one is `End`.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer =
        Lexer { text, base: 0, at: Position::START, tokens: Vec::new(), modes: vec![Mode::Plain { braces: 0 }] };
    if text.starts_with('\u{feff}') {
        lexer.at.byte = '\u{feff}'.len_utf8();
    }
    lexer.run();
    lexer.tokens
}

/// All tokens of a text that begins at `start` in its file. If `template`, the whole text is a template without
/// quotes.
pub(super) fn tokens_at(text: &str, start: Position, template: bool) -> Vec<Token<'_>> {
    // No line equals this marker, so the template ends with the text.
    let mode = if template { Mode::Heredoc { marker: "\n", start_of_line: false } } else { Mode::Plain { braces: 0 } };
    let mut lexer = Lexer { text, base: start.byte, at: start, tokens: Vec::new(), modes: vec![mode] };
    lexer.run();
    lexer.tokens
}

enum Mode<'a> {
    /// Ordinary tokens. Inside a template sequence, the closing brace of the sequence ends this mode.
    Plain {
        braces: usize,
    },
    Quote,
    Heredoc {
        marker: &'a str,
        start_of_line: bool,
    },
}

struct Lexer<'a> {
    text: &'a str,
    /// Offset in bytes of the text in its file.
    base: usize,
    at: Position,
    tokens: Vec<Token<'a>>,
    modes: Vec<Mode<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at.byte - self.base..]
    }

    fn run(&mut self) {
        while !self.rest().is_empty() {
            match self.modes.last() {
                Some(Mode::Plain { .. }) | None => self.plain(),
                Some(Mode::Quote) => self.quoted(),
                Some(Mode::Heredoc { .. }) => self.heredoc(),
            }
        }
        self.emit(Kind::End, 0);
    }

    /// Consumes `length` bytes as a token.
    fn emit(&mut self, kind: Kind, length: usize) {
        let start = self.at;
        let text = &self.rest()[..length];
        self.skip(length);
        self.tokens.push(Token { kind, text, range: Range { start, end: self.at } });
    }

    fn skip(&mut self, length: usize) {
        for letter in self.rest()[..length].chars() {
            self.at.byte += letter.len_utf8();
            if letter == '\n' {
                self.at.line += 1;
                self.at.column = 1;
            } else if letter != '\r' {
                self.at.column += 1;
            }
        }
    }

    fn plain(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        match first {
            ' ' | '\t' => self.skip(1),
            '\n' => self.emit(Kind::Newline, 1),
            '\r' if rest.starts_with("\r\n") => self.emit(Kind::Newline, 2),
            '#' => self.line_comment(),
            '/' if rest.starts_with("//") => self.line_comment(),
            '/' if rest.starts_with("/*") && rest[2..].contains("*/") => {
                let length = rest[2..].find("*/").map_or(rest.len(), |end| end + 4);
                self.emit(Kind::Comment, length);
            }
            '"' => {
                self.emit(Kind::OpenQuote, 1);
                self.modes.push(Mode::Quote);
            }
            '0'..='9' => self.emit(Kind::Number, number_length(rest)),
            '<' if rest.starts_with("<<") => self.heredoc_opener(),
            '{' => {
                if let Some(Mode::Plain { braces }) = self.modes.last_mut() {
                    *braces += 1;
                }
                self.emit(Kind::OpenBrace, 1);
            }
            '}' => self.close_brace(1),
            '~' if rest.starts_with("~}") && self.ends_sequence() => self.close_brace(2),
            _ if is_identifier_start(first) => {
                let length = rest.find(|letter| !is_identifier(letter)).unwrap_or(rest.len());
                self.emit(Kind::Identifier, length);
            }
            _ => self.operator(rest, first),
        }
    }

    fn line_comment(&mut self) {
        let rest = self.rest();
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        self.emit(Kind::Comment, length);
    }

    fn operator(&mut self, rest: &str, first: char) {
        const LONG: [(&str, Kind); 8] = [
            ("...", Kind::Ellipsis),
            ("==", Kind::EqualEqual),
            ("!=", Kind::NotEqual),
            ("<=", Kind::LessEqual),
            (">=", Kind::GreaterEqual),
            ("&&", Kind::And),
            ("||", Kind::Or),
            ("=>", Kind::FatArrow),
        ];
        if let Some((text, kind)) = LONG.iter().find(|(text, _)| rest.starts_with(text)) {
            return self.emit(*kind, text.len());
        }
        let kind = match first {
            '[' => Kind::OpenBracket,
            ']' => Kind::CloseBracket,
            '(' => Kind::OpenParen,
            ')' => Kind::CloseParen,
            '+' => Kind::Plus,
            '-' => Kind::Minus,
            '*' => Kind::Star,
            '/' => Kind::Slash,
            '%' => Kind::Percent,
            '=' => Kind::Equal,
            '<' => Kind::Less,
            '>' => Kind::Greater,
            '!' => Kind::Bang,
            '.' => Kind::Dot,
            ',' => Kind::Comma,
            '?' => Kind::Question,
            ':' => Kind::Colon,
            '&' | '|' | '^' | '~' => Kind::Bitwise,
            '`' => Kind::Backtick,
            '\'' => Kind::Apostrophe,
            ';' => Kind::Semicolon,
            _ => Kind::Invalid,
        };
        self.emit(kind, first.len_utf8());
    }

    fn ends_sequence(&self) -> bool {
        self.modes.len() > 1 && matches!(self.modes.last(), Some(Mode::Plain { braces: 0 }))
    }

    fn close_brace(&mut self, length: usize) {
        if self.ends_sequence() {
            self.modes.pop();
            return self.emit(Kind::SequenceEnd { trim: length == 2 }, length);
        }
        if let Some(Mode::Plain { braces }) = self.modes.last_mut() {
            *braces = braces.saturating_sub(1);
        }
        self.emit(Kind::CloseBrace, 1);
    }

    fn heredoc_opener(&mut self) {
        let rest = self.rest();
        let flush = rest.starts_with("<<-");
        let name = &rest[if flush { 3 } else { 2 }..];
        let length = name.find(|letter| !is_identifier(letter)).unwrap_or(name.len());
        let marker = &name[..length];
        let line_break = if name[length..].starts_with("\r\n") { 2 } else { 1 };
        if !marker.starts_with(is_identifier_start)
            || !name[length..].starts_with(['\n', '\r'])
            || name.len() < length + line_break
        {
            return self.emit(Kind::Less, 1);
        }
        let opener = rest.len() - name.len() + length + line_break;
        self.emit(Kind::OpenHeredoc { flush }, opener);
        self.modes.push(Mode::Heredoc { marker, start_of_line: true });
    }

    /// Opens a template sequence if one begins here.
    fn sequence(&mut self) -> bool {
        let rest = self.rest();
        let interpolation = rest.starts_with("${");
        if !interpolation && !rest.starts_with("%{") {
            return false;
        }
        let trim = rest[2..].starts_with('~');
        let length = if trim { 3 } else { 2 };
        let kind = if interpolation { Kind::Interpolation { trim } } else { Kind::Control { trim } };
        self.emit(kind, length);
        self.modes.push(Mode::Plain { braces: 0 });
        true
    }

    fn quoted(&mut self) {
        if self.sequence() {
            return;
        }
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        match first {
            '"' => {
                self.modes.pop();
                self.emit(Kind::CloseQuote, 1);
            }
            '\n' => self.emit(Kind::QuotedNewline, 1),
            '\r' if rest.starts_with("\r\n") => self.emit(Kind::QuotedNewline, 2),
            '$' | '%' => self.emit(Kind::QuotedLiteral, marker_length(rest)),
            _ => match quoted_run(rest) {
                0 => self.emit(Kind::Invalid, first.len_utf8()),
                length => self.emit(Kind::QuotedLiteral, length),
            },
        }
    }

    fn heredoc(&mut self) {
        let rest = self.rest();
        let line_end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        if let Some(Mode::Heredoc { marker, start_of_line: true }) = self.modes.last()
            && rest[..line_end].ends_with('\n')
            && rest[..line_end].trim() == *marker
        {
            let length = rest[..line_end].trim_end_matches(['\n', '\r']).len();
            self.emit(Kind::CloseHeredoc, length);
            self.modes.pop();
            return;
        }
        if self.sequence() {
            self.start_of_line(false);
            return;
        }
        if rest.starts_with(['$', '%']) {
            self.emit(Kind::HeredocLiteral, marker_length(rest));
            self.start_of_line(false);
            return;
        }
        let length = rest[..line_end].find(['$', '%']).unwrap_or(line_end);
        let whole_line = rest[..length].ends_with('\n');
        self.emit(Kind::HeredocLiteral, length);
        self.start_of_line(whole_line);
    }

    fn start_of_line(&mut self, now: bool) {
        if let Some(Mode::Heredoc { start_of_line, .. }) = self.modes.last_mut() {
            *start_of_line = now;
        }
    }
}

/// The length of a `$` or `%` that opens no sequence, including the rest of an escaped opener.
fn marker_length(rest: &str) -> usize {
    let doubled = if rest.starts_with("$${") || rest.starts_with("%%{") { 3 } else { 1 };
    if doubled == 3 && rest[3..].starts_with('~') { 4 } else { doubled }
}

fn quoted_run(rest: &str) -> usize {
    let mut length = 0;
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '\n' | '\r' | '$' | '%' => break,
            '\\' => match letters.next() {
                Some(escaped) if escaped != '\n' && escaped != '\r' => length += 1 + escaped.len_utf8(),
                _ => break,
            },
            _ => length += letter.len_utf8(),
        }
    }
    length
}

fn number_length(rest: &str) -> usize {
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(rest);
    if rest[length..].starts_with('.') {
        let fraction = digits(&rest[length + 1..]);
        if fraction > 0 {
            length += 1 + fraction;
        }
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&rest[length + 1 + sign..]);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

fn is_identifier_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_identifier(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

/// Whether a text is a valid identifier.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(is_identifier_start) && text.chars().all(is_identifier)
}
