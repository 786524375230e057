//! Which roles and policies the binding rules of an auth method give to a login.

use songline_model::{AclBindKind, AclBindingRule, is_acl_name};

use super::claims::Identity;
use super::interpolate::{TemplateError, fill_in};
use crate::bexpr::Filter;

/// What one rule gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// Everything.
    Management,
    /// The role of this name, if there is one.
    Role(String),
    /// The policy of this name, if there is one.
    Policy(String),
}

/// Why a login fails on a rule that selects it; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The name cannot be made.
    #[error("cannot compute {kind:?} bind name for bind target: {source}")]
    Template {
        /// What is bound.
        kind: String,
        /// What is wrong.
        source: TemplateError,
    },
    /// What was made is no name.
    #[error("computed {kind:?} bind name for bind target is invalid: {name:?}")]
    Name {
        /// What is bound.
        kind: String,
        /// What was made.
        name: String,
    },
}

/// What the rules that select this login give, in their order. Whoever may everything needs nothing else.
pub fn bind<'r>(rules: impl Iterator<Item = &'r AclBindingRule>, identity: &Identity) -> Result<Vec<Binding>, BindError> {
    let mut bindings = Vec::new();
    for rule in rules.filter(|rule| selects(&rule.selector, identity)) {
        match &rule.bind_kind {
            AclBindKind::Management => return Ok(vec![Binding::Management]),
            AclBindKind::Role => bindings.push(Binding::Role(bound_name(rule, identity)?)),
            AclBindKind::Policy => bindings.push(Binding::Policy(bound_name(rule, identity)?)),
            AclBindKind::Other(_) => {}
        }
    }
    Ok(bindings)
}

/// Whether a selector takes this login. One that cannot be read or tested takes nobody.
fn selects(selector: &str, identity: &Identity) -> bool {
    selector.is_empty() || Filter::parse(selector).is_ok_and(|filter| filter.matches(identity).unwrap_or(false))
}

fn bound_name(rule: &AclBindingRule, identity: &Identity) -> Result<String, BindError> {
    let kind = rule.bind_kind.as_str();
    let made = fill_in(&rule.bind_name, |name| identity.variable(name));
    let name = made.map_err(|source| BindError::Template { kind: kind.to_owned(), source })?;
    if is_acl_name(&name) { Ok(name) } else { Err(BindError::Name { kind: kind.to_owned(), name }) }
}
