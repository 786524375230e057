//! Subscriptions: topics with their keys, a namespace, and an expression over events.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_lang::acl::{Access, Acl, NamespaceCapability};
use songline_lang::bexpr::{Filter, SyntaxError};
use songline_model::Str;

use super::batch::EncodedEvent;
use crate::event::{Right, Topic};

/// A topic that cannot be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid key value pair for topic, topic: {0}")]
pub struct InvalidTopic(pub String);

/// The events that a subscriber wants and may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// Wanted namespace; `None` for all.
    namespace: Option<Str>,
    /// Wanted keys by topic; `*` stands for all topics or all keys.
    topics: BTreeMap<Str, BTreeSet<Str>>,
    expression: Option<Expression>,
    /// Rights of the subscriber: it sees events of the namespaces in which it may read jobs. `None`: it sees all
    /// events.
    readable: Option<Arc<Acl>>,
}

impl Interest {
    /// Parses the topics of the query (`Topic` or `Topic:key`; none for everything), in a namespace or in all (`*`).
    pub fn parse<'a>(namespace: &str, topics: impl Iterator<Item = Cow<'a, str>>) -> Result<Self, InvalidTopic> {
        let mut out = Interest {
            namespace: (namespace != "*").then(|| Str::new(namespace)),
            topics: BTreeMap::new(),
            expression: None,
            readable: None,
        };
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

    /// Restricts the events to those that match the expression.
    pub fn with_expression(mut self, expression: Option<Expression>) -> Self {
        self.expression = expression;
        self
    }

    /// Restricts the events to those in namespaces that `acl` lets the subscriber read.
    pub fn readable_by(mut self, acl: Arc<Acl>) -> Self {
        self.readable = Some(acl).filter(|acl| !acl.is_management());
        self
    }

    /// Whether `acl` permits the subscription. Each topic requires its own capability in the wanted namespace.
    pub fn is_permitted(&self, acl: &Acl) -> bool {
        let namespace = self.namespace.as_ref().map_or("*", Str::as_str);
        // All topics (`*`) and unknown topics require a management token.
        let right =
            |word: &Str| Topic::all().find(|topic| topic.word == *word).map_or(Right::Management, |it| it.right);
        self.topics.keys().all(|word| match right(word) {
            Right::Management => acl.is_management(),
            Right::ReadJob => acl.namespace(namespace, NamespaceCapability::ReadJob),
            Right::ReadNode => acl.node(Access::Read),
        })
    }

    /// Whether a subscriber whose rights become `acl` may still see all that it saw before. In a subscription to all
    /// namespaces, any change of rights may hide events, so it answers false.
    pub fn is_still_readable_by(&self, acl: &Arc<Acl>) -> bool {
        let same = self.namespace.is_some() || self.readable.as_ref().is_none_or(|before| before == acl);
        (self.readable.is_some() || acl.is_management()) && same && self.is_permitted(acl)
    }

    /// Whether every event is wanted.
    pub fn is_everything(&self) -> bool {
        self.readable.is_none()
            && self.expression.is_none()
            && self.namespace.is_none()
            && self.keys("*").is_some_and(is_star)
    }

    /// Whether events of this topic can be wanted at all.
    pub fn wants_topic(&self, topic: &str) -> bool {
        self.keys("*").is_some() || self.keys(topic).is_some()
    }

    /// Whether the event is wanted.
    pub fn wants(&self, index: u64, event: &EncodedEvent) -> bool {
        let label = &event.label;
        let in_namespace =
            label.namespace.is_empty() || self.namespace.as_ref().is_none_or(|namespace| *namespace == label.namespace);
        let readable = |acl: &Arc<Acl>| {
            label.namespace.is_empty() || acl.namespace(&label.namespace, NamespaceCapability::ReadJob)
        };
        in_namespace
            && self.readable.as_ref().is_none_or(readable)
            && self.is_asked_for(event)
            && self.expression.as_ref().is_none_or(|expression| expression.matches(index, event))
    }

    /// Whether the subscription names the event's topic and key. `*` stands for all keys only when it is the only key
    /// of a topic; beside another key it is compared like any other key.
    fn is_asked_for(&self, event: &EncodedEvent) -> bool {
        let (every, own) = (self.keys("*"), self.keys(&event.label.topic));
        let all = every.is_some_and(is_star) || every.is_none() && own.is_some_and(is_star);
        all || [every, own].into_iter().flatten().any(|keys| has_key(keys, event))
    }

    fn keys(&self, topic: &str) -> Option<&BTreeSet<Str>> {
        self.topics.get(topic)
    }
}

/// Whether `*` is the only key and therefore stands for all keys.
fn is_star(keys: &BTreeSet<Str>) -> bool {
    keys.len() == 1 && keys.contains("*")
}

/// Whether the event has one of the wanted keys. An empty key matches nothing: evaluations without a deployment have
/// an empty key.
fn has_key(keys: &BTreeSet<Str>, event: &EncodedEvent) -> bool {
    let label = &event.label;
    keys.contains(&label.key) || label.filter_keys.iter().any(|key| !key.is_empty() && keys.contains(key))
}

/// A filter over events.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    filter: Filter,
    reads_payload: bool,
}

/// An event as a filter sees it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row<'a> {
    topic: &'a str,
    #[serde(rename = "Type")]
    word: &'a str,
    key: &'a str,
    namespace: &'a str,
    index: u64,
    filter_keys: &'a [Str],
    payload: &'a Value,
}

/// The fields of [`Row`].
const FIELDS: &[&str] = &["Topic", "Type", "Key", "Namespace", "Index", "FilterKeys", "Payload"];

/// Part of an encoded event that holds its payload.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WithPayload {
    payload: Value,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Expression {
    /// Parses an expression. A field that no event has is an error, because the expression could never match. So is a
    /// regular expression that does not compile.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let filter = Filter::parse(text)?;
        if let Some((pattern, reason)) = filter.bad_pattern() {
            return Err(SyntaxError::at(
                text,
                pattern,
                format!("regular expression {pattern:?} does not compile: {reason}"),
            ));
        }
        let mut reads_payload = false;
        for selector in filter.selectors() {
            let field = selector.first().map_or("", String::as_str);
            if !FIELDS.contains(&field) {
                return Err(SyntaxError::at(
                    text,
                    field,
                    format!("events have no field {field:?}; they have {}", FIELDS.join(", ")),
                ));
            }
            reads_payload |= field == "Payload";
        }
        Ok(Self { text: text.to_owned(), filter, reads_payload })
    }

    /// Whether the event matches. A comparison with a field that it does not have is neither true nor false: payloads of
    /// other topics may have the field.
    fn matches(&self, index: u64, event: &EncodedEvent) -> bool {
        let label = &event.label;
        let payload = if self.reads_payload {
            let read: Result<WithPayload, _> = rmp_serde::from_slice(event.msgpack());
            read.map(|event| event.payload).unwrap_or_default()
        } else {
            Value::Null
        };
        let row = Row {
            topic: &label.topic,
            word: &label.word,
            key: &label.key,
            namespace: &label.namespace,
            index,
            filter_keys: &label.filter_keys,
            payload: &payload,
        };
        self.filter.matches_for_certain(&row)
    }
}
