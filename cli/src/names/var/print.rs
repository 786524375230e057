//! Output of the commands about variables.

use serde_json::{Value, json};

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
        ("namespace", format!("{:?}", text(&variable["Namespace"])), ""),
        ("path", format!("{:?}", text(&variable["Path"])), ""),
        ("create_index", variable["CreateIndex"].to_string(), "  # Set by server"),
        ("modify_index", variable["ModifyIndex"].to_string(), "  # Set by server; consulted for check-and-set"),
        ("create_time", variable["CreateTime"].to_string(), "  # Set by server"),
        ("modify_time", variable["ModifyTime"].to_string(), "  # Set by server"),
    ];
    let mut out = String::from("\n");
    for (key, value, comment) in rows {
        out.push_str(&format!("{key:<12} = {value}{comment}\n"));
    }
    let items = sorted(variable);
    let width = items.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    out.push_str("\nitems = {\n");
    for (key, value) in items {
        out.push_str(&format!("  {key:<width$} = {value:?}\n"));
    }
    out.push_str("}\n");
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
