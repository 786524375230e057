//! `operator api`: any request, and its answer as it comes.

use std::io::IsTerminal;

use clap::Args;
use reqwest::Method;

use crate::client::{Client, escape};
use crate::exit::{Exit, Failure, Outcome};
use crate::{Context, General, Run, errln, input, out, outln};

/// Arguments of `operator api`.
#[derive(Args)]
pub(crate) struct Api {
    #[command(flatten)]
    general: General,
    /// Method of the request: GET, or POST when standard input has a body.
    #[arg(long = "X", value_name = "METHOD")]
    method: Option<String>,
    /// Header of the request, `Name: value`; may be given several times.
    #[arg(long = "H", value_name = "HEADER")]
    header: Vec<String>,
    /// Expression that the objects of a list must match.
    #[arg(long)]
    filter: Option<String>,
    /// Print the request as a command of curl, and send nothing.
    #[arg(long)]
    dryrun: bool,
    /// Print the heads of request and answer on standard error.
    #[arg(long)]
    verbose: bool,
    /// Path of the request, with its query, or a whole URL.
    path: String,
}

impl Run for Api {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let body = self.body()?;
        let name = self.method.clone().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        let method = Method::from_bytes(name.to_uppercase().as_bytes())
            .map_err(|_| Failure::of("Error making request", format_args!("invalid method {name:?}")))?;
        let mut path = path_of(&self.path);
        if let Some(filter) = self.filter.as_deref().filter(|filter| !filter.is_empty()) {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&format!("filter={}", escape(filter)));
        }
        let mut request = client.request(method, &path);
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::of("Error making request", format_args!("invalid header {header:?}")))?;
            request = request.header(name.trim(), value.trim());
        }
        if let Some(body) = body.clone() {
            request = request.body(body);
        }
        let request = request.build().map_err(|error| Failure::of("Error making request", error))?;
        if self.dryrun {
            print_curl(&request, body.is_some());
            return Ok(Exit::DONE);
        }
        if self.verbose {
            errln!("> {} {}", request.method(), request.url());
            heads("> ", request.headers());
        }
        self.send(&client, request).await
    }
}

impl Api {
    /// Standard input, if there is some: a terminal has no body.
    fn body(&self) -> Result<Option<String>, Failure> {
        if std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let body = input::read("-")?;
        Ok(Some(body).filter(|body| !body.is_empty()))
    }

    async fn send(&self, client: &Client, request: reqwest::Request) -> Outcome {
        let tried = |error: reqwest::Error| Failure::of("Error performing request", error);
        let mut response = client.execute(request).await.map_err(tried)?;
        if self.verbose {
            errln!("< {:?} {}", response.version(), response.status());
            heads("< ", response.headers());
        }
        while let Some(piece) = response.chunk().await.map_err(tried)? {
            out::bytes(&piece);
        }
        Ok(Exit::DONE)
    }
}

/// The path and query of what was typed. Of a whole URL the address is left out: the flags and variables name it.
fn path_of(typed: &str) -> String {
    if let Ok(url) = reqwest::Url::parse(typed) {
        return match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
    }
    if typed.starts_with('/') { typed.to_owned() } else { format!("/{typed}") }
}

fn heads(mark: &str, headers: &reqwest::header::HeaderMap) {
    for (name, value) in headers {
        errln!("{mark}{name}: {}", value.to_str().unwrap_or_default());
    }
}

/// A command of curl that makes the same request: an option on each line.
fn print_curl(request: &reqwest::Request, has_body: bool) {
    let mut lines = vec!["curl".to_owned(), format!("  -X {}", request.method())];
    for (name, value) in request.headers() {
        // A secret stays in the variable that curl's user has.
        let value = if name == "x-nomad-token" { "${NOMAD_TOKEN}" } else { value.to_str().unwrap_or_default() };
        lines.push(format!("  -H '{name}: {value}'"));
    }
    if has_body {
        lines.push("  --data-binary @-".to_owned());
    }
    lines.push(format!("  {}", request.url()));
    outln!("{}", lines.join(" \\\n"));
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn paths_and_whole_urls_are_accepted() {
        assert_eq!(path_of("/v1/jobs?prefix=a"), "/v1/jobs?prefix=a");
        assert_eq!(path_of("v1/jobs"), "/v1/jobs");
        assert_eq!(path_of("http://other:4646/v1/jobs?prefix=a"), "/v1/jobs?prefix=a");
    }
}
