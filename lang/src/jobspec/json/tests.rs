//! Tests that JSON syntax gives the same job as native syntax, and that errors have positions.

use expect_test::{Expect, expect};

use crate::jobspec::{ParseOptions, parse};

#[track_caller]
fn same(native: &str, json: &str) {
    let options = ParseOptions::default();
    let wanted = parse(native, &options).expect("the native form is right");
    let found = parse(json, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        serde_json::to_string_pretty(&found).expect("is JSON"),
        serde_json::to_string_pretty(&wanted).expect("is JSON")
    );
}

fn check(json: &str, expected: Expect) {
    let shown = match parse(json, &ParseOptions::default()) {
        Ok(job) => format!("ok {:?}", job.id.unwrap_or_default()),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

#[test]
fn json_job_with_groups_tasks_and_block_lists_equals_its_hcl() {
    same(
        r#"
        job "web" {
          datacenters = ["dc1", "dc2"]
          priority    = 70
          meta { owner = "me" }
          constraint {
            attribute = "${attr.kernel.name}"
            value     = "linux"
          }
          constraint { distinct_hosts = true }
          group "g" {
            count = 2
            network {
              port "http" { to = 8080 }
              port "admin" { static = 9000 }
            }
            volume "data" {
              type   = "host"
              source = "disk"
            }
            service {
              name = "web"
              port = "http"
              tags = ["a", "b"]
              check {
                type     = "tcp"
                interval = "10s"
                timeout  = "2s"
              }
            }
            task "t" {
              driver = "raw_exec"
              config {
                command = "/bin/sleep"
                args    = ["${NOMAD_TASK_DIR}/x", "1"]
              }
              env { A = "1" }
              resources {
                cpu    = 100
                memory = 64
              }
              template {
                data        = "hello $${x}"
                destination = "local/f"
              }
              artifact {
                source = "https://example.org/a"
                options { archive = "false" }
              }
              scaling "cpu" {
                max = 10
                policy { cooldown = "1m" }
              }
            }
          }
          group "h" {
            task "u" { driver = "mock_driver" }
          }
        }"#,
        r#"{
          "//": "a comment",
          "job": {"web": {
            "datacenters": ["dc1", "dc2"],
            "priority": 70,
            "meta": {"owner": "me"},
            "constraint": [{"attribute": "${attr.kernel.name}", "value": "linux"}, {"distinct_hosts": true}],
            "group": {
              "g": {
                "count": 2,
                "network": {"port": [{"http": {"to": 8080}}, {"admin": [{"static": 9000}]}]},
                "volume": {"data": {"type": "host", "source": "disk"}},
                "service": {"name": "web", "port": "http", "tags": ["a", "b"],
                            "check": [{"type": "tcp", "interval": "10s", "timeout": "2s"}]},
                "task": {"t": {
                  "driver": "raw_exec",
                  "config": {"command": "/bin/sleep", "args": ["${NOMAD_TASK_DIR}/x", "1"]},
                  "env": {"A": "1"},
                  "resources": {"cpu": 100, "memory": 64},
                  "template": {"data": "hello $${x}", "destination": "local/f"},
                  "artifact": {"source": "https://example.org/a", "options": {"archive": "false"}},
                  "scaling": {"cpu": {"max": 10, "policy": {"cooldown": "1m"}}},
                  "vault": null
                }}
              },
              "h": {"task": {"u": {"driver": "mock_driver"}}}
            }
          }}
        }"#,
    );
}

#[test]
fn json_variables_locals_functions_and_dynamic_blocks_equal_their_hcl() {
    same(
        r#"
        variable "size" {
          type    = number
          default = 3
          validation {
            condition     = var.size > 1
            error_message = "Too small."
          }
        }
        variable "names" {
          type    = list(string)
          default = ["a", "b"]
        }
        locals { word = upper("x${var.size}") }
        job "web" {
          type = "batch"
          meta = { "a.b" = local.word }
          group "g" {
            count = var.size
            dynamic "task" {
              for_each = var.names
              iterator = each
              labels   = ["t-${each.value}"]
              content {
                driver = "mock_driver"
                config { run_for = "%{ if each.key > 0 }1s%{ else }2s%{ endif }" }
              }
            }
          }
        }"#,
        r#"{
          "variable": {
            "size": {"type": "number", "default": 3,
                     "validation": {"condition": "${var.size > 1}", "error_message": "Too small."}},
            "names": {"type": "list(string)", "default": ["a", "b"]}
          },
          "locals": {"word": "${upper(\"x${var.size}\")}"},
          "job": {"web": {
            "type": "batch",
            "meta": {"a.b": "${local.word}"},
            "group": {"g": {
              "count": "${var.size}",
              "dynamic": {"task": {
                "for_each": "${var.names}", "iterator": "each", "labels": ["t-${each.value}"],
                "content": {"driver": "mock_driver", "config": {"run_for": "%{ if each.key > 0 }1s%{ else }2s%{ endif }"}}
              }}
            }}
          }}
        }"#,
    );
}

#[test]
fn json_job_file_errors_have_a_position() {
    check(r#"  {"job": {"a": {}}}"#, expect![[r#"ok "a""#]]);
    check(
        "{\n\"job\": {\"a\": {\"type\": \"batch\", \"pritority\": 1}}}",
        expect![[
            r#"input.hcl:2,32-43: Extraneous JSON object property; No argument or block type is named "pritority". Did you mean "priority"?"#
        ]],
    );
    check(
        r#"{"jobs": {}}"#,
        expect![[
            r#"input.hcl:1,2-8: Extraneous JSON object property; No argument or block type is named "jobs". Did you mean "job"?"#
        ]],
    );
    check(
        r#"{"job": 1}"#,
        expect![
            "input.hcl:1,9-10: Incorrect JSON value type; A JSON object is required, whose keys represent the job block's labels."
        ],
    );
    check(
        r#"{"job": {"a": "x"}}"#,
        expect![
            "input.hcl:1,15-18: Incorrect JSON value type; A JSON object is required here, to define arguments and child blocks; this is a JSON string."
        ],
    );
    check(
        r#"{"job": {"a": {"group": {"g": {"count": "many"}}}}}"#,
        expect!["input.hcl:1,41-47: Unsuitable value type; Unsuitable value: a number is required"],
    );
    check(
        "{\"job\": {\"a\": {\n \"type\": \"${upper(1\"}}}",
        expect![
            "input.hcl:2,20-20: Missing argument separator; A comma is required to separate each function argument from the next."
        ],
    );
    check(
        r#"{"job": {"a": {}, "b": {}}}"#,
        expect![[
            r#"input.hcl:1,2-22: Duplicate job block; Only one block of type "job" is allowed. Previous definition was at input.hcl:1,2-13."#
        ]],
    );
    check(
        r#"{"job": {"a": {"priority": 1, "priority": 2}}}"#,
        expect![[
            r#"input.hcl:1,31-41: Duplicate argument; The argument "priority" was already set at input.hcl:1,16-26."#
        ]],
    );
    check(
        r#"{"job": {"a": {}},}"#,
        expect![
            "input.hcl:1,18-19: Trailing comma in object; JSON does not permit a trailing comma after the final property in an object., and 1 other diagnostic(s)"
        ],
    );
    check(
        r#"{"job": {"a": {"type": "b\qc"}}}"#,
        expect![
            "input.hcl:1,24-30: Invalid JSON string; There is a syntax error inside of the string: an escape that JSON does not have, or a control character."
        ],
    );
    check(
        r#"{"job": {"a": {"priority": 01}}}"#,
        expect![
            "input.hcl:1,28-30: Invalid JSON number; There is a syntax error at the given position: this is no JSON number."
        ],
    );
    check(
        r#"{"job" {}}"#,
        expect![
            "input.hcl:1,8-9: Missing property value colon; A colon must appear between an object property's name and its value., and 1 other diagnostic(s)"
        ],
    );
    check(
        r#"{"job": {"a": {}}} x"#,
        expect!["input.hcl:1,20-21: Extraneous data after value; Extra characters appear after the JSON value."],
    );
    check(
        r#"{"job": {"a": {"dynamic": {"tusk": {}}}}}"#,
        expect![[r#"input.hcl:1,28-34: Unsupported block type; Blocks of type "tusk" are not expected here."#]],
    );
    check(
        r#"{"#,
        expect!["input.hcl:1,2-2: Missing value; The JSON data ends prematurely., and 2 other diagnostic(s)"],
    );
    check(r#"{}"#, expect!["<nil>: Missing job block; A job block is required"]);
}

#[test]
fn json_job_file_depth_is_bounded_through_templates() {
    let deep = |levels: usize| format!("{{\"locals\": {{\"x\": {}1{}}}}}", "[".repeat(levels), "]".repeat(levels));
    check(
        &deep(100),
        expect!["input.hcl:1,80-81: Nesting too deep; Arrays and objects nest deeper than is supported here."],
    );
    let inside = format!(
        "{{\"locals\": {{\"x\": {}\"${{{}1{}}}\"{}}}}}",
        "[".repeat(40),
        "(".repeat(40),
        ")".repeat(40),
        "]".repeat(40)
    );
    check(
        &inside,
        expect!["input.hcl:1,82-83: Nesting too deep; Expressions and blocks nest deeper than is supported here."],
    );
}
