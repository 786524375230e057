//! Fields that are nil or left out.

use std::collections::BTreeMap;

use expect_test::expect;
use serde::Serialize;
use songline_model::Blob;

use super::Periodic;
use crate::bexpr::Filter;

/// Answers of filters on a row.
fn answers<T: Serialize>(row: &T, filters: &[&str]) -> String {
    let answer = |text: &&str| match Filter::parse(text).expect("it is a filter").matches(row) {
        Ok(truth) => format!("{text} => {truth}"),
        Err(error) => format!("{text} => {error}"),
    };
    filters.iter().map(answer).collect::<Vec<_>>().join("\n")
}

#[test]
fn null_and_omitted_fields_are_evaluated_by_their_type() {
    /// Has the name and the encoding of the rows' type for times.
    struct Time(&'static str);
    impl Serialize for Time {
        fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.collect_str(self.0)
        }
    }
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Allocation {
        policies: Option<&'static [&'static str]>,
        create_time: Time,
        #[serde(skip_serializing_if = "Option::is_none")]
        deployment_status: Option<Periodic>,
        #[serde(skip_serializing_if = "Option::is_none")]
        desired_transition: Option<Periodic>,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_states: Option<BTreeMap<String, String>>,
    }
    let row = Allocation {
        policies: None,
        create_time: Time("2020-01-01T00:00:00Z"),
        deployment_status: None,
        desired_transition: None,
        task_states: None,
    };
    let told = answers(
        &row,
        &[
            "Policies is empty",
            "Policies contains a",
            r#"CreateTime == "2020-01-01T00:00:00Z""#,
            r#"CreateTime matches "2020""#,
            "DeploymentStatus.Healthy == true",
            "DeploymentStatus is empty",
            "DesiredTransition.Migrate == true",
            "DesiredTransition is empty",
            "TaskStates is empty",
            "TaskStates.web == running",
        ],
    );
    expect![[r#"
        Policies is empty => true
        Policies contains a => false
        CreateTime == "2020-01-01T00:00:00Z" => unable to find suitable primitive comparison function for matching
        CreateTime matches "2020" => Value of type struct is not convertible to []byte
        DeploymentStatus.Healthy == true => error finding value in datum: /DeploymentStatus/Healthy: at part 1, invalid value kind: invalid
        DeploymentStatus is empty => Cannot perform is empty operations on type ptr for selector: "DeploymentStatus"
        DesiredTransition.Migrate == true => unable to find suitable primitive comparison function for matching
        DesiredTransition is empty => Cannot perform is empty operations on type struct for selector: "DesiredTransition"
        TaskStates is empty => true
        TaskStates.web == running => false"#]]
    .assert_eq(&told);
}

#[test]
fn bytes_are_a_list_that_regular_expressions_match_as_text() {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Job {
        hash: Option<Blob>,
        payload: Option<Blob>,
    }
    let row = Job { hash: None, payload: Some(Blob(b"hello".to_vec())) };
    let told = answers(
        &row,
        &[
            r#"Hash matches "x""#,
            r#"Hash matches "^$""#,
            "Hash is empty",
            "Hash == x",
            r#"Payload matches "^hel+o$""#,
            "Payload is empty",
            "Payload == hello",
            r#""104" in Payload"#,
        ],
    );
    expect![[r#"
        Hash matches "x" => false
        Hash matches "^$" => true
        Hash is empty => true
        Hash == x => unable to find suitable primitive comparison function for matching
        Payload matches "^hel+o$" => true
        Payload is empty => false
        Payload == hello => unable to find suitable primitive comparison function for matching
        "104" in Payload => true"#]]
    .assert_eq(&told);
}

#[test]
fn omitted_time_of_an_evaluation_is_a_struct_and_its_related_evals_are_an_empty_list() {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Evaluation {
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_until: Option<&'static str>,
    }
    let told = answers(
        &Evaluation { wait_until: None },
        &["WaitUntil is empty", "WaitUntil == x", "RelatedEvals is empty", "x in RelatedEvals", "Related is empty"],
    );
    expect![[r#"
        WaitUntil is empty => Cannot perform is empty operations on type struct for selector: "WaitUntil"
        WaitUntil == x => unable to find suitable primitive comparison function for matching
        RelatedEvals is empty => true
        x in RelatedEvals => false
        Related is empty => error finding value in datum: /Related at part 0: couldn't find key: struct field with name "Related""#]]
    .assert_eq(&told);
}
