//! Lines that listeners get, and their text and JSON forms.

use expect_test::expect;

use super::*;

fn monitor() -> &'static Monitor {
    Box::leak(Box::default())
}

fn line(level: Level, message: &str) -> LogLine {
    LogLine {
        at: Time::from_nanos(1_700_000_000_123_456_789),
        level,
        module: "songline_api::http".to_owned(),
        place: "http.rs:7".to_owned(),
        message: message.to_owned(),
        fields: vec![("job", "web".to_owned()), ("why", "it is \"so\"".to_owned())],
    }
}

#[tokio::test]
async fn monitor_listener_gets_lines_at_its_level_and_a_count_of_missed_lines() {
    let monitor = monitor();
    assert_eq!(monitor.level(), LevelFilter::OFF);
    let mut warnings = monitor.listen(Level::WARN);
    let mut all = monitor.listen(Level::TRACE);
    assert_eq!(monitor.level(), LevelFilter::TRACE);
    monitor.publish(line(Level::INFO, "quiet"));
    for n in 0..LINES_MAX + 5 {
        monitor.publish(line(Level::ERROR, &n.to_string()));
    }
    assert!(matches!(warnings.next().await, Some(Heard::Missed(5))));
    assert!(matches!(warnings.next().await, Some(Heard::Line(line)) if line.message == "0"));
    assert!(matches!(all.next().await, Some(Heard::Missed(6))));
    assert!(matches!(all.next().await, Some(Heard::Line(line)) if line.message == "quiet"));
    drop(all);
    assert_eq!(monitor.level(), LevelFilter::WARN);
    drop(warnings);
    assert_eq!(monitor.level(), LevelFilter::OFF);
}

#[test]
fn newlines_in_text_and_json_log_lines_are_replaced_or_escaped() {
    let line = line(Level::WARN, "two\nlines");
    let shown = [line.text(false), line.text(true), line.json(false), line.json(true)].concat();
    expect![[r#"
        2023-11-14T22:13:20.123456789Z [WARN]  songline_api::http: two lines: job=web why="it is \"so\""
        2023-11-14T22:13:20.123456789Z [WARN]  http.rs:7: songline_api::http: two lines: job=web why="it is \"so\""
        {"@level":"warn","@message":"two\nlines","@module":"songline_api::http","@timestamp":"2023-11-14T22:13:20.123456789Z","job":"web","why":"it is \"so\""}
        {"@caller":"http.rs:7","@level":"warn","@message":"two\nlines","@module":"songline_api::http","@timestamp":"2023-11-14T22:13:20.123456789Z","job":"web","why":"it is \"so\""}
    "#]].assert_eq(&shown);
}

#[test]
fn log_level_names_are_parsed_in_any_case() {
    assert_eq!(
        ["Info ", "WARN", "trace", "nope", ""].map(level_named),
        [Some(Level::INFO), Some(Level::WARN), Some(Level::TRACE), None, None]
    );
}

#[test]
fn long_log_texts_are_truncated() {
    assert_eq!(LogLine::cut("ü".repeat(10_000)).len(), (8 << 10) + 2);
}
