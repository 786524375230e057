//! `operator metrics`.

use clap::Args;

use crate::client::{because, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, Run, format, out, outln};

/// Arguments of `operator metrics`.
#[derive(Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    general: General,
    /// Print indented JSON.
    #[arg(long)]
    pretty: bool,
    /// `json` or `prometheus`.
    #[arg(long)]
    format: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print the metrics through a Go template.
    #[arg(long = "t", value_name = "TEMPLATE")]
    template: Option<String>,
}

impl Run for Metrics {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let kind = self.format.as_deref().unwrap_or_default();
        if kind == "prometheus" {
            let mut response =
                client.open(&with_query("/v1/metrics", &[("format", kind)])).await.tried("Error getting metrics")?;
            while let Some(piece) =
                response.chunk().await.map_err(|error| because(&error)).tried("Error getting metrics")?
            {
                out::bytes(&piece);
            }
            return Ok(Exit::DONE);
        }
        let metrics = client.get("/v1/metrics").await.tried("Error getting metrics")?;
        match self.template.as_deref().filter(|template| !template.is_empty()) {
            Some(_) if self.json => return Err(Failure::new("Both json and template formatting are not allowed")),
            Some(template) => outln!("{}", format::render(template, &metrics)?),
            None if self.pretty => outln!("{}", format::json(&metrics)),
            None => outln!("{metrics}"),
        }
        Ok(Exit::DONE)
    }
}
