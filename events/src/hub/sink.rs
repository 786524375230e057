//! Events that an event sink wants, from its row.

use std::borrow::Cow;

use songline_lang::bexpr::SyntaxError;
use songline_model::{EventSink, Str};

use super::batch::Dialect;
use super::filter::{Expression, Interest, InvalidTopic};
use crate::event::Topic;

/// Reason why an event sink could never get what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableSink {
    /// No event has the topic.
    #[error("unknown topic {topic:?}, must be * or one of {known}")]
    UnknownTopic {
        /// The topic.
        topic: Str,
        /// All topics.
        known: String,
    },
    /// Only full streams have events of the topic.
    #[error("topic {0:?} needs Full: Nomad has no such events")]
    NeedsFull(Str),
    /// A key that no event has.
    #[error("topic {topic:?} has an invalid key {key:?}")]
    InvalidKey {
        /// The topic.
        topic: Str,
        /// The key.
        key: Str,
    },
    /// The filter expression does not parse.
    #[error("failed to read filter expression: {0}")]
    Filter(#[from] SyntaxError),
    /// A topic that cannot be subscribed to.
    #[error(transparent)]
    Topic(#[from] InvalidTopic),
}

impl Interest {
    /// The interest of an event sink. A sink whose topics or filter could never select an event is refused.
    pub fn of_sink(sink: &EventSink) -> Result<Self, UnusableSink> {
        for (topic, keys) in &sink.topics {
            is_served(topic, sink.full)?;
            // `*` beside other keys would be compared like any other key.
            let is_key = |key: &&Str| !key.is_empty() && !key.contains(':') && (*key != "*" || keys.len() == 1);
            if let Some(key) = keys.iter().find(|key| !is_key(key)) {
                return Err(UnusableSink::InvalidKey { topic: topic.clone(), key: key.clone() });
            }
        }
        let wanted = sink.topics.iter().flat_map(|(topic, keys)| {
            let whole = keys.is_empty().then(|| Cow::Borrowed(topic.as_str()));
            whole.into_iter().chain(keys.iter().map(move |key| Cow::Owned(format!("{topic}:{key}"))))
        });
        let expression = match sink.filter.as_str() {
            "" => None,
            text => Some(Expression::parse(text)?),
        };
        Ok(Self::parse(&sink.namespace, wanted)?.with_expression(expression))
    }
}

impl Dialect {
    /// The dialect of an event sink: one frame per entry.
    pub fn of_sink(sink: &EventSink) -> Self {
        if sink.full { Self::Full } else { Self::Ours }
    }
}

fn is_served(topic: &Str, full: bool) -> Result<(), UnusableSink> {
    if topic == "*" {
        return Ok(());
    }
    match Topic::all().find(|known| known.word == *topic) {
        Some(known) if full || known.is_in_plain_streams() => Ok(()),
        Some(_) => Err(UnusableSink::NeedsFull(topic.clone())),
        None => {
            let known = Topic::all().map(|topic| topic.word).collect::<Vec<_>>().join(", ");
            Err(UnusableSink::UnknownTopic { topic: topic.clone(), known })
        }
    }
}
