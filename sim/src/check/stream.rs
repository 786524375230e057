//! Compares a subscriber's events with the log: all entries, once, in order.

/// The events of one log entry, or one frame that a subscriber received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Index of the entry.
    pub index: u64,
    /// Its events, in any form that both sides of the comparison share: text, or a digest.
    pub content: String,
}

/// A difference between the stream and the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An entry is missing between two frames, or before the first.
    #[error("the stream lacks index {index}, between {after} and {before}")]
    Hole {
        /// First missing entry.
        index: u64,
        /// Index of the frame before, or the start of the subscription.
        after: u64,
        /// Index of the frame after.
        before: u64,
    },
    /// A frame was repeated, or came after a later one.
    #[error("the stream has index {index} after {after}")]
    Backwards {
        /// Index of the frame.
        index: u64,
        /// Index of the frame before it.
        after: u64,
    },
    /// A frame without a log entry.
    #[error("the stream has index {index}, which is no entry with events")]
    Invented {
        /// Index of the frame.
        index: u64,
    },
    /// The frame's events differ from the entry's.
    #[error("at index {index} the stream says `{got}` and the log `{wanted}`")]
    Different {
        /// Index of the frame.
        index: u64,
        /// Received events.
        got: String,
        /// Events of the log entry.
        wanted: String,
    },
}

/// Compares the frames of a subscriber that began after index `after` with the log entries that have events, both in
/// the order of arrival. The stream may end before the log: the subscriber may have stopped at any time. Returns the
/// last index that the subscriber received.
pub fn stream_equals_log(after: u64, frames: &[Frame], log: &[Frame]) -> Result<u64, StreamError> {
    let mut cursor = after;
    let mut entries = log.iter().skip_while(|entry| entry.index <= after);
    for frame in frames {
        let index = frame.index;
        if index <= cursor {
            return Err(StreamError::Backwards { index, after: cursor });
        }
        match entries.next() {
            Some(entry) if entry.index < index => {
                return Err(StreamError::Hole { index: entry.index, after: cursor, before: index });
            }
            Some(entry) if entry.index == index && entry.content == frame.content => {}
            Some(entry) if entry.index == index => {
                return Err(StreamError::Different {
                    index,
                    got: frame.content.clone(),
                    wanted: entry.content.clone(),
                });
            }
            Some(_) | None => return Err(StreamError::Invented { index }),
        }
        cursor = index;
    }
    Ok(cursor)
}

#[cfg(test)]
mod tests;
