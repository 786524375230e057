//! Catches panics: one piece of work fails, and its task continues. This is sound because the work shares only data
//! behind locks, consistent between two calls, and tables that only the log changes.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Message of a panic in a piece of work. The panic hook has printed the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub(crate) struct Panicked(pub String);

/// Runs the work. A panic in it is returned as an error.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| Panicked(message(&*payload)))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn caught_panic_is_an_error_with_the_panic_message() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let number = 7;
        let caught_one = caught(async {
            if number > 0 {
                panic!("seven is {number}")
            }
        })
        .await;
        assert_eq!(caught_one.expect_err("it panics").to_string(), "panicked: seven is 7");
    }
}
