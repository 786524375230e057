//! Allocations by their ids, and the task of one that a command is about.

use serde_json::Value;

use crate::client::{Client, short, text, with_query};
use crate::exit::{Failure, Tried};
use crate::ids::{self, Kind};
use crate::jobs::lists::{allocs, items};

fn rows(found: &[Value]) -> String {
    allocs(found, false, false)
}

/// The allocation whose id begins so, in full.
pub(super) async fn by_id(client: &Client, typed: &str) -> Result<Value, Failure> {
    let kind = Kind {
        list: "/v1/allocations",
        tried: "Error querying allocation",
        noun: "allocation",
        none: None,
        nouns: "allocations",
        rows,
    };
    let stub = ids::by_uuid(client, &kind, typed).await?;
    let scoped = client.with_scope(None, Some(text(&stub["Namespace"])));
    let path = format!("/v1/allocation/{}", text(&stub["ID"]));
    scoped.get(&path).await.tried("Error querying allocation")
}

/// A running allocation of a job; any other if none runs.
pub(super) async fn of_job(client: &Client, typed: &str) -> Result<Value, Failure> {
    let (id, namespace) = ids::job(client, typed, crate::jobs::lists::jobs).await?;
    let client = client.with_scope(None, Some(&namespace));
    let path = with_query(&format!("/v1/job/{}/allocations", crate::client::escape(&id)), &[]);
    let found = client.get(&path).await.tried("Error fetching allocations")?;
    let found = items(&found);
    let running = found.iter().find(|alloc| text(&alloc["ClientStatus"]) == "running");
    let Some(stub) = running.or_else(|| found.first()) else {
        return Err(Failure::new(format!("Error fetching allocations: No allocations for job {id:?} exist")));
    };
    client.get(&format!("/v1/allocation/{}", text(&stub["ID"]))).await.tried("Error querying allocation")
}

/// Names of the tasks of an allocation, in the order of its job.
pub(super) fn tasks(alloc: &Value) -> Vec<String> {
    let groups = items(&alloc["Job"]["TaskGroups"]);
    let group = groups.iter().find(|group| group["Name"] == alloc["TaskGroup"]);
    let tasks = group.map(|group| items(&group["Tasks"])).unwrap_or_default();
    tasks.iter().map(|task| text(&task["Name"]).to_owned()).collect()
}

/// The only task of an allocation; otherwise a failure that lists them.
pub(super) fn only_task(alloc: &Value) -> Result<String, Failure> {
    match tasks(alloc).as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let id = short(&alloc["ID"]);
            let names: Vec<String> = several.iter().map(|name| format!("  * {name}")).collect();
            let list = names.join("\n");
            Err(Failure::new(format!(
                "Allocation \"{id}\" is running the following tasks:\n{list}\n\nPlease specify the task."
            )))
        }
    }
}

/// Refuses a task that the allocation does not have.
pub(super) fn known_task(alloc: &Value, task: &str) -> Result<(), Failure> {
    let known = tasks(alloc);
    if known.iter().any(|name| name == task) {
        return Ok(());
    }
    Err(Failure::new(format!("Could not find task named: {task}, found:\n{}", known.join("\n"))))
}
