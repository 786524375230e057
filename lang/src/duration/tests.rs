//! Tests of parsing and formatting durations.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{format, parse};

/// One line per text: its nanoseconds and formatted text, or the error.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(texts: &[&str], expected: Expect) {
    let lines: Vec<String> = texts
        .iter()
        .map(|text| match parse(text) {
            Ok(nanos) => format!("{text} = {nanos} = {}", format(nanos)),
            Err(error) => error.to_string(),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn durations_are_read_and_written_back() {
    check(
        &[
            "0",
            "0s",
            "-0",
            "5s",
            "30m",
            "1h30m",
            "1.5h",
            "150ms",
            "1500ms",
            "2us",
            "2\u{b5}s",
            "2\u{3bc}s",
            "1.000000001s",
            "-1m",
            "+5s",
            ".5s",
            "1.s",
            "100h",
            "1h1ns",
            "2562047h47m16.854775807s",
            "-2562047h47m16.854775808s",
            "0.3333333333333333333h",
            "720h",
        ],
        expect![[r#"
            0 = 0 = 0s
            0s = 0 = 0s
            -0 = 0 = 0s
            5s = 5000000000 = 5s
            30m = 1800000000000 = 30m0s
            1h30m = 5400000000000 = 1h30m0s
            1.5h = 5400000000000 = 1h30m0s
            150ms = 150000000 = 150ms
            1500ms = 1500000000 = 1.5s
            2us = 2000 = 2µs
            2µs = 2000 = 2µs
            2μs = 2000 = 2µs
            1.000000001s = 1000000001 = 1.000000001s
            -1m = -60000000000 = -1m0s
            +5s = 5000000000 = 5s
            .5s = 500000000 = 500ms
            1.s = 1000000000 = 1s
            100h = 360000000000000 = 100h0m0s
            1h1ns = 3600000000001 = 1h0m0.000000001s
            2562047h47m16.854775807s = 9223372036854775807 = 2562047h47m16.854775807s
            -2562047h47m16.854775808s = -9223372036854775808 = -2562047h47m16.854775808s
            0.3333333333333333333h = 1200000000000 = 20m0s
            720h = 2592000000000000 = 720h0m0s"#]],
    );
}

#[test]
fn invalid_durations_are_refused_with_go_errors() {
    check(
        &[
            "",
            "x",
            "5",
            "-",
            ".",
            "5x",
            "1d",
            "3s5",
            "1h-5m",
            "s",
            "a\"b",
            "5\u{e9}",
            "2562047h47m16.854775808s",
            "99999999999999999999s",
        ],
        expect![[r#"
            time: invalid duration ""
            time: invalid duration "x"
            time: missing unit in duration "5"
            time: invalid duration "-"
            time: invalid duration "."
            time: unknown unit "x" in duration "5x"
            time: unknown unit "d" in duration "1d"
            time: missing unit in duration "3s5"
            time: unknown unit "h-" in duration "1h-5m"
            time: invalid duration "s"
            time: invalid duration "a\"b"
            time: unknown unit "\xc3\xa9" in duration "5\xc3\xa9"
            time: invalid duration "2562047h47m16.854775808s"
            time: invalid duration "99999999999999999999s""#]],
    );
}

proptest! {
    #[test]
    fn every_duration_survives_its_own_text(nanos in any::<i64>()) {
        prop_assert_eq!(parse(&format(nanos)), Ok(nanos));
    }

    #[test]
    fn random_text_never_panics(text in "\\PC{0,20}", near in "[-+0-9.hmsnu\u{b5}]{0,16}") {
        let _ = (parse(&text), parse(&near));
    }
}
