//! Stories of filters: filter texts, and their results on one job.

mod nil;

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::{Filter, PlainNames};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Job {
    #[serde(rename = "ID")]
    id: JobId,
    name: String,
    priority: i64,
    modify_index: u64,
    stop: bool,
    status: Status,
    datacenters: Vec<String>,
    task_groups: Vec<Arc<Group>>,
    meta: Option<BTreeMap<String, String>>,
    queued: BTreeMap<String, i64>,
    labels: Option<BTreeMap<String, String>>,
    constraints: Option<Vec<String>>,
    periodic: Option<Periodic>,
    migrate: Option<bool>,
    payload: Option<Blob>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    weight: f64,
}

#[derive(Serialize)]
struct JobId(String);

/// Has the name of the rows' type for opaque bytes.
#[derive(Serialize)]
struct Blob(Vec<u8>);

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Running,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Group {
    name: String,
    count: i64,
    tasks: Vec<Task>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Task {
    driver: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Periodic {
    spec: String,
}

fn job() -> Job {
    let group = |name: &str, count| {
        Arc::new(Group {
            name: name.to_string(),
            count,
            tasks: vec![Task { driver: "mock_driver" }, Task { driver: "exec" }],
        })
    };
    Job {
        id: JobId("evals-filter".to_string()),
        name: "evals-filter".to_string(),
        priority: 70,
        modify_index: 12,
        stop: false,
        status: Status::Running,
        datacenters: vec!["*".to_string(), "dc1".to_string()],
        task_groups: vec![group("web", 2), group("db", 0)],
        meta: Some(BTreeMap::from([
            ("rack".to_string(), "r1".to_string()),
            ("kernel.name".to_string(), "linux".to_string()),
        ])),
        queued: BTreeMap::from([("g".to_string(), 0)]),
        labels: None,
        constraints: None,
        periodic: None,
        migrate: None,
        payload: None,
        reason: String::new(),
        weight: 0.5,
    }
}

/// One line per filter: the filter, and whether the job matches or the error.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(filters: &str, expected: Expect) {
    let job = job();
    let lines: Vec<String> = filters
        .lines()
        .map(str::trim)
        .map(|text| match Filter::parse(text) {
            Err(error) => format!("{text} => syntax {error}"),
            Ok(filter) => match filter.matches(&job) {
                Ok(truth) => format!("{text} => {truth}"),
                Err(error) => format!("{text} => {error}"),
            },
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn derived_fields_are_read_beside_those_of_the_row() {
    let row = serde_json::json!({"Name": "a"});
    let derived = || serde_json::json!({"Resources": {"CPU": 100}});
    for (text, expected) in [
        ("Name == a and Resources.CPU == 100", true),
        ("Resources.CPU == 99", false),
        ("Resources is empty", false),
        ("any Resources as name { name == CPU }", true),
    ] {
        let filter = Filter::parse(text).expect("the filter is right");
        assert_eq!(filter.matches_beside(&row, &["Resources"], derived), Ok(expected), "{text}");
    }
}

#[test]
fn certain_match_is_true_whatever_the_missing_fields_are() {
    let row = json!({"Topic": "Node", "Payload": {"Node": {"ID": "n", "Tags": [{"B": 2}]}}});
    for (text, expected) in [
        ("Topic == Node or Payload.Job.ID == j", true),
        ("Payload.Job.ID == j or Topic == Node", true),
        ("Payload.Job.ID == j", false),
        ("Payload.Job.ID != j", false),
        ("not Payload.Job.ID == j", false),
        ("not (Payload.Job.ID != j)", false),
        ("Topic == Node and Payload.Job.ID != j", false),
        // One false term makes the conjunction false.
        ("not (Topic == Job and Payload.Job.ID == j)", true),
        ("not (Payload.Job.ID == j and Topic == Job)", true),
        ("not (Topic == Node and Payload.Job.ID == j)", false),
        // The same for a key that is missing from a map which is there ..
        ("Payload.Node.Name == x", false),
        ("Payload.Node.Name != x", false),
        ("x not in Payload.Node.Name", false),
        ("Payload.Node.Name is empty", true),
        ("Payload.Node.Name is not empty", false),
        // .. for collections ..
        ("any Payload.Jobs as job { job == x }", false),
        ("all Payload.Jobs as job { job == x }", false),
        ("any Payload.Node.Tags as tag { tag.A == 1 or tag.B == 2 }", true),
        ("any Payload.Node.Tags as tag { tag.B == 2 or tag.A.C == 1 }", true),
        ("all Payload.Node.Tags as tag { tag.A != 1 }", false),
        // .. and for values of another kind.
        ("Payload.Node == n or Topic == Node", true),
        ("Payload.Node != n", false),
    ] {
        let filter = Filter::parse(text).expect("the filter is right");
        assert_eq!(filter.matches_for_certain(&row), expected, "{text}");
    }
}

#[test]
fn scalars_are_compared_as_their_own_type() {
    check(
        r#"Priority == 70
           Priority == "70"
           Priority == "0x46"
           Priority == "0b1000110"
           Priority == 0x46
           Priority != 70
           Priority == 70.0
           Priority == x
           Priority == -1
           Priority == 99999999999999999999
           ModifyIndex == -1
           ModifyIndex == 12
           Stop == false
           Stop == F
           Stop == 0
           Stop == no
           Weight == 0.5
           Weight == x
           ID == "evals-filter"
           ID == evals
           Status == running
           Status != complete"#,
        expect![[r#"
            Priority == 70 => true
            Priority == "70" => true
            Priority == "0x46" => true
            Priority == "0b1000110" => true
            Priority == 0x46 => syntax 1:14 (13): rule "number": Invalid number literal
            Priority != 70 => false
            Priority == 70.0 => error getting match value in expression: strconv.ParseInt: parsing "70.0": invalid syntax
            Priority == x => error getting match value in expression: strconv.ParseInt: parsing "x": invalid syntax
            Priority == -1 => false
            Priority == 99999999999999999999 => error getting match value in expression: strconv.ParseInt: parsing "99999999999999999999": value out of range
            ModifyIndex == -1 => error getting match value in expression: strconv.ParseUint: parsing "-1": invalid syntax
            ModifyIndex == 12 => true
            Stop == false => true
            Stop == F => true
            Stop == 0 => true
            Stop == no => error getting match value in expression: strconv.ParseBool: parsing "no": invalid syntax
            Weight == 0.5 => true
            Weight == x => error getting match value in expression: strconv.ParseFloat: parsing "x": invalid syntax
            ID == "evals-filter" => true
            ID == evals => false
            Status == running => true
            Status != complete => true"#]],
    );
}

#[test]
fn non_scalars_cannot_be_compared() {
    check(
        r#"Datacenters == x
           TaskGroups == 1
           Periodic != x
           Migrate == true
           Meta == x
           Priority matches 7
           7 in Priority
           Stop is empty
           Periodic is empty
           TaskGroups contains x
           Datacenters matches x"#,
        expect![[r#"
            Datacenters == x => unable to find suitable primitive comparison function for matching
            TaskGroups == 1 => unable to find suitable primitive comparison function for matching
            Periodic != x => unable to find suitable primitive comparison function for matching
            Migrate == true => unable to find suitable primitive comparison function for matching
            Meta == x => unable to find suitable primitive comparison function for matching
            Priority matches 7 => Value of type int is not convertible to []byte
            7 in Priority => Cannot perform in/contains operations on type int for selector: "Priority"
            Stop is empty => Cannot perform is empty operations on type bool for selector: "Stop"
            Periodic is empty => Cannot perform is empty operations on type ptr for selector: "Periodic"
            TaskGroups contains x => Cannot perform in/contains operations on type slice for selector: "TaskGroups"
            Datacenters matches x => Value of type slice is not convertible to []byte"#]],
    );
}

#[test]
fn unknown_fields_are_errors_and_unknown_keys_are_not() {
    check(
        r#"NoSuchField == 1
           jobid == "x"
           TaskGroups.1.Nope == g
           TaskGroups.0.Name == web
           TaskGroups.2.Name == web
           TaskGroups.0.Tasks.1.Driver == "exec"
           Periodic.Spec == x
           Name.x == 1
           Meta.rack == r1
           Meta["kernel.name"] == linux
           "/Meta/rack" == r1
           Meta.none == x
           Meta.none != x
           Meta.none is empty
           Meta.none is not empty
           Meta.none matches x
           Meta.none not matches x
           x in Meta.none
           Meta.none.deeper == x
           Labels.none == x
           Labels.none is empty
           Queued.g == 0
           Reason == ""
           Reason is empty
           Reason matches "^$""#,
        expect![[r#"
            NoSuchField == 1 => error finding value in datum: /NoSuchField at part 0: couldn't find key: struct field with name "NoSuchField"
            jobid == "x" => error finding value in datum: /jobid at part 0: couldn't find key: struct field with name "jobid"
            TaskGroups.1.Nope == g => error finding value in datum: /TaskGroups/1/Nope at part 2: couldn't find key: struct field with name "Nope"
            TaskGroups.0.Name == web => true
            TaskGroups.2.Name == web => error finding value in datum: /TaskGroups/2/Name at part 1: index 2 is out of range (length = 2)
            TaskGroups.0.Tasks.1.Driver == "exec" => true
            Periodic.Spec == x => error finding value in datum: /Periodic/Spec: at part 1, invalid value kind: invalid
            Name.x == 1 => error finding value in datum: /Name/x: at part 1, invalid value kind: string
            Meta.rack == r1 => true
            Meta["kernel.name"] == linux => true
            "/Meta/rack" == r1 => true
            Meta.none == x => false
            Meta.none != x => true
            Meta.none is empty => true
            Meta.none is not empty => false
            Meta.none matches x => false
            Meta.none not matches x => true
            x in Meta.none => false
            Meta.none.deeper == x => error finding value in datum: /Meta/none/deeper at part 1: couldn't find key "none"
            Labels.none == x => false
            Labels.none is empty => true
            Queued.g == 0 => true
            Reason == "" => true
            Reason is empty => true
            Reason matches "^$" => true"#]],
    );
}

#[test]
fn in_contains_and_matches_search_lists_maps_and_texts() {
    check(
        r#"Datacenters contains `*`
           `dc1` in Datacenters
           "dc2" in Datacenters
           dc2 not in Datacenters
           Datacenters not contains dc1
           rack in Meta
           Meta contains "none"
           ID contains "als-filter"
           "evals-filter" in ID
           ID matches "^evals-filt"
           ID not matches "^evals-filt"
           ID matches "("
           Labels is empty
           x in Labels
           Constraints is empty
           x in Constraints
           Payload is empty
           TaskGroups is empty
           Queued is not empty
           ID is empty"#,
        expect![[r#"
            Datacenters contains `*` => true
            `dc1` in Datacenters => true
            "dc2" in Datacenters => false
            dc2 not in Datacenters => true
            Datacenters not contains dc1 => false
            rack in Meta => true
            Meta contains "none" => false
            ID contains "als-filter" => true
            "evals-filter" in ID => true
            ID matches "^evals-filt" => true
            ID not matches "^evals-filt" => false
            ID matches "(" => Failed to compile regular expression "(": error parsing regexp: missing closing ): `(`
            Labels is empty => true
            x in Labels => false
            Constraints is empty => true
            x in Constraints => false
            Payload is empty => true
            TaskGroups is empty => false
            Queued is not empty => true
            ID is empty => false"#]],
    );
}

#[test]
fn filter_operators_bind_not_before_and_before_or() {
    check(
        r#"ID == x or Stop == false and Priority == 70
           (ID == x or Stop == false) and Priority == 1
           not ID == x and Priority == 70
           not (ID != "evals-filter")
           not not Stop == true
           Stop == true and Nope == 1
           Stop == false or Nope == 1
           ( Stop == false )
           ((Stop==false)and(Priority==70))"#,
        expect![[r#"
            ID == x or Stop == false and Priority == 70 => true
            (ID == x or Stop == false) and Priority == 1 => false
            not ID == x and Priority == 70 => true
            not (ID != "evals-filter") => true
            not not Stop == true => false
            Stop == true and Nope == 1 => false
            Stop == false or Nope == 1 => true
            ( Stop == false ) => true
            ((Stop==false)and(Priority==70)) => syntax 1:15 (14): rule "grouping": Unmatched parentheses"#]],
    );
}

#[test]
fn any_and_all_bind_elements_keys_and_indexes() {
    check(
        r#"any TaskGroups as g { g.Name == "web" }
           all TaskGroups as g { g.Name == "web" }
           all TaskGroups as g { g.Name matches "." }
           any TaskGroups as i, g { i == 1 and g.Name == db }
           any TaskGroups as i, g { i == 0 and g.Name == db }
           any TaskGroups as _, g { any g.Tasks as t { t.Driver == exec and g.Count == 2 } }
           any TaskGroups as i, _ { i == 1 }
           any Datacenters as d { d == dc1 }
           any Meta as k { k == rack }
           any Meta as k, v { k == rack and v == r1 }
           all Labels as k { k == x }
           any Labels as k { k == x }
           any TaskGroups as g { g.Nope == 1 }
           any ID as x { x == 1 }
           Stop == true or any Datacenters as d { d == dc1 }"#,
        expect![[r#"
            any TaskGroups as g { g.Name == "web" } => true
            all TaskGroups as g { g.Name == "web" } => false
            all TaskGroups as g { g.Name matches "." } => true
            any TaskGroups as i, g { i == 1 and g.Name == db } => true
            any TaskGroups as i, g { i == 0 and g.Name == db } => false
            any TaskGroups as _, g { any g.Tasks as t { t.Driver == exec and g.Count == 2 } } => true
            any TaskGroups as i, _ { i == 1 } => true
            any Datacenters as d { d == dc1 } => true
            any Meta as k { k == rack } => true
            any Meta as k, v { k == rack and v == r1 } => true
            all Labels as k { k == x } => true
            any Labels as k { k == x } => false
            any TaskGroups as g { g.Nope == 1 } => error finding value in datum: /TaskGroups/0/Nope at part 2: couldn't find key: struct field with name "Nope"
            any ID as x { x == 1 } => Cannot perform any/all operations on type string for selector: "ID"
            Stop == true or any Datacenters as d { d == dc1 } => true"#]],
    );
}

#[test]
fn syntax_errors_list_what_was_expected_at_the_farthest_place() {
    check(
        r#"==
           (((
           Stop
           x ==
           JobID == "evals-filter" and Priority > 3
           Priority == 1 x
           Priority == "abc
           Priority == `abc
           Meta[rack] == 1
           Meta["rack" == 1
           (Stop == true
           x in 5
           Name == "a\qb"
           Periodic is nil
           any TaskGroups { x }"#,
        expect![[r#"
            == => syntax 1:1 (0): no match found, expected: "(", "-", "0", "\"", "`", "all", "any", "not", [ \t\r\n], [1-9] or [a-zA-Z]
            ((( => syntax 1:4 (3): no match found, expected: "(", "-", "0", "\"", "`", "all", "any", "not", [ \t\r\n], [1-9] or [a-zA-Z]
            Stop => syntax 1:5 (4): no match found, expected: "!=", ".", "==", "[", [ \t\r\n] or [a-zA-Z0-9_/]
            x == => syntax 1:5 (4): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]
            JobID == "evals-filter" and Priority > 3 => syntax 1:38 (37): no match found, expected: "!=", "==", "contains", "in", "is", "matches", "not" or [ \t\r\n]
            Priority == 1 x => syntax 1:15 (14): no match found, expected: "and", "or", [ \t\r\n] or EOF
            Priority == "abc => syntax 1:17 (16): rule "string": Unterminated string literal
            Priority == `abc => syntax 1:17 (16): rule "string": Unterminated string literal
            Meta[rack] == 1 => syntax 1:6 (5): rule "index": Invalid index
            Meta["rack" == 1 => syntax 1:13 (12): rule "index": Unclosed index expression
            (Stop == true => syntax 1:14 (13): rule "grouping": Unmatched parentheses
            x in 5 => syntax 1:6 (5): rule "match": Invalid selector
            Name == "a\qb" => syntax 1:9 (8): rule "string": invalid syntax
            Periodic is nil => syntax 1:13 (12): no match found, expected: "empty", "not" or [ \t\r\n]
            any TaskGroups { x } => syntax 1:16 (15): no match found, expected: "as" or [ \t\r\n]"#]],
    );
}

#[test]
fn filter_syntax_error_has_line_column_and_offset() {
    let error = Filter::parse("Stop == true\n  and Größe").expect_err("letters are ASCII");
    assert_eq!((error.line, error.column, error.offset), (2, 9, 21));
}

#[test]
fn json_rows_are_structs_at_the_top_and_maps_below() {
    let row = json!({"Name": "a", "Meta": null, "List": [1, 2], "Deep": {"x": {"y": true}}});
    for (text, expected) in [
        ("Name == a", "true"),
        ("2 in List", "true"),
        ("Deep.x.y == true", "true"),
        ("Deep.z == true", "false"),
        ("Meta.x is empty", "true"),
        ("Meta is empty", "true"),
        ("Nope == 1", "error finding value in datum: /Nope at part 0: couldn't find key \"Nope\""),
    ] {
        let filter = Filter::parse(text).expect("it is a filter");
        let said = filter.matches(&row).map_or_else(|error| error.to_string(), |truth| truth.to_string());
        assert_eq!(said, expected, "{text}");
    }
}

#[test]
fn filter_lists_the_field_values_that_it_demands() {
    let names = PlainNames { texts: &["JobID", "Status", "Name"], integers: &["Count"] };
    for (text, expected) in [
        ("JobID == a", "JobID=a"),
        ("(Status == x or Name == y) and JobID == \"a\" and (any T as t { t.u == v }) and Name == z", "JobID=a"),
        ("JobID == a and Status == b", "JobID=a Status=b"),
        ("JobID == a and (Count == 3 and Status == b)", "JobID=a Status=b"),
        ("Count == many and JobID == a", ""),
        ("Count == \"-1\" and JobID == a", ""),
        ("Count == 16 and JobID == a", "JobID=a"),
        ("Other == 1 and JobID == a", ""),
        ("JobID == a and Other == 1", "JobID=a"),
        ("Name matches \"[\" and JobID == a", ""),
        ("not Name matches \"^a\" and JobID == a", "JobID=a"),
        ("JobID.deeper == a", ""),
        ("JobID == a or Status == b", ""),
        ("JobID != a", ""),
        ("not JobID == a", ""),
    ] {
        let filter = Filter::parse(text).expect("it is a filter");
        let demands: Vec<String> =
            filter.demands(names).iter().map(|(field, literal)| format!("{field}={literal}")).collect();
        assert_eq!(demands.join(" "), expected, "{text}");
    }
}

#[test]
fn filter_lists_its_selectors() {
    let filter =
        Filter::parse("(Status == x or Name == y) and JobID == \"a\" and (any T as t { t.u == v and Meta.k == 1 })")
            .expect("fine");
    let selectors: Vec<String> = filter.selectors().iter().map(|path| path.join(".")).collect();
    assert_eq!(selectors, ["Status", "Name", "JobID", "T", "Meta.k"]);
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("{}a == 1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Filter::parse(&deep).expect_err("too deep").message.contains("nests too deeply"));
    let long = vec!["Stop == true"; 20_000].join(" or ");
    assert_eq!(Filter::parse(&long).expect("chains may be long").matches(&job()), Ok(false));
}

#[test]
fn filter_has_few_large_regular_expressions() {
    let filter = |count| (0..count).map(|_| "ID matches `^(\\pL{80}|x)`").collect::<Vec<_>>().join(" or ");
    assert_eq!(Filter::parse(&filter(4)).expect("fine").matches(&job()), Ok(false));
    let error = Filter::parse(&filter(5)).expect("fine").matches(&job()).expect_err("one is refused");
    assert!(error.to_string().contains("expression too large"), "{error}");
    assert!(Filter::parse(&filter(33)).expect_err("too many").message.contains("too many regular expressions"));
}

proptest! {
    #[test]
    fn random_text_never_panics(text in ".{0,60}") {
        let _ = Filter::parse(&text).map(|filter| filter.matches(&job()));
    }

    #[test]
    fn random_sentences_never_panic(words in proptest::collection::vec(
        prop_oneof![
            Just("Meta"), Just("TaskGroups"), Just("."), Just("=="), Just(" "), Just("and "), Just(" not "), Just("("), Just(")"),
            Just("any "), Just(" as g { "), Just("}"), Just("\"x\""), Just("7"), Just("[`a`]"), Just(" in "), Just(" is empty"), Just("\\"),
            Just(" matches "), Just("\"/a\""), Just("-"), Just("\n"),
        ], 0..14)) {
        let _ = Filter::parse(&words.concat()).map(|filter| filter.matches(&job()));
    }
}
