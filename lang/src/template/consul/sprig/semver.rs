//! Semantic versions and constraints of them, in the notation of Masterminds/semver: `^1.2`, `~1.2.3`, `>=1.2, <2`,
//! `1.x`, `1.2 - 1.4`, alternatives separated by `||`. Constraints of jobs are another language ([`crate::version`]).

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::{Plain, arg};
use crate::template::{Object, Type, Value};

pub(super) const PLAIN: &[Plain] = &[
    ("semver", &[Type::Text], None, |args| {
        Ok(Value::Object(Arc::new(Version::parse(arg(args, 0))?) as Arc<dyn Object>))
    }),
    ("semverCompare", &[Type::Text, Type::Text], None, |args| {
        let alternatives = alternatives(arg(args, 0))?;
        let version = Version::parse(arg(args, 1))?;
        Ok(Value::Bool(alternatives.iter().any(|all| all.iter().all(|constraint| constraint.holds(&version)))))
    }),
];

/// A version.
#[derive(Debug, Clone, Default)]
struct Version {
    /// Major, minor and patch number.
    numbers: [u64; 3],
    prerelease: String,
    metadata: String,
    original: String,
}

impl Version {
    /// Parses a version of one to three numbers, after an optional `v`.
    fn parse(text: &str) -> Result<Self, String> {
        let (numbers, prerelease, metadata) = parts(text);
        let parsed: Option<Vec<u64>> = numbers.split('.').map(number).collect();
        match parsed {
            Some(found) if found.len() <= 3 && prerelease.is_none_or(is_dotted) && metadata.is_none_or(is_dotted) => {
                let mut numbers = [0; 3];
                numbers[..found.len()].copy_from_slice(&found);
                let owned = |part: Option<&str>| part.unwrap_or_default().to_owned();
                Ok(Self {
                    numbers,
                    prerelease: owned(prerelease),
                    metadata: owned(metadata),
                    original: text.to_owned(),
                })
            }
            Some(_) | None => Err("Invalid Semantic Version".to_owned()),
        }
    }

    /// Order of versions; metadata does not count.
    fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.as_str(), other.prerelease.as_str()) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (a, b) => a.split('.').map(Part::new).cmp(b.split('.').map(Part::new)),
        })
    }
}

/// Part of a pre-release. Numbers come before words, and fewer parts before more.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'t> {
    Number(u64),
    Word(&'t str),
}

impl<'t> Part<'t> {
    fn new(text: &'t str) -> Self {
        number(text).map_or(Self::Word(text), Self::Number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl Object for Version {
    fn of(&self) -> &'static str {
        "*semver.Version"
    }

    fn plain(&self) -> Value {
        Value::record("semver.Version", Vec::new())
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String" => Some(&[]),
            "Compare" | "Equal" | "GreaterThan" | "LessThan" => Some(&[Type::Any]),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        Ok(match name {
            "Major" => Value::Uint(self.numbers[0]),
            "Minor" => Value::Uint(self.numbers[1]),
            "Patch" => Value::Uint(self.numbers[2]),
            "Prerelease" => Value::text(&self.prerelease),
            "Metadata" => Value::text(&self.metadata),
            "Original" => Value::text(&self.original),
            "String" => Value::text(self.to_string()),
            _ => {
                let other = match args.first() {
                    Some(Value::Object(object)) => object.as_any().and_then(|any| any.downcast_ref::<Self>()),
                    Some(_) | None => None,
                };
                let order = self.order(other.ok_or("wrong type for value; expected *semver.Version")?);
                match name {
                    "Compare" => Value::Int(order as i64),
                    "Equal" => Value::Bool(order == Ordering::Equal),
                    "GreaterThan" => Value::Bool(order == Ordering::Greater),
                    _ => Value::Bool(order == Ordering::Less),
                }
            }
        })
    }

    fn printed(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// Numbers, pre-release and metadata of a version.
fn parts(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) = match text.split_once('+') {
        Some((text, metadata)) => (text, Some(metadata)),
        None => (text, None),
    };
    match text.split_once('-') {
        Some((numbers, prerelease)) => (numbers, Some(prerelease), metadata),
        None => (text, None, metadata),
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn is_dotted(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    text.split('.').all(is_part)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Operators by their spelling. A longer one that begins with another stands before it.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

/// One constraint.
#[derive(Debug, Clone)]
struct Constraint {
    operator: Operator,
    version: Version,
    /// Count of numbers that are given; others are missing or `x`.
    given: usize,
}

impl Constraint {
    fn parse(text: &str) -> Option<Self> {
        let found = OPERATORS.iter().find_map(|(spelled, operator)| Some((text.strip_prefix(spelled)?, *operator)));
        let (rest, operator) = found.unwrap_or((text, Operator::Equal));
        let (numbers, prerelease, metadata) = parts(rest.trim_start());
        if !prerelease.is_none_or(is_dotted) || !metadata.is_none_or(is_dotted) {
            return None;
        }
        let words: Vec<&str> = numbers.split('.').collect();
        let is_any = |word: &&str| matches!(*word, "x" | "X" | "*");
        if words.len() > 3 || !words.iter().all(|word| is_any(word) || number(word).is_some()) {
            return None;
        }
        let mut version = Version { prerelease: prerelease.unwrap_or_default().to_owned(), ..Version::default() };
        let mut given = 0;
        for word in words.iter().take_while(|word| !is_any(word)) {
            version.numbers[given] = number(word)?;
            given += 1;
        }
        Some(Self { operator, version, given })
    }

    fn holds(&self, version: &Version) -> bool {
        let order = version.order(&self.version);
        let ([major, minor, patch], [own_major, own_minor, own_patch]) = (version.numbers, self.version.numbers);
        // A pre-release is meant only where the constraint names one.
        let is_meant = version.prerelease.is_empty() || !self.version.prerelease.is_empty();
        // Whether the given numbers agree.
        let agrees = version.numbers[..self.given] == self.version.numbers[..self.given];
        match self.operator {
            Operator::NotEqual if self.given < 3 => is_meant && !agrees,
            Operator::NotEqual => order != Ordering::Equal,
            _ if !is_meant => self.operator == Operator::Equal && self.given == 3 && order == Ordering::Equal,
            Operator::Equal if self.given == 3 => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => {
                let fixed = if self.given == 0 || (self.given == 3 && self.version.numbers == [0; 3]) {
                    0
                } else {
                    self.given.min(2)
                };
                order != Ordering::Less && version.numbers[..fixed] == self.version.numbers[..fixed]
            }
            Operator::Greater => order == Ordering::Greater && (self.given == 3 || !agrees),
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater || (self.given < 3 && agrees),
            Operator::Caret if order == Ordering::Less => false,
            Operator::Caret if own_major > 0 || self.given < 2 => self.given == 0 || major == own_major,
            Operator::Caret if own_minor > 0 || self.given < 3 => major == 0 && minor == own_minor,
            Operator::Caret => major == 0 && minor == 0 && patch == own_patch,
        }
    }
}

/// Alternatives, each with constraints that have to hold together.
fn alternatives(text: &str) -> Result<Vec<Vec<Constraint>>, String> {
    text.split("||").map(|all| together(all).ok_or_else(|| format!("improper constraint: {text}"))).collect()
}

fn together(text: &str) -> Option<Vec<Constraint>> {
    // `1.2 - 1.4` is a range. Operators may have blanks behind them.
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let mut all = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = words[at];
        if words.get(at + 1) == Some(&"-") {
            all.push(Constraint { operator: Operator::GreaterOrEqual, ..Constraint::parse(word)? });
            all.push(Constraint { operator: Operator::LessOrEqual, ..Constraint::parse(words.get(at + 2)?)? });
            at += 3;
        } else if OPERATORS.iter().any(|(spelled, _)| *spelled == word) {
            all.push(Constraint::parse(&format!("{word}{}", words.get(at + 1)?))?);
            at += 2;
        } else {
            all.push(Constraint::parse(word)?);
            at += 1;
        }
    }
    (!all.is_empty()).then_some(all)
}
