//! Tests of expressions and the times that they give after a Sunday in winter.

use chrono::DateTime;
use expect_test::{Expect, expect};

use super::Cron;

/// A Sunday, some minutes after half past twelve.
const AFTER: &str = "2026-11-22T12:34:56Z";

fn secs(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp()
}

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(expressions: &str, expected: Expect) {
    let mut out = String::new();
    for expression in expressions.lines().map(str::trim) {
        let told = match Cron::parse(expression) {
            Err(reason) => reason,
            Ok(cron) => match cron.next(secs(AFTER), &|_| 0) {
                Some(time) => DateTime::from_timestamp(time, 0).unwrap().format("%a %F %T").to_string(),
                None => "never".to_string(),
            },
        };
        out.push_str(&format!("{expression} => {told}\n"));
    }
    expected.assert_eq(&out);
}

#[test]
fn cron_fields_are_values_ranges_steps_and_words() {
    check(
        "* * * * *
         */15 * * * *
         5/20 * * * *
         0-10/5 9-17 * * *
         30 6 * * mon-fri
         0 0 1 jan *
         0 0 1 January ?
         0 0 * * 7
         0 0 * * 5-7
         0 0 * * 6-0
         0 12 31 * *
         0 0 29 2 *
         0 0 31 2 *
         0 0 13 * fri
         0 0 l * *
         0 0 lw * *
         0 0 15W * *
         0 0 * * 5L
         0 0 * * 2#3
         0 0 1 1 * 2030
         0 0 1 1 * 2020
         30 * * * * * *
         */5 * * * * * * ignored
         @hourly
         @daily
         @weekly
         @monthly
         @yearly",
        expect![[r#"
            * * * * * => Sun 2026-11-22 12:35:00
            */15 * * * * => Sun 2026-11-22 12:45:00
            5/20 * * * * => Sun 2026-11-22 12:45:00
            0-10/5 9-17 * * * => Sun 2026-11-22 13:00:00
            30 6 * * mon-fri => Mon 2026-11-23 06:30:00
            0 0 1 jan * => Fri 2027-01-01 00:00:00
            0 0 1 January ? => Fri 2027-01-01 00:00:00
            0 0 * * 7 => Sun 2026-11-29 00:00:00
            0 0 * * 5-7 => Fri 2026-11-27 00:00:00
            0 0 * * 6-0 => Sat 2026-11-28 00:00:00
            0 12 31 * * => Thu 2026-12-31 12:00:00
            0 0 29 2 * => Tue 2028-02-29 00:00:00
            0 0 31 2 * => never
            0 0 13 * fri => Fri 2026-11-27 00:00:00
            0 0 l * * => Mon 2026-11-30 00:00:00
            0 0 lw * * => Mon 2026-11-30 00:00:00
            0 0 15W * * => Tue 2026-12-15 00:00:00
            0 0 * * 5L => Fri 2026-11-27 00:00:00
            0 0 * * 2#3 => Tue 2026-12-15 00:00:00
            0 0 1 1 * 2030 => Tue 2030-01-01 00:00:00
            0 0 1 1 * 2020 => never
            30 * * * * * * => Sun 2026-11-22 12:35:30
            */5 * * * * * * ignored => Sun 2026-11-22 12:35:00
            @hourly => Sun 2026-11-22 13:00:00
            @daily => Mon 2026-11-23 00:00:00
            @weekly => Sun 2026-11-29 00:00:00
            @monthly => Tue 2026-12-01 00:00:00
            @yearly => Fri 2027-01-01 00:00:00
        "#]],
    );
}

#[test]
fn cron_syntax_errors_name_their_field() {
    check(
        "bad
         * * * *
         60 * * * *
         * 24 * * *
         * * 0 * *
         * * 32 * *
         * * * 13 *
         * * * foo *
         * * * * 8
         * * * * mon#6
         a * * * * * *
         * * * * * 1969
         */0 * * * *
         */60 * * * *
         1-2/99 * * * *
         1/x * * * *
         , * * * *
         @never",
        expect![[r#"
            bad => missing field(s)
            * * * * => missing field(s)
            60 * * * * => syntax error in minute field: '60'
            * 24 * * * => syntax error in hour field: '24'
            * * 0 * * => syntax error in day-of-month field: '0'
            * * 32 * * => syntax error in day-of-month field: '32'
            * * * 13 * => syntax error in month field: '13'
            * * * foo * => syntax error in month field: 'foo'
            * * * * 8 => syntax error in day-of-week field: '8'
            * * * * mon#6 => syntax error in day-of-week field: 'mon#6'
            a * * * * * * => syntax error in second field: 'a'
            * * * * * 1969 => syntax error in year field: '1969'
            */0 * * * * => invalid interval */0
            */60 * * * * => invalid interval */60
            1-2/99 * * * * => invalid interval 1-2/99
            1/x * * * * => syntax error in minute field: '1/x'
            , * * * * => minute field: missing directive
            @never => missing field(s)
        "#]],
    );
}

#[test]
fn cron_follows_local_time_and_skips_local_times_that_do_not_exist() {
    // One hour ahead of UTC until 2026-10-25 01:00 UTC, when local times from one to two o'clock repeat; then equal to
    // UTC.
    let back = secs("2026-10-25T01:00:00Z");
    let offset = |at: i64| if at < back { 3600 } else { 0 };
    let next = |expression: &str, after: &str| {
        let time = Cron::parse(expression).unwrap().next(secs(after), &offset);
        time.map(|time| DateTime::from_timestamp(time, 0).unwrap().format("%F %T").to_string())
    };
    assert_eq!(next("30 1 * * *", "2026-10-24T12:00:00Z").as_deref(), Some("2026-10-25 00:30:00"));
    assert_eq!(next("30 1 * * *", "2026-10-25T00:30:00Z").as_deref(), Some("2026-10-26 01:30:00"));
    assert_eq!(next("0 12 * * *", "2026-10-25T02:00:00Z").as_deref(), Some("2026-10-25 12:00:00"));
    let forth = |at: i64| if at < back { 0 } else { 3600 };
    let skipped = Cron::parse("30 1 * * *").unwrap().next(secs("2026-10-24T12:00:00Z"), &forth).unwrap();
    assert_eq!(DateTime::from_timestamp(skipped, 0).unwrap().to_string(), "2026-10-26 00:30:00 UTC");
}
