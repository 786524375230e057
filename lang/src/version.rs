//! Version constraints: the operands `version` (lenient, with rules for pre-releases and `~>`) and `semver`. The
//! scheduler chooses the versions to compare.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

/// A version: at least three numbers, an optional pre-release, optional metadata.
#[derive(Debug, Clone)]
pub struct Version {
    segments: Vec<i64>,
    /// Number of components as written; the missing ones are zero.
    written: usize,
    prerelease: String,
    metadata: String,
}

/// A list of constraints, all of which must hold.
#[derive(Debug, Clone)]
pub struct Constraints {
    dialect: Dialect,
    parts: Vec<Constraint>,
}

/// Operand that a constraint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `version`: `1.0beta` is a version, pre-releases match only constraints that name one, `~>` works.
    Version,
    /// `semver`: a pre-release needs its hyphen and compares like any other version; there is no `~>`.
    Semver,
}

#[derive(Debug, Clone)]
struct Constraint {
    operator: Operator,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Pessimistic,
}

/// A text that is not a version or not a constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The version is malformed.
    #[error("Malformed version: {0}")]
    Version(String),
    /// A component of the version is out of range.
    #[error("Error parsing version: strconv.ParseInt: parsing {0:?}: value out of range")]
    TooLarge(String),
    /// The constraint is malformed.
    #[error("Malformed constraint: {0}")]
    Constraint(String),
}

impl Version {
    /// Parses a version with one or more components, after an optional `v`.
    pub fn parse(text: &str) -> Result<Version, Error> {
        parse::version(text, Dialect::Version)
    }

    fn has_prerelease(&self) -> bool {
        !self.prerelease.is_empty()
    }

    fn same_base(&self, other: &Version) -> bool {
        self.segments == other.segments
    }

    /// Orders versions; metadata is ignored.
    #[must_use]
    pub fn compare(&self, other: &Version) -> Ordering {
        let longest = self.segments.len().max(other.segments.len());
        for at in 0..longest {
            let (mine, theirs) = (self.segments.get(at).unwrap_or(&0), other.segments.get(at).unwrap_or(&0));
            if mine != theirs {
                return mine.cmp(theirs);
            }
        }
        match (self.has_prerelease(), other.has_prerelease()) {
            (false, false) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (true, true) => compare_prereleases(&self.prerelease, &other.prerelease),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.segments.iter().map(i64::to_string).collect();
        f.write_str(&numbers.join("."))?;
        if self.has_prerelease() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl Constraints {
    /// Parses a comma-separated list of constraints.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Constraints, Error> {
        let parts = text.split(',').map(|part| parse::constraint(part, dialect)).collect::<Result<_, _>>()?;
        Ok(Constraints { dialect, parts })
    }

    /// Whether all constraints hold for `version`.
    #[must_use]
    pub fn check(&self, version: &Version) -> bool {
        self.parts.iter().all(|part| part.holds(version, self.dialect))
    }
}

impl Constraint {
    fn holds(&self, version: &Version, dialect: Dialect) -> bool {
        let order = version.compare(&self.version);
        let comparable = match dialect {
            Dialect::Version => prereleases_agree(version, &self.version),
            Dialect::Semver => true,
        };
        match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Greater => comparable && order == Ordering::Greater,
            Operator::Less => comparable && order == Ordering::Less,
            Operator::GreaterOrEqual => comparable && order != Ordering::Less,
            Operator::LessOrEqual => comparable && order != Ordering::Greater,
            Operator::Pessimistic => comparable && order != Ordering::Less && within(version, &self.version),
        }
    }
}

/// Whether the pre-releases are comparable: a pre-release matches only a constraint with a pre-release of the same
/// numbers.
fn prereleases_agree(version: &Version, bound: &Version) -> bool {
    match (version.has_prerelease(), bound.has_prerelease()) {
        (true, true) => version.same_base(bound),
        (true, false) => false,
        (false, true | false) => true,
    }
}

/// The upper bound of `~>`: all components except the last written one equal those of the bound.
fn within(version: &Version, bound: &Version) -> bool {
    if bound.has_prerelease() && !version.has_prerelease() {
        return false;
    }
    if bound.segments.len() > version.segments.len() {
        return false;
    }
    let fixed = bound.written.saturating_sub(1);
    if version.segments[..fixed] != bound.segments[..fixed] {
        return false;
    }
    let last = bound.segments.len() - 1;
    version.segments[last] >= bound.segments[last]
}

fn compare_prereleases(mine: &str, theirs: &str) -> Ordering {
    let (mine, theirs): (Vec<&str>, Vec<&str>) = (mine.split('.').collect(), theirs.split('.').collect());
    for at in 0..mine.len().max(theirs.len()) {
        let order =
            compare_parts(mine.get(at).copied().unwrap_or_default(), theirs.get(at).copied().unwrap_or_default());
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Numbers come before words. An absent part comes before a number but, as in the reference, after a word.
fn compare_parts(mine: &str, theirs: &str) -> Ordering {
    if mine == theirs {
        return Ordering::Equal;
    }
    match (mine.parse::<i64>().ok(), theirs.parse::<i64>().ok()) {
        (_, Some(_)) if mine.is_empty() => Ordering::Less,
        (_, None) if mine.is_empty() => Ordering::Greater,
        (Some(_), _) if theirs.is_empty() => Ordering::Greater,
        (None, _) if theirs.is_empty() => Ordering::Less,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(mine), Some(theirs)) => mine.cmp(&theirs),
        (None, None) => mine.cmp(theirs),
    }
}
