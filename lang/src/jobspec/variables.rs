//! Input variables and locals: their declarations, their values, and the names `var` and `local`.

mod validation;

use std::collections::BTreeMap;

use super::decode;
use super::{Diagnostics, ParseOptions};
use crate::hcl::ast::{Attribute, Block, Body};
use crate::hcl::convert::{Type, convert, type_of};
use crate::hcl::eval::{self, Allowed, Scope};
use crate::hcl::types::{Exactness, type_expression};
use crate::hcl::value::Value;
use crate::hcl::{self, Diagnostic, Range};
use validation::{Given, Validation};

/// A declared variable.
struct Variable {
    wanted: Type,
    value: Option<Value>,
    /// Source of the value: `default` or `varfile`.
    source: &'static str,
    /// Position of the value in its file.
    range: Option<Range>,
    validations: Vec<Validation>,
}

/// The variables of a file, and what is wrong with their `validation` blocks. Values are checked all the same.
#[derive(Default)]
struct Declared {
    variables: BTreeMap<String, Variable>,
    faults: Vec<Diagnostic>,
}

/// Builds the scope of the job's expressions, with the names `var` and `local`.
pub(super) fn resolve(body: &Body, options: &ParseOptions) -> Result<Scope<'static>, Diagnostics> {
    let file = options.filename.as_str();
    let mut found = Vec::new();
    let Declared { mut variables, faults } = declared(body, &mut found);
    if !found.is_empty() {
        found.extend(faults);
        return Err(Diagnostics::listed(&found, file));
    }
    assign_texts(&mut variables, &options.environment, "env", false, &mut found);
    assign(&mut variables, &options.variables, options.strict, file, &mut found)?;
    assign_texts(&mut variables, &options.flags, "cli", options.strict, &mut found);
    found.extend(faults);
    for (name, variable) in &variables {
        check(name, variable, file, &mut found);
    }
    if !found.is_empty() {
        return Err(Diagnostics::listed(&found, file));
    }
    let values = variables.into_iter().map(|(name, variable)| (name, variable.value.unwrap_or(Value::Null))).collect();
    let known = [("var".to_string(), values), ("local".to_string(), BTreeMap::new())];
    let names = known.into_iter().map(|(name, members)| (name, eval::names_object(members))).collect();
    let mut scope = Scope::of_file(names, file, options.entropy);
    locals(body, &mut scope).map_err(|found| Diagnostics::listed(&found, file))?;
    Ok(scope)
}

// ---- declarations

fn declared(body: &Body, found: &mut Vec<Diagnostic>) -> Declared {
    let Declared { mut variables, mut faults } = Declared::default();
    for block in body.blocks.iter().filter(|block| block.kind == "variables") {
        decode::no_blocks(&block.body, found);
        for attribute in &block.body.attributes {
            let name = &attribute.name;
            if variables.contains_key(name) {
                found.push(Diagnostic::new(attribute.name_range, "Duplicate variable", duplicate(name)));
                continue;
            }
            let before = found.len();
            let value = eval::value(&attribute.expression, &Scope::root(BTreeMap::new()), Allowed::Constants, found);
            if found.len() == before {
                let variable = Variable {
                    wanted: type_of(&value),
                    value: Some(value),
                    source: "default",
                    range: Some(attribute.expression.range()),
                    validations: Vec::new(),
                };
                variables.insert(name.clone(), variable);
            }
        }
    }
    for block in body.blocks.iter().filter(|block| block.kind == "variable") {
        let name = block.labels.first().map(|(name, _)| name.clone()).unwrap_or_default();
        if variables.contains_key(&name) {
            found.push(Diagnostic::nowhere("Duplicate variable", duplicate(&name)));
            continue;
        }
        if let Some(mut variable) = variable(block, found) {
            let blocks = block.body.blocks.iter().filter(|inner| inner.kind == "validation");
            variable.validations = blocks.filter_map(|inner| validation::read(&name, inner, &mut faults)).collect();
            variables.insert(name, variable);
        }
    }
    Declared { variables, faults }
}

fn duplicate(name: &str) -> String {
    format!("Duplicate {name} variable definition found.")
}

fn variable(block: &Block, found: &mut Vec<Diagnostic>) -> Option<Variable> {
    let body = &block.body;
    decode::check_labels(&body.blocks, &[("validation", &[])], found);
    decode::unexpected(body, &["description", "default", "type"], &["validation"], found);
    if let Some((name, range)) = block.labels.first()
        && !hcl::parse::is_name(name)
    {
        found.push(Diagnostic::new(
            *range,
            "Invalid variable name",
            "A name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes.",
        ));
    }
    let scope = Scope::root(BTreeMap::new());
    if let Some(description) = body.attribute("description") {
        let value = eval::value(&description.expression, &scope, Allowed::Constants, found);
        if let Err(reason) = convert(&value, &Type::Text) {
            found.push(Diagnostic::new(
                description.expression.start(),
                "Unsuitable value type",
                format!("Unsuitable value: {reason}"),
            ));
        }
    }
    let declared = match body.attribute("type") {
        Some(attribute) => {
            Some(type_expression(&attribute.expression, Exactness::Exact).map_err(|wrong| found.push(wrong)).ok()?)
        }
        None => None,
    };
    let mut variable = Variable {
        wanted: declared.clone().unwrap_or(Type::Any),
        value: None,
        source: "default",
        range: None,
        validations: Vec::new(),
    };
    if let Some(default) = body.attribute("default") {
        let before = found.len();
        let value = eval::value(&default.expression, &scope, Allowed::Constants, found);
        if found.len() > before {
            return None;
        }
        match convert(&value, &variable.wanted) {
            Ok(value) => {
                if declared.is_none() {
                    variable.wanted = type_of(&value);
                }
                variable.value = Some(value);
                variable.range = Some(default.expression.range());
            }
            Err(reason) => found.push(Diagnostic::new(
                default.expression.range(),
                "Invalid default value for variable",
                format!("This default value is not compatible with the variable's type constraint: {reason}."),
            )),
        }
    }
    Some(variable)
}

// ---- given values

fn assign(
    variables: &mut BTreeMap<String, Variable>,
    given: &str,
    strict: bool,
    file: &str,
    found: &mut Vec<Diagnostic>,
) -> Result<(), Diagnostics> {
    if super::is_json(given) {
        return assign_json(variables, given, file);
    }
    let (body, wrong) = hcl::parse::body(given, file);
    if !wrong.is_empty() {
        return Err(Diagnostics(format!("unable to parse var content: {}", hcl::first_of(&wrong, file))));
    }
    let declarations: Vec<&Block> = body.blocks.iter().filter(|block| block.kind == "variable").collect();
    for block in &declarations {
        let name = block.labels.first().map(|(name, _)| name.as_str()).unwrap_or_default();
        found.push(Diagnostic::new(
            block.kind_range,
            "Variable declaration in a .var file",
            format!(
                "A .var file is used to assign values to variables that have already been declared in job files, not to declare new \
                 variables. To declare variable {name:?}, place this block in one of your job files\n\nTo set a value for this variable in \
                 {file}, use the definition syntax instead:\n    {name} = <value>"
            ),
        ));
    }
    if declarations.is_empty() {
        decode::no_blocks(&body, found);
    }
    if !found.is_empty() {
        return Ok(());
    }
    for attribute in &body.attributes {
        if let Some(variable) = variables.get_mut(&attribute.name) {
            assign_one(variable, attribute, found);
        } else if strict {
            found.push(undeclared(&attribute.name));
        }
    }
    Ok(())
}

/// Assigns texts: as they are to variables of type `string`, else as expressions.
fn assign_texts(
    variables: &mut BTreeMap<String, Variable>,
    given: &BTreeMap<String, String>,
    source: &'static str,
    strict: bool,
    found: &mut Vec<Diagnostic>,
) {
    for (name, text) in given {
        let Some(variable) = variables.get_mut(name) else {
            if strict {
                found.push(undeclared_flag(name));
            }
            continue;
        };
        let value = match &variable.wanted {
            Type::Text => Some(Value::Text(text.as_str().into())),
            wanted => {
                expression(text).or_else(|| matches!(wanted, Type::Any).then(|| Value::Text(text.as_str().into())))
            }
        };
        let value = value.ok_or_else(|| "the text is no expression".to_owned());
        match value.and_then(|value| convert(&value, &variable.wanted).map_err(|reason| reason.to_string())) {
            Ok(value) => {
                variable.value = Some(value);
                variable.source = source;
                variable.range = None;
            }
            Err(reason) => found.push(Diagnostic::nowhere(
                "Invalid value for variable",
                format!("The value for {name} is not compatible with the variable's type constraint: {reason}."),
            )),
        }
    }
}

/// The value of an expression without names.
fn expression(text: &str) -> Option<Value> {
    let (body, wrong) = hcl::parse::body(&format!("value = {text}\n"), "value");
    let attribute = body.attribute("value").filter(|_| wrong.is_empty())?;
    let mut found = Vec::new();
    let value = eval::value(&attribute.expression, &Scope::root(BTreeMap::new()), Allowed::Constants, &mut found);
    found.is_empty().then_some(value)
}

fn undeclared_flag(name: &str) -> Diagnostic {
    Diagnostic::nowhere(
        "Undefined -var variable",
        format!(
            "A {name:?} variable was passed in the command line but was not found in known variables. To declare variable {name:?}, \
             place this block in your job file"
        ),
    )
}

fn undeclared(name: &str) -> Diagnostic {
    Diagnostic::nowhere(
        "Undefined variable",
        format!(
            "A {name:?} variable was set but was not found in known variables. To declare variable {name:?}, place this block in one of \
             your .nomad files, such as variables.nomad.hcl: variable {name:?} {{ type = string }}"
        ),
    )
}

fn assign_one(variable: &mut Variable, attribute: &Attribute, found: &mut Vec<Diagnostic>) {
    let before = found.len();
    let scope = Scope::root(BTreeMap::new());
    let value = eval::value(&attribute.expression, &scope, Allowed::Constants, found);
    if found.len() > before {
        return;
    }
    match convert(&value, &variable.wanted) {
        Ok(value) => {
            variable.value = Some(value);
            variable.source = "varfile";
            variable.range = Some(attribute.expression.range());
        }
        Err(reason) => found.push(Diagnostic::new(
            attribute.expression.range(),
            "Invalid value for variable",
            format!(
                "The value for {} is not compatible with the variable's type constraint: {reason}.",
                attribute.name
            ),
        )),
    }
}

fn assign_json(variables: &mut BTreeMap<String, Variable>, given: &str, file: &str) -> Result<(), Diagnostics> {
    let parsed = crate::go_json::value_from_slice(given.as_bytes())
        .map_err(|error| Diagnostics(format!("unable to parse var content: {error}")))?;
    let serde_json::Value::Object(members) = parsed else { return Ok(()) };
    for (name, json) in members {
        let Some(variable) = variables.get_mut(&name) else { continue };
        match convert(&hcl::value::of_json(&json), &variable.wanted) {
            Ok(value) => {
                variable.value = Some(value);
                variable.source = "varfile";
                variable.range = None;
            }
            Err(reason) => {
                let wrong = Diagnostic::nowhere(
                    "Invalid value for variable",
                    format!("The value for {name} is not compatible with the variable's type constraint: {reason}."),
                );
                return Err(Diagnostics::listed(&[wrong], file));
            }
        }
    }
    Ok(())
}

fn check(name: &str, variable: &Variable, file: &str, found: &mut Vec<Diagnostic>) {
    let Some(value) = &variable.value else {
        found.push(Diagnostic::nowhere(
            format!("Unset variable {name:?}"),
            "A used variable must be set or have a default value; see https://www.nomadproject.io/docs/job-specification/hcl2/variables for \
             details.",
        ));
        return;
    };
    let given = Given { name, value, source: variable.source, range: variable.range };
    for validation in &variable.validations {
        validation::check(validation, &given, file, found);
    }
}

// ---- locals

/// Evaluates locals in the order of their dependencies, and makes them members of `local`.
fn locals(body: &Body, scope: &mut Scope<'_>) -> Result<(), Vec<Diagnostic>> {
    let mut found = Vec::new();
    let mut waiting: Vec<&Attribute> = Vec::new();
    for block in body.blocks.iter().filter(|block| block.kind == "locals") {
        decode::no_blocks(&block.body, &mut found);
        waiting.extend(&block.body.attributes);
    }
    if !found.is_empty() {
        return Err(found);
    }
    while !waiting.is_empty() {
        let mut wrong = Vec::new();
        let mut left = Vec::new();
        for attribute in &waiting {
            let before = wrong.len();
            let value = eval::value(&attribute.expression, scope, Allowed::All, &mut wrong);
            if wrong.len() > before {
                left.push(*attribute);
            } else {
                scope.add_member("local", &attribute.name, value);
            }
        }
        if left.len() == waiting.len() {
            return Err(wrong);
        }
        waiting = left;
    }
    Ok(())
}
