//! Every writing route under an idempotency key: a request that is sent twice has one effect, and gets the same
//! answer each time, whatever happens in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_api::Reads;
use songline_commands::{
    DeleteEvals, DeregisterJob, DeregisterNode, EvalChoice, SetSchedulerConfig, Slice, UpdateEvals,
    UpsertServiceRegistrations,
};
use songline_model::{EvalId, EvalStatus, Evaluation, JobKey, SchedulerConfiguration, Secret, ServiceRegistration};

use crate::matrix::served;
use crate::server::{Memory, answer, shown, text, with_header};
use crate::world::{ALLOC, DEPLOYMENT, MANAGEMENT, NODE, VOLUME, world};

const JOB: &str = r#"{"ID": "web", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [{"Name": "t", "Driver": "d"}]}]}"#;

/// `route = request`: a write that is applied or refused by the log.
const WRITES: &str = r#"
    /v1/acl/auth-method PUT,POST = PUT /v1/acl/auth-method {"Name": "m2", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {"JWKSURL": "https://id.test/keys"}}
    /v1/acl/auth-method/{} DELETE = DELETE /v1/acl/auth-method/m
    /v1/acl/auth-method/{} PUT,POST = PUT /v1/acl/auth-method/m {"Name": "m", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "2h", "Config": {"JWKSURL": "https://id.test/keys"}}
    /v1/acl/binding-rule PUT,POST = PUT /v1/acl/binding-rule {"AuthMethod": "m", "BindType": "policy", "BindName": "p2"}
    /v1/acl/binding-rule/{} DELETE = DELETE /v1/acl/binding-rule/RULE
    /v1/acl/binding-rule/{} PUT,POST = PUT /v1/acl/binding-rule/RULE {"ID": "RULE", "BindType": "policy", "BindName": "p3"}
    /v1/acl/policy/{} DELETE = DELETE /v1/acl/policy/pol
    /v1/acl/policy/{} PUT,POST = PUT /v1/acl/policy/other {"Name": "other", "Rules": "agent { policy = \"read\" }"}
    /v1/acl/role PUT,POST = PUT /v1/acl/role {"Name": "r2", "Policies": [{"Name": "pol"}]}
    /v1/acl/role/{} DELETE = DELETE /v1/acl/role/ROLE
    /v1/acl/role/{} PUT,POST = PUT /v1/acl/role/ROLE {"ID": "ROLE", "Name": "r3", "Policies": [{"Name": "pol"}]}
    /v1/acl/token PUT,POST = PUT /v1/acl/token {"Name": "new", "Type": "client", "Policies": ["pol"]}
    /v1/acl/token/onetime PUT,POST = PUT /v1/acl/token/onetime
    /v1/acl/token/{} DELETE = DELETE /v1/acl/token/TOKEN
    /v1/acl/token/{} PUT,POST = PUT /v1/acl/token/TOKEN {"AccessorID": "TOKEN", "Name": "renamed", "Type": "client", "Policies": ["pol"]}
    /v1/allocation/{}/stop PUT,POST = PUT /v1/allocation/ALLOC/stop
    /v1/deployment/allocation-health/{} PUT,POST = PUT /v1/deployment/allocation-health/DEPLOYMENT {"DeploymentID": "DEPLOYMENT", "HealthyAllocationIDs": ["ALLOC"]}
    /v1/deployment/fail/{} PUT,POST = PUT /v1/deployment/fail/DEPLOYMENT
    /v1/deployment/pause/{} PUT,POST = PUT /v1/deployment/pause/DEPLOYMENT {"DeploymentID": "DEPLOYMENT", "Pause": true}
    /v1/deployment/promote/{} PUT,POST = PUT /v1/deployment/promote/DEPLOYMENT {"DeploymentID": "DEPLOYMENT", "All": true}
    /v1/deployment/unblock/{} PUT,POST = PUT /v1/deployment/unblock/DEPLOYMENT {"DeploymentID": "DEPLOYMENT"}
    /v1/evaluations DELETE = DELETE /v1/evaluations {"Filter": "JobID == done"}
    /v1/event-sink/{} DELETE = DELETE /v1/event-sink/hook
    /v1/event-sink/{} DELETE = DELETE /v1/event-sink/none
    /v1/event-sink/{} PUT,POST = PUT /v1/event-sink/other {"Type": "webhook", "Address": "http://receiver"}
    /v1/event-sink/{}/reset PUT,POST = PUT /v1/event-sink/hook/reset {"Position": 1}
    /v1/event-sink/{}/reset PUT,POST = PUT /v1/event-sink/hook/reset {"Position": 100000}
    /v1/job/{} DELETE = DELETE /v1/job/web
    /v1/job/{} DELETE = DELETE /v1/job/web?purge=true
    /v1/job/{} DELETE = DELETE /v1/job/nothing
    /v1/job/{} PUT,POST = PUT /v1/job/web {"Job": JOB}
    /v1/job/{}/dispatch PUT,POST = PUT /v1/job/param/dispatch {}
    /v1/job/{}/evaluate PUT,POST = PUT /v1/job/web/evaluate {"JobID": "web"}
    /v1/job/{}/evaluate PUT,POST = PUT /v1/job/web/evaluate {"JobID": "web", "EvalOptions": {"ForceReschedule": true}}
    /v1/job/{}/periodic/force PUT,POST = PUT /v1/job/cron/periodic/force
    /v1/job/{}/revert PUT,POST = PUT /v1/job/web/revert {"JobID": "web", "JobVersion": 0}
    /v1/job/{}/scale PUT,POST = PUT /v1/job/alone/scale {"Count": 2, "Target": {"Group": "g"}}
    /v1/job/{}/scale PUT,POST = PUT /v1/job/web/scale {"Message": "told", "Target": {"Group": "g"}}
    /v1/job/{}/stable PUT,POST = PUT /v1/job/web/stable {"JobID": "web", "JobVersion": 0, "Stable": true}
    /v1/jobs PUT,POST = PUT /v1/jobs {"Job": JOB}
    /v1/namespace PUT,POST = PUT /v1/namespace {"Name": "other"}
    /v1/namespace PUT,POST = PUT /v1/namespace {"Name": "other", "Quota": "none"}
    /v1/namespace/{} DELETE = DELETE /v1/namespace/dev
    /v1/namespace/{} DELETE = DELETE /v1/namespace/busy
    /v1/namespace/{} PUT,POST = PUT /v1/namespace/default {"Name": "default", "Description": "own"}
    /v1/node/pool/{} DELETE = DELETE /v1/node/pool/gpu
    /v1/node/pool/{} DELETE = DELETE /v1/node/pool/none
    /v1/node/pool/{} PUT,POST = PUT /v1/node/pool/other {"Name": "other"}
    /v1/node/pools PUT,POST = PUT /v1/node/pools {"Name": "other"}
    /v1/node/{}/drain PUT,POST = PUT /v1/node/NODE/drain {"NodeID": "NODE", "DrainSpec": {"Deadline": 3600000000000}}
    /v1/node/{}/drain PUT,POST = PUT /v1/node/AWAY/drain {"NodeID": "AWAY", "DrainSpec": null, "MarkEligible": true}
    /v1/node/{}/eligibility PUT,POST = PUT /v1/node/NODE/eligibility {"NodeID": "NODE", "Eligibility": "ineligible"}
    /v1/node/{}/eligibility PUT,POST = PUT /v1/node/NODE/eligibility {"NodeID": "NODE", "Eligibility": "eligible"}
    /v1/node/{}/eligibility PUT,POST = PUT /v1/node/AWAY/eligibility {"NodeID": "AWAY", "Eligibility": "eligible"}
    /v1/node/{}/evaluate PUT,POST = PUT /v1/node/NODE/evaluate
    /v1/node/{}/evaluate PUT,POST = PUT /v1/node/IDLE/evaluate
    /v1/node/{}/purge PUT,POST = PUT /v1/node/NODE/purge
    /v1/operator/autopilot/configuration PUT = PUT /v1/operator/autopilot/configuration {"MinQuorum": 3}
    /v1/operator/keyring/key/{} DELETE = DELETE /v1/operator/keyring/key/MIRROR
    /v1/operator/keyring/key/{} DELETE = DELETE /v1/operator/keyring/key/11111111-1111-1111-1111-111111111111
    /v1/operator/keyring/rotate PUT,POST = PUT /v1/operator/keyring/rotate
    /v1/operator/pending-work/{} DELETE = DELETE /v1/operator/pending-work/WORK
    /v1/quota PUT,POST = PUT /v1/quota {"Name": "gold", "Limits": [{"RegionLimit": {"CPU": 100}}]}
    /v1/quota/{} DELETE = DELETE /v1/quota/spare
    /v1/quota/{} DELETE = DELETE /v1/quota/none
    /v1/quota/{} PUT,POST = PUT /v1/quota/gold {"Name": "gold"}
    /v1/operator/scheduler/configuration PUT,POST = PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": "spread"}
    /v1/operator/scheduler/configuration PUT,POST = PUT /v1/operator/scheduler/configuration?cas=1 {"SchedulerAlgorithm": "spread"}
    /v1/service/{} DELETE = DELETE /v1/service/web/s1
    /v1/system/gc PUT = PUT /v1/system/gc
    /v1/system/reconcile/summaries PUT = PUT /v1/system/reconcile/summaries
    /v1/var/{} DELETE = DELETE /v1/var/a
    /v1/var/{} DELETE = DELETE /v1/var/a?cas=1
    /v1/var/{} PUT,POST = PUT /v1/var/a {"Path": "a", "Items": {"k": "w"}}
    /v1/var/{} PUT,POST = PUT /v1/var/a?cas=1 {"Path": "a", "Items": {"k": "w"}}
    /v1/volume/csi/{} DELETE = DELETE /v1/volume/csi/v
    /v1/volume/csi/{} DELETE = DELETE /v1/volume/csi/none
    /v1/volume/csi/{} PUT = PUT /v1/volume/csi/v {"Volumes": [VOLUME]}
    /v1/volumes PUT,POST = PUT /v1/volumes {"Volumes": [VOLUME]}
"#;

/// Routes without a command: their effects are outside of the log, or they only read.
const WITHOUT_COMMANDS: &str = "
    /v1/acl/oidc/auth-url PUT,POST
    /v1/agent/force-leave PUT,POST
    /v1/agent/join PUT,POST
    /v1/agent/schedulers/config PUT,POST
    /v1/agent/servers PUT,POST
    /v1/client/allocation/{}/signal PUT,POST
    /v1/client/metadata POST
    /v1/job/{}/plan PUT,POST
    /v1/jobs/parse PUT,POST
    /v1/operator/license PUT
    /v1/search PUT,POST
    /v1/search/fuzzy PUT,POST
    /v1/validate/job PUT,POST
    /v1/volume/csi/{}/create PUT
    /v1/volume/csi/{}/delete DELETE
    /v1/volumes/snapshot DELETE
    /v1/volumes/snapshot PUT,POST
    /v1/what-if PUT,POST
";

/// Routes with tests elsewhere, because they need another world.
const ELSEWHERE: &str = "
    /v1/acl/bootstrap PUT,POST
    /v1/acl/login PUT,POST
    /v1/acl/oidc/complete-auth PUT,POST
    /v1/acl/token/onetime/exchange PUT,POST
    /v1/operator/snapshot PUT,POST
    /v1/volume/csi/{}/detach DELETE
";

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Route and request of each write.
fn writes() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(WRITES).map(|line| line.split_once(" = ").expect("a route and a request"))
}

#[test]
fn run_once_table_has_every_writing_route() {
    let told: BTreeSet<&str> =
        writes().map(|(route, _)| route).chain(lines(WITHOUT_COMMANDS)).chain(lines(ELSEWHERE)).collect();
    let served = served();
    let is_write = |route: &&String| {
        let methods = route.rsplit(' ').next().unwrap_or_default();
        methods.split(',').any(|method| ["PUT", "POST", "DELETE"].contains(&method))
    };
    let missing: Vec<&String> = served.iter().filter(is_write).filter(|route| !told.contains(route.as_str())).collect();
    assert!(missing.is_empty(), "writing routes without a row: {missing:#?}");
    let unknown: Vec<&&str> = told.iter().filter(|route| !served.contains(**route)).collect();
    assert!(unknown.is_empty(), "rows without a route: {unknown:#?}");
}

struct World {
    server: Arc<Memory>,
    names: Vec<(&'static str, String)>,
}

async fn ask(server: &Arc<Memory>, key: &str, line: &str) -> (u16, Option<String>, String) {
    let line = if key.is_empty() { line.to_owned() } else { with_header(line, &format!("Idempotency-Key: {key}")) };
    let response = answer(server, &shown(&MANAGEMENT.to_string(), &line)).await;
    let index = response.headers().get("x-nomad-index").and_then(|value| value.to_str().ok()).map(str::to_owned);
    (response.status().as_u16(), index, text(response).await)
}

/// One object of every kind that a request of the table needs.
async fn everything() -> World {
    let server = world().await;
    let two = JOB.replace("\"Count\": 1", "\"Count\": 3");
    for line in [
        r#"PUT /v1/acl/policy/pol {"Name": "pol", "Rules": "node { policy = \"read\" }"}"#,
        r#"PUT /v1/acl/auth-method {"Name": "m", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {"JWKSURL": "https://id.test/keys"}}"#,
        r#"PUT /v1/acl/binding-rule {"AuthMethod": "m", "BindType": "policy", "BindName": "pol"}"#,
        r#"PUT /v1/acl/role {"Name": "r", "Policies": [{"Name": "pol"}]}"#,
        r#"PUT /v1/acl/token {"Name": "t", "Type": "client", "Policies": ["pol"]}"#,
        r#"PUT /v1/namespace {"Name": "dev"}"#,
        r#"PUT /v1/namespace {"Name": "busy"}"#,
        r#"PUT /v1/var/keeps?namespace=busy {"Items": {"a": "b"}}"#,
        r#"PUT /v1/jobs {"Job": {"ID": "alone", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}"#,
        r#"PUT /v1/node/pools {"Name": "gpu"}"#,
        r#"PUT /v1/quota {"Name": "spare"}"#,
        r#"PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://receiver"}"#,
        &format!("PUT /v1/jobs {{\"Job\": {two}}}"),
        r#"PUT /v1/jobs {"Job": {"ID": "param", "Type": "batch", "Datacenters": ["dc1"], "ParameterizedJob": {}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}"#,
        r#"PUT /v1/jobs {"Job": {"ID": "cron", "Type": "batch", "Datacenters": ["dc1"], "Periodic": {"Enabled": true, "Spec": "0 0 1 1 *", "SpecType": "cron"}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}"#,
        r#"PUT /v1/jobs {"Job": {"ID": "sys", "Type": "system", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}"#,
    ] {
        let (status, _, body) = ask(&server, "", line).await;
        assert_eq!(status, 200, "{line}: {body}");
    }
    let node = |n: u8| songline_model::NodeId::from_bytes([n; 16]);
    for n in [20, 21] {
        // The first node is in a datacenter without system jobs; the second is made ineligible below.
        let datacenter = if n == 20 { "elsewhere" } else { "dc1" };
        let node = songline_model::Node {
            id: node(n),
            secret_id: Secret::new(format!("secret {n}")),
            datacenter: datacenter.into(),
            ..songline_model::Node::default()
        };
        server.run(songline_commands::RegisterNode { node, create_node_pool: true });
    }
    let (status, _, body) =
        ask(&server, "", &format!("PUT /v1/node/{}/eligibility {{\"Eligibility\": \"ineligible\"}}", node(21))).await;
    assert_eq!(status, 200, "{body}");
    let service = ServiceRegistration {
        id: "s1".into(),
        service_name: "web".into(),
        namespace: "default".into(),
        node_id: NODE,
        alloc_id: ALLOC,
        job_id: "web".into(),
        ..ServiceRegistration::default()
    };
    server.run(UpsertServiceRegistrations { services: vec![service] });
    server.run(SetSchedulerConfig {
        config: SchedulerConfiguration { pause_eval_broker: true, ..SchedulerConfiguration::default() },
        cas: None,
    });
    let eval = |n: u8, job: &str| Evaluation {
        id: EvalId::from_bytes([n; 16]),
        namespace: "default".into(),
        job_id: job.into(),
        status: EvalStatus::Complete,
        priority: 50,
        ..Evaluation::default()
    };
    server.run(UpdateEvals {
        evals: vec![eval(40, "done"), eval(41, "done"), eval(42, "long"), eval(43, "long"), eval(44, "long")],
    });
    let work = server.run(DeleteEvals { choice: EvalChoice::Filter("JobID == long".into()), slice: Slice::of_rows(1) });
    let view = server.view();
    let rule = view.acl_binding_rules_of_method("m").next().expect("was made").id;
    let role = view.acl_role_by_name("r").expect("was made").id;
    let token = view.acl_tokens().find(|token| token.name == "t").expect("was made").accessor_id;
    let names = vec![
        ("ALLOC", ALLOC.to_string()),
        ("DEPLOYMENT", DEPLOYMENT.to_string()),
        ("AWAY", node(21).to_string()),
        ("IDLE", node(20).to_string()),
        ("MIRROR", crate::server::mirror_key().to_string()),
        ("NODE/", format!("{NODE}/")),
        ("\"NODE\"", format!("\"{NODE}\"")),
        ("RULE", rule.to_string()),
        ("ROLE", role.to_string()),
        ("TOKEN", token.to_string()),
        ("WORK", work.to_string()),
        ("\"Job\": JOB", format!("\"Job\": {}", JOB.replace("\"Count\": 1", "\"Count\": 2"))),
        ("VOLUME", VOLUME.to_owned()),
    ];
    World { server, names }
}

/// Changes the state so that nearly every write would have another effect than before.
fn move_on(server: &Memory) {
    let view = server.view();
    // The write itself may have dropped the job or the node.
    for id in ["web", "sys"].into_iter().filter(|id| view.job("default", id).is_some()) {
        server.run(DeregisterJob {
            job: JobKey::new("default", id),
            purge: true,
            versions_max: 6,
            ..DeregisterJob::default()
        });
    }
    if view.node(NODE).is_some() {
        server.run(DeregisterNode { node_id: NODE });
    }
    server.run(songline_commands::DeleteDeployments { ids: vec![DEPLOYMENT] });
}

#[tokio::test]
async fn repeated_write_under_one_idempotency_key_has_one_effect_and_one_answer() {
    let World { server, names } = everything().await;
    let mut wrong = Vec::new();
    for (route, request) in writes() {
        let request = names.iter().fold(request.to_owned(), |text, (name, value)| text.replace(name, value));
        let server = server.twin().remembering();
        let first = ask(&server, "k", &request).await;
        let mut tell = |what: &str, got: &dyn std::fmt::Debug| {
            wrong.push(format!("{route} = {request}\n    first {first:?}\n    {what} {got:?}"))
        };
        let after = server.view().digest();
        let again = ask(&server, "k", &request).await;
        if again != first {
            tell("then", &again);
        }
        if server.view().digest() != after {
            tell("and wrote", &"something more");
        }
        let other = ask(&server, "k", r#"PUT /v1/namespace {"Name": "yet-another"}"#).await;
        if other.0 != 409 {
            tell("another write under its key was answered", &other);
        }
        move_on(&server);
        let after = server.view().digest();
        let late = ask(&server, "k", &request).await;
        if late != first {
            tell("later", &late);
        }
        if server.view().digest() != after {
            tell("and wrote later", &"something more");
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), writes().count(), wrong.join("\n"));
}
