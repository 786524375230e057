//! The older configuration language, HCL 1: agent configuration, policies, and old job files. HCL 1 has no
//! expressions: `${..}` is plain text. The callers interpret the keys.

mod json;
mod scan;
#[cfg(test)]
mod tests;

use scan::{Kind, Scanner, Token};

/// Position in a text: line and column, both from 1, columns in characters. JSON texts have no positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// No position.
    pub(crate) const NOWHERE: Place = Place { line: 0, column: 0 };
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Place::NOWHERE { f.write_str("-") } else { write!(f, "{}:{}", self.line, self.column) }
    }
}

/// A text was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At {place}: {message}")]
pub(crate) struct Error {
    pub(crate) place: Place,
    pub(crate) message: String,
}

/// One item: `key = value`, or `key "label" { .. }`.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The key, then the labels.
    pub(crate) keys: Vec<String>,
    /// Positions of key and labels.
    pub(crate) places: Vec<Place>,
    /// Whether the item is written with `=`.
    pub(crate) assigned: bool,
    pub(crate) value: Node,
}

/// A value and its position.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) place: Place,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Bool(bool),
    /// The literal as written.
    Integer(String),
    /// The literal as written.
    Float(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Item>),
}

/// Deepest nesting of objects and lists.
const NESTING_DEPTH_MAX: usize = 100;

/// Parses a whole text.
pub(crate) fn parse(text: &str) -> Result<Vec<Item>, Error> {
    let mut parser = Parser { scanner: Scanner::new(text), token: Token::start(), held: false, depth: 0 };
    let mut items = Vec::new();
    let outcome = parser.items(false, &mut items);
    // A scanner error explains the parser's error, so it is reported instead.
    match parser.scanner.error {
        Some(error) => Err(error),
        None => outcome.map(|()| items),
    }
}

/// Parses a whole text. A text that begins with a brace is JSON.
pub(crate) fn parse_either(text: &str) -> Result<Vec<Item>, EitherError> {
    if text.trim_start().starts_with('{') { json::parse(text).map_err(EitherError::Json) } else { Ok(parse(text)?) }
}

/// A text in either language was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EitherError {
    #[error(transparent)]
    Hcl(#[from] Error),
    #[error("{0}")]
    Json(String),
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    token: Token,
    /// Whether the token was peeked at and is returned again.
    held: bool,
    depth: usize,
}

/// Reason why a list of items ends.
enum Stop {
    End,
    Wrong(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Wrong(error)
    }
}

impl Parser<'_> {
    fn scan(&mut self) -> Kind {
        if std::mem::take(&mut self.held) {
            return self.token.kind;
        }
        self.token = self.scanner.token();
        self.token.kind
    }

    fn wrong(&self, message: String) -> Error {
        Error { place: self.token.place, message }
    }

    /// Reads items until the end of the text, or inside an object until its closing brace.
    fn items(&mut self, inside: bool, items: &mut Vec<Item>) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > NESTING_DEPTH_MAX {
            return Err(self.wrong("objects nest too deeply".to_string()));
        }
        loop {
            if inside {
                let next = self.scan();
                self.held = true;
                if next == Kind::CloseBrace {
                    break;
                }
            }
            match self.item() {
                Ok(item) => items.push(item),
                Err(Stop::End) => break,
                Err(Stop::Wrong(error)) => return Err(error),
            }
            if self.scan() != Kind::Comma {
                self.held = true;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn item(&mut self) -> Result<Item, Stop> {
        let keys = self.keys()?;
        let (assigned, value) = match self.token.kind {
            Kind::Assign => (true, self.value()?),
            Kind::OpenBrace => (false, self.object()?),
            _ => {
                let names: Vec<&str> = keys.iter().map(|key| key.written.as_str()).collect();
                let message = format!("key '{}' expected start of object ('{{') or assignment ('=')", names.join(" "));
                let error = self.wrong(message);
                // A brace after a key does not end the object without an error, as one after `=` does.
                self.token.kind = Kind::End;
                return Err(error.into());
            }
        };
        let places = keys.iter().map(|key| key.place).collect();
        Ok(Item { keys: keys.into_iter().map(|key| key.value).collect(), places, assigned, value })
    }

    /// Reads the tokens of keys through the following `=` or brace.
    fn keys(&mut self) -> Result<Vec<Token>, Stop> {
        let mut keys: Vec<Token> = Vec::new();
        loop {
            match self.scan() {
                Kind::End if keys.is_empty() => return Err(Stop::End),
                // A key without a value; the caller reports it.
                Kind::End => return Ok(keys),
                Kind::CloseBrace if !keys.is_empty() => return Ok(keys),
                Kind::Assign if keys.len() > 1 => {
                    return Err(self.wrong("nested object expected: LBRACE got: ASSIGN".to_string()).into());
                }
                Kind::Assign if keys.is_empty() => return Err(self.wrong("no object keys found!".to_string()).into()),
                Kind::Assign => return Ok(keys),
                Kind::OpenBrace if keys.is_empty() => {
                    return Err(self.wrong("expected: IDENT | STRING got: LBRACE".to_string()).into());
                }
                Kind::OpenBrace => return Ok(keys),
                Kind::Identifier | Kind::Text | Kind::Bool => {
                    // The word `true` is not a key.
                    if self.token.kind == Kind::Bool {
                        return Err(self.unexpected_key());
                    }
                    keys.push(self.token.clone());
                }
                Kind::Illegal => return Err(self.wrong("illegal character".to_string()).into()),
                _ => return Err(self.unexpected_key()),
            }
        }
    }

    fn unexpected_key(&self) -> Stop {
        self.wrong(format!("expected: IDENT | STRING | ASSIGN | LBRACE got: {}", self.token.kind.name())).into()
    }

    fn value(&mut self) -> Result<Node, Stop> {
        match self.scan() {
            Kind::Number | Kind::Float | Kind::Bool | Kind::Text | Kind::Heredoc => Ok(self.literal()),
            Kind::OpenBrace => Ok(self.object()?),
            Kind::OpenBracket => Ok(self.list()?),
            Kind::End => Err(Stop::End),
            _ => {
                let token = &self.token;
                let message = format!(
                    "Unknown token: {}:{} {} {}",
                    token.place.line,
                    token.place.column,
                    token.kind.name(),
                    token.written
                );
                Err(self.wrong(message).into())
            }
        }
    }

    fn literal(&self) -> Node {
        let value = self.token.value.clone();
        let kind = match self.token.kind {
            Kind::Number => NodeKind::Integer(value),
            Kind::Float => NodeKind::Float(value),
            Kind::Bool => NodeKind::Bool(value == "true"),
            _ => NodeKind::Text(value),
        };
        Node { kind, place: self.token.place }
    }

    fn object(&mut self) -> Result<Node, Error> {
        let (place, depth) = (self.token.place, self.depth);
        let mut items = Vec::new();
        if let Err(error) = self.items(true, &mut items) {
            // As in the reference, an error at a closing brace is taken for the end of the items, so that what is told
            // of `a = }` is that another brace is missing.
            if self.token.kind != Kind::CloseBrace || depth >= NESTING_DEPTH_MAX {
                return Err(error);
            }
            self.depth = depth;
        }
        if self.scan() != Kind::CloseBrace {
            return Err(self.wrong(format!("object expected closing RBRACE got: {}", self.token.kind.name())));
        }
        Ok(Node { kind: NodeKind::Object(items), place })
    }

    fn list(&mut self) -> Result<Node, Error> {
        let place = self.token.place;
        self.depth += 1;
        if self.depth > NESTING_DEPTH_MAX {
            return Err(self.wrong("lists nest too deeply".to_string()));
        }
        let mut nodes = Vec::new();
        let mut need_comma = false;
        loop {
            let next = self.scan();
            if need_comma && !matches!(next, Kind::Comma | Kind::CloseBracket) {
                let message = format!("error parsing list, expected comma or list end, got: {}", next.name());
                return Err(self.wrong(message));
            }
            let start = self.token.place;
            match next {
                Kind::Bool | Kind::Number | Kind::Float | Kind::Text | Kind::Heredoc => {
                    nodes.push(self.literal());
                    need_comma = true;
                }
                Kind::Comma => need_comma = false,
                Kind::OpenBrace => {
                    let nested = self.object().map_err(|error| Error {
                        place: start,
                        message: format!("error while trying to parse object within list: {error}"),
                    })?;
                    nodes.push(nested);
                    need_comma = true;
                }
                Kind::OpenBracket => {
                    let nested = self.list().map_err(|error| Error {
                        place: start,
                        message: format!("error while trying to parse list within list: {error}"),
                    })?;
                    nodes.push(nested);
                }
                Kind::CloseBracket => {
                    self.depth -= 1;
                    return Ok(Node { kind: NodeKind::List(nodes), place });
                }
                _ => return Err(self.wrong(format!("unexpected token while parsing list: {}", next.name()))),
            }
        }
    }
}
