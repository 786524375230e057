//! `audit`: the commands of the log with their actors and outcomes, newest first.

use clap::Args;
use serde_json::Value;

use crate::client::{text, with_query};
use crate::exit::{Exit, Outcome, Tried};
use crate::jobs::lists::items;
use crate::layout::list;
use crate::{Context, General, Run, format, outln, pages};

/// Arguments of `audit`.
#[derive(Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    general: General,
    /// Expression over Command, Actor, Refused, Result, Request and the other fields: `Refused == true`.
    #[arg(long, default_value = "")]
    filter: String,
    /// First index.
    #[arg(long, default_value = "")]
    from_index: String,
    /// Last index.
    #[arg(long, default_value = "")]
    to_index: String,
    /// Nothing before this time: RFC 3339, or seconds since 1970.
    #[arg(long, default_value = "")]
    since: String,
    /// Nothing after this time.
    #[arg(long, default_value = "")]
    until: String,
    /// From old to new.
    #[arg(long)]
    oldest_first: bool,
    /// Show requests whole, without cutting long lists and texts. Needs `-json`.
    #[arg(long, requires = "json")]
    full: bool,
    /// Most entries of an answer.
    #[arg(long, default_value = "100")]
    per_page: String,
    /// Start of the page: printed with the page before.
    #[arg(long, default_value = "")]
    page_token: String,
    /// Print the entries as JSON, with their requests.
    #[arg(long)]
    json: bool,
}

impl Run for Audit {
    async fn run(self, context: &Context) -> Outcome {
        let path = with_query(
            "/v1/audit",
            &[
                ("filter", &self.filter),
                ("from_index", &self.from_index),
                ("to_index", &self.to_index),
                ("since", &self.since),
                ("until", &self.until),
                ("order", if self.oldest_first { "oldest" } else { "" }),
                ("full", if self.full { "true" } else { "" }),
                ("per_page", &self.per_page),
                ("next_token", &self.page_token),
            ],
        );
        let answer = self.general.client()?.ask(&path).await.tried("Error reading the audit")?;
        if self.json {
            outln!("{}", format::json(&answer.value));
            return Ok(Exit::DONE);
        }
        match items(&answer.value) {
            [] => outln!("No entries found"),
            entries => {
                let rows: Vec<_> = entries.iter().map(row).collect();
                outln!("{}", list(&["Index", "Time", "Command", "Actor", "Cause", "Result"], &rows));
            }
        }
        pages::Page::hint(&answer, context);
        Ok(Exit::DONE)
    }
}

fn row(entry: &Value) -> Vec<String> {
    let cause = match &entry["Cause"]["Index"] {
        Value::Null => String::new(),
        index => format!("{index} {}", text(&entry["Cause"]["Command"])),
    };
    let result = match (&entry["Refused"], text(&entry["Result"])) {
        (Value::Bool(true), result) => format!("refused: {result}"),
        (_, "") => "unknown".to_owned(),
        (_, result) => result.to_owned(),
    };
    vec![
        entry["Index"].to_string(),
        crate::values::time_of(text(&entry["Time"])),
        text(&entry["Command"]).to_owned(),
        text(&entry["Actor"]).to_owned(),
        cause.trim_end().to_owned(),
        result,
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refused_entries_and_unknown_results_say_so() {
        let entry = |refused: Value, result: Value| {
            json!({ "Index": 7, "Time": "2024-01-02T03:04:05.6Z", "Command": "JobRegister", "Actor": "anonymous",
                "Cause": null, "Refused": refused, "Result": result })
        };
        let last = |entry: &Value| row(entry).pop();
        assert_eq!(last(&entry(json!(false), json!("done"))).as_deref(), Some("done"));
        assert_eq!(last(&entry(json!(true), json!("no node"))).as_deref(), Some("refused: no node"));
        assert_eq!(last(&entry(json!(null), json!(null))).as_deref(), Some("unknown"));
    }
}
