//! Tokens such as `<uuid:1>` and `<index>`, which stand in a case for values that differ from run to run. This module
//! finds them, fills in learned values, and matches them with answers. Not here: walking whole documents.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value};

use crate::text;

static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("<(uuid:[0-9]+|str:[0-9]+|int:[0-9]+|x:[0-9]+|env:[A-Z_]+|index|time|port|ip|num|text|any)>")
        .expect("the pattern is fixed")
});

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("the pattern is fixed")
});

static RFC3339: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
        .expect("the pattern is fixed")
});

/// Values of the tokens of one case.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// Values learned from answers, by the inside of the token: `uuid:1`.
    pub learned: BTreeMap<String, String>,
    /// Values given by the caller, by name.
    pub env: BTreeMap<String, String>,
}

pub fn holds_token(text: &str) -> bool {
    TOKEN.is_match(text)
}

impl Bindings {
    /// `value` with all known tokens filled in.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, element)| (self.fill_text(key), self.fill(element))).collect())
            }
            Value::Array(list) => Value::Array(list.iter().map(|e| self.fill(e)).collect()),
            Value::String(s) => match self.learned_int(s) {
                Some(number) => Value::Number(number),
                None => Value::String(self.fill_text(s)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    pub fn fill_text(&self, text: &str) -> String {
        let filled = TOKEN.replace_all(text, |found: &regex::Captures<'_>| {
            let kind = &found[1];
            if let Some(count) = kind.strip_prefix("x:") {
                return "x".repeat(count.parse().unwrap_or_default());
            }
            let known = match kind.strip_prefix("env:") {
                Some(name) => self.env.get(name),
                None => self.learned.get(kind),
            };
            known.map_or_else(|| found[0].to_string(), String::clone)
        });
        filled.into_owned()
    }

    /// An integer if the whole text is the token of a learned integer.
    fn learned_int(&self, text: &str) -> Option<Number> {
        let kind = text.strip_prefix('<')?.strip_suffix('>')?;
        let value = self.learned.get(kind)?;
        kind.strip_prefix("int:")?;
        value.parse().ok()
    }

    /// Whether `got` matches `want`. Tokens that occur for the first time are learned.
    pub fn same(&mut self, want: &str, got: &Value) -> bool {
        let whole = TOKEN.captures(want).filter(|found| found[0].len() == want.len());
        match got {
            Value::String(got) => self.same_text(want, got),
            Value::Number(got) => whole.is_some_and(|found| self.same_number(&found[1], got)),
            _ => whole.is_some_and(|found| &found[1] == "any"),
        }
    }

    fn same_number(&mut self, kind: &str, got: &Number) -> bool {
        let value = got.as_f64().unwrap_or_default();
        match kind {
            "any" | "num" => true,
            "index" | "time" => value > 0.0,
            "port" => value > 0.0 && value < 65536.0,
            _ if kind.starts_with("int:") => {
                let got = text::number(got);
                *self.learned.entry(kind.to_string()).or_insert_with(|| got.clone()) == got
            }
            _ => false,
        }
    }

    pub fn same_text(&mut self, want: &str, got: &str) -> bool {
        if !TOKEN.is_match(want) {
            return want == got;
        }
        let mut names: Vec<String> = Vec::new();
        let mut pieces = Vec::new();
        let mut at = 0;
        for found in TOKEN.captures_iter(want) {
            let (whole, kind) = (found.get_match(), &found[1]);
            pieces.push(Piece::Literal(want[at..whole.start()].to_string()));
            at = whole.end();
            pieces.push(self.piece(whole.as_str(), kind, &mut names));
        }
        pieces.push(Piece::Literal(want[at..].to_string()));
        let mut learned = vec![None; names.len()];
        if !matches_from(&pieces, got, 0, &mut learned) {
            return false;
        }
        for (name, value) in names.into_iter().zip(learned) {
            self.learned.insert(name, value.unwrap_or_default());
        }
        true
    }

    fn piece(&self, whole: &str, kind: &str, names: &mut Vec<String>) -> Piece {
        if let Some(name) = kind.strip_prefix("env:") {
            return Piece::Literal(self.env.get(name).map_or(whole, String::as_str).to_string());
        }
        if let Some(known) = self.learned.get(kind) {
            return Piece::Literal(known.clone());
        }
        let shape = match kind {
            "time" => return Piece::Shape(Shape::Time),
            "index" => return Piece::Shape(Shape::Digits { max: usize::MAX }),
            "port" => return Piece::Shape(Shape::Digits { max: 5 }),
            "ip" => return Piece::Shape(Shape::Ip),
            "num" => return Piece::Shape(Shape::Num),
            "text" => return Piece::Shape(Shape::Text { min: 1 }),
            "any" => return Piece::Shape(Shape::Text { min: 0 }),
            _ if kind.starts_with("uuid:") => Shape::Uuid,
            _ if kind.starts_with("int:") => Shape::Digits { max: usize::MAX },
            _ if kind.starts_with("str:") => Shape::Shortest,
            _ => return Piece::Literal(whole.to_string()),
        };
        match names.iter().position(|name| name == kind) {
            Some(earlier) => Piece::Again(earlier),
            None => {
                names.push(kind.to_string());
                Piece::Learn(names.len() - 1, shape)
            }
        }
    }
}

/// One piece of an expected text.
enum Piece {
    Literal(String),
    Shape(Shape),
    /// A token that occurs for the first time; its match becomes the value of this number.
    Learn(usize, Shape),
    /// A repeated token: the same as the value of this number.
    Again(usize),
}

enum Shape {
    Uuid,
    Time,
    Digits {
        max: usize,
    },
    Ip,
    Num,
    /// As many characters as possible.
    Text {
        min: usize,
    },
    /// As few characters as possible, at least one.
    Shortest,
}

impl Shape {
    /// Possible lengths of the match at the start of `text` in bytes, the preferred one first.
    fn sizes(&self, text: &str) -> Vec<usize> {
        let longest_first = |min: usize, max: usize| -> Vec<usize> { (min..=max).rev().collect() };
        match self {
            Shape::Uuid => UUID.find(text).map(|m| m.len()).into_iter().collect(),
            Shape::Time => {
                let mut sizes: Vec<usize> = RFC3339.find(text).map(|m| m.len()).into_iter().collect();
                sizes.extend(longest_first(1, digits(text)));
                sizes
            }
            Shape::Digits { max } => longest_first(1, digits(text).min(*max)),
            Shape::Ip => {
                let ends = text.find(|c: char| !c.is_ascii_hexdigit() && c != '.' && c != ':');
                longest_first(1, ends.unwrap_or(text.len()))
            }
            Shape::Num => {
                let sign = usize::from(text.starts_with('-'));
                let mut sizes = Vec::new();
                for whole in longest_first(sign + 1, sign + digits(&text[sign..])) {
                    if let Some(fraction) = text[whole..].strip_prefix('.') {
                        sizes.extend(longest_first(whole + 2, whole + 1 + digits(fraction)));
                    }
                    sizes.push(whole);
                }
                sizes
            }
            Shape::Text { min } => {
                let mut sizes = boundaries(text, *min);
                sizes.reverse();
                sizes
            }
            Shape::Shortest => boundaries(text, 1),
        }
    }
}

fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

/// End positions of all prefixes of `text` with at least `min` characters.
fn boundaries(text: &str, min: usize) -> Vec<usize> {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.skip(min).collect()
}

/// Whether `pieces` match all of `text` from `at` on; tries every possibility, the preferred one first.
fn matches_from(pieces: &[Piece], text: &str, at: usize, learned: &mut Vec<Option<String>>) -> bool {
    let Some((piece, rest)) = pieces.split_first() else {
        return at == text.len();
    };
    match piece {
        Piece::Literal(literal) => {
            text[at..].starts_with(literal.as_str()) && matches_from(rest, text, at + literal.len(), learned)
        }
        Piece::Again(earlier) => {
            let value = learned[*earlier].clone().unwrap_or_default();
            text[at..].starts_with(&value) && matches_from(rest, text, at + value.len(), learned)
        }
        Piece::Shape(shape) => {
            shape.sizes(&text[at..]).into_iter().any(|size| matches_from(rest, text, at + size, learned))
        }
        Piece::Learn(place, shape) => shape.sizes(&text[at..]).into_iter().any(|size| {
            learned[*place] = Some(text[at..at + size].to_string());
            matches_from(rest, text, at + size, learned)
        }),
    }
}
