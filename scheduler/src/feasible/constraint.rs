//! One constraint: the values of its targets on a node, and whether its operand holds between them.

use std::borrow::Cow;
use std::cmp::Ordering;

use songline_lang::version::{Constraints, Dialect, Version};
use songline_model::{Constraint, Node, Str};

/// A constraint. Its regular expression or version range is compiled once if it is the same for every node.
#[derive(Debug)]
pub struct Rule {
    constraint: Constraint,
    ready: Ready,
}

/// The part that can be compiled from the right side alone.
#[derive(Debug)]
enum Ready {
    Nothing,
    /// `None`: the text is not a valid expression, so no value matches it.
    Regexp(Option<Box<regex::Regex>>),
    Versions(Option<Constraints>),
}

impl Rule {
    /// Compiles a constraint.
    pub fn new(constraint: &Constraint) -> Self {
        let literal = !constraint.r_target.starts_with("${");
        let ready = match constraint.operand.as_str() {
            "regexp" if literal => {
                Ready::Regexp(songline_lang::regexp::compile(&constraint.r_target).ok().map(Box::new))
            }
            "version" if literal => Ready::Versions(Constraints::parse(&constraint.r_target, Dialect::Version).ok()),
            "semver" if literal => Ready::Versions(Constraints::parse(&constraint.r_target, Dialect::Semver).ok()),
            _ => Ready::Nothing,
        };
        Self { constraint: constraint.clone(), ready }
    }

    /// Whether the node satisfies the constraint.
    pub fn holds(&self, node: &Node) -> bool {
        let left = resolve(&self.constraint.l_target, node);
        match &self.ready {
            Ready::Regexp(expression) => {
                left.zip(expression.as_ref()).is_some_and(|(left, expression)| expression.is_match(&left))
            }
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

    /// Text of the constraint in metrics of filtered nodes.
    pub fn text(&self) -> Str {
        let Constraint { l_target, operand, r_target } = &self.constraint;
        format!("{l_target} {operand} {r_target}").into()
    }
}

/// Value of a target on a node: `${..}` reads a property of the node, any other text is itself. `None`: the node lacks
/// the property.
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
        // A missing value counts as an empty one for this operand.
        "!=" | "not" => left.unwrap_or("") != right.unwrap_or(""),
        "<" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_lt)),
        "<=" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_le)),
        ">" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_gt)),
        ">=" => both.is_some_and(|(left, right)| order(left, right).is_some_and(Ordering::is_ge)),
        "version" => both.is_some_and(|(left, right)| version_holds(left, right, Dialect::Version)),
        "semver" => both.is_some_and(|(left, right)| version_holds(left, right, Dialect::Semver)),
        "regexp" => both.is_some_and(|(left, right)| {
            songline_lang::regexp::compile(right).is_ok_and(|regexp| regexp.is_match(left))
        }),
        "set_contains" | "set_contains_all" => {
            both.is_some_and(|(left, right)| items(right).all(|item| items(left).any(|has| has == item)))
        }
        "set_contains_any" => {
            both.is_some_and(|(left, right)| items(right).any(|item| items(left).any(|has| has == item)))
        }
        "is_set" => left.is_some(),
        "is_not_set" => left.is_none(),
        // These two depend on other allocations; `check_distinct` in `generic::stack` decides them.
        "distinct_hosts" | "distinct_property" => true,
        _ => false,
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// Compares two values as integers if both are, else as numbers if both are, else as texts.
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
    let (Ok(version), Ok(constraints)) = (Version::parse(version), Constraints::parse(constraints, dialect)) else {
        return false;
    };
    constraints.check(&version)
}
