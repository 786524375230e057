//! Answers as values of templates. A template sees the types of the reference's API, of which an answer has only the
//! JSON: the names of fields say which numbers are durations and which objects are maps ([`fields`]).

mod fields;

use serde_json::{Map, Value, json};
use songline_lang::template::{Object, Type, Value as Datum};

use self::fields::Zero;
use crate::values::go_duration;

/// A value of an answer for templates. Whole numbers stay whole, durations are printed as Go prints them, null is
/// `<nil>`, and a field that an object does not have is an error.
pub fn datum(data: &Value) -> Datum {
    typed("", data)
}

/// The value of a field with this name; elements of lists and maps have none.
fn typed(name: &str, data: &Value) -> Datum {
    match data {
        Value::Number(number) => match number.as_i64() {
            Some(nanos) if fields::is_duration(name) => object(Duration(nanos)),
            _ => raw(data),
        },
        Value::Array(items) => Datum::list(items.iter().map(|item| typed("", item)).collect()),
        Value::Object(items) if fields::is_free(name) => free(items),
        Value::Object(items) if fields::is_map(name) || !looks_like_fields(items) => keyed(items, |_| ""),
        // Wait times of templates are `Min` and `Max`, which are numbers elsewhere.
        Value::Object(items) if name == "Wait" => object(Fields(keyed(items, |_| "Wait"))),
        Value::Object(items) => object(Fields(keyed(items, |key| key))),
        Value::Null => match fields::zero(name) {
            Some(Zero::List) => Datum::list(Vec::new()),
            Some(Zero::Map) => free(&Map::new()),
            Some(Zero::Text | Zero::Number | Zero::Flag | Zero::Pointer | Zero::Transition) | None => object(Nil),
        },
        Value::Bool(_) | Value::String(_) => raw(data),
    }
}

/// A value below a map of anything, such as the configuration of a driver: it has no types.
fn raw(data: &Value) -> Datum {
    match data {
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Datum::Int(number),
            (None, Some(number)) => Datum::Uint(number),
            (None, None) => Datum::Float(number.as_f64().unwrap_or_default()),
        },
        Value::Array(items) => Datum::list(items.iter().map(raw).collect()),
        Value::Object(items) => free(items),
        Value::Null | Value::Bool(_) | Value::String(_) => Datum::of_json(data),
    }
}

fn free(items: &Map<String, Value>) -> Datum {
    Datum::map(items.iter().map(|(key, item)| (key.as_str().into(), raw(item))).collect())
}

/// Members with types. `name` is the name of a member's field.
fn keyed<'v>(items: &'v Map<String, Value>, name: impl Fn(&'v str) -> &'v str) -> Datum {
    Datum::map(items.iter().map(|(key, item)| (key.as_str().into(), typed(name(key), item))).collect())
}

/// Whether all keys could be names of fields in Go. Keys of maps are ids, names of users and the like.
fn looks_like_fields(items: &Map<String, Value>) -> bool {
    let is_name = |key: &str| {
        key.starts_with(|first: char| first.is_ascii_uppercase())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    !items.is_empty() && items.keys().all(|key| is_name(key))
}

fn object(object: impl Object + 'static) -> Datum {
    Datum::Object(std::sync::Arc::new(object))
}

/// A null pointer.
#[derive(Debug)]
struct Nil;

impl Object for Nil {
    fn of(&self) -> &'static str {
        "nil pointer"
    }

    fn plain(&self) -> Datum {
        Datum::Nil
    }

    /// A method of any name, so that the error names the cause.
    fn method(&self, _: &str) -> Option<&'static [Type]> {
        Some(&[])
    }

    fn call(&self, name: &str, _: &[Datum]) -> Result<Datum, String> {
        Err(format!("can't evaluate field {name}: the object is nil"))
    }

    fn printed(&self) -> Option<String> {
        Some("<nil>".to_owned())
    }
}

/// A number of nanoseconds.
#[derive(Debug)]
struct Duration(i64);

impl Object for Duration {
    fn of(&self) -> &'static str {
        "time.Duration"
    }

    fn plain(&self) -> Datum {
        Datum::Int(self.0)
    }

    fn method(&self, _: &str) -> Option<&'static [Type]> {
        None
    }

    fn call(&self, name: &str, _: &[Datum]) -> Result<Datum, String> {
        Err(format!("time.Duration has no field {name}"))
    }

    fn printed(&self) -> Option<String> {
        Some(go_duration(self.0))
    }
}

/// A structure: a map whose members are methods, so that one that it does not have is an error.
#[derive(Debug)]
struct Fields(Datum);

impl Object for Fields {
    fn of(&self) -> &'static str {
        "object"
    }

    fn plain(&self) -> Datum {
        self.0.clone()
    }

    fn method(&self, _: &str) -> Option<&'static [Type]> {
        Some(&[])
    }

    fn call(&self, name: &str, _: &[Datum]) -> Result<Datum, String> {
        let found = match &self.0 {
            Datum::Map(map) => map.items.get(name).cloned(),
            _ => None,
        };
        found
            .or_else(|| omitted(name))
            .ok_or_else(|| format!("can't evaluate field {name}: the object has no such field"))
    }
}

/// The value of a field that answers leave out when it is empty.
fn omitted(name: &str) -> Option<Datum> {
    fields::omitted(name).map(|zero| match zero {
        Zero::Number => typed(name, &json!(0)),
        Zero::Text => Datum::text(""),
        Zero::Flag => Datum::Bool(false),
        Zero::List | Zero::Map | Zero::Pointer => typed(name, &Value::Null),
        Zero::Transition => typed(
            name,
            &json!({ "Migrate": null, "Reschedule": null, "ForceReschedule": null, "NoShutdownDelay": null }),
        ),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::format::render;

    fn job() -> Value {
        json!({
            "ID": "web", "Type": "batch", "Priority": 50, "Stop": false, "Meta": { "a": "b" }, "Datacenters": ["*"],
            "Periodic": null, "Constraints": null, "Affinities": [], "ConsulToken": "",
            "TaskGroups": [{
                "Name": "g", "Meta": null, "Volumes": { "DATA": { "Source": "v" } },
                "RestartPolicy": { "Attempts": 3, "Delay": 15_000_000_000_i64 },
                "Tasks": [{
                    "Name": "t", "KillTimeout": 5_000_000_000_i64,
                    "Config": { "run_for": "300s", "KillTimeout": 5, "Nothing": null },
                    "Templates": [{ "Wait": { "Min": 5_000_000_000_i64, "Max": null } }],
                }],
            }],
            "ScalingPolicy": { "Min": 1, "Max": 5 },
        })
    }

    /// The output of a template, or why there is none.
    fn check(data: &Value, template: &str, expected: Expect) {
        let out = match render(template, data) {
            Ok(out) => out,
            Err(failure) => failure.message().to_owned(),
        };
        expected.assert_eq(&out);
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        let (task, group) = ("(index (index .TaskGroups 0).Tasks 0)", "(index .TaskGroups 0)");
        check(&job(), &format!("{{{{{task}.KillTimeout}}}} {{{{{group}.RestartPolicy.Delay}}}}"), expect!["5s 15s"]);
        check(&job(), &format!("{{{{printf \"%d\" {task}.KillTimeout}}}}"), expect!["5000000000"]);
        check(&job(), &format!("{{{{with index {task}.Templates 0}}}}{{{{.Wait.Min}}}}{{{{end}}}}"), expect!["5s"]);
        check(&job(), "{{.ScalingPolicy.Min}} {{.Priority}}", expect!["1 50"]);
    }

    #[test]
    fn configuration_of_a_driver_has_no_types() {
        let config = "(index (index .TaskGroups 0).Tasks 0).Config";
        check(
            &job(),
            &format!(
                "{{{{with {config}}}}}{{{{.run_for}}}} {{{{.KillTimeout}}}} {{{{.Nothing}}}} {{{{.nope}}}}{{{{end}}}}"
            ),
            expect!["300s 5 <no value> <no value>"],
        );
    }

    #[test]
    fn null_is_nil_or_empty() {
        check(&job(), "{{.Meta}} {{.Datacenters}} {{.Periodic}}", expect!["map[a:b] [*] <nil>"]);
        check(&job(), "{{.Constraints}} {{len .Constraints}} {{.Affinities}}", expect!["[] 0 []"]);
        check(&job(), "{{with index .TaskGroups 0}}{{.Meta}} {{.Meta.zzz}}{{end}}", expect!["map[] <no value>"]);
        check(&job(), "{{if .Periodic}}yes{{else}}no{{end}} {{not .Stop}}", expect!["no true"]);
        let refused = render("{{.Periodic.Spec}}", &job()).expect_err("there is nothing to look into");
        assert!(refused.message().ends_with("can't evaluate field Spec: the object is nil"), "{refused}");
    }

    #[test]
    fn missing_key_of_a_map_is_no_value_and_missing_field_is_an_error() {
        check(&job(), "{{.Meta.a}} {{.Meta.zzz}}", expect!["b <no value>"]);
        check(
            &job(),
            "{{with index .TaskGroups 0}}{{.Volumes.DATA.Source}} {{.Volumes.Nope}}{{end}}",
            expect!["v <no value>"],
        );
        check(&json!({ "web": { "ID": "x" } }), "{{.web.ID}} {{.nope}}", expect!["x <no value>"]);
        let refused = render("{{.Nope}}", &job()).expect_err("a job has no such field");
        assert!(refused.message().ends_with("can't evaluate field Nope: the object has no such field"), "{refused}");
    }

    #[test]
    fn field_that_answers_leave_out_is_empty() {
        let eval = json!({ "ID": "e", "JobID": "web" });
        check(&eval, "[{{.BlockedEval}}] {{.Wait}} {{.FailedTGAllocs}} {{.RelatedEvals}}", expect!["[] 0s map[] []"]);
        let alloc = json!({ "ID": "a" });
        check(&alloc, "{{.DesiredTransition.Migrate}} {{.NetworkStatus}} {{.CreateIndex}}", expect!["<nil> <nil> 0"]);
    }
}
