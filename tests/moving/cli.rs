//! `songline import`: the archive and its key files go to the cluster together.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::http::Request;
use crate::importing::{Importer, file};

/// Runs the command with these arguments after `import`; returns whether it succeeded, and what it printed.
fn import(arguments: &[&str], archive: &str) -> Result<(bool, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_songline"))
        .arg("import")
        .args(arguments)
        .arg(file(&format!("{archive}.snap")))
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn import_brings_the_keys_along_and_a_dry_run_asks_no_server() -> Result<()> {
    let keystore = file("small.keystore");
    let keystore = keystore.to_string_lossy();
    let (done, text) = import(&["-dry-run", "-address", "http://127.0.0.1:1", "-keystore", &keystore], "small")?;
    ensure!(done && text.contains("Nothing was sent") && text.contains("job sources"), "{text}");
    ensure!(!text.contains("its key file is missing"), "{text}");
    let (done, text) = import(&["-dry-run"], "small")?;
    ensure!(done && text.contains("its key file is missing"), "{text}");

    let server = Importer::begin(false, None)?;
    let address = format!("http://{}", server.agent.http);
    let (done, text) = import(&["-address", &address, "-keystore", &keystore], "small")?;
    ensure!(done, "{text}");
    let jobs = server.call(Request::new("GET", "/v1/jobs?namespace=*"))?.json()?;
    ensure!(jobs.as_array().is_some_and(|jobs| jobs.len() == 2), "{jobs}");
    let list = server.call(Request::new("GET", "/v1/vars?namespace=*"))?.json()?;
    let (namespace, path) = (list[0]["Namespace"].as_str(), list[0]["Path"].as_str());
    let read = format!("/v1/var/{}?namespace={}", path.unwrap_or_default(), namespace.unwrap_or_default());
    ensure!(server.call(Request::new("GET", &read))?.json()?["Items"].is_object(), "the variable is not decrypted");
    Ok(())
}
