//! Stories of texts that are times, and of texts that are not.

use expect_test::{Expect, expect};

use super::refusal;

fn check(texts: &[&str], expected: &Expect) {
    let lines: Vec<String> =
        texts.iter().map(|text| refusal(text).unwrap_or_else(|| format!("{text} is a time")) + "\n").collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn invalid_time_is_refused_at_the_part_that_does_not_parse() {
    check(
        &[
            "2020-02-29T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "2020-01-01T00:00:00.123456789+02:00",
            "x",
            "",
            "202",
            "2020-01-01",
            "2020-01-01 00:00:00Z",
            "2020-1-01T00:00:00Z",
            "2020-13-01T00:00:00Z",
            "2021-02-29T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:60:00Z",
            "2020-01-01T00:00:60Z",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00:00.5",
            "2020-01-01T00:00:00+0200",
            "2020-01-01T00:00:00+25:00",
            "2020-01-01T00:00:00Zé",
        ],
        &expect![[r#"
            2020-02-29T23:59:59Z is a time
            0001-01-01T00:00:00Z is a time
            2020-01-01T00:00:00.123456789+02:00 is a time
            parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"
            parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"
            parsing time "202" as "2006-01-02T15:04:05Z07:00": cannot parse "202" as "2006"
            parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"
            parsing time "2020-01-01 00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T"
            parsing time "2020-1-01T00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse "1-01T00:00:00Z" as "01"
            parsing time "2020-13-01T00:00:00Z": month out of range
            parsing time "2021-02-29T00:00:00Z": day out of range
            parsing time "2020-01-01T24:00:00Z": hour out of range
            parsing time "2020-01-01T00:60:00Z": minute out of range
            parsing time "2020-01-01T00:00:60Z": second out of range
            parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"
            parsing time "2020-01-01T00:00:00.5" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"
            parsing time "2020-01-01T00:00:00+0200" as "2006-01-02T15:04:05Z07:00": cannot parse "+0200" as "Z07:00"
            parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range
            parsing time "2020-01-01T00:00:00Zé": extra text: "é"
        "#]],
    );
}
