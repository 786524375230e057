//! Differences between two versions of a job, as `job plan` and `job history` print them.

use serde_json::Value;
use songline_model::quote;

use super::lists::items;
use crate::client::text;
use crate::out::{Colour, paint};

/// Details shown beside the changes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    /// Unchanged parts, and the content of added and removed tasks, too.
    pub(super) verbose: bool,
    /// Effects of the changes on allocations.
    pub(super) annotations: bool,
}

/// The difference of a job.
pub(super) fn job(diff: &Value, shown: Shown) -> String {
    let kind = text(&diff["Type"]);
    let mut out = format!("{}Job: \"{}\"\n", marker(kind).painted(), text(&diff["ID"]));
    let groups = items(&diff["TaskGroups"]);
    if kind == "Edited" || shown.verbose {
        let width = widest(members(diff).chain(groups.iter()));
        out.push_str(&content(diff, 0, width));
    }
    for group in groups {
        let width = if kind == "Edited" || shown.verbose {
            widest(members(diff).chain(groups.iter()))
        } else {
            widest(groups.iter())
        };
        out.push_str(&task_group(group, width, shown));
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// Fields and objects of a part.
fn members(part: &Value) -> impl Iterator<Item = &Value> {
    items(&part["Fields"]).iter().chain(items(&part["Objects"]))
}

/// A marker of a change.
struct Marker(&'static str, Option<Colour>);

impl Marker {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn painted(&self) -> String {
        self.1.map_or_else(|| self.0.to_owned(), |colour| paint(colour, self.0))
    }
}

fn marker(kind: &str) -> Marker {
    match kind {
        "Added" => Marker("+ ", Some(Colour::Green)),
        "Deleted" => Marker("- ", Some(Colour::Red)),
        "Edited" => Marker("+/- ", Some(Colour::LightYellow)),
        _ => Marker("", None),
    }
}

/// Length of the longest marker of some parts: their names begin in one column.
fn widest<'v>(parts: impl Iterator<Item = &'v Value>) -> usize {
    parts.map(|part| marker(text(&part["Type"])).width()).max().unwrap_or(0)
}

/// A marker, padded to a width.
fn marked(kind: &str, width: usize) -> String {
    format!("{}{}", marker(kind).painted(), " ".repeat(padding(kind, width)))
}

/// Blanks behind a marker: what is inside the part is further in by them.
fn padding(kind: &str, width: usize) -> usize {
    width.saturating_sub(marker(kind).width())
}

/// Fields and objects of a part, at a depth. Markers are padded to `width`.
fn content(part: &Value, depth: usize, width: usize) -> String {
    let fields = items(&part["Fields"]);
    let longest = fields.iter().map(|field| text(&field["Name"]).chars().count()).max().unwrap_or(0);
    let indent = " ".repeat(depth);
    let mut out = String::new();
    for field in fields {
        let kind = text(&field["Type"]);
        let name = text(&field["Name"]);
        let padding = " ".repeat(longest - name.chars().count());
        let value = value_of(field, kind);
        out.push_str(&format!("{indent}{}{name}: {padding}{value}{}\n", marked(kind, width), notes(field)));
    }
    for object in items(&part["Objects"]) {
        let kind = text(&object["Type"]);
        let inner = depth + 2 + padding(kind, width);
        out.push_str(&format!("{indent}{}{} {{\n", marked(kind, width), text(&object["Name"])));
        out.push_str(&content(object, inner, widest(members(object))));
        out.push_str(&format!("{}}}\n", " ".repeat(depth + width)));
    }
    out
}

fn value_of(field: &Value, kind: &str) -> String {
    let (old, new) = (text(&field["Old"]), text(&field["New"]));
    match kind {
        "Deleted" => quote(old),
        "Edited" => format!("{} => {}", quote(old), quote(new)),
        _ => quote(new),
    }
}

/// Annotations of a field or task, in brackets.
fn notes(part: &Value) -> String {
    let notes: Vec<String> = items(&part["Annotations"]).iter().map(|note| noted(text(note))).collect();
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
}

fn noted(note: &str) -> String {
    match note {
        "forces create" => paint(Colour::Green, note),
        "forces destroy" => paint(Colour::Red, note),
        "forces in-place update" => paint(Colour::Cyan, note),
        "forces create/destroy update" => paint(Colour::LightYellow, note),
        other => other.to_owned(),
    }
}

fn task_group(group: &Value, width: usize, shown: Shown) -> String {
    let kind = text(&group["Type"]);
    let updates = if shown.annotations { updates(group) } else { String::new() };
    let mut out = format!("{}Task Group: \"{}\"{updates}\n", marked(kind, width), text(&group["Name"]));
    let tasks = items(&group["Tasks"]);
    let edited = kind == "Edited" || shown.verbose;
    let inner = if edited { widest(members(group).chain(tasks)) } else { widest(tasks.iter()) };
    let depth = 2 + padding(kind, width);
    if edited {
        out.push_str(&content(group, depth, inner));
    }
    for one in tasks {
        out.push_str(&task(one, depth, inner, shown));
    }
    out
}

/// Numbers of allocations by what happens to them.
fn updates(group: &Value) -> String {
    let mut updates: Vec<(&String, u64)> = group["Updates"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, count)| (name, count.as_u64().unwrap_or(0)))
        .filter(|(_, count)| *count > 0)
        .collect();
    updates.sort_unstable();
    let shown: Vec<String> = updates
        .into_iter()
        .map(|(name, count)| {
            let words = format!("{count} {name}");
            match name.as_str() {
                "create" => paint(Colour::Green, &words),
                "destroy" => paint(Colour::Red, &words),
                "migrate" => paint(Colour::Blue, &words),
                "canary" => paint(Colour::LightYellow, &words),
                "in-place update" => paint(Colour::Cyan, &words),
                "create/destroy update" => paint(Colour::Yellow, &words),
                _ => words,
            }
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

fn task(task: &Value, depth: usize, width: usize, shown: Shown) -> String {
    let kind = text(&task["Type"]);
    let notes = if shown.annotations { notes(task) } else { String::new() };
    let mut out = format!("{}{}Task: \"{}\"{notes}\n", " ".repeat(depth), marked(kind, width), text(&task["Name"]));
    if kind == "None" || kind.is_empty() || (!shown.verbose && kind != "Edited") {
        return out;
    }
    out.push_str(&content(task, depth + 2 + padding(kind, width), widest(members(task))));
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_quoted_as_go_quotes_them() {
        let field =
            |kind: &str, name: &str, old: &str, new: &str| json!({"Type": kind, "Name": name, "Old": old, "New": new});
        let diff = json!({
            "Type": "Edited",
            "ID": "web",
            "Fields": [
                field("Added", "Meta[a]", "", "x\u{1b}y\u{1}"),
                field("Deleted", "Meta[b]", "it's \"\\", ""),
                field("Edited", "Meta[c]", "\0", "\u{7}\u{e4}"),
            ],
        });
        expect![[r#"
            +/- Job: "web"
            +   Meta[a]: "x\x1by\x01"
            -   Meta[b]: "it's \"\\"
            +/- Meta[c]: "\x00" => "\aä""#]]
        .assert_eq(&job(&diff, Shown::default()));
    }
}
