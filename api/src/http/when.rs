//! Parameters that name a past state, and that state as a part of a request. `past` finds the state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use songline_model::Time;
use songline_projections::State;

use crate::error::ApiError;
use crate::http::params::{Query, quote};

/// Largest number that is taken as seconds since 1970. Larger ones are nanoseconds.
const SECONDS_MAX: u64 = 99_999_999_999;

/// A past state, and whether the handler has read it.
#[derive(Debug)]
pub struct PastView {
    state: Arc<State>,
    seen: AtomicBool,
}

impl PastView {
    /// A view that has not been read.
    pub(super) fn new(state: Arc<State>) -> Self {
        Self { state, seen: AtomicBool::new(false) }
    }

    /// Whether the state has been read.
    pub(super) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// The state. Marks it as read.
    pub fn state(&self) -> Arc<State> {
        self.seen.store(true, Ordering::Relaxed);
        Arc::clone(&self.state)
    }
}

/// Past state that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Index(u64),
    Time(Time),
}

/// Past state that a query names.
pub(super) fn asked(query: Query<'_>) -> Result<Option<When>, ApiError> {
    if query.0.is_empty() {
        return Ok(None);
    }
    match (query.get("at_index"), query.get("at_time")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ApiError::bad_request("at_index and at_time cannot be combined")),
        (Some(text), None) => {
            let index = text
                .parse()
                .map_err(|_| ApiError::bad_request(format!("Unable to parse at_index: {}", quote(&text))))?;
            Ok(Some(When::Index(index)))
        }
        (None, Some(text)) => Ok(Some(When::Time(parse_time("at_time", &text)?))),
    }
}

/// Parses a time: RFC 3339, or seconds or nanoseconds since 1970.
pub(super) fn parse_time(name: &str, text: &str) -> Result<Time, ApiError> {
    // An unescaped plus sign was decoded as a space.
    let time = match text.parse::<u64>() {
        Ok(secs) if secs <= SECONDS_MAX => i64::try_from(secs).ok().map(Time::from_secs),
        Ok(nanos) => i64::try_from(nanos).ok().map(Time::from_nanos),
        Err(_) => Time::parse(&text.replace(' ', "+")),
    };
    time.ok_or_else(|| {
        ApiError::bad_request(format!(
            "Unable to parse {name}: {} is no RFC 3339 time and no number of seconds or nanoseconds",
            quote(text)
        ))
    })
}
