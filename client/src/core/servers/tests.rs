//! A node's order of servers after failures, updates and pings.

use expect_test::{Expect, expect};

use super::*;

fn names(text: &str) -> Vec<Str> {
    text.split_whitespace().map(Str::from).collect()
}

/// Plays lines: `fail A`, `told A B [of N]`, `at SECONDS`, `ping A`. Prints each with the order that it leads to.
fn check(servers: &str, story: &str, expected: Expect) {
    let mut list = ServerList::new(names(servers), Time::from_secs(0), Jitter::new(7));
    let mut told = format!("{}\n", list.all().join(" "));
    let mut tried = Vec::new();
    for line in story.lines().map(str::trim) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let note = match verb {
            "fail" => {
                list.on_failed(rest);
                String::new()
            }
            "told" => {
                let (servers, nodes) = rest.split_once("of").unwrap_or((rest, "0"));
                let nodes = nodes.trim().parse().expect("is a number");
                list.on_told(names(servers), nodes).err().map_or(String::new(), |error| format!(" ({error})"))
            }
            "at" => match list.on_time(Time::from_secs(rest.parse().expect("is a number"))) {
                None => " (nothing to try)".to_owned(),
                Some(order) => {
                    tried = order;
                    format!(" (tries {})", tried.join(" "))
                }
            },
            "ping" => {
                list.on_pinged(std::mem::take(&mut tried), rest);
                String::new()
            }
            other => panic!("{other} is not a verb"),
        };
        told.push_str(&format!("{line}: {}{note}\n", list.all().join(" ")));
    }
    expected.assert_eq(&told);
}

#[test]
fn failed_server_moves_to_the_end_of_the_list_once() {
    check(
        "a b c",
        "fail a
         fail c
         fail c
         fail a
         fail b",
        expect![[r#"
            b c a
            fail a: b c a
            fail c: b c a
            fail c: b c a
            fail a: b c a
            fail b: c a b
        "#]],
    );
}

#[test]
fn only_server_stays_first_after_a_failure() {
    check(
        "a",
        "fail a
         at 100000",
        expect![[r#"
            a
            fail a: a
            at 100000: a (nothing to try)
        "#]],
    );
}

#[test]
fn reported_server_set_replaces_the_list_and_an_equal_set_keeps_its_order() {
    check(
        "a b c",
        "fail b
         told b a c
         told d e f
         told f e d
         told",
        expect![[r#"
            b c a
            fail b: c a b
            told b a c: c a b
            told d e f: e f d
            told f e d: e f d
            told: e f d (no servers)
        "#]],
    );
}

#[test]
fn node_switches_to_the_first_live_server_after_five_to_ten_minutes() {
    check(
        "a b c",
        "at 299
         at 600
         ping a
         at 601
         at 1300
         told x y
         ping a",
        expect![[r#"
            b c a
            at 299: b c a (nothing to try)
            at 600: b c a (tries b a c)
            ping a: a b c
            at 601: a b c (nothing to try)
            at 1300: a b c (tries c b a)
            told x y: x y
            ping a: x y
        "#]],
    );
}

#[test]
fn server_switch_interval_grows_with_the_number_of_nodes() {
    for (nodes, earliest, latest) in [(0, 300, 600), (57_600, 300, 600), (5_760_000, 30_000, 60_000)] {
        for seed in 0..100 {
            let mut list = ServerList::new(names("a b c"), Time::from_secs(0), Jitter::new(seed));
            list.on_told(names("a b c"), nodes).expect("there are some");
            let first = list.next_deadline();
            assert!(list.on_time(first).is_some());
            let wait = list.next_deadline().since(first);
            assert!(wait >= Dur::from_secs(earliest) && wait < Dur::from_secs(latest), "{nodes} nodes: {wait:?}");
        }
    }
}

#[test]
fn empty_server_list_is_an_error() {
    let list = ServerList::new(Vec::new(), Time::from_secs(0), Jitter::new(1));
    assert_eq!(list.first().map_err(|error| error.to_string()), Err("no servers".to_owned()));
}
