//! Stories of launch times.

use expect_test::{Expect, expect};
use songline_model::{PeriodicConfig, Time};

use super::Schedule;

fn schedule(specs: &[&str], zone: &str) -> Schedule {
    Schedule::of(&PeriodicConfig {
        enabled: true,
        specs: Some(specs.iter().map(|spec| (*spec).into()).collect()),
        spec_type: "cron".into(),
        time_zone: zone.into(),
        ..PeriodicConfig::default()
    })
}

fn at(text: &str) -> Time {
    Time::from_secs(chrono::DateTime::parse_from_rfc3339(text).expect("a time").timestamp())
}

/// The launch times after `after`, in the schedule's time zone.
#[track_caller]
fn check(specs: &[&str], zone: &str, after: &str, expected: Expect) {
    let schedule = schedule(specs, zone);
    let times = std::iter::successors(schedule.next(at(after)), |time| schedule.next(*time)).take(4);
    let lines: Vec<String> = times.filter_map(|time| schedule.shown(time)).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn launch_times_of_several_specs_are_merged() {
    check(
        &["0 6 * * *", "30 5,6 * * *", "nonsense"],
        "",
        "2024-05-01T05:00:00Z",
        expect![[r#"
        2024-05-01T05:30:00Z
        2024-05-01T06:00:00Z
        2024-05-01T06:30:00Z
        2024-05-02T05:30:00Z"#]],
    );
}

#[test]
fn local_time_that_is_skipped_has_no_launch() {
    check(
        &["30 2 * * *"],
        "Europe/Berlin",
        "2024-03-29T12:00:00Z",
        expect![[r#"
        2024-03-30T02:30:00+01:00
        2024-04-01T02:30:00+02:00
        2024-04-02T02:30:00+02:00
        2024-04-03T02:30:00+02:00"#]],
    );
}

#[test]
fn local_time_that_comes_twice_has_one_launch() {
    check(
        &["30 2 * * *"],
        "Europe/Berlin",
        "2024-10-25T12:00:00Z",
        expect![[r#"
        2024-10-26T02:30:00+02:00
        2024-10-27T02:30:00+02:00
        2024-10-28T02:30:00+01:00
        2024-10-29T02:30:00+01:00"#]],
    );
    check(
        &["30 * * * *"],
        "Europe/Berlin",
        "2024-10-26T23:00:00Z",
        expect![[r#"
        2024-10-27T01:30:00+02:00
        2024-10-27T02:30:00+02:00
        2024-10-27T03:30:00+01:00
        2024-10-27T04:30:00+01:00"#]],
    );
}

#[test]
fn latest_launch_is_the_last_one_in_the_span() {
    let check = |spec: &str, after: &str, until: &str| {
        let schedule = schedule(&[spec], "");
        schedule.latest(at(after), at(until)).and_then(|time| schedule.shown(time)).unwrap_or_default()
    };
    let told = [
        ("* * * * *", "2024-05-01T05:00:00Z", "2024-05-01T05:00:59Z"),
        ("* * * * *", "2024-05-01T05:00:00Z", "2024-05-01T05:01:00Z"),
        ("* * * * *", "2004-05-01T05:00:00Z", "2024-05-01T05:01:30Z"),
        ("0 0 1 1 *", "2004-05-01T05:00:00Z", "2024-05-01T05:01:30Z"),
        ("0 0 1 1 *", "2024-05-01T05:00:00Z", "2025-01-01T00:00:00Z"),
        ("0 0 31 2 *", "2024-05-01T05:00:00Z", "2054-05-01T05:00:00Z"),
        ("*/2 * * * * * *", "2004-05-01T05:00:00Z", "2024-05-01T05:01:31Z"),
    ]
    .map(|(spec, after, until)| format!("{spec}: {}", check(spec, after, until)));
    expect![[r#"
        * * * * *: 
        * * * * *: 2024-05-01T05:01:00Z
        * * * * *: 2024-05-01T05:01:00Z
        0 0 1 1 *: 2024-01-01T00:00:00Z
        0 0 1 1 *: 2025-01-01T00:00:00Z
        0 0 31 2 *: 
        */2 * * * * * *: 2024-05-01T05:01:30Z"#]]
    .assert_eq(&told.join("\n"));
}
