//! Sends a request to every route as callers without rights, with too few, and with each single capability, and
//! compares the answers with a table of the rights that each route needs. Then sends all requests as a caller with
//! all rights in one of two namespaces.

mod table;
mod websocket;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use songline_api::{Reads, routes_text};
use songline_lang::acl::NamespaceCapability;
use songline_model::AclTokenKind;
use songline_projections::State;
use uuid::Uuid;

use crate::server::Memory;
use crate::world::{
    ALLOC, DEPLOYMENT, GONE_DEPLOYMENT, GONE_EVAL, MANAGEMENT, MARKS, NODE, OF_API, OF_NODE, OTHER_ALLOC,
    OTHER_DEPLOYMENT, OVER, UNKNOWN, VOLUME, ask, bound_policy, identity, job, policy, rules, token, token_with, world,
};
use table::{Caller, Row, Where, is_namespaced};

/// Rights that are not capabilities of namespaces.
const OTHERS: [&str; 18] = [
    "node:read",
    "node:write",
    "agent:read",
    "agent:write",
    "operator:read",
    "operator:write",
    "quota:read",
    "quota:write",
    "plugin:list",
    "plugin:read",
    "pool:read",
    "pool:write",
    "pool:delete",
    "host_volume:mount-readwrite",
    "variables:list",
    "variables:read",
    "variables:write",
    "variables:destroy",
];

/// The secret of each caller.
fn secrets(server: &Memory, callers: &BTreeSet<Caller>) -> BTreeMap<Caller, String> {
    // The tasks of the job `web` have this policy; those of the job `api` have none.
    bound_policy(server, "of-web", &rules("read-job", "default"), Some(("default", "web")));
    let mut secrets = BTreeMap::new();
    for (nth, caller) in callers.iter().enumerate() {
        let id = Uuid::from_u128((nth as u128 + 1) << 64 | 0x4000_8000_0000_0000_0000);
        let client = |words: &BTreeSet<&str>, namespace: &str| {
            let named = words.iter().map(|word| {
                let name = format!("{namespace}-{}", word.replace([':', '_'], "-"));
                // No capability has this name: it stands for any capability of the namespace.
                let word = if *word == "any-of-namespace" { "read-job" } else { word };
                policy(server, &name, &rules(word, namespace));
                name
            });
            let names: Vec<String> = named.collect();
            token(server, id, AclTokenKind::Client, &names)
        };
        let secret = match caller {
            Caller::Nobody => String::new(),
            Caller::Unknown => UNKNOWN.to_string(),
            Caller::Node => OF_NODE.to_string(),
            Caller::Management => MANAGEMENT.to_string(),
            Caller::Powerless => client(&["read-job", "submit-job"].into(), "nowhere"),
            Caller::Having(words) => client(words, "default"),
            Caller::Elsewhere(words) => client(words, "other"),
            Caller::Task(words) => identity(server, if words.is_empty() { OF_API } else { ALLOC }),
            Caller::Over => identity(server, OVER),
        };
        secrets.insert(caller.clone(), secret);
    }
    secrets
}

/// The served routes, in the notation of the table.
pub(crate) fn served() -> BTreeSet<String> {
    let of_line = |line: &str| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
    routes_text::<Memory>().lines().map(of_line).collect()
}

/// The rows of routes that are served.
fn rows() -> Vec<Row<'static>> {
    let served = served();
    Row::all().into_iter().filter(|row| served.contains(row.route)).collect()
}

/// Values of the capitalized words in requests.
struct Names(Vec<(&'static str, String)>);

impl Names {
    /// Objects of a namespace.
    fn of(view: &State, namespace: &str) -> Self {
        let here = namespace == "default";
        let eval = view.evals_of_job(namespace, "web").next().map(|eval| eval.id.to_string()).unwrap_or_default();
        let scaling =
            view.scaling_policies_of_job(namespace, "web").next().map(|row| row.id.to_string()).unwrap_or_default();
        Names(vec![
            ("ISOLATED", OF_API.to_string()),
            ("ALLOC", if here { ALLOC } else { OTHER_ALLOC }.to_string()),
            ("NODE", NODE.to_string()),
            ("EVAL", eval),
            ("DEPLOYMENT", if here { DEPLOYMENT } else { OTHER_DEPLOYMENT }.to_string()),
            ("SCALING", scaling),
            ("JOB", job("web", "web", "raw_exec")),
            ("VOLUME", VOLUME.to_owned()),
            ("/ID", format!("/{UNKNOWN}")),
        ])
    }

    /// Objects of `other`, with an evaluation and a deployment that are deleted.
    fn gone(view: &State) -> Self {
        let mut names = Self::of(view, "other");
        for (name, value) in &mut names.0 {
            match *name {
                "EVAL" => *value = GONE_EVAL.to_string(),
                "DEPLOYMENT" => *value = GONE_DEPLOYMENT.to_string(),
                _ => {}
            }
        }
        names
    }

    fn put_into(&self, request: &str) -> String {
        self.0.iter().fold(request.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// The request with a namespace in its query.
fn with_namespace(request: &str, namespace: &str) -> String {
    if namespace.is_empty() {
        return request.to_owned();
    }
    let mut words = request.splitn(3, ' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let joint = if path.contains('?') { '&' } else { '?' };
    let body = words.next().map(|body| format!(" {body}")).unwrap_or_default();
    format!("{method} {path}{joint}namespace={namespace}{body}")
}

/// The server under test. After a request that wrote, another server in the old state replaces it.
struct Asked {
    whole: Arc<Memory>,
    server: Arc<Memory>,
}

impl Asked {
    fn new(whole: &Arc<Memory>) -> Self {
        Self { whole: Arc::clone(whole), server: whole.twin() }
    }

    async fn ask(&mut self, row: &Row<'_>, secret: &str, request: &str) -> (StatusCode, String) {
        if self.server.view().applied_index() != self.whole.view().applied_index() {
            self.server = self.whole.twin();
        }
        if row.has("websocket") {
            websocket::ask(&self.server, secret, request).await
        } else {
            ask(&self.server, secret, request).await
        }
    }
}

/// Whether an answer refuses its caller.
fn is_refusal(row: &Row<'_>, (status, body): &(StatusCode, String)) -> bool {
    // The last text is the answer to a workload identity when a token is looked up.
    let texts = [
        "Permission denied",
        "ACL token not found",
        "ACL token is invalid",
        "allocation is terminal",
        "UUID must be 36 characters",
    ];
    let refusal = texts.iter().any(|text| body.ends_with(text));
    let hidden = row.has("hidden") && body.starts_with("Unknown allocation");
    hidden || refusal && *status != StatusCode::NOT_FOUND
}

#[test]
fn capability_table_has_every_route() {
    let rows: BTreeSet<String> = Row::all().iter().map(|row| row.route.to_owned()).collect();
    let missing: Vec<_> = served().into_iter().filter(|route| !rows.contains(route)).collect();
    assert!(missing.is_empty(), "routes without a row in api/tests/capabilities.txt: {missing:#?}");
}

#[tokio::test]
async fn every_route_admits_exactly_the_callers_of_the_capability_table() {
    let rows = rows();
    let single = NamespaceCapability::ALL.iter().map(|capability| capability.as_str()).chain(OTHERS);
    let mut callers: BTreeSet<Caller> = single.map(|word| Caller::Having([word].into())).collect();
    callers.extend([Caller::Nobody, Caller::Powerless, Caller::Unknown, Caller::Node, Caller::Management]);
    callers.extend([Caller::Task(["read-job"].into()), Caller::Task([].into()), Caller::Over]);
    // When a route needs several rights, none of them alone suffices.
    callers.extend(rows.iter().flat_map(|row| &row.needs).filter(|all| all.len() > 1).cloned().map(Caller::Having));
    let whole = world().await;
    let secrets = secrets(&whole, &callers);
    let names = Names::of(&whole.view(), "default");
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut server = Asked::new(&whole);
    for row in &rows {
        let request = names.put_into(row.request);
        for caller in &callers {
            let Some(admitted) = row.admits(caller) else { continue };
            let answer = server.ask(row, &secrets[caller], &request).await;
            asked += 1;
            if is_refusal(row, &answer) == admitted {
                let word = if admitted { "is to be let in" } else { "is to be refused" };
                wrong.push(format!(
                    "{}: {caller:?} {word}: {} {}",
                    row.request,
                    answer.0.as_u16(),
                    answer.1.trim_end()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 5000, "all were asked: {asked}");
}

#[tokio::test]
async fn capability_counts_in_the_namespace_given_by_the_table() {
    let rows = rows();
    let namespaced = |all: &&BTreeSet<&'static str>| all.iter().any(|word| is_namespaced(word));
    let of_row = |row: &Row<'static>| row.needs.iter().filter(namespaced).cloned().collect::<Vec<_>>();
    let alternatives = || rows.iter().flat_map(of_row);
    let mut callers: BTreeSet<Caller> = alternatives().map(Caller::Having).collect();
    callers.extend(alternatives().map(Caller::Elsewhere));
    let whole = world().await;
    let secrets = secrets(&whole, &callers);
    let (here, there) = (Names::of(&whole.view(), "default"), Names::of(&whole.view(), "other"));
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut server = Asked::new(&whole);
    for row in &rows {
        for all in of_row(row) {
            let (own, foreign) = (Caller::Having(all.clone()), Caller::Elsewhere(all));
            let place = row.namespace();
            // Objects, namespace of the request, caller, and whether that caller is admitted.
            let cases = [
                (&here, "other", &own, place == Where::Object),
                (&here, "other", &foreign, place == Where::Query),
                (&here, "default", &foreign, false),
                (&there, "other", &own, false),
                (&there, "other", &foreign, true),
            ];
            for (names, namespace, caller, admitted) in cases {
                // Both namespaces have an object of this name, so the request never reaches the other namespace's
                // object.
                let request = with_namespace(&names.put_into(row.request), namespace);
                let of_path = row.has("object") && names.put_into(row.request) == here.put_into(row.request);
                if of_path && std::ptr::eq(names, &there) {
                    continue;
                }
                let answer = server.ask(row, &secrets[caller], &request).await;
                asked += 1;
                if is_refusal(row, &answer) == admitted {
                    let word = if admitted { "is to be let in" } else { "is to be refused" };
                    wrong.push(format!("{request}: {caller:?} {word}: {} {}", answer.0.as_u16(), answer.1.trim_end()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 450, "all were asked: {asked}");
}

/// All rights without a namespace, and all rights in `default`.
fn everything_here() -> String {
    let words: Vec<String> =
        NamespaceCapability::ALL.iter().map(|capability| format!("\"{}\"", capability.as_str())).collect();
    let of_variables = "variables { path \"*\" { capabilities = [\"list\", \"read\", \"write\", \"destroy\"] } }";
    let namespace = format!("namespace \"default\" {{ capabilities = [{}] {of_variables} }}", words.join(", "));
    let others = ["node", "agent", "operator", "quota"].map(|block| format!("{block} {{ policy = \"write\" }}"));
    let pools =
        "node_pool \"*\" { policy = \"write\" } host_volume \"*\" { policy = \"write\" } plugin { policy = \"read\" }";
    format!("{namespace} {} {pools}", others.join(" "))
}

/// Rows of `other`, except evaluations: a caller that may write nodes creates evaluations for all jobs on them.
fn rows_there(view: &State) -> String {
    let jobs: Vec<_> = view.jobs_in("other").collect();
    let allocs: Vec<_> = view.allocs().filter(|row| row.namespace == "other").collect();
    let deployments: Vec<_> = view.deployments().filter(|row| row.namespace == "other").collect();
    let variables: Vec<_> = view.variables_in("other", "").map(|row| &row.meta).collect();
    let volumes: Vec<_> = view.csi_volumes_in("other").collect();
    let services: Vec<_> = view.service_registrations().filter(|row| row.namespace == "other").collect();
    let policies: Vec<_> = view.scaling_policies_of_job("other", "web").collect();
    let events = view.scaling_events("other", "web");
    format!(
        "{jobs:?} {allocs:?} {deployments:?} {variables:?} {volumes:?} {services:?} {policies:?} {events:?} {:?}",
        view.namespace("other")
    )
}

/// Requests that the table does not have: searches in every context, and lists by filter and prefix.
fn searches() -> Vec<String> {
    const CONTEXTS: [&str; 12] = [
        "allocs",
        "jobs",
        "nodes",
        "node_pools",
        "evals",
        "deployment",
        "plugins",
        "volumes",
        "scaling_policy",
        "vars",
        "namespaces",
        "all",
    ];
    let searched = CONTEXTS.iter().flat_map(|context| {
        let prefix = ["", "a2", "a3", "zebra"]
            .map(|text| format!("PUT /v1/search {{\"Prefix\": \"{text}\", \"Context\": \"{context}\"}}"));
        let fuzzy = ["zebra", "web"]
            .map(|text| format!("PUT /v1/search/fuzzy {{\"Text\": \"{text}\", \"Context\": \"{context}\"}}"));
        prefix.into_iter().chain(fuzzy)
    });
    let filtered = [
        "GET /v1/allocations?prefix=a2",
        "GET /v1/allocations?filter=Namespace==other",
        "GET /v1/allocations?filter=EvalID==a4a4a4a4-a4a4-a4a4-a4a4-a4a4a4a4a4a4",
        "GET /v1/allocations?filter=DeploymentID==a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5",
        "GET /v1/allocations?per_page=1&next_token=a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2",
        "GET /v1/evaluations?filter=Namespace==other",
        "GET /v1/evaluations?job=web",
        "GET /v1/deployments?prefix=a3",
        "GET /v1/jobs?prefix=web&meta=true",
        "GET /v1/evaluation/EVAL?related=true",
        "GET /v1/vars?prefix=z",
        "GET /v1/volumes?type=csi&plugin_id=p",
        "GET /v1/volumes?type=csi&node_id=NODE",
        "GET /v1/scaling/policies?job=web",
        "GET /v1/service/web?choose=2|a",
        "GET /v1/namespaces?prefix=o",
        "GET /v1/namespace/other",
        "GET /v1/history/namespace/other",
    ];
    searched.chain(filtered.map(str::to_owned)).collect()
}

#[tokio::test]
async fn token_with_all_rights_in_one_namespace_cannot_read_or_change_another() {
    let whole = world().await;
    let secret = token_with(&whole, 7, &everything_here());
    let view = whole.view();
    let names = [Names::of(&view, "default"), Names::of(&view, "other"), Names::gone(&view)];
    let before = rows_there(&view);
    let ids = view.evals_of_job("other", "web").map(|row| row.id.to_string());
    let ids = ids.chain(view.scaling_policies_of_job("other", "web").map(|row| row.id.to_string()));
    let marks: Vec<String> =
        MARKS.iter().map(|mark| (*mark).to_owned()).chain(["\"Namespace\":\"other\"".to_owned()]).chain(ids).collect();
    let searches = searches();
    let extra: Vec<Row<'_>> = searches.iter().map(|request| Row::plain(request)).collect();
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut server = Asked::new(&whole);
    for row in rows().iter().chain(&extra) {
        let mut requests = BTreeSet::new();
        for names in &names {
            let plain = names.put_into(row.request);
            // The body names the namespace, too: beside the object, and in it.
            let named = plain
                .replacen(" {\"", " {\"Namespace\": \"other\", \"", 1)
                .replace("{\"ID\": ", "{\"Namespace\": \"other\", \"ID\": ");
            for namespace in ["", "other", "*"] {
                requests.extend([with_namespace(&plain, namespace), with_namespace(&named, namespace)]);
            }
        }
        for request in &requests {
            let (status, body) = server.ask(row, &secret, request).await;
            asked += 1;
            let seen: Vec<_> = marks.iter().filter(|mark| body.contains(*mark) && !request.contains(*mark)).collect();
            if !seen.is_empty() {
                wrong.push(format!("{request} shows {seen:?}: {} {}", status.as_u16(), body.trim_end()));
            }
            if rows_there(&server.server.view()) != before {
                wrong.push(format!("{request} changes the other namespace: {} {}", status.as_u16(), body.trim_end()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 1200, "all were asked: {asked}");
}
