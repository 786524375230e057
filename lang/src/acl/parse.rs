//! Parses a policy's text to rules: decodes, checks every word, expands shorthands. The error texts are the
//! reference's.

#[cfg(test)]
mod tests;

use std::fmt;

use super::capability::{HostVolumeCapability, NamespaceCapability, NodePoolCapability, VariableCapability};
use super::decode::decode;
use super::rules::Policy;
use super::written::{Named, Namespace, PathRule, Single, Written};

/// A policy's text was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

/// Longest name in a label, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Parses a policy's text. An empty text is a policy that permits nothing.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    written(text).map(Policy::from)
}

/// Parses a policy's text for display of its rules.
pub fn written(text: &str) -> Result<Written, PolicyError> {
    if text.is_empty() {
        return Ok(Written::default());
    }
    let mut rules = decode(text).map_err(|error| PolicyError(format!("Failed to parse ACL Policy: {error}")))?;
    if rules.is_empty() {
        return Err(PolicyError(format!("Invalid policy: {text}")));
    }
    rules.check().map_err(PolicyError)?;
    Ok(rules)
}

impl Written {
    /// Refuses unknown words, and expands shorthands.
    fn check(&mut self) -> Result<(), String> {
        self.namespaces.iter_mut().flatten().try_for_each(Namespace::check)?;
        for pool in self.node_pools.iter_mut().flatten() {
            let Named { name, policy, capabilities } = pool;
            if !is_name(name, "-_*") {
                return Err(format!("Invalid node pool name '{name}'"));
            }
            if !is_policy(policy) && !policy.is_empty() {
                return Err(format!("Invalid node pool policy '{policy}' for '{name}'"));
            }
            if let Some(word) = unknown(capabilities.as_ref(), |word| word.parse::<NodePoolCapability>().is_ok()) {
                return Err(format!("Invalid node pool capability '{word}' for '{name}'"));
            }
            expand(capabilities, policy, NodePoolCapability::of_policy(policy).iter().map(|each| each.as_str()));
        }
        for volume in self.host_volumes.iter_mut().flatten() {
            if !is_name(&volume.name, "-*") {
                return Err(format!("Invalid host volume name: {}", HostVolumeDump(volume)));
            }
            if !is_policy(&volume.policy) && !volume.policy.is_empty() {
                return Err(format!("Invalid host volume policy: {}", HostVolumeDump(volume)));
            }
            if let Some(word) =
                unknown(volume.capabilities.as_ref(), |word| word.parse::<HostVolumeCapability>().is_ok())
            {
                return Err(format!("Invalid host volume capability '{word}': {}", HostVolumeDump(volume)));
            }
            let extra = HostVolumeCapability::of_policy(&volume.policy).iter().map(|each| each.as_str());
            expand(&mut volume.capabilities, &volume.policy, extra);
        }
        single("agent", "Agent", self.agent.as_ref(), is_policy)?;
        single("node", "Node", self.node.as_ref(), is_policy)?;
        single("operator", "Operator", self.operator.as_ref(), is_policy)?;
        single("quota", "Quota", self.quota.as_ref(), is_policy)?;
        single("plugin", "Plugin", self.plugin.as_ref(), |word| matches!(word, "deny" | "read" | "list"))
    }
}

impl Namespace {
    fn check(&mut self) -> Result<(), String> {
        if !is_name(&self.name, "-*") {
            return Err(format!("Invalid namespace name: {}", NamespaceDump(self)));
        }
        if !is_policy(&self.policy) && !self.policy.is_empty() {
            return Err(format!("Invalid namespace policy: {}", NamespaceDump(self)));
        }
        if let Some(word) = unknown(self.capabilities.as_ref(), |word| word.parse::<NamespaceCapability>().is_ok()) {
            return Err(format!("Invalid namespace capability '{word}': {}", NamespaceDump(self)));
        }
        let extra = NamespaceCapability::of_policy(&self.policy).iter().map(|each| each.as_str());
        expand(&mut self.capabilities, &self.policy, extra);
        let Some(variables) = &mut self.variables else { return Ok(()) };
        if variables.paths.as_ref().is_none_or(Vec::is_empty) {
            return Err(format!("Invalid variable policy: no variable paths in namespace {}", self.name));
        }
        variables.paths.iter_mut().flatten().try_for_each(|rule| rule.check(&self.name))
    }
}

impl PathRule {
    fn check(&mut self, namespace: &str) -> Result<(), String> {
        if self.path.is_empty() {
            return Err(format!("Invalid missing variable path in namespace {namespace}"));
        }
        if let Some(word) = unknown(self.capabilities.as_ref(), |word| word.parse::<VariableCapability>().is_ok()) {
            return Err(format!("Invalid variable capability '{word}' in namespace {namespace}"));
        }
        let Some(words) = &mut self.capabilities else { return Ok(()) };
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        if has("deny") {
            *words = vec!["deny".to_owned()];
        } else if has("read") && !has("list") {
            words.push("list".to_owned());
        }
        Ok(())
    }
}

/// Whether the word is valid as a block's `policy`.
fn is_policy(word: &str) -> bool {
    matches!(word, "deny" | "read" | "write" | "scale")
}

/// Whether a label is 1 to 128 letters, digits and characters of `others`.
fn is_name(label: &str, others: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&label.len()) && label.bytes().all(belongs)
}

/// The first unknown word.
fn unknown(words: Option<&Vec<String>>, is_known: impl Fn(&str) -> bool) -> Option<&String> {
    words.into_iter().flatten().find(|word| *word != "deny" && !is_known(word))
}

fn expand<'a>(capabilities: &mut Option<Vec<String>>, policy: &str, extra: impl Iterator<Item = &'a str>) {
    let deny = (policy == "deny").then_some("deny");
    let extra: Vec<String> = deny.into_iter().chain(extra).map(str::to_owned).collect();
    if !extra.is_empty() {
        capabilities.get_or_insert_default().extend(extra);
    }
}

fn single(block: &str, kind: &str, written: Option<&Single>, is_valid: impl Fn(&str) -> bool) -> Result<(), String> {
    match written {
        Some(Single { policy }) if !is_valid(policy) => {
            Err(format!("Invalid {block} policy: &acl.{kind}Policy{{Policy:{}}}", Quoted(policy)))
        }
        Some(_) | None => Ok(()),
    }
}

/// Formats a `namespace` block as Go's `%#v` does.
struct NamespaceDump<'a>(&'a Namespace);

impl fmt::Display for NamespaceDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Namespace { name, policy, capabilities, variables } = self.0;
        write!(f, "&acl.NamespacePolicy{{Name:{}, Policy:{}, Capabilities:", Quoted(name), Quoted(policy))?;
        write!(f, "{}, Variables:(*acl.VariablesPolicy)(", Texts(capabilities.as_deref()))?;
        // Go prints an address here, which is replaced by a constant.
        f.write_str(if variables.is_some() { "0x0)}" } else { "nil)}" })
    }
}

/// Formats a `host_volume` block as Go's `%#v` does.
struct HostVolumeDump<'a>(&'a Named);

impl fmt::Display for HostVolumeDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named { name, policy, capabilities } = self.0;
        write!(f, "&acl.HostVolumePolicy{{Name:{}, Policy:{}, Capabilities:", Quoted(name), Quoted(policy))?;
        write!(f, "{}}}", Texts(capabilities.as_deref()))
    }
}

struct Texts<'a>(Option<&'a [String]>);

impl fmt::Display for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(texts) = self.0 else { return f.write_str("[]string(nil)") };
        f.write_str("[]string{")?;
        for (index, text) in texts.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, Quoted(text))?;
        }
        f.write_str("}")
    }
}

/// Quotes a text as Go does.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                other if (other as u32) < 0x20 || other == '\u{7f}' => write!(f, "\\x{:02x}", other as u32)?,
                other => write!(f, "{other}")?,
            }
        }
        f.write_str("\"")
    }
}
