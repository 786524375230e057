//! Parsers of versions and constraints.

use winnow::Parser;
use winnow::combinator::{alt, eof, opt, preceded, separated};
use winnow::error::ContextError;
use winnow::token::{literal, take_while};

use super::{Constraint, Dialect, Error, Operator, Version};

type Parsed<T> = Result<T, ContextError>;

/// Parts of a version as written.
struct Written<'a> {
    numbers: Vec<&'a str>,
    prerelease: &'a str,
    metadata: &'a str,
}

/// Parses one version.
pub(super) fn version(text: &str, dialect: Dialect) -> Result<Version, Error> {
    let mut rest = text;
    let written = match (written(dialect), eof).parse_next(&mut rest) {
        Ok((written, _)) => written,
        Err(_) => return Err(Error::Version(text.to_string())),
    };
    build(text, &written)
}

/// Parses one constraint: an optional operator, by default equality, and a version.
pub(super) fn constraint(text: &str, dialect: Dialect) -> Result<Constraint, Error> {
    let malformed = || Error::Constraint(text.to_string());
    let mut rest = text.trim();
    let operator = operator(&mut rest, dialect);
    let mut rest = rest.trim_start();
    let (written, _) = (written(dialect), eof).parse_next(&mut rest).map_err(|_| malformed())?;
    Ok(Constraint { operator, version: build(text, &written)? })
}

fn operator(rest: &mut &str, dialect: Dialect) -> Operator {
    // Of operators with the same beginning, the longer one comes first.
    const OPERATORS: [(&str, Operator); 7] = [
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("!=", Operator::NotEqual),
        ("~>", Operator::Pessimistic),
        ("=", Operator::Equal),
        (">", Operator::Greater),
        ("<", Operator::Less),
    ];
    for (text, operator) in OPERATORS {
        if operator == Operator::Pessimistic && dialect == Dialect::Semver {
            continue;
        }
        if let Some(after) = rest.strip_prefix(text) {
            *rest = after;
            return operator;
        }
    }
    Operator::Equal
}

fn build(text: &str, written: &Written<'_>) -> Result<Version, Error> {
    let mut segments = written
        .numbers
        .iter()
        .map(|number| number.parse().map_err(|_| Error::TooLarge((*number).to_string())))
        .collect::<Result<Vec<i64>, _>>()?;
    if segments.is_empty() {
        return Err(Error::Version(text.to_string()));
    }
    let count = segments.len();
    segments.resize(count.max(3), 0);
    Ok(Version {
        segments,
        written: count,
        prerelease: written.prerelease.to_string(),
        metadata: written.metadata.to_string(),
    })
}

fn written<'a>(dialect: Dialect) -> impl FnMut(&mut &'a str) -> Parsed<Written<'a>> {
    move |input| {
        opt(literal("v")).parse_next(input)?;
        let numbers = separated(1.., digits, ".").parse_next(input)?;
        let prerelease = match dialect {
            Dialect::Version => opt(alt((preceded("-", identifiers), wordy))).parse_next(input)?,
            Dialect::Semver => opt(preceded("-", identifiers)).parse_next(input)?,
        };
        let metadata = opt(preceded("+", identifiers)).parse_next(input)?;
        Ok(Written { numbers, prerelease: prerelease.unwrap_or_default(), metadata: metadata.unwrap_or_default() })
    }
}

fn digits<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    take_while(1.., |letter: char| letter.is_ascii_digit()).parse_next(input)
}

fn identifiers<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    let one = || take_while(1.., |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '~');
    separated::<_, _, (), _, _, _, _>(1.., one(), ".").take().parse_next(input)
}

/// A pre-release without its hyphen: `1.0beta2`.
fn wordy<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    if input.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '-' || letter == '~') {
        return identifiers(input);
    }
    Err(ContextError::new())
}
