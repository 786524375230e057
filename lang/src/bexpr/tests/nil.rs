//! Fields that are nil or left out.

use std::collections::BTreeMap;

use expect_test::expect;
use serde::Serialize;

use super::Periodic;
use crate::bexpr::Filter;

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
    let told: Vec<String> = [
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
    ]
    .iter()
    .map(|text| match Filter::parse(text).expect("it is a filter").matches(&row) {
        Ok(truth) => format!("{text} => {truth}"),
        Err(error) => format!("{text} => {error}"),
    })
    .collect();
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
    .assert_eq(&told.join("\n"));
}
