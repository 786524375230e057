//! `explain`: why an allocation is where it is, or is not any more.

use clap::Args;

use crate::General;
use crate::client::{Client, text};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: General,
    /// The allocation's id, or the beginning of it.
    alloc: String,
    #[command(flatten)]
    when: When,
    /// Print the whole answer as JSON.
    #[arg(long)]
    json: bool,
}

/// The state to explain.
#[derive(Args)]
pub(crate) struct When {
    /// As it was at this time: RFC 3339, or seconds since 1970.
    #[arg(long)]
    at_time: Option<String>,
    /// As it was after the entry at this index.
    #[arg(long, conflicts_with = "at_time")]
    at_index: Option<u64>,
}

impl When {
    /// The query text for it, empty for the present.
    pub(crate) fn query(&self) -> String {
        match (&self.at_time, self.at_index) {
            (Some(time), _) => format!("at_time={}", time.replace('+', "%2B")),
            (None, Some(index)) => format!("at_index={index}"),
            (None, None) => String::new(),
        }
    }
}

async fn run(options: Options) -> anyhow::Result<()> {
    let api = options.target.client()?;
    let when = options.when.query();
    let id = whole_id(&api, &options.alloc, &when).await?;
    let answer = api.get(&format!("/v1/explain/allocation/{id}?{when}")).await?;
    if options.json {
        crate::outln!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    crate::outln!("{}\n", text(&answer["Summary"]));
    for sentence in answer["Sentences"].as_array().into_iter().flatten() {
        crate::outln!("{}", text(sentence));
    }
    Ok(())
}

/// The id that begins so. One that the state does not have any more has to be given whole.
async fn whole_id(api: &Client, begins: &str, when: &str) -> anyhow::Result<String> {
    if begins.len() == 36 {
        return Ok(begins.to_owned());
    }
    // Prefixes have whole bytes.
    let digits = begins.replace('-', "");
    let even = &digits[..digits.len() - digits.len() % 2];
    let found = api.get(&format!("/v1/allocations?prefix={even}&{when}")).await?;
    let ids = found.as_array().into_iter().flatten().map(|alloc| text(&alloc["ID"]));
    let ids: Vec<&str> = ids.filter(|id| id.replace('-', "").starts_with(&digits)).collect();
    match ids.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => anyhow::bail!(
            "no allocation begins with {begins}; one that was collected has to be given with its whole id"
        ),
        _ => anyhow::bail!("several allocations begin with {begins}: {}", ids.join(", ")),
    }
}

impl crate::Run for Options {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
