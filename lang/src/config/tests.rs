//! Tests of configuration texts and the resulting documents.

use expect_test::{Expect, expect};

use super::parse;

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(text: &str, expected: Expect) {
    let said = match parse(text) {
        Ok(value) => serde_json::to_string_pretty(&value).expect("a value is JSON"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&said);
}

#[test]
fn repeated_config_blocks_become_list_elements() {
    check(
        r#"
        # the agent
        region = "global"
        data_dir = "/var/lib/x" // a path
        server { enabled = true  bootstrap_expect = 3 }
        server {
          retry_join = ["a", "b",]
        }
        client {
          meta { rack = "r1", "a.b" = 2 }
          options = { x = "y" }
          host_volume "scratch" { path = "/srv/x" }
          host_volume "other" { path = "/x" read_only = true }
        }
        plugin "raw_exec" {
          config { enabled = true }
        }
        limits { ratio = 0.5  hex = 0x10 low = -3 }
        "#,
        expect![[r#"
            {
              "region": "global",
              "data_dir": "/var/lib/x",
              "server": [
                {
                  "enabled": true,
                  "bootstrap_expect": 3
                },
                {
                  "retry_join": [
                    "a",
                    "b"
                  ]
                }
              ],
              "client": [
                {
                  "meta": [
                    {
                      "rack": "r1",
                      "a.b": 2
                    }
                  ],
                  "options": {
                    "x": "y"
                  },
                  "host_volume": [
                    {
                      "scratch": [
                        {
                          "path": "/srv/x"
                        }
                      ]
                    },
                    {
                      "other": [
                        {
                          "path": "/x",
                          "read_only": true
                        }
                      ]
                    }
                  ]
                }
              ],
              "plugin": [
                {
                  "raw_exec": [
                    {
                      "config": [
                        {
                          "enabled": true
                        }
                      ]
                    }
                  ]
                }
              ],
              "limits": [
                {
                  "ratio": 0.5,
                  "hex": 16,
                  "low": -3
                }
              ]
            }"#]],
    );
}

#[test]
fn repeated_config_assignment_keeps_the_last_value_and_collects_objects() {
    check(
        r#"a = 1
           a = 2
           m = { x = 1 }
           m = { y = 2 }
           m { z = 3 }"#,
        expect![[r#"
            {
              "a": 2,
              "m": [
                {
                  "x": 1
                },
                {
                  "y": 2
                },
                {
                  "z": 3
                }
              ]
            }"#]],
    );
}

#[test]
fn config_that_starts_with_a_brace_is_json() {
    check(
        r#" { "server": { "enabled": true } } "#,
        expect![[r#"
        {
          "server": {
            "enabled": true
          }
        }"#]],
    );
    check("{ \"a\": ", expect!["unexpected EOF"]);
}

#[test]
fn config_syntax_errors_name_their_line() {
    check(
        "a = 1\nb = \n",
        expect![[r#"
        {
          "a": 1
        }"#]],
    );
    check("a {\n b = 1\n", expect!["At 3:2: object expected closing RBRACE got: EOF"]);
    check("a = 99999999999999999999", expect!["At 1:5: 99999999999999999999 is out of range"]);
}
