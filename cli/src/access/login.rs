//! `login`: a token for an identity that an auth method knows.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::acl::token;
use crate::client::{Client, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::{Context, General, Run, out, outln};

/// Path of the address to which a provider sends the user's browser back.
const CALLBACK: &str = "/oidc/callback";

/// Arguments of `login`.
#[derive(Args)]
pub(crate) struct Login {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the auth method; the default one without it.
    #[arg(long, default_value = "")]
    method: String,
    /// The identity's token, for methods of type `JWT`.
    #[arg(long, default_value = "")]
    login_token: String,
    /// Address at which the browser's return is awaited, for methods of type `OIDC`.
    #[arg(long, default_value = "localhost:4649")]
    oidc_callback_addr: String,
    /// Ignored: the method has a type.
    #[arg(long = "type")]
    kind: Option<String>,
}

impl Run for Login {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        if self.kind.is_some() {
            out::warning("warning: '-type' flag has been deprecated for nomad login command and will be ignored.");
        }
        let client = self.general.client()?;
        let method = self.method(&client).await?;
        let name = text(&method["Name"]).to_owned();
        let kind = text(&method["Type"]).to_ascii_uppercase();
        let token = match kind.as_str() {
            "OIDC" => self.by_browser(&client, &name).await?,
            _ => {
                let body = json!({ "AuthMethodName": name, "LoginToken": self.login_token });
                client
                    .post("/v1/acl/login", &body)
                    .await
                    .tried(&format!("Error performing login with method {kind}"))?
            }
        };
        if self.format.json {
            outln!("{token}");
        } else if !self.format.print(&token)? {
            outln!("Successfully logged in via {kind} and {name}\n\n{}", token::words(&token));
        }
        Ok(Exit::DONE)
    }
}

impl Login {
    /// The method that is asked for, or the default one.
    async fn method(&self, client: &Client) -> Result<Value, Failure> {
        let found = client.get("/v1/acl/auth-methods").await.tried("Error listing ACL auth methods")?;
        let wanted = |one: &&Value| match self.method.as_str() {
            "" => one["Default"] == true,
            name => text(&one["Name"]) == name,
        };
        items(&found).iter().find(wanted).cloned().ok_or_else(|| match self.method.as_str() {
            "" => Failure::new("Must specify an auth method name, no default found"),
            name => Failure::new(format!("Error: method {name} not found in the state store.")),
        })
    }

    /// Sends the user's browser to the provider, and waits until it comes back.
    async fn by_browser(&self, client: &Client, method: &str) -> Result<Value, Failure> {
        let failed = "Error performing login with method OIDC";
        let listener = TcpListener::bind(&self.oidc_callback_addr).await.tried(failed)?;
        let port = listener.local_addr().tried(failed)?.port();
        let host = self.oidc_callback_addr.rsplit_once(':').map_or("localhost", |(host, _)| host);
        let back = format!("http://{host}:{port}{CALLBACK}");
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let body = json!({ "AuthMethodName": method, "RedirectURI": back, "ClientNonce": nonce });
        let answer = client.post("/v1/acl/oidc/auth-url", &body).await.tried(failed)?;
        let url = text(&answer["AuthURL"]);
        if !open(url) {
            out::error(&format!("No browser could be opened. Visit this address to log in:\n\n{url}\n"));
        }
        let told = returned(&listener).await.tried(failed)?;
        if let Some(error) = told.get("error") {
            let why = told.get("error_description").map_or(String::new(), |why| format!(": {why}"));
            return Err(Failure::of(failed, format!("the provider refused: {error}{why}")));
        }
        let of = |key: &str| told.get(key).cloned().unwrap_or_default();
        let body = json!({
            "AuthMethodName": method, "RedirectURI": back, "ClientNonce": nonce,
            "State": of("state"), "Code": of("code"),
        });
        client.post("/v1/acl/oidc/complete-auth", &body).await.tried(failed)
    }
}

/// Opens an address in the user's browser.
fn open(url: &str) -> bool {
    // The address comes from a server: nothing but a web page is opened.
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let started = || {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        Command::new(opener).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    is_web && started().is_ok()
}

/// Waits for the browser. Returns the parameters that it brings.
async fn returned(listener: &TcpListener) -> std::io::Result<BTreeMap<String, String>> {
    loop {
        let (stream, _) = listener.accept().await?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        if stream.read_line(&mut line).await.is_err() {
            continue;
        }
        let target = line.split(' ').nth(1).unwrap_or_default();
        let told = target.starts_with(CALLBACK).then(|| parameters(target));
        let (status, said) = match &told {
            Some(_) => ("200 OK", "You are logged in as far as the provider is concerned. Return to the terminal."),
            None => ("404 Not Found", "Nothing is here."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{said}",
            said.len()
        );
        // A browser that does not wait has brought the parameters all the same.
        let _ = stream.get_mut().write_all(answer.as_bytes()).await;
        if let Some(told) = told {
            return Ok(told);
        }
    }
}

fn parameters(target: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://localhost{target}"));
    url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_browser_brings_its_parameters_and_other_requests_do_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let browser = tokio::spawn(async move {
            let mut said = String::new();
            for path in ["/favicon.ico", "/oidc/callback?code=a%20b&state=s"] {
                let mut stream = TcpStream::connect(address).await.expect("connects");
                stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.expect("asks");
                stream.read_to_string(&mut said).await.expect("an answer");
            }
            said
        });
        let told = returned(&listener).await.expect("returns");
        assert_eq!((told["code"].as_str(), told["state"].as_str()), ("a b", "s"));
        let said = browser.await.expect("ends");
        assert!(said.contains("404 Not Found") && said.contains("200 OK"), "{said}");
    }
}
