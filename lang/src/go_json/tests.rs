//! Stories of bodies: JSON texts, and the decoded values or errors.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::{Names, from_slice, from_slice_named, from_value, value_from_slice};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Job {
    #[serde(rename = "ID")]
    id: String,
    priority: i64,
    #[serde(rename = "Version")]
    version: Option<u64>,
    all_at_once: bool,
    datacenters: Option<Vec<String>>,
    meta: Option<BTreeMap<String, String>>,
    task_groups: Vec<Group>,
    weight: f64,
    extra: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Group {
    name: String,
    count: Option<i64>,
    kind: Kind,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Plain,
    VeryOdd,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Request {
    job: Option<Job>,
    names: Vec<JobId>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct JobId(#[expect(dead_code, reason = "only read by Debug")] String);

#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(body: &str, expected: Expect) {
    let text = match from_slice::<Job>(body.as_bytes()) {
        Ok(job) => format!("{job:?}"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

fn refused(bodies: &[&[u8]], expected: Expect) {
    let lines: Vec<String> = bodies
        .iter()
        .map(|body| {
            let shown = body.escape_ascii();
            match value_from_slice(body) {
                Ok(value) => format!("{shown} -> {value}"),
                Err(error) => format!("{shown} -> {error}"),
            }
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn member_names_match_in_any_case_and_the_last_one_wins() {
    check(
        r#"{"id": "a", "ID": "b", "PRIORITY": 7, "nonsense": {"x": [1]}, "allatonce": true, "Weight": 2} trailing"#,
        expect![[
            r#"Job { id: "b", priority: 7, version: None, all_at_once: true, datacenters: None, meta: None, task_groups: [], weight: 2.0, extra: Null }"#
        ]],
    );
}

#[test]
fn repeated_json_member_merges_objects_and_replaces_lists() {
    check(
        r#"{"Meta": {"a": "1", "b": "1"}, "meta": {"b": "2", "c": "2"}, "Datacenters": ["a"], "datacenters": ["b"]}"#,
        expect![[
            r#"Job { id: "", priority: 0, version: None, all_at_once: false, datacenters: Some(["b"]), meta: Some({"a": "1", "b": "2", "c": "2"}), task_groups: [], weight: 0.0, extra: Null }"#
        ]],
    );
}

#[test]
fn null_members_count_as_absent_and_null_elements_as_zero() {
    check(
        r#"{"ID": null, "Version": null, "Datacenters": ["a", null], "Meta": null, "TaskGroups": [null, {"Count": null, "Kind": "very-odd"}]}"#,
        expect![[
            r#"Job { id: "", priority: 0, version: None, all_at_once: false, datacenters: Some(["a", ""]), meta: None, task_groups: [Group { name: "", count: None, kind: Plain }, Group { name: "", count: None, kind: VeryOdd }], weight: 0.0, extra: Null }"#
        ]],
    );
}

#[test]
fn untyped_json_values_keep_integers_and_drop_zero_fractions() {
    check(
        r#"{"Extra": {"a": 10.0, "b": 1e3, "c": 18446744073709551615, "d": -3, "e": 0.5, "f": [null, true]}}"#,
        expect![[
            r#"Job { id: "", priority: 0, version: None, all_at_once: false, datacenters: None, meta: None, task_groups: [], weight: 0.0, extra: Object {"a": Number(10), "b": Number(1000), "c": Number(18446744073709551615), "d": Number(-3), "e": Number(0.5), "f": Array [Null, Bool(true)]} }"#
        ]],
    );
}

#[test]
fn mismatches_name_the_struct_the_path_and_the_go_type() {
    let bodies = [
        r#"{"Priority": "x"}"#,
        r#"{"Priority": 1.5}"#,
        r#"{"Priority": 1e2}"#,
        r#"{"Version": -1}"#,
        r#"{"ID": 5}"#,
        r#"{"AllAtOnce": "yes"}"#,
        r#"{"Datacenters": "dc1"}"#,
        r#"{"Datacenters": [1]}"#,
        r#"{"Meta": ["a"]}"#,
        r#"{"Meta": {"a": 1}}"#,
        r#"{"TaskGroups": ["x"]}"#,
        r#"{"TaskGroups": [{"Count": {}}]}"#,
        r#"{"Weight": 1e400}"#,
        r#"{"TaskGroups": [{"Kind": 1}]}"#,
        r#"[]"#,
        r#""x""#,
    ];
    let lines: Vec<String> = bodies
        .iter()
        .map(|body| from_slice::<Job>(body.as_bytes()).expect_err("every body is wrong").to_string())
        .collect();
    expect![[r#"
        json: cannot unmarshal string into Go struct field Job.Priority of type int
        json: cannot unmarshal number 1.5 into Go struct field Job.Priority of type int
        json: cannot unmarshal number 1e2 into Go struct field Job.Priority of type int
        json: cannot unmarshal number -1 into Go struct field Job.Version of type uint64
        json: cannot unmarshal number into Go struct field Job.ID of type string
        json: cannot unmarshal string into Go struct field Job.AllAtOnce of type bool
        json: cannot unmarshal string into Go struct field Job.Datacenters of type []string
        json: cannot unmarshal number into Go struct field Job.Datacenters of type string
        json: cannot unmarshal array into Go struct field Job.Meta of type map[string]string
        json: cannot unmarshal number into Go struct field Job.Meta of type string
        json: cannot unmarshal string into Go struct field Job.TaskGroups of type structs.Group
        json: cannot unmarshal object into Go struct field Group.TaskGroups.Count of type int
        json: cannot unmarshal number 1e400 into Go struct field Job.Weight of type float64
        json: cannot unmarshal number into Go struct field Group.TaskGroups.Kind of type string
        json: cannot unmarshal array into Go value of type structs.Job
        json: cannot unmarshal string into Go value of type structs.Job"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn type_names_in_errors_are_set_by_the_caller() {
    let names = Names { package: "api", root: Some("api.JobRegisterRequest"), fields: &[("Job.Priority", "int64")] };
    let lines: Vec<String> =
        [r#"[]"#, r#"{"Job": 1}"#, r#"{"job": {"priority": "x"}}"#, r#"{"Names": 1}"#, r#"{"Names": [1]}"#]
            .iter()
            .map(|body| {
                from_slice_named::<Request>(body.as_bytes(), names).expect_err("every body is wrong").to_string()
            })
            .collect();
    expect![[r#"
        json: cannot unmarshal array into Go value of type api.JobRegisterRequest
        json: cannot unmarshal number into Go struct field Request.Job of type api.Job
        json: cannot unmarshal string into Go struct field Job.Job.Priority of type int64
        json: cannot unmarshal number into Go struct field Request.Names of type []string
        json: cannot unmarshal number into Go struct field Request.Names of type string"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn invalid_json_is_refused_with_go_errors() {
    refused(
        &[
            b"",
            b" \n",
            b"{",
            b"{\"a\": 1",
            b"\"abc",
            b"x",
            b"Name=err",
            b"nope",
            b"tru",
            b"trux",
            b"{a: 1}",
            b"{\"a\" 1}",
            b"{\"a\": 1 \"b\"}",
            b"{\"a\": 1,}",
            b"[1,]",
            b"[1 2]",
            b"-x",
            b"1.x",
            b"1ex",
            b"01",
            b"\"\x01\"",
            b"\"\\q\"",
            b"\"\\u12g4\"",
            b"'a'",
            b"\xff",
            b"null garbage",
        ],
        expect![[r#"
             -> EOF
             \n -> EOF
            { -> unexpected EOF
            {\"a\": 1 -> unexpected EOF
            \"abc -> unexpected EOF
            x -> invalid character 'x' looking for beginning of value
            Name=err -> invalid character 'N' looking for beginning of value
            nope -> invalid character 'o' in literal null (expecting 'u')
            tru -> unexpected EOF
            trux -> invalid character 'x' in literal true (expecting 'e')
            {a: 1} -> invalid character 'a' looking for beginning of object key string
            {\"a\" 1} -> invalid character '1' after object key
            {\"a\": 1 \"b\"} -> invalid character '"' after object key:value pair
            {\"a\": 1,} -> invalid character '}' looking for beginning of object key string
            [1,] -> invalid character ']' looking for beginning of value
            [1 2] -> invalid character '2' after array element
            -x -> invalid character 'x' in numeric literal
            1.x -> invalid character 'x' after decimal point in numeric literal
            1ex -> invalid character 'x' in exponent of numeric literal
            01 -> 0
            \"\x01\" -> invalid character '\x01' in string literal
            \"\\q\" -> invalid character 'q' in string escape code
            \"\\u12g4\" -> invalid character 'g' in \u hexadecimal character escape
            \'a\' -> invalid character '\'' looking for beginning of value
            \xff -> invalid character 'ÿ' looking for beginning of value
            null garbage -> null"#]],
    );
}

#[test]
fn strings_are_unescaped_and_bad_bytes_replaced() {
    refused(
        &[
            br#""a\n\u00e9\ud83d\ude00\/""#,
            br#""\ud83d""#,
            br#""\ud83dx\u0041""#,
            br#""\ud83d\u0041""#,
            b"\"\xff\\t\xfe\"",
        ],
        expect![[r#"
            \"a\\n\\u00e9\\ud83d\\ude00\\/\" -> "a\né😀/"
            \"\\ud83d\" -> "�"
            \"\\ud83dx\\u0041\" -> "�xA"
            \"\\ud83d\\u0041\" -> "�A"
            \"\xff\\t\xfe\" -> "�\t�""#]],
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = "[".repeat(100_000);
    assert_eq!(value_from_slice(deep.as_bytes()).expect_err("too deep").to_string(), "exceeded max depth");
    let fine = format!("{}{}", "[".repeat(256), "]".repeat(256));
    assert!(value_from_slice(fine.as_bytes()).is_ok());
}

#[test]
fn json_values_decode_with_the_same_errors_as_bytes() {
    let value = serde_json::json!({"job": {"id": "a", "priority": "x"}});
    assert_eq!(
        from_value::<Request>(&value).expect_err("priority is text").to_string(),
        "json: cannot unmarshal string into Go struct field Job.Job.Priority of type int"
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = value_from_slice(&body);
        let _ = from_slice::<Job>(&body);
    }

    #[test]
    fn random_json_like_text_never_panics(body in r#"[\[\]{}":,0-9a-z\\.eE+\- ]{0,80}"#) {
        let _ = from_slice::<Job>(body.as_bytes());
    }

    #[test]
    fn json_written_by_serde_json_is_read_back(text in ".*", number in any::<i64>(), flag in any::<bool>()) {
        let value = serde_json::json!({"a": text, "b": [number, flag, null]});
        let bytes = serde_json::to_vec(&value).expect("a value is JSON");
        prop_assert_eq!(value_from_slice(&bytes).expect("it is JSON"), value);
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Typed {
    timeout: Option<songline_model::Dur>,
    submit_time: Option<songline_model::Time>,
    payload: Option<songline_model::Blob>,
    groups: Option<Vec<Group>>,
    by_name: Option<BTreeMap<String, Group>>,
    ports: Option<Vec<Port>>,
    dns: Option<DnsConfig>,
    lifecycle: Option<TaskLifecycleConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Port {
    value: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DnsConfig {
    servers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct TaskLifecycleConfig {
    hook: String,
}

#[test]
fn type_errors_use_go_type_names() {
    let mut out = String::new();
    for body in [
        r#"{"Timeout": "5s"}"#,
        r#"{"Timeout": 5.5}"#,
        r#"{"Payload": 5}"#,
        r#"{"Payload": "!!"}"#,
        r#"{"Groups": {}}"#,
        r#"{"Groups": [5]}"#,
        r#"{"ByName": []}"#,
        r#"{"ByName": {"a": 5}}"#,
        r#"{"Ports": {}}"#,
        r#"{"Ports": [{"Value": "x"}]}"#,
        r#"{"DNS": []}"#,
        r#"{"Dns": []}"#,
        r#"{"Lifecycle": []}"#,
    ] {
        let read = from_slice_named::<Typed>(body.as_bytes(), Names { package: "api", ..Names::default() });
        let told = read.map_or_else(|error| error.to_string(), |typed| format!("{typed:?}"));
        out.push_str(&format!("{body} => {told}\n"));
    }
    expect![[r#"
        {"Timeout": "5s"} => json: cannot unmarshal string into Go struct field Typed.Timeout of type time.Duration
        {"Timeout": 5.5} => json: cannot unmarshal number 5.5 into Go struct field Typed.Timeout of type time.Duration
        {"Payload": 5} => json: cannot unmarshal number into Go struct field Typed.Payload of type []uint8
        {"Payload": "!!"} => illegal base64 data at input byte 0
        {"Groups": {}} => json: cannot unmarshal object into Go struct field Typed.Groups of type []*api.Group
        {"Groups": [5]} => json: cannot unmarshal number into Go struct field Typed.Groups of type api.Group
        {"ByName": []} => json: cannot unmarshal array into Go struct field Typed.ByName of type map[string]*api.Group
        {"ByName": {"a": 5}} => json: cannot unmarshal number into Go struct field Typed.ByName of type api.Group
        {"Ports": {}} => json: cannot unmarshal object into Go struct field Typed.Ports of type []api.Port
        {"Ports": [{"Value": "x"}]} => json: cannot unmarshal string into Go struct field Port.Ports.Value of type int
        {"DNS": []} => json: cannot unmarshal array into Go struct field Typed.Dns of type api.DNSConfig
        {"Dns": []} => json: cannot unmarshal array into Go struct field Typed.Dns of type api.DNSConfig
        {"Lifecycle": []} => json: cannot unmarshal array into Go struct field Typed.Lifecycle of type api.TaskLifecycle
    "#]]
    .assert_eq(&out);
}
