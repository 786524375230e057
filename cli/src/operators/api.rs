//! `operator api`: any request, and its answer as it comes.

use std::io::IsTerminal;

use clap::Args;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName};

use crate::client::{Client, because, escape};
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
    /// Path of the request, with its query, or a whole URL, whose address then goes before `-address`.
    path: String,
}

impl Run for Api {
    async fn run(self, _: &Context) -> Outcome {
        let (address, mut path) = target(&self.path);
        let general = General { address: address.or_else(|| self.general.address.clone()), ..self.general.clone() };
        let client = general.client()?;
        let body = self.body()?;
        let has_body = body.is_some();
        let name = self.method.clone().unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned());
        let method = Method::from_bytes(name.to_uppercase().as_bytes())
            .map_err(|_| Failure::of("Error making request", format_args!("invalid method {name:?}")))?;
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
        if let Some(body) = body {
            request = request.body(body);
        }
        let request = request.build().map_err(|error| Failure::of("Error making request", error))?;
        if self.dryrun {
            outln!("{}", curl(&request, has_body));
            return Ok(Exit::DONE);
        }
        if self.verbose {
            errln!("> {} {}", request.method(), shown(request.url()));
            heads("> ", request.headers());
        }
        self.send(&client, request).await
    }
}

impl Api {
    /// Standard input, if there is some: a terminal has no body.
    fn body(&self) -> Result<Option<Vec<u8>>, Failure> {
        if std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let body = input::bytes_for("Error reading input data", "-")?;
        Ok(Some(body).filter(|body| !body.is_empty()))
    }

    async fn send(&self, client: &Client, request: reqwest::Request) -> Outcome {
        let tried = |error: reqwest::Error| Failure::of("Error performing request", because(&error));
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

/// The address, if a whole URL was typed, and the path with its query.
fn target(typed: &str) -> (Option<String>, String) {
    let url = reqwest::Url::parse(typed).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(mut url) = url else {
        return (None, if typed.starts_with('/') { typed.to_owned() } else { format!("/{typed}") });
    };
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    url.set_path("");
    url.set_query(None);
    url.set_fragment(None);
    (Some(url.into()), path)
}

/// The URL with its query as Go writes it: keys in order, a space as `+`.
fn shown(url: &reqwest::Url) -> reqwest::Url {
    let encoded = |text: &str| escape(text).replace("%20", "+");
    let mut pairs: Vec<_> = url.query_pairs().collect();
    pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
    let query = pairs.join("&");
    let mut shown = url.clone();
    shown.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
    shown
}

/// The name of a header as Go writes it: each word begins with a capital.
fn canonical(name: &HeaderName) -> String {
    let mut out = String::new();
    let mut begins = true;
    for letter in name.as_str().chars() {
        out.push(if begins { letter.to_ascii_uppercase() } else { letter });
        begins = letter == '-';
    }
    out
}

fn heads(mark: &str, headers: &HeaderMap) {
    for (name, value) in headers {
        errln!("{mark}{}: {}", canonical(name), value.to_str().unwrap_or_default());
    }
}

/// A command of curl that makes the same request: an option on each line, the token last of the headers.
fn curl(request: &reqwest::Request, has_body: bool) -> String {
    let mut lines = vec!["curl".to_owned(), format!("  -X {}", request.method())];
    let (token, others): (Vec<_>, Vec<_>) = request.headers().iter().partition(|(name, _)| *name == "x-nomad-token");
    for (name, value) in others.into_iter().chain(token) {
        // A secret stays in the variable that curl's user has.
        let value = if name == "x-nomad-token" { "${NOMAD_TOKEN}" } else { value.to_str().unwrap_or_default() };
        lines.push(format!("  -H '{}: {value}'", canonical(name)));
    }
    if has_body {
        lines.push("  --data-binary @-".to_owned());
    }
    lines.push(format!("  {}", shown(request.url())));
    lines.join(" \\\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn whole_url_names_address_and_path() {
        let shown = |typed: &str| {
            let (address, path) = target(typed);
            format!("{} {path}", address.unwrap_or_default())
        };
        assert_eq!(shown("/v1/jobs?prefix=a"), " /v1/jobs?prefix=a");
        assert_eq!(shown("v1/jobs"), " /v1/jobs");
        assert_eq!(shown("v1/job/a:b"), " /v1/job/a:b");
        assert_eq!(shown("localhost:4646/v1/jobs"), " /localhost:4646/v1/jobs");
        assert_eq!(shown("http://other:4646/v1/jobs?prefix=a#x"), "http://other:4646/ /v1/jobs?prefix=a");
        assert_eq!(shown("https://other"), "https://other/ /");
    }

    #[test]
    fn dry_run_is_written_as_go_writes_it() {
        let url = "http://a:4646/v1/jobs?prefix=a&filter=x%20%3D%3D%20%22y%22&region=global&namespace=foo";
        let mut request = reqwest::Request::new(Method::POST, url.parse().expect("it is a URL"));
        for (name, value) in [("x-nomad-token", "secret"), ("x-other", "b")] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        expect![[r#"
            curl \
              -X POST \
              -H 'X-Other: b' \
              -H 'X-Nomad-Token: ${NOMAD_TOKEN}' \
              --data-binary @- \
              http://a:4646/v1/jobs?filter=x+%3D%3D+%22y%22&namespace=foo&prefix=a&region=global"#]]
        .assert_eq(&curl(&request, true));
        let bare = reqwest::Url::parse("http://a:4646/v1/jobs").expect("it is a URL");
        assert_eq!(shown(&bare), bare);
    }
}
