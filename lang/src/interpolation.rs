//! Templates in the `config` block of a task, in the language of job files. The node that runs the task evaluates them,
//! since only the node knows the values of `${attr.cpu.arch}` or `${NOMAD_PORT_http}`.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::hcl::eval::{self, Allowed, Scope};
use crate::hcl::value::Value;
use crate::hcl::{Diagnostic, Position, parse};
use crate::jobspec;

/// Names that templates can use. `attr.cpu.arch` is the attribute `arch` of the attribute `cpu` of the object `attr`.
#[derive(Debug, Clone, Default)]
pub struct Names(BTreeMap<String, Value>);

impl Names {
    /// Builds the objects from dotted names. A name that is an object and a text, such as `driver.docker` beside
    /// `driver.docker.version`, is the object.
    pub fn new<'a>(dotted: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut names = BTreeMap::new();
        for (name, text) in dotted {
            insert(&mut names, name, text);
        }
        Self(names)
    }
}

fn insert(names: &mut BTreeMap<String, Value>, name: &str, text: &str) {
    let Some((object, rest)) = name.split_once('.') else {
        if !matches!(names.get(name), Some(Value::Mapping(..))) {
            names.insert(name.to_owned(), Value::text(text));
        }
        return;
    };
    let known = names.entry(object.to_owned()).or_insert_with(|| Value::object(BTreeMap::new()));
    if !matches!(known, Value::Mapping(..)) {
        *known = Value::object(BTreeMap::new());
    }
    if let Value::Mapping(_, members) = known {
        insert(members, rest, text);
    }
}

/// Evaluates a template. A template that is one interpolation has the interpolation's value, of any type; every other
/// one is a text. The error lists the faults, each as `summary: detail`.
pub fn evaluate(template: &str, names: &Names) -> Result<Json, Vec<String>> {
    let (expression, mut found) = parse::fragment(template, Position::START, true, 0, "");
    let mut value = Value::Unknown;
    if found.is_empty() {
        value = eval::value(&expression, &Scope::root(names.0.clone()), Allowed::Declared, &mut found);
    }
    if found.is_empty() { Ok(jobspec::json_of(&value)) } else { Err(found.iter().map(told).collect()) }
}

fn told(fault: &Diagnostic) -> String {
    format!("{}: {}", fault.summary, fault.detail)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(templates: &[&str], expected: Expect) {
        let names = Names::new([
            ("NOMAD_META_m", "v"),
            ("attr.driver.docker", "1"),
            ("attr.driver.docker.version", "20.10"),
            ("attr.kernel.name", "linux"),
            ("env.X", "x"),
        ]);
        let lines = templates.iter().map(|template| match evaluate(template, &names) {
            Ok(value) => format!("{template} -> {value}\n"),
            Err(faults) => format!("{template} -> {faults:?}\n"),
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn templates_have_the_language_of_job_files_and_the_names_of_the_node() {
        check(
            &[
                "plain",
                "$X $${X} %%{X}",
                "[${attr.kernel.name}] ${env[\"X\"]} ${upper(NOMAD_META_m)}",
                "%{if attr.kernel.name == \"linux\"}y%{else}n%{endif}",
                "${attr.driver.docker.version}",
                "${[1, true, NOMAD_META_m]}",
                "%{for n in [1, 2]}${n};%{endfor}",
            ],
            expect![[r#"
                plain -> "plain"
                $X $${X} %%{X} -> "$X ${X} %{X}"
                [${attr.kernel.name}] ${env["X"]} ${upper(NOMAD_META_m)} -> "[linux] x V"
                %{if attr.kernel.name == "linux"}y%{else}n%{endif} -> "y"
                ${attr.driver.docker.version} -> "20.10"
                ${[1, true, NOMAD_META_m]} -> [1,true,"v"]
                %{for n in [1, 2]}${n};%{endfor} -> "1;2;"
            "#]],
        );
    }

    #[test]
    fn faults_of_a_template_are_listed() {
        check(
            &["${none}", "${attr.none} ${env.none}", "x ${", "${file(\"/etc/passwd\")}", "%{if true}y"],
            expect![[r#"
                ${none} -> ["Unknown variable: There is no variable named \"none\"."]
                ${attr.none} ${env.none} -> ["Unsupported attribute: This object does not have an attribute named \"none\".", "Unsupported attribute: This object does not have an attribute named \"none\"."]
                x ${ -> ["Invalid expression: Expected the start of an expression, but found an invalid expression token."]
                ${file("/etc/passwd")} -> ["Error in function call: Call to function \"file\" failed: filesystem function disabled."]
                %{if true}y -> ["Unexpected end of template: The if directive at :1,1-11 is missing its corresponding endif directive."]
            "#]],
        );
    }
}
