//! Whether what a reader of the event stream got is what the log says: all of it, once, in order.

/// What one entry of the log gives to a stream, or one frame that a reader got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The entry's index.
    pub index: u64,
    /// Its events, in any form that two sides of a comparison share: text, or a digest.
    pub content: String,
}

/// How a stream differs from the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// An entry is missing between two frames, or before the first.
    #[error("the stream lacks index {index}, between {after} and {before}")]
    Hole {
        /// The first missing entry.
        index: u64,
        /// The frame before, or where the reader began.
        after: u64,
        /// The frame after.
        before: u64,
    },
    /// A frame came again, or after a later one.
    #[error("the stream has index {index} after {after}")]
    Backwards {
        /// The frame.
        index: u64,
        /// The one before it.
        after: u64,
    },
    /// A frame that the log has no entry for.
    #[error("the stream has index {index}, which is no entry with events")]
    Invented {
        /// The frame.
        index: u64,
    },
    /// Other events than the entry's.
    #[error("at index {index} the stream says `{got}` and the log `{wanted}`")]
    Different {
        /// The frame.
        index: u64,
        /// What the reader got.
        got: String,
        /// What the log has.
        wanted: String,
    },
}

/// Compares the frames of a reader that began after index `after` with the entries of the log that have events, both in
/// the order they came. The stream may end before the log: the reader may have stopped anywhere. Answers the last index
/// that the reader got.
pub fn stream_equals_log(after: u64, frames: &[Frame], log: &[Frame]) -> Result<u64, StreamError> {
    let mut cursor = after;
    let mut entries = log.iter().skip_while(|entry| entry.index <= after);
    for frame in frames {
        let index = frame.index;
        if index <= cursor {
            return Err(StreamError::Backwards { index, after: cursor });
        }
        match entries.next() {
            Some(entry) if entry.index < index => return Err(StreamError::Hole { index: entry.index, after: cursor, before: index }),
            Some(entry) if entry.index == index && entry.content == frame.content => {}
            Some(entry) if entry.index == index => {
                return Err(StreamError::Different { index, got: frame.content.clone(), wanted: entry.content.clone() });
            }
            Some(_) | None => return Err(StreamError::Invented { index }),
        }
        cursor = index;
    }
    Ok(cursor)
}

#[cfg(test)]
mod tests;
