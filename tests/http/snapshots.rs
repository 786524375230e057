//! A snapshot saved on one agent and restored on an empty one. Not here: damaged archives, which the recorded conversations have.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::http::{Answer, Request};
use crate::story::{Story, texts};

#[test]
fn a_snapshot_restores_on_an_empty_agent() -> Result<()> {
    let old = Story::begin()?;
    for name in ["one", "two"] {
        old.put("/v1/namespace", &json!({"Name": name, "Description": "saved"}))?;
    }
    old.put("/v1/node/pools", &json!({"Name": "gpu"}))?;
    let saved = old.call(&Request::new("GET", "/v1/operator/snapshot"))?;

    let new = Story::begin()?;
    new.put("/v1/namespace", &json!({"Name": "forgotten"}))?;
    let before = new.call(&Request::new("GET", "/v1/namespaces"))?;
    let mut restore = Request::new("PUT", "/v1/operator/snapshot");
    restore.body = Some(saved.body);
    new.call(&restore)?;

    let after = new.call(&Request::new("GET", "/v1/namespaces"))?;
    let (old_list, new_list) = (old.get("/v1/namespaces")?, after.json()?);
    ensure!(texts(&new_list, "Name") == texts(&old_list, "Name"), "{new_list}");
    ensure!(texts(&new.get("/v1/node/pools")?, "Name").contains(&"gpu"));
    let index = |answer: &Answer| answer.index().context("a list tells its index");
    let written = new.call(&Request::new("PUT", "/v1/namespace").json(&json!({"Name": "after"})))?;
    ensure!(index(&written)? > index(&before)?, "the index went back at the restore");
    Ok(())
}
