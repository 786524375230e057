//! Topics of events. Each noun's file in `nouns` declares its topic.

use songline_projections::{Table, TableVisitor, VisitsTable};

use crate::nouns::Announce;

/// Subject of events: all rows of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// Name of the topic on the wire.
    pub word: &'static str,
    /// Field of payloads that contains the row.
    pub(crate) field: &'static str,
    pub(super) streams: Streams,
    /// Right that a subscription to the topic requires.
    pub right: Right,
}

/// Streams that show the events of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    /// All streams. Plain streams show no deleted rows, because the reference has no such events.
    All,
    /// All streams. Plain streams show a deleted row as it was.
    AllAndDeleted,
    /// Streams with `full`: the reference has no such topic.
    Full,
}

/// Right of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// A management token.
    Management,
    /// To read jobs of the wanted namespace.
    ReadJob,
    /// To read nodes.
    ReadNode,
}

impl Topic {
    /// A topic of the reference. Plain streams show the rows that an entry writes, and no deleted ones.
    pub(crate) const fn of_nomad(word: &'static str) -> Self {
        Self { word, field: word, streams: Streams::All, right: Right::Management }
    }

    /// A topic that the reference lacks; only full streams show it.
    pub(crate) const fn of_full(word: &'static str) -> Self {
        Self { word, field: word, streams: Streams::Full, right: Right::Management }
    }

    /// Plain streams show deleted rows, too.
    pub(crate) const fn and_deleted(self) -> Self {
        Self { streams: Streams::AllAndDeleted, ..self }
    }

    /// Payloads contain the row in another field than the topic's word.
    pub(crate) const fn shown_as(self, field: &'static str) -> Self {
        Self { field, ..self }
    }

    /// A subscription requires this right instead of a management token.
    pub(crate) const fn needs(self, right: Right) -> Self {
        Self { right, ..self }
    }

    /// All topics, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        Table::ALL.iter().filter_map(|table| table.visit(TopicOf))
    }

    /// Whether streams without `full` have events of the topic.
    pub(crate) fn is_in_plain_streams(self) -> bool {
        self.is_plain(false)
    }

    /// Whether plain streams show a row that was written, or deleted.
    pub(super) fn is_plain(self, deleted: bool) -> bool {
        match self.streams {
            Streams::All => !deleted,
            Streams::AllAndDeleted => true,
            Streams::Full => false,
        }
    }
}

/// Finds the topic of a table.
struct TopicOf;

impl TableVisitor for TopicOf {
    type Out = Option<Topic>;
}

impl<T: Announce> VisitsTable<T> for TopicOf {
    fn visit(self) -> Option<Topic> {
        T::TOPIC
    }
}
