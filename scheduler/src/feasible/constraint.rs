//! One constraint: what its targets are on a node, and whether its operand holds.

use std::borrow::Cow;
use std::cmp::Ordering;

use songline_lang::version::{Constraints, Dialect, Version};
use songline_model::{Constraint, Node, Str};

/// A constraint, its expression compiled once when it is the same for every node.
#[derive(Debug)]
pub struct Rule {
    constraint: Constraint,
    ready: Ready,
}

/// What can be made ready from the right side alone.
#[derive(Debug)]
enum Ready {
    Nothing,
    /// `None`: the expression is not one, so nothing matches it.
    Regexp(Option<Box<regex::Regex>>),
    Versions(Option<Constraints>),
}

impl Rule {
    /// Makes a constraint ready.
    pub fn new(constraint: &Constraint) -> Self {
        let literal = !constraint.r_target.starts_with("${");
        let ready = match constraint.operand.as_str() {
            "regexp" if literal => Ready::Regexp(songline_lang::regexp::compile(&constraint.r_target).ok().map(Box::new)),
            "version" if literal => Ready::Versions(Constraints::parse(&constraint.r_target, Dialect::Version).ok()),
            "semver" if literal => Ready::Versions(Constraints::parse(&constraint.r_target, Dialect::Semver).ok()),
            _ => Ready::Nothing,
        };
        Self { constraint: constraint.clone(), ready }
    }

    /// Whether the node passes.
    pub fn holds(&self, node: &Node) -> bool {
        let left = resolve(&self.constraint.l_target, node);
        match &self.ready {
            Ready::Regexp(expression) => left.zip(expression.as_ref()).is_some_and(|(left, expression)| expression.is_match(&left)),
            Ready::Versions(constraints) => {
                let version = left.and_then(|left| Version::parse(&left).ok());
                version.zip(constraints.as_ref()).is_some_and(|(version, constraints)| constraints.check(&version))
            }
            Ready::Nothing => {
                let right = resolve(&self.constraint.r_target, node);
                satisfied(&self.constraint.operand, left.as_deref(), right.as_deref())
            }
        }
    }

    /// What a metric says when it does not hold.
    pub fn text(&self) -> Str {
        let Constraint { l_target, operand, r_target } = &self.constraint;
        format!("{l_target} {operand} {r_target}").into()
    }
}

/// What a target is on a node: a text stands for itself, `${..}` for something of the node. `None`: the node has no such thing.
pub fn resolve<'a>(target: &'a str, node: &'a Node) -> Option<Cow<'a, str>> {
    let Some(inside) = target.strip_prefix("${") else { return Some(Cow::Borrowed(target)) };
    let name = inside.strip_suffix('}').unwrap_or(inside);
    match name {
        "node.unique.id" => return Some(Cow::Owned(node.id.to_string())),
        "node.unique.name" => return Some(Cow::Borrowed(&node.name)),
        "node.datacenter" => return Some(Cow::Borrowed(&node.datacenter)),
        "node.class" => return Some(Cow::Borrowed(&node.node_class)),
        "node.pool" => return Some(Cow::Borrowed(&node.node_pool)),
        _ => {}
    }
    let value = if let Some(key) = name.strip_prefix("attr.") {
        node.attribute(key)
    } else if let Some(key) = name.strip_prefix("meta.") {
        node.meta.as_ref()?.get(key)
    } else {
        None
    };
    value.map(|value| Cow::Borrowed(value.as_str()))
}

/// Whether an operand holds between two values, either of which may be missing.
pub fn satisfied(operand: &str, left: Option<&str>, right: Option<&str>) -> bool {
    let both = left.zip(right);
    match operand {
        "=" | "==" | "is" => both.is_some_and(|(left, right)| left == right),
        // A missing value is an empty one here.
        "!=" | "not" => left.unwrap_or("") != right.unwrap_or(""),
        "<" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_lt)),
        "<=" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_le)),
        ">" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_gt)),
        ">=" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_ge)),
        "version" => both.is_some_and(|(left, right)| version_holds(left, right, Dialect::Version)),
        "semver" => both.is_some_and(|(left, right)| version_holds(left, right, Dialect::Semver)),
        "regexp" => both.is_some_and(|(left, right)| songline_lang::regexp::compile(right).is_ok_and(|regexp| regexp.is_match(left))),
        "set_contains" | "set_contains_all" => {
            both.is_some_and(|(left, right)| items(right).all(|item| items(left).any(|has| has == item)))
        }
        "set_contains_any" => both.is_some_and(|(left, right)| items(right).any(|item| items(left).any(|has| has == item))),
        "is_set" => left.is_some(),
        "is_not_set" => left.is_none(),
        // These depend on what runs elsewhere and have steps of their own.
        "distinct_hosts" | "distinct_property" => true,
        _ => false,
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// As whole numbers when both are, else as numbers when both are, else as texts.
fn order(left: &str, right: &str) -> Option<Ordering> {
    if let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return Some(left.cmp(&right));
    }
    if let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>()) {
        return left.partial_cmp(&right);
    }
    Some(left.cmp(right))
}

fn version_holds(version: &str, constraints: &str, dialect: Dialect) -> bool {
    let (Ok(version), Ok(constraints)) = (Version::parse(version), Constraints::parse(constraints, dialect)) else { return false };
    constraints.check(&version)
}
