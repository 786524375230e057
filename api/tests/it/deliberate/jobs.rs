//! Job files.

use serde_json::json;

use super::World;
use crate::server::Memory;

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

#[tokio::test]
async fn jobs_register_region() {
    let world = World::open();
    let task = json!({ "Name": "t", "Driver": "mock_driver", "Config": { "run_for": "300s" } });
    let regions = json!([{ "Name": "global", "Count": 1, "Datacenters": ["dc1"] }, { "Name": "mars" }]);
    let mars = Memory::of_region("mars");
    world.server.place.knows_region("mars", &mars);
    let job = json!({ "Job": { "ID": "jobs-region", "TaskGroups": [{ "Name": "g", "Tasks": [task], "Count": 0 }],
        "Multiregion": { "Strategy": { "MaxParallel": 1, "OnFailure": "fail_all" }, "Regions": regions } } });
    let registered = world.done("PUT /v1/jobs", job.clone()).await;
    assert_ne!(registered["EvalID"], json!(""));
    let valid = world.done("PUT /v1/validate/job", job).await;
    assert_eq!(valid["Error"], json!(""));
}
