//! `history`: every change of one object, and who made it.

pub(super) mod export;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::explain::When;
use crate::General;
use crate::client::text;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: General,
    /// Kind of the object.
    kind: Kind,
    /// Its whole id, or its name.
    id: String,
    #[command(flatten)]
    when: When,
    /// From old to new.
    #[arg(long)]
    oldest_first: bool,
    /// How many changes.
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// Print the changes as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    Allocation,
    Deployment,
    Evaluation,
    Job,
    Namespace,
    Node,
    NodePool,
}

async fn run(options: Options) -> anyhow::Result<()> {
    let kind = options.kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let order = if options.oldest_first { "oldest" } else { "newest" };
    let path =
        format!("/v1/history/{kind}/{}?order={order}&per_page={}&{}", options.id, options.limit, options.when.query());
    let changes = options.target.client()?.get(&path).await?;
    if options.json {
        crate::outln!("{}", serde_json::to_string_pretty(&changes)?);
        return Ok(());
    }
    for change in changes.as_array().into_iter().flatten() {
        crate::outln!(
            "{:>6}  {}  {}  {} by {}",
            change["Index"].to_string(),
            text(&change["Time"]),
            text(&change["Change"]),
            text(&change["Command"]),
            text(&change["Actor"])
        );
        for field in change["Diff"].as_array().into_iter().flatten().filter(|_| change["Change"] == "updated") {
            crate::outln!("          {}: {} -> {}", text(&field["Path"]), cut(&field["Old"]), cut(&field["New"]));
        }
    }
    Ok(())
}

/// A value on a part of a line.
fn cut(value: &Value) -> String {
    let whole = value.to_string();
    if whole.chars().count() <= 100 { whole } else { format!("{}..", whole.chars().take(100).collect::<String>()) }
}

impl crate::Run for Options {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
