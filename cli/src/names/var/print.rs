//! Output of the commands about variables.

use serde_json::{Value, json};
use songline_model::quote;

use crate::client::text;
use crate::exit::Failure;
use crate::layout::{block, heading, list};
use crate::values::time;
use crate::{format, outln};

/// Order of a variable's members.
const MEMBERS: [&str; 7] = ["Namespace", "Path", "CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime", "Items"];

/// The chosen output.
#[derive(Debug)]
pub(super) enum Out {
    Nothing,
    Json,
    Hcl,
    Table,
    Template(String),
}

/// The template of `-out go-template`.
pub(super) fn template_of(template: Option<&str>) -> Result<&str, Failure> {
    template
        .filter(|template| !template.is_empty())
        .ok_or_else(|| Failure::new("A template must be supplied using '-template' when using go-template formatting"))
}

impl Out {
    /// The output with this name.
    pub(super) fn of(name: Option<&str>, default: &str, template: Option<String>) -> Result<Self, Failure> {
        match name.unwrap_or(default) {
            "none" => Ok(Self::Nothing),
            "json" => Ok(Self::Json),
            "hcl" => Ok(Self::Hcl),
            "table" => Ok(Self::Table),
            "go-template" => Ok(Self::Template(template_of(template.as_deref())?.to_owned())),
            _ => {
                Err(Failure::new("Invalid value for \"-out\"; valid values are [go-template, hcl, json, none, table]"))
            }
        }
    }

    pub(super) fn print(&self, variable: &Value) -> Result<(), Failure> {
        match self {
            Self::Nothing => {}
            Self::Json => outln!("{}", as_json(variable)),
            Self::Hcl => outln!("{}", as_hcl(variable)),
            Self::Table => outln!("{}", as_table(variable)),
            Self::Template(template) => outln!("{}", format::render(template, variable)?),
        }
        Ok(())
    }
}

/// JSON with two spaces of indentation and the members in the reference's order.
fn as_json(variable: &Value) -> String {
    let mut out = serde_json::Map::new();
    for key in MEMBERS {
        out.insert(key.to_owned(), variable[key].clone());
    }
    let mut items = json!(out.remove("Items").unwrap_or_default());
    items.sort_all_objects();
    out.insert("Items".to_owned(), items);
    // A map of texts and numbers always has a text.
    serde_json::to_string_pretty(&out).unwrap_or_default()
}

fn sorted(variable: &Value) -> Vec<(&str, &str)> {
    let mut items: Vec<(&str, &str)> =
        variable["Items"].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), text(value))).collect();
    items.sort_unstable();
    items
}

fn as_hcl(variable: &Value) -> String {
    let rows = [
        ("namespace", hcl_text(text(&variable["Namespace"])), ""),
        ("path", hcl_text(text(&variable["Path"])), ""),
        ("create_index", variable["CreateIndex"].to_string(), "  # Set by server"),
        ("modify_index", variable["ModifyIndex"].to_string(), "  # Set by server; consulted for check-and-set"),
        ("create_time", variable["CreateTime"].to_string(), "  # Set by server"),
        ("modify_time", variable["ModifyTime"].to_string(), "  # Set by server"),
    ];
    let mut out = String::from("\n");
    for (key, value, comment) in rows {
        out.push_str(&format!("{key:<12} = {value}{comment}\n"));
    }
    let items: Vec<(String, &str)> = sorted(variable).into_iter().map(|(key, value)| (hcl_key(key), value)).collect();
    let width = items.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    out.push_str("\nitems = {\n");
    for (key, value) in items {
        out.push_str(&format!("  {key:<width$} = {}\n", hcl_text(value)));
    }
    out.push_str("}\n");
    out
}

/// A key of an object in HCL, in quotes unless it is an identifier.
fn hcl_key(key: &str) -> String {
    let mut letters = key.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_alphabetic() || letter == '_');
    let is_identifier = begins && letters.all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    if is_identifier && key != "true" && key != "false" { key.to_owned() } else { hcl_text(key) }
}

/// A text in HCL's quotes. HCL 2 has no `\xNN`, `\a`, `\b`, `\f` and `\v`. A `${` would begin a template, in which
/// quotes do not end the text.
fn hcl_text(text: &str) -> String {
    let mut out = String::from("\"");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins_template = matches!(letter, '$' | '%') && letters.peek() == Some(&'{');
        if begins_template || (letter.is_control() && !matches!(letter, '\n' | '\r' | '\t')) {
            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            let quoted = quote(&letter.to_string());
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    out.push('"');
    out
}

fn as_table(variable: &Value) -> String {
    let when = |key: &str| time(variable[key].as_i64().unwrap_or(0));
    let mut pairs = vec![
        ("Namespace", text(&variable["Namespace"]).to_owned()),
        ("Path", text(&variable["Path"]).to_owned()),
        ("Create Time", when("CreateTime")),
    ];
    if variable["CreateTime"] != variable["ModifyTime"] {
        pairs.push(("Modify Time", when("ModifyTime")));
    }
    pairs.push(("Check Index", variable["ModifyIndex"].to_string()));
    format!("{}\n\n{}\n{}", block(&pairs), heading("Items"), block(&sorted(variable)))
}

/// A list of variables.
pub(super) fn rows(variables: &[Value]) -> String {
    let row = |one: &Value| {
        vec![
            text(&one["Namespace"]).to_owned(),
            text(&one["Path"]).to_owned(),
            time(one["ModifyTime"].as_i64().unwrap_or(0)),
        ]
    };
    list(&["Namespace", "Path", "Last Updated"], &variables.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hcl_is_read_back_as_it_was() {
        let items = json!({
            "plain": "it's 100% \u{e4}",
            "dashed-key.x": "",
            "1st key": "a number begins it",
            "true": "a word of HCL",
            "escapes": "\u{1b}[0m \u{0}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{7f}\u{85}\u{feff}\u{e0001}\u{1f600}",
            "quotes": "\"\\",
            "template": "${\"a\"} ${open %{ if } $",
        });
        let variable = json!({
            "Namespace": "default", "Path": "a/b", "CreateIndex": 1, "ModifyIndex": 2, "CreateTime": 3, "ModifyTime": 4,
            "Items": items,
        });
        let hcl = as_hcl(&variable);
        let read = crate::input::hcl(&hcl).expect("it is HCL");
        assert_eq!((&read["path"], &read["modify_index"]), (&json!("a/b"), &json!(2)), "{hcl}");
        assert_eq!(read["items"], items, "{hcl}");
    }

    #[test]
    fn hcl_escapes_are_those_of_both_versions() {
        assert_eq!(hcl_text("\u{1b}[0m\u{7}\n"), r#""\u001b[0m\u0007\n""#);
        assert_eq!(hcl_text("${x} $x %{y}"), r#""\u0024{x} $x \u0025{y}""#);
        assert_eq!(hcl_key("a-b.c"), "a-b.c");
        assert_eq!(hcl_key("1a"), r#""1a""#);
    }
}
