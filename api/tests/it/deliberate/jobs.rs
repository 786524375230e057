//! Job files and registration.

use serde_json::{Value, json};

use super::World;

/// Warning about active periodic jobs, until the leader launches them at their times.
const NOT_LAUNCHED: &str =
    "periodic launches are not built yet: this job starts only when it is forced (periodic/force)";

/// Warnings about the registration of a job with this `Periodic` block.
async fn warnings(world: &World, id: &str, periodic: Value) -> String {
    let group = json!({"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]});
    let job = json!({"Job": {"ID": id, "Type": "batch", "Periodic": periodic, "TaskGroups": [group]}});
    let said = world.done("PUT /v1/jobs", job).await;
    said["Warnings"].as_str().expect("a text").to_owned()
}

fn every_hour() -> Value {
    json!({"Enabled": true, "SpecType": "cron", "Specs": ["0 * * * *"]})
}

#[tokio::test]
async fn jobs_maximal_batch() {
    let world = World::open();
    assert_eq!(warnings(&world, "a", every_hour()).await, format!("1 warning:\n\n* {NOT_LAUNCHED}"));
}

#[tokio::test]
async fn jobs_periodic_force_errors() {
    let world = World::open();
    let off = json!({"Enabled": false, "SpecType": "cron", "Specs": ["0 * * * *"]});
    assert_eq!(warnings(&world, "off", off).await, "", "one that is off is launched by nobody");
    assert_eq!(warnings(&world, "on", every_hour()).await, format!("1 warning:\n\n* {NOT_LAUNCHED}"));
    world.done("PUT /v1/job/on/periodic/force", Value::Null).await;
}

#[tokio::test]
async fn jobs_register_unchanged_periodic() {
    let world = World::open();
    let cron = json!({"Enabled": true, "SpecType": "cron", "Spec": "0 * * * *"});
    let deprecated = "cron is deprecated and may be removed in a future release. Use crons instead";
    let both = format!("2 warnings:\n\n* {deprecated}\n* {NOT_LAUNCHED}");
    assert_eq!(warnings(&world, "a", cron.clone()).await, both);
    assert_eq!(warnings(&world, "a", cron).await, both, "again when nothing changes");
}

#[tokio::test]
async fn jobs_register_transitions() {
    let world = World::open();
    world.job("default", "a").await;
    let job = json!({"Job": {"ID": "b", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}});
    let said = world.done("PUT /v1/jobs", job).await;
    assert_eq!(said["Warnings"], "", "other jobs are not warned about");
    assert_eq!(warnings(&world, "c", every_hour()).await, format!("1 warning:\n\n* {NOT_LAUNCHED}"));
}

#[tokio::test]
async fn hcl_fn_infinite() {
    let world = World::open();
    for (expression, shown) in [("log(0, 10)", "-Inf"), ("pow(10, 400)", "+Inf"), ("1e400", "+Inf"), ("-1e400", "-Inf")]
    {
        let text = format!(
            "job \"j\" {{\n  group \"g\" {{\n    task \"t\" {{\n      driver = \"d\"\n      config {{ v = {expression} }}\n    }}\n  }}\n}}\n"
        );
        let parsed = world.done("POST /v1/jobs/parse", json!({ "JobHCL": text })).await;
        assert_eq!(parsed["TaskGroups"][0]["Tasks"][0]["Config"], json!({ "v": shown }), "{expression}");
    }
    let text = "locals {\n  v = 1e400\n}\njob \"j\" {\n  meta = { v = local.v }\n}\n";
    let parsed = world.done("POST /v1/jobs/parse", json!({ "JobHCL": text })).await;
    assert_eq!(parsed["Meta"], json!({"v": "+Inf"}), "a number that no double holds");
}
