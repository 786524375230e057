//! Roles and policies that the binding rules of an auth method give to a login.

use songline_model::{AclBindKind, AclBindingRule, is_acl_name};

use super::claims::Identity;
use super::interpolate::{TemplateError, fill_in};
use songline_lang::bexpr::Filter;

/// Grant of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// A management token.
    Management,
    /// The role with this name, if it exists.
    Role(String),
    /// The policy with this name, if it exists.
    Policy(String),
}

/// A login failed on a rule that selects it; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The name template could not be filled in.
    #[error("cannot compute {kind:?} bind name for bind target: {source}")]
    Template {
        /// Kind of the binding.
        kind: String,
        /// The error of the template.
        source: TemplateError,
    },
    /// The resulting name is invalid.
    #[error("computed {kind:?} bind name for bind target is invalid: {name:?}")]
    Name {
        /// Kind of the binding.
        kind: String,
        /// The resulting name.
        name: String,
    },
}

/// The grants of the rules that select this login, in rule order. A management rule replaces all others.
pub fn bind<'r>(
    rules: impl Iterator<Item = &'r AclBindingRule>,
    identity: &Identity,
) -> Result<Vec<Binding>, BindError> {
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

/// Whether a selector matches this login. A selector that does not parse or can not be tested matches no login.
fn selects(selector: &str, identity: &Identity) -> bool {
    selector.is_empty() || Filter::parse(selector).is_ok_and(|filter| filter.matches(identity).unwrap_or(false))
}

fn bound_name(rule: &AclBindingRule, identity: &Identity) -> Result<String, BindError> {
    let kind = rule.bind_kind.as_str();
    let made = fill_in(&rule.bind_name, |name| identity.variable(name));
    let name = made.map_err(|source| BindError::Template { kind: kind.to_owned(), source })?;
    if is_acl_name(&name) { Ok(name) } else { Err(BindError::Name { kind: kind.to_owned(), name }) }
}
