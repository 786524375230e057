//! Volumes and plugins by their id or its beginning.

use serde_json::Value;

use crate::client::{Client, text, with_query};
use crate::exit::{Failure, Tried};
use crate::jobs::lists::items;
use crate::layout::list;

/// The volume with this id, or the only one whose id begins so.
pub(super) async fn volume(client: &Client, typed: &str) -> Result<Value, Failure> {
    let path = with_query("/v1/volumes", &[("type", "csi"), ("prefix", typed)]);
    let found = client.get(&path).await.tried("Error querying volumes")?;
    only(items(&found), typed, "volumes", volumes)
}

/// The plugin with this id, or the only one whose id begins so. No id is none.
pub(super) async fn plugin(client: &Client, typed: &str) -> Result<Value, Failure> {
    let path = with_query("/v1/plugins", &[("type", "csi"), ("prefix", typed)]);
    let found = client.get(&path).await.tried("Error querying CSI plugins")?;
    only(items(&found), typed, "plugins", plugins)
}

fn only(found: &[Value], typed: &str, nouns: &str, rows: fn(&[Value]) -> String) -> Result<Value, Failure> {
    match found {
        [] => Err(Failure::new(format!("No {nouns}(s) with prefix or ID {typed:?} found"))),
        [only] => Ok(only.clone()),
        several => match several.iter().find(|one| text(&one["ID"]) == typed) {
            Some(exact) => Ok(exact.clone()),
            None => Err(Failure::new(format!("Prefix matched multiple {nouns}\n\n{}", rows(several)))),
        },
    }
}

/// A list of volumes.
pub(super) fn volumes(found: &[Value]) -> String {
    let mut found: Vec<&Value> = found.iter().collect();
    found.sort_by_key(|one| (text(&one["ID"]), text(&one["Namespace"])));
    let row = |one: &&Value| {
        let word = |key: &str| text(&one[key]).to_owned();
        let schedulable = one["Schedulable"].as_bool().unwrap_or(false).to_string();
        vec![word("ID"), word("Name"), word("Namespace"), word("PluginID"), schedulable, word("AccessMode")]
    };
    let headings = ["ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode"];
    list(&headings, &found.iter().map(row).collect::<Vec<_>>())
}

/// A list of plugins.
pub(super) fn plugins(found: &[Value]) -> String {
    let mut found: Vec<&Value> = found.iter().collect();
    found.sort_by_key(|one| text(&one["ID"]));
    let row = |one: &&Value| {
        let of = |part: &str| format!("{}/{}", count(one, part, "Healthy"), count(one, part, "Expected"));
        vec![text(&one["ID"]).to_owned(), text(&one["Provider"]).to_owned(), of("Controllers"), of("Nodes")]
    };
    let headings = ["ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"];
    list(&headings, &found.iter().map(row).collect::<Vec<_>>())
}

/// A count of a volume or a plugin, such as `ControllersHealthy`.
pub(super) fn count(one: &Value, part: &str, what: &str) -> u64 {
    one[format!("{part}{what}")].as_u64().unwrap_or(0)
}
