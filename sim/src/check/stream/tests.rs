//! Streams in short notation: a line of the log, a line of the subscriber, and the verdict.

use expect_test::{Expect, expect};

use super::{Frame, stream_equals_log};

/// `3a 5b`: index and content.
fn frames(text: &str) -> Vec<Frame> {
    let frame = |word: &str| {
        let digits = word.trim_end_matches(char::is_alphabetic).len();
        Frame { index: word[..digits].parse().unwrap(), content: word[digits..].to_owned() }
    };
    text.split_whitespace().map(frame).collect()
}

fn check(after: u64, stream: &str, expected: &Expect) {
    let verdict = match stream_equals_log(after, &frames(stream), &frames("3a 5b 6c 9d")) {
        Ok(last) => format!("sound up to {last}"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&verdict);
}

#[test]
fn a_stream_may_begin_and_end_anywhere() {
    check(0, "3a 5b 6c 9d", &expect!["sound up to 9"]);
    check(0, "3a 5b", &expect!["sound up to 5"]);
    check(5, "6c 9d", &expect!["sound up to 9"]);
    check(7, "", &expect!["sound up to 7"]);
}

#[test]
fn missing_stream_index_is_found() {
    check(0, "3a 6c", &expect!["the stream lacks index 5, between 3 and 6"]);
    check(0, "5b", &expect!["the stream lacks index 3, between 0 and 5"]);
}

#[test]
fn repeated_stream_index_is_found() {
    check(0, "3a 3a", &expect!["the stream has index 3 after 3"]);
    check(0, "3a 5b 6c 5b", &expect!["the stream has index 5 after 6"]);
    check(5, "5b 6c", &expect!["the stream has index 5 after 5"]);
}

#[test]
fn stream_content_that_differs_from_the_log_is_found() {
    check(0, "3a 5x", &expect!["at index 5 the stream says `x` and the log `b`"]);
    check(0, "3a 4b", &expect!["the stream has index 4, which is no entry with events"]);
    check(6, "9d 10e", &expect!["the stream has index 10, which is no entry with events"]);
}
