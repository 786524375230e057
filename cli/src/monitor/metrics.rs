//! Metrics of a failed placement.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::text;
use crate::values::three_digits;

/// Lines about why nodes did not fit, each behind `indent`. `scores` adds the table of scores.
pub fn lines(metric: &Value, scores: bool, indent: &str) -> String {
    let mut out = Vec::new();
    if metric["NodesEvaluated"].as_i64().unwrap_or(0) == 0 {
        out.push("No nodes were eligible for evaluation".to_owned());
    }
    let map = |key: &str| -> BTreeMap<String, i64> {
        let found = metric[key].as_object().into_iter().flatten();
        found.map(|(name, count)| (name.clone(), count.as_i64().unwrap_or(0))).collect()
    };
    for (datacenter, _) in map("NodesAvailable").into_iter().filter(|(_, available)| *available == 0) {
        out.push(format!("No nodes are available in datacenter {datacenter:?}"));
    }
    out.extend(map("ClassFiltered").iter().map(|(class, n)| format!("Class {class:?}: {n} nodes excluded by filter")));
    let constraints = map("ConstraintFiltered");
    out.extend(constraints.iter().map(|(text, n)| format!("Constraint \"{text}\": {n} nodes excluded by filter")));
    let exhausted = metric["NodesExhausted"].as_i64().unwrap_or(0);
    if exhausted > 0 {
        out.push(format!("Resources exhausted on {exhausted} nodes"));
    }
    out.extend(map("ClassExhausted").iter().map(|(class, n)| format!("Class {class:?} exhausted on {n} nodes")));
    let dimensions = map("DimensionExhausted");
    out.extend(dimensions.iter().map(|(name, n)| format!("Dimension {name:?} exhausted on {n} nodes")));
    for quota in metric["QuotaExhausted"].as_array().into_iter().flatten() {
        out.push(format!("Quota limit hit {:?}", quota.as_str().unwrap_or_default()));
    }
    let mut lines: Vec<String> = out.iter().map(|line| format!("{indent}* {line}")).collect();
    if scores {
        let table = self::scores(metric);
        lines.extend(table.lines().map(str::to_owned));
    }
    lines.join("\n")
}

/// The table of scores of nodes, best first as the server sent them; empty if there are none.
fn scores(metric: &Value) -> String {
    let found: Vec<&Value> = metric["ScoreMetaData"].as_array().into_iter().flatten().collect();
    let Some(first) = found.first() else { return String::new() };
    let names: Vec<String> = first["Scores"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let number = |value: &Value| three_digits(value.as_f64().unwrap_or(0.0));
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|node| {
            let mut row = vec![text(&node["NodeID"]).to_owned()];
            row.extend(names.iter().map(|name| number(&node["Scores"][name])));
            row.push(number(&node["NormScore"]));
            row
        })
        .collect();
    let headings: Vec<&str> =
        std::iter::once("Node").chain(names.iter().map(String::as_str)).chain(std::iter::once("final score")).collect();
    crate::layout::list(&headings, &rows)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_come_in_one_order() {
        let metric = json!({
            "NodesEvaluated": 0, "NodesExhausted": 1, "NodesAvailable": {"dc1": 1, "dc2": 0},
            "ClassFiltered": {"c": 1}, "ConstraintFiltered": {"${meta.x} = y": 1},
            "ClassExhausted": {"c": 1}, "DimensionExhausted": {"memory": 1}, "QuotaExhausted": ["cpu"],
        });
        expect![[r#"
            * No nodes were eligible for evaluation
            * No nodes are available in datacenter "dc2"
            * Class "c": 1 nodes excluded by filter
            * Constraint "${meta.x} = y": 1 nodes excluded by filter
            * Resources exhausted on 1 nodes
            * Class "c" exhausted on 1 nodes
            * Dimension "memory" exhausted on 1 nodes
            * Quota limit hit "cpu""#]]
        .assert_eq(&lines(&metric, false, ""));
    }

    #[test]
    fn small_scores_of_two_nodes_differ() {
        let node = |id: &str, score: f64| json!({"NodeID": id, "Scores": {"binpack": score}, "NormScore": score});
        let metric = json!({"NodesEvaluated": 2, "ScoreMetaData": [node("a", 0.005958686), node("b", 0.0061)]});
        expect![[r#"
            Node  binpack  final score
            a     0.00596  0.00596
            b     0.0061   0.0061"#]]
        .assert_eq(&lines(&metric, true, ""));
    }
}
