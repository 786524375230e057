//! `-json` and `-t`: answers as data.

mod datum;

use clap::Args;
use serde_json::Value;
use songline_lang::template::{Bounds, Library, NoLibrary, Options, Template, Value as Datum};

pub use self::datum::datum;
use crate::exit::{Exit, Failure, Outcome};
use crate::outln;

/// Flags of commands that can print their data.
#[derive(Args, Debug, Clone, Default)]
pub struct Format {
    /// Print the data as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the data through a Go template.
    #[arg(long = "t", value_name = "TEMPLATE")]
    pub template: Option<String>,
}

impl Format {
    /// Whether data is asked for, in one of the ways.
    ///
    /// # Errors
    /// Both ways are asked for.
    pub fn wanted(&self) -> Result<bool, Failure> {
        match (self.json, self.template()) {
            (true, Some(_)) => Err(Failure::new("Both json and template formatting are not allowed")),
            (json, template) => Ok(json || template.is_some()),
        }
    }

    /// Prints the data if it is asked for; `false`: it is not, and the caller prints words.
    ///
    /// # Errors
    /// Both ways are asked for, or the template fails.
    pub fn print(&self, data: &Value) -> Result<bool, Failure> {
        if !self.wanted()? {
            return Ok(false);
        }
        match self.template() {
            Some(template) => outln!("{}", render(template, data)?),
            None => outln!("{}", json(data)),
        }
        Ok(true)
    }

    /// Prints the data if it is asked for, else the words.
    ///
    /// # Errors
    /// Both ways are asked for, or the template fails.
    pub fn show(&self, data: &Value, in_words: impl FnOnce(&Value) -> String) -> Outcome {
        if !self.print(data)? {
            outln!("{}", in_words(data));
        }
        Ok(Exit::DONE)
    }

    fn template(&self) -> Option<&str> {
        self.template.as_deref().filter(|template| !template.is_empty())
    }
}

/// JSON with four spaces of indentation and keys in alphabetical order.
pub fn json(data: &Value) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    let mut sorted = data.clone();
    sorted.sort_all_objects();
    // Values of JSON with texts as keys always have a text.
    let _ = serde::Serialize::serialize(&sorted, &mut serializer);
    String::from_utf8_lossy(&out).into_owned()
}

/// The data through a template.
///
/// # Errors
/// `Error formatting the data: ..`
pub fn render(template: &str, data: &Value) -> Result<String, Failure> {
    render_with(template, datum(data), &NoLibrary)
}

/// A value through a template with functions of a library.
///
/// # Errors
/// `Error formatting the data: ..`
fn render_with(template: &str, data: Datum, library: &dyn Library) -> Result<String, Failure> {
    let failed = |error: songline_lang::template::TemplateError| Failure::of("Error formatting the data", error);
    let template = Template::parse("format", template, &Options::default(), library).map_err(failed)?;
    let bytes = template.render(data, library, Bounds::default()).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_sorted_keys_and_four_spaces() {
        let data = json!({ "B": { "D": [], "C": null }, "A": "<x>" });
        assert_eq!(
            super::json(&data),
            "{\n    \"A\": \"<x>\",\n    \"B\": {\n        \"C\": null,\n        \"D\": []\n    }\n}"
        );
    }

    #[test]
    fn templates_see_whole_numbers() {
        let data = json!([{ "ID": "a", "N": 50 }, { "ID": "b", "N": 1_700_000_000_000_000_000_i64 }]);
        let out = render("{{range .}}{{.ID}}={{.N}};{{end}}", &data).expect("it renders");
        assert_eq!(out, "a=50;b=1700000000000000000;");
        let refused = render("{{.ID", &data).expect_err("it has no end");
        assert!(refused.message().starts_with("Error formatting the data: "), "{refused}");
    }
}
