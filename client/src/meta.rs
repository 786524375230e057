//! Dynamic node metadata: set at run time and overlaid on the configured metadata; with the rules for valid keys.

use std::collections::BTreeMap;

use songline_model::Str;
use songline_rpc::{NodeMeta, RpcError};

/// Metadata that was set at run time. `None` hides a configured key.
pub(crate) type Dynamic = BTreeMap<Str, Option<Str>>;

/// The metadata of a node in its two layers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    fixed: BTreeMap<Str, Str>,
    dynamic: Dynamic,
}

impl Layers {
    /// Creates the layers from the configuration and an earlier agent's dynamic metadata. An entry that hides a key
    /// that is no longer configured is dropped.
    pub fn new(fixed: BTreeMap<Str, Str>, mut dynamic: Dynamic) -> Self {
        dynamic.retain(|key, value| value.is_some() || fixed.contains_key(key));
        Self { fixed, dynamic }
    }

    /// Replaces the configured layer.
    pub fn replace_fixed(&mut self, fixed: BTreeMap<Str, Str>) {
        *self = Self::new(fixed, std::mem::take(&mut self.dynamic));
    }

    /// Metadata that was set at run time.
    pub fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// Applies a change to the dynamic layer.
    pub fn apply(&mut self, change: Dynamic) {
        for (key, value) in change {
            if value.is_none() && !self.fixed.contains_key(&key) {
                self.dynamic.remove(&key);
            } else {
                self.dynamic.insert(key, value);
            }
        }
    }

    /// The effective metadata.
    pub fn merged(&self) -> BTreeMap<Str, Str> {
        let mut meta = self.fixed.clone();
        for (key, value) in &self.dynamic {
            match value {
                Some(value) => drop(meta.insert(key.clone(), value.clone())),
                None => drop(meta.remove(key)),
            }
        }
        meta
    }

    /// The layers as the API shows them.
    pub fn shown(&self) -> NodeMeta {
        NodeMeta { meta: self.merged(), dynamic: self.dynamic.clone(), fixed: self.fixed.clone() }
    }
}

/// Refuses an empty change, or one of keys that job files could not refer to.
pub(crate) fn check(change: &Dynamic) -> Result<(), RpcError> {
    let refuse = |text: String| Err(RpcError::Coded { code: 400, text });
    if change.is_empty() {
        return refuse("missing required Meta object".to_owned());
    }
    for key in change.keys() {
        if key.is_empty() {
            return refuse("metadata keys must not be empty".to_owned());
        }
        if !key.split('.').all(is_identifier) {
            return refuse(format!(
                "{:?} is invalid; metadata keys must be valid dotted hcl identifiers",
                key.as_str()
            ));
        }
    }
    Ok(())
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    let starts = chars.next().is_some_and(|first| first.is_alphabetic() || first == '_');
    starts && chars.all(|next| next.is_alphanumeric() || next == '_' || next == '-')
}

#[cfg(test)]
mod tests {
    use songline_model::Str;

    use super::{Dynamic, Layers, check};

    fn change(pairs: &[(&str, Option<&str>)]) -> Dynamic {
        pairs.iter().map(|(key, value)| (Str::new(key), value.map(Str::new))).collect()
    }

    #[test]
    fn dynamic_node_meta_overrides_the_configured_meta() {
        let fixed = [("rack", "r1"), ("zone", "z1")].map(|(key, value)| (Str::new(key), Str::new(value)));
        let mut layers = Layers::new(fixed.into(), change(&[("zone", Some("z2")), ("gone", None)]));
        assert_eq!(layers.dynamic(), &change(&[("zone", Some("z2"))]), "nothing is hidden by it any more");
        layers.apply(change(&[("rack", None), ("new", Some("n")), ("never", None)]));
        let merged = [("new", "n"), ("zone", "z2")].map(|(key, value)| (Str::new(key), Str::new(value)));
        assert_eq!(layers.merged(), merged.into());
        assert_eq!(layers.dynamic(), &change(&[("rack", None), ("new", Some("n")), ("zone", Some("z2"))]));
        layers.apply(change(&[("rack", Some("r2")), ("new", None), ("zone", None)]));
        assert_eq!(layers.merged(), [(Str::new("rack"), Str::new("r2"))].into());
        assert_eq!(
            layers.dynamic(),
            &change(&[("rack", Some("r2")), ("zone", None)]),
            "what hides a key of the configuration stays"
        );
    }

    #[test]
    fn node_meta_keys_must_be_dotted_identifiers() {
        for (key, good) in [
            ("a", true),
            ("a.b-c_1", true),
            ("_a", true),
            ("", false),
            ("a b", false),
            ("a.", false),
            (".a", false),
            ("1a", false),
        ] {
            assert_eq!(check(&change(&[(key, None)])).is_ok(), good, "{key:?}");
        }
        assert!(check(&Dynamic::new()).is_err());
    }
}
