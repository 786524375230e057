//! Two regions with ACLs, of which one is authoritative: what is written in either is valid in both, what is local stays,
//! and each goes on without the other. Not here: single routes and their refusals, and the comparison of objects.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::{self, Answer, Request};
use crate::story::WITHIN;

/// Secret of the management token, which the other region's configuration needs before the token exists.
const ROOT: &str = "7e0f1f6c-3e9a-4e0d-8f6a-6f1f0d3c9b5a";

/// A running region.
struct Region {
    agent: Agent,
}

impl Region {
    /// Starts a region that takes `east` for authoritative. `joins` is the address of a server of the other region.
    fn start(dir: &Path, name: &str, joins: Option<&str>) -> Result<Region> {
        let content = json!({
            "data_dir": dir.join(name),
            "name": name,
            "region": name,
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "acl": {"enabled": true, "replication_token": ROOT},
            "server": {
                "enabled": true,
                "bootstrap_expect": 1,
                "authoritative_region": "east",
                "server_join": {"retry_join": joins.into_iter().collect::<Vec<_>>()},
            },
        });
        Ok(Region { agent: Agent::start_as(&content)? })
    }

    fn ask(&self, method: &str, target: &str, token: &str, body: Option<&Value>) -> Result<Answer> {
        let mut request = Request::new(method, target).header("X-Nomad-Token", token);
        if let Some(body) = body {
            request = request.json(body);
        }
        Ok(http::call(self.agent.http, &request, Instant::now() + WITHIN)?)
    }

    fn get(&self, target: &str) -> Result<Value> {
        good("GET", target, self.ask("GET", target, ROOT, None)?)
    }

    fn put(&self, target: &str, body: &Value) -> Result<Value> {
        good("PUT", target, self.ask("PUT", target, ROOT, Some(body))?)
    }

    fn delete(&self, target: &str) -> Result<Value> {
        good("DELETE", target, self.ask("DELETE", target, ROOT, None)?)
    }

    fn status(&self, target: &str, token: &str) -> Result<u16> {
        Ok(self.ask("GET", target, token, None)?.head.status)
    }

    /// Waits until a request with this token gets this status.
    fn wait_for_status(&self, target: &str, token: &str, status: u16) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            let answer = self.ask("GET", target, token, None)?;
            if answer.head.status == status {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{target}: {} {}, and not {status}", answer.head.status, answer.text());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Address at which other servers reach this one.
    fn address(&self) -> Result<String> {
        let leader = self.get("/v1/status/leader")?;
        leader.as_str().filter(|address| !address.is_empty()).map(str::to_owned).context("it leads")
    }

    /// Waits until this region knows the other one.
    fn wait_for_regions(&self) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        while self.get("/v1/regions")? != json!(["east", "west"]) {
            ensure!(Instant::now() < deadline, "the regions do not meet");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn good(method: &str, target: &str, answer: Answer) -> Result<Value> {
    ensure!(matches!(answer.head.status, 200 | 204), "{method} {target}: {} {}", answer.head.status, answer.text());
    if answer.body.is_empty() { Ok(Value::Null) } else { answer.json().with_context(|| format!("{method} {target}")) }
}

fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str> {
    value[field].as_str().with_context(|| format!("{field} of {value}"))
}

/// Two regions that know each other, with the management token in both. It was made in `west`, which had `east` make it.
fn federation(dir: &Path) -> Result<(Region, Region)> {
    let east = Region::start(dir, "east", None)?;
    let west = Region::start(dir, "west", Some(&east.address()?))?;
    west.wait_for_regions()?;
    east.wait_for_regions()?;
    let root = west.put("/v1/acl/bootstrap", &json!({"BootstrapSecret": ROOT}))?;
    ensure!(root["SecretID"] == ROOT && root["Global"] == true, "{root}");
    ensure!(east.status("/v1/acl/tokens", ROOT)? == 200, "the authoritative region has the token at once");
    west.wait_for_status("/v1/acl/tokens", ROOT, 200)?;
    Ok((east, west))
}

#[test]
fn objects_written_in_either_region_are_valid_in_both() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    let config = west.get("/v1/agent/self")?["config"].clone();
    ensure!(config["ACL"]["ReplicationToken"] == "<redacted>", "{}", config["ACL"]);
    ensure!(config["Server"]["AuthoritativeRegion"] == "east", "{}", config["Server"]);

    // All of it is written by way of `west`, and is in `east` at once.
    let rules = "namespace \"shared\" { policy = \"write\" }\nnode { policy = \"read\" }";
    west.put("/v1/acl/policy/readers", &json!({"Name": "readers", "Rules": rules}))?;
    let role = west.put("/v1/acl/role", &json!({"Name": "crew", "Policies": [{"Name": "readers"}]}))?;
    west.put("/v1/quota", &json!({"Name": "gold", "Limits": [{"Region": "west", "RegionLimit": {"CPU": 100}}]}))?;
    west.put("/v1/namespace", &json!({"Name": "shared", "Quota": "gold"}))?;
    west.put("/v1/node/pools", &json!({"Name": "gpu", "Description": "fast"}))?;
    let method = json!({
        "Name": "corp", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h",
        "Config": {"JWKSURL": "http://127.0.0.1:1", "BoundAudiences": ["a"]},
    });
    west.put("/v1/acl/auth-method", &method)?;
    let rule =
        west.put("/v1/acl/binding-rule", &json!({"AuthMethod": "corp", "BindType": "policy", "BindName": "readers"}))?;
    let made = west
        .put("/v1/acl/token", &json!({"Name": "eve", "Type": "client", "Global": true, "Roles": [{"Name": "crew"}]}))?;
    let (eve, accessor) = (text(&made, "SecretID")?, text(&made, "AccessorID")?);
    let (role, rule) = (text(&role, "ID")?, text(&rule, "ID")?);
    let objects = [
        "/v1/acl/policy/readers".to_owned(),
        format!("/v1/acl/role/{role}"),
        "/v1/quota/gold".to_owned(),
        "/v1/namespace/shared".to_owned(),
        "/v1/node/pool/gpu".to_owned(),
        "/v1/acl/auth-method/corp".to_owned(),
        format!("/v1/acl/binding-rule/{rule}"),
        format!("/v1/acl/token/{accessor}"),
    ];
    for target in &objects {
        let there = east.get(target)?;
        west.wait_for_status(target, ROOT, 200)?;
        let here = west.get(target)?;
        ensure!(here["Hash"] == there["Hash"], "{here} {there}");
    }
    // The token has its rights in both regions: by its role, in the shared namespace.
    for region in [&east, &west] {
        region.wait_for_status("/v1/jobs?namespace=shared", eve, 200)?;
        region.wait_for_status("/v1/nodes", eve, 200)?;
        ensure!(region.status("/v1/acl/tokens", eve)? == 403, "it is no management token");
    }

    // A change arrives, and so does the end of a token.
    east.put("/v1/acl/policy/readers", &json!({"Name": "readers", "Rules": "node { policy = \"deny\" }"}))?;
    west.wait_for_status("/v1/nodes", eve, 403)?;
    west.delete(&format!("/v1/acl/token/{accessor}"))?;
    ensure!(east.status("/v1/acl/token/self", eve)? == 404, "the authoritative region has deleted the token at once");
    west.wait_for_status("/v1/acl/token/self", eve, 404)?;

    // The entries name the loop that wrote them.
    let history = west.get("/v1/history/namespace/shared")?;
    ensure!(history.to_string().contains("leader:replication"), "{history}");
    Ok(())
}

#[test]
fn namespace_goes_when_no_region_uses_it_any_more() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    east.put("/v1/namespace", &json!({"Name": "busy"}))?;
    east.put("/v1/node/pools", &json!({"Name": "gpu"}))?;
    west.wait_for_status("/v1/namespace/busy", ROOT, 200)?;
    west.wait_for_status("/v1/node/pool/gpu", ROOT, 200)?;
    let job = json!({"Job": {
        "ID": "web", "Namespace": "busy", "Region": "west", "NodePool": "gpu", "Datacenters": ["*"],
        "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver"}]}],
    }});
    west.put("/v1/jobs?namespace=busy", &job)?;
    for (target, text) in [
        ("/v1/namespace/busy", r#"namespace "busy" has non-terminal jobs in regions: [west]"#),
        ("/v1/node/pool/gpu", r#"node pool "gpu" has non-terminal jobs in regions: [west]"#),
    ] {
        let refused = east.ask("DELETE", target, ROOT, None)?;
        ensure!(refused.head.status == 500 && refused.text().contains(text), "{}", refused.text());
    }
    // A variable is in one region alone, and keeps the namespace there until it is deleted.
    let variable = json!({"Path": "a", "Namespace": "busy", "Items": {"k": "v"}});
    west.put("/v1/var/a?namespace=busy", &variable)?;
    west.delete("/v1/job/web?namespace=busy&purge=true")?;
    west.delete("/v1/namespace/busy")?;
    ensure!(east.status("/v1/namespace/busy", ROOT)? == 404, "the authoritative region does not know the variable");
    east.put("/v1/namespace", &json!({"Name": "later"}))?;
    west.wait_for_status("/v1/namespace/later", ROOT, 200)?;
    ensure!(west.status("/v1/namespace/busy", ROOT)? == 200, "the namespace is gone, and its variable stays");
    west.delete("/v1/var/a?namespace=busy")?;
    west.wait_for_status("/v1/namespace/busy", ROOT, 404)?;
    west.delete("/v1/node/pool/gpu")?;
    west.wait_for_status("/v1/node/pool/gpu", ROOT, 404)
}

#[test]
fn each_region_goes_on_without_the_other() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    // A local token is valid in its region, whatever is replicated.
    let local = west.put("/v1/acl/token", &json!({"Name": "here", "Type": "management"}))?;
    let (local, accessor) = (text(&local, "SecretID")?, text(&local, "AccessorID")?);
    ensure!(east.status(&format!("/v1/acl/token/{accessor}"), ROOT)? == 404, "a local token has left its region");
    ensure!(east.status("/v1/acl/tokens", local)? == 403, "a local token is valid elsewhere");

    // The replicating region starts again, and gets what it has missed.
    west.agent.interrupt()?;
    east.put("/v1/namespace", &json!({"Name": "missed"}))?;
    let west = Region::start(dir.path(), "west", None)?;
    west.wait_for_status("/v1/namespace/missed", ROOT, 200)?;
    ensure!(west.status("/v1/acl/tokens", local)? == 200, "a local token is lost");

    // Without the authoritative region, reads and local tokens work and nothing that is shared can be written.
    east.agent.interrupt()?;
    ensure!(west.get("/v1/namespaces")?.as_array().is_some_and(|all| all.len() == 2));
    let refused = west.ask("PUT", "/v1/namespace", ROOT, Some(&json!({"Name": "more"})))?;
    ensure!(
        refused.head.status == 500 && refused.text().starts_with("rpc error: failed to get conn: "),
        "{}",
        refused.text()
    );
    west.put("/v1/acl/token", &json!({"Name": "alone", "Type": "management"}))?;

    let east = Region::start(dir.path(), "east", None)?;
    east.wait_for_regions()?;
    east.put("/v1/namespace", &json!({"Name": "more"}))?;
    west.wait_for_status("/v1/namespace/more", ROOT, 200)?;
    ensure!(west.get("/v1/acl/tokens")?.as_array().is_some_and(|all| all.len() == 3), "the root and two local tokens");
    Ok(())
}
