//! Compares what is seen with what was recorded, whose masks stand for values that are random in the reference.

use serde_json::Value;

/// Largest difference between equal numbers.
const TOLERANCE: f64 = 0.000_003;
/// Largest part of a value in a reported difference, in characters.
const SHOWN_CHARS: usize = 300;

/// Adds the differences to `differences`.
pub fn compare(want: &Value, got: &Value, place: &str, differences: &mut Vec<String>) {
    match (want, got) {
        (Value::String(mask), _) if mask == "<any>" || mask == "<maybe>" => {}
        (Value::Object(want), Value::Object(got)) => {
            for (key, value) in want {
                match got.get(key) {
                    Some(got) => compare(value, got, &below(place, key), differences),
                    None if value == "<maybe>" => {}
                    None => differ(&below(place, key), value, &Value::from("(missing)"), differences),
                }
            }
            for (key, value) in got.iter().filter(|(key, _)| !want.contains_key(*key)) {
                differ(&below(place, key), &Value::from("(no such key)"), value, differences);
            }
        }
        (Value::Array(want), Value::Array(got)) => lists(want, got, place, differences),
        (Value::Number(one), Value::Number(other)) if near(one.as_f64(), other.as_f64()) => {}
        _ if want == got => {}
        _ => differ(place, want, got, differences),
    }
}

fn lists(want: &[Value], got: &[Value], place: &str, differences: &mut Vec<String>) {
    let (want, open) = match want.split_last() {
        Some((last, before)) if last == "<rest>" => (before, true),
        _ => (want, false),
    };
    for at in 0..want.len().max(got.len()) {
        let place = format!("{place}[{at}]");
        match (want.get(at), got.get(at)) {
            (Some(want), Some(got)) => compare(want, got, &place, differences),
            (Some(want), None) => differ(&place, want, &Value::from("(missing)"), differences),
            (None, Some(got)) if !open => differ(&place, &Value::from("(no such element)"), got, differences),
            (None, _) => {}
        }
    }
}

fn near(one: Option<f64>, other: Option<f64>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if (one - other).abs() <= TOLERANCE)
}

fn below(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

fn differ(place: &str, want: &Value, got: &Value, differences: &mut Vec<String>) {
    let short = |value: &Value| {
        let text = value.to_string();
        let cut = text.char_indices().nth(SHOWN_CHARS).map_or(text.len(), |(at, _)| at);
        if cut < text.len() { format!("{}..", &text[..cut]) } else { text }
    };
    differences.push(format!("{place}: expected {}, got {}", short(want), short(got)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(want: Value, got: Value) -> Vec<String> {
        let mut found = Vec::new();
        compare(&want, &got, "", &mut found);
        found
    }

    #[test]
    fn masks_stand_for_any_value_for_no_key_and_for_further_elements() {
        let want = json!({ "a": "<any>", "b": "<maybe>", "c": [1, "<rest>"] });
        assert!(differences(want.clone(), json!({ "a": 1, "b": 2, "c": [1] })).is_empty());
        assert!(differences(want.clone(), json!({ "a": {}, "c": [1, 2, 3] })).is_empty());
        let found = differences(want, json!({ "c": [], "d": 4 }));
        let all = [
            r#"a: expected "<any>", got "(missing)""#,
            r#"c[0]: expected 1, got "(missing)""#,
            r#"d: expected "(no such key)", got 4"#,
        ];
        assert_eq!(found, all);
    }

    #[test]
    fn numbers_are_equal_within_the_rounding_of_the_recordings() {
        assert!(differences(json!([0.5, 2]), json!([0.500_002, 2.0])).is_empty());
        assert_eq!(differences(json!([0.5]), json!([0.50001])), ["[0]: expected 0.5, got 0.50001"]);
        assert_eq!(differences(json!([1]), json!([1, 2])), [r#"[1]: expected "(no such element)", got 2"#]);
    }
}
