//! What a subscriber wants to see: topics with their keys, and a namespace.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::Str;

use super::batch::EncodedEvent;

/// Why a topic cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid key value pair for topic, topic: {0}")]
pub struct InvalidTopic(pub String);

/// What a subscriber wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// `None`: all of them.
    namespace: Option<Str>,
    /// Keys by topic, `*` for either.
    topics: BTreeMap<Str, BTreeSet<Str>>,
}

impl Interest {
    /// Topics as the query has them (`Topic` or `Topic:key`, none for everything), in a namespace or in all (`*`).
    pub fn parse<'a>(namespace: &str, topics: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> Result<Self, InvalidTopic> {
        let mut out = Interest { namespace: (namespace != "*").then(|| Str::new(namespace)), topics: BTreeMap::new() };
        for asked in topics {
            let (topic, key) = asked.split_once(':').unwrap_or((&asked, "*"));
            if key.contains(':') {
                return Err(InvalidTopic(asked.into_owned()));
            }
            out.topics.entry(Str::new(topic)).or_default().insert(Str::new(key));
        }
        if out.topics.is_empty() {
            out.topics.insert(Str::new_static("*"), BTreeSet::from([Str::new_static("*")]));
        }
        Ok(out)
    }

    /// Whether every event passes.
    pub fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.keys("*").is_some_and(|keys| keys.contains("*"))
    }

    /// Whether this event passes.
    pub fn wants(&self, event: &EncodedEvent) -> bool {
        let in_namespace = event.namespace.is_empty() || self.namespace.as_ref().is_none_or(|namespace| *namespace == event.namespace);
        in_namespace && [self.keys("*"), self.keys(&event.topic)].into_iter().flatten().any(|keys| matches(keys, event))
    }

    fn keys(&self, topic: &str) -> Option<&BTreeSet<Str>> {
        self.topics.get(topic)
    }
}

/// An empty key asks for nothing: an evaluation without a deployment is not what somebody means by it.
fn matches(keys: &BTreeSet<Str>, event: &EncodedEvent) -> bool {
    keys.contains("*") || keys.contains(&event.key) || event.filter_keys.iter().any(|key| !key.is_empty() && keys.contains(key))
}
