//! The deployments of a multiregion job in all of its regions, of one version.

use serde_json::Value;

use crate::client::{Client, escape, text};
use crate::exit::{Failure, Tried};
use crate::ids::shown;
use crate::layout::{heading, list};

/// The table `Multiregion Deployment` beside a deployment of a multiregion job; empty for any other deployment. A region
/// that cannot be asked is listed as `unreachable`.
///
/// # Errors
/// The job cannot be read in the region of the deployment.
pub(super) async fn table(client: &Client, deployment: &Value, verbose: bool) -> Result<String, Failure> {
    if deployment["IsMultiregion"] != true {
        return Ok(String::new());
    }
    let client = client.with_scope(None, Some(text(&deployment["Namespace"])));
    let id = escape(text(&deployment["JobID"]));
    let job = match client.get(&format!("/v1/job/{id}")).await {
        // The job is purged, and with it the list of its regions.
        Err(error) if error.is_status(404) => return Ok(String::new()),
        answer => answer.tried("Error retrieving job")?,
    };
    let mut rows = Vec::new();
    for region in job["Multiregion"]["Regions"].as_array().into_iter().flatten().map(|region| text(&region["Name"])) {
        let there = client.with_scope(Some(region), None).get(&format!("/v1/job/{id}/deployments")).await;
        let (id, status) = match &there {
            Ok(found) => match newest(found, &deployment["JobVersion"]) {
                Some(row) => (shown(text(&row["ID"]), verbose), text(&row["Status"])),
                None => ("-".to_owned(), "-"),
            },
            Err(_) => ("-".to_owned(), "unreachable"),
        };
        rows.push(vec![region.to_owned(), id, status.to_owned()]);
    }
    Ok(format!("{}\n{}", heading("Multiregion Deployment"), list(&["Region", "ID", "Status"], &rows)))
}

/// The newest deployment of a version.
fn newest<'v>(deployments: &'v Value, version: &Value) -> Option<&'v Value> {
    let of_version = deployments.as_array().into_iter().flatten().filter(|row| row["JobVersion"] == *version);
    of_version.max_by_key(|row| row["CreateIndex"].as_u64())
}
