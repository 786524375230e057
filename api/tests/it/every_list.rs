//! Every list and its parameters: pages, prefix, filter, order, namespaces, blocking. The table of routes says which
//! list supports which parameter, so a new list in the table has to be added here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use songline_api::Reads;
use songline_commands::{
    ApplyPlan, RegisterNode, UpdateEvals, UpsertEventSinks, UpsertNamespaces, UpsertNodePools, UpsertQuotaSpecs,
    UpsertServiceRegistrations,
};
use songline_model::{
    AllocId, Allocation, CsiInfo, CsiNodeInfo, Deployment, DeploymentId, EvalId, Evaluation, EventSink, Namespace,
    Node, NodeId, NodePool, QuotaSpec, ServiceRegistration, Str,
};

use crate::server::{Memory, answer, text};

/// A list: its path, the field that names its rows, and a prefix of some names.
struct List {
    /// Route in the notation of the table of routes.
    route: &'static str,
    path: &'static str,
    name: &'static str,
    /// Name of that field in filters, if it differs.
    field: &'static str,
    prefix: &'static str,
    is_spaced: bool,
}

const fn list(
    route: &'static str,
    path: &'static str,
    name: &'static str,
    prefix: &'static str,
    is_spaced: bool,
) -> List {
    List { route, path, name, field: name, prefix, is_spaced }
}

const ALLOC: &str = "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1";
const LISTS: &[List] = &[
    list("/v1/jobs", "/v1/jobs", "ID", "job-1", true),
    list("/v1/nodes", "/v1/nodes", "ID", "01", false),
    list("/v1/node/pools", "/v1/node/pools", "Name", "pool-1", false),
    list("/v1/node/pool/{pool}/nodes", "/v1/node/pool/default/nodes", "ID", "", false),
    list("/v1/node/pool/{pool}/jobs", "/v1/node/pool/default/jobs", "ID", "", true),
    list("/v1/allocations", "/v1/allocations", "ID", "a1", true),
    list("/v1/evaluations", "/v1/evaluations", "ID", "e1", true),
    list("/v1/deployments", "/v1/deployments", "ID", "d1", true),
    list("/v1/volumes", "/v1/volumes?type=csi", "ID", "vol-1", true),
    list("/v1/plugins", "/v1/plugins?type=csi", "ID", "plug-1", false),
    List { field: "VariableMetadata.Path", ..list("/v1/vars", "/v1/vars", "Path", "var/1", true) },
    // A service is a single object: `*` is no valid namespace for it.
    list("/v1/service/{name}", "/v1/service/web", "ID", "", false),
    list("/v1/services", "/v1/services", "Namespace", "", true),
    list("/v1/scaling/policies", "/v1/scaling/policies", "ID", "0", true),
    list("/v1/namespaces", "/v1/namespaces", "Name", "dev", false),
    list("/v1/quotas", "/v1/quotas", "Name", "quota-1", false),
    list("/v1/quota-usages", "/v1/quota-usages", "Name", "quota-1", false),
    list("/v1/event-sinks", "/v1/event-sinks", "ID", "sink-1", false),
    list("/v1/operator/keyring/keys", "/v1/operator/keyring/keys", "KeyID", "", false),
    list("/v1/operator/pending-work", "/v1/operator/pending-work", "ID", "", false),
    list("/v1/job/{job_id}/allocations", "/v1/job/job-1/allocations", "ID", "", false),
    list("/v1/job/{job_id}/evaluations", "/v1/job/job-1/evaluations", "ID", "", false),
    list("/v1/job/{job_id}/deployments", "/v1/job/job-1/deployments", "ID", "", false),
    list("/v1/job/{job_id}/services", "/v1/job/job-1/services", "ID", "", false),
    list(
        "/v1/node/{node_id}/allocations",
        "/v1/node/01010101-0101-0101-0101-010101010101/allocations",
        "ID",
        "",
        false,
    ),
    list(
        "/v1/allocation/{alloc_id}/services",
        "/v1/allocation/a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1/services",
        "ID",
        "",
        false,
    ),
    list(
        "/v1/evaluation/{eval_id}/allocations",
        "/v1/evaluation/e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1e1e1e1/allocations",
        "ID",
        "",
        false,
    ),
    list(
        "/v1/deployment/allocations/{deployment_id}",
        "/v1/deployment/allocations/d1d1d1d1-d1d1-d1d1-d1d1-d1d1d1d1d1d1",
        "ID",
        "",
        false,
    ),
];

/// Lists that do not read the state, or that other tests cover.
const OTHERS: &[&str] = &[
    "/v1/acl/",
    "/v1/agent/",
    "/v1/audit",
    "/v1/client/",
    "/v1/history/",
    "/v1/regions",
    "/v1/status/",
    "/v1/volumes/external",
    "/v1/volumes/snapshot",
];

/// Adds one object of every kind; the fourth is in another namespace.
async fn grow(server: &Arc<Memory>, n: u8) {
    let space = if n == 4 { "dev" } else { "default" };
    let id = |first: u8| [first * 16 + n; 16];
    server.run(UpsertNamespaces {
        namespaces: vec![Namespace { name: format!("dev{n}").into(), ..Namespace::default() }],
    });
    server.run(UpsertNodePools {
        node_pools: vec![NodePool { name: format!("pool-{n}").into(), ..NodePool::default() }],
    });
    server.run(UpsertQuotaSpecs {
        quotas: vec![QuotaSpec { name: format!("quota-{n}").into(), ..QuotaSpec::default() }],
        region: "global".into(),
    });
    let sink = EventSink { id: format!("sink-{n}").into(), ..EventSink::default() };
    server.run(UpsertEventSinks { sinks: vec![sink], position: None });
    let plugin = |name: String| {
        let info = CsiInfo {
            plugin_id: name.clone().into(),
            healthy: true,
            node_info: Some(CsiNodeInfo::default()),
            ..CsiInfo::default()
        };
        (Str::from(name), info)
    };
    let plugins = BTreeMap::from([plugin(format!("plug-{n}")), plugin("p".to_owned())]);
    let node =
        Node { id: NodeId::from_bytes([n; 16]), name: "n".into(), csi_node_plugins: Some(plugins), ..Node::default() };
    server.run(RegisterNode { node, create_node_pool: true });
    let job = format!(
        r#"PUT /v1/jobs?namespace={space} {{"Job": {{"ID": "job-{n}", "TaskGroups": [{{"Name": "g", "Count": 0, "Scaling": {{"Max": 3}}, "Tasks": [{{"Name": "t", "Driver": "d"}}]}}]}}}}"#
    );
    let volume = format!(
        r#"PUT /v1/volumes {{"Volumes": [{{"ID": "vol-{n}", "PluginID": "p", "Namespace": "{space}", "RequestedCapabilities": [{{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}}]}}]}}"#
    );
    let variable = format!(r#"PUT /v1/var/var/{n}?namespace={space} {{"Items": {{"k": "v"}}}}"#);
    for line in [job, volume, variable] {
        let response = answer(server, &line).await;
        assert_eq!(response.status(), 200, "{line}: {}", text(response).await);
    }
    let eval = Evaluation {
        id: EvalId::from_bytes(id(14)),
        namespace: space.into(),
        job_id: "job-1".into(),
        priority: 50,
        ..Evaluation::default()
    };
    server.run(UpdateEvals { evals: vec![eval] });
    let job = server.view().job("default", "job-1").cloned();
    let deployment = Deployment {
        id: DeploymentId::from_bytes(id(13)),
        namespace: space.into(),
        job_id: "job-1".into(),
        job_create_index: job.as_ref().map_or(0, |job| job.create_index),
        ..Deployment::default()
    };
    let alloc = Allocation {
        id: AllocId::from_bytes(id(10)),
        name: format!("job-1.g[{n}]").into(),
        namespace: space.into(),
        job_id: "job-1".into(),
        task_group: "g".into(),
        node_id: Some(NodeId::from_bytes([1; 16])),
        eval_id: Some(EvalId::from_bytes([0xe1; 16])),
        deployment_id: Some(DeploymentId::from_bytes([0xd1; 16])),
        ..Allocation::default()
    };
    server.run(ApplyPlan { job, updated: vec![Arc::new(alloc)], deployment: Some(deployment), ..ApplyPlan::default() });
    let service = ServiceRegistration {
        id: format!("svc-{n}").into(),
        service_name: "web".into(),
        namespace: space.into(),
        job_id: "job-1".into(),
        alloc_id: AllocId::from_bytes([0xa1; 16]),
        node_id: NodeId::from_bytes([1; 16]),
        ..ServiceRegistration::default()
    };
    server.run(UpsertServiceRegistrations { services: vec![service] });
}

async fn world() -> Arc<Memory> {
    let server = Memory::new();
    assert_eq!(answer(&server, "PUT /v1/operator/keyring/rotate").await.status(), 200);
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    for n in 1..=4 {
        grow(&server, n).await;
    }
    server
}

/// Answer of a list: status, index, token of the next page, and names or the text of the refusal.
struct Answer {
    status: u16,
    index: u64,
    next: Option<String>,
    names: Vec<String>,
    body: String,
}

impl List {
    /// Sends the request with these additional parameters.
    async fn ask(&self, server: &Arc<Memory>, method: &str, query: &str) -> Answer {
        let mark = if self.path.contains('?') { "&" } else { "?" };
        let response = answer(server, &format!("{method} {}{mark}{query}", self.path)).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let next = header("x-nomad-nexttoken");
        let index = header("x-nomad-index").and_then(|index| index.parse().ok()).unwrap_or_default();
        let body = text(response).await;
        let rows: Vec<Value> = serde_json::from_str(&body).unwrap_or_default();
        let names = rows.iter().map(|row| row[self.name].to_string().trim_matches('"').to_owned()).collect();
        Answer { status, index, next, names, body }
    }

    async fn names(&self, server: &Arc<Memory>, query: &str) -> Vec<String> {
        let answer = self.ask(server, "GET", query).await;
        assert_eq!(answer.status, 200, "{} {query}: {}", self.path, answer.body);
        answer.names
    }

    /// Reads all pages of `per_page` rows, one after another.
    async fn pages(&self, server: &Arc<Memory>, query: &str, per_page: usize) -> Vec<String> {
        let (mut out, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.ask(server, "GET", &format!("{query}&per_page={per_page}&next_token={token}")).await;
            assert!(page.names.len() <= per_page && out.len() <= 100, "{}", self.path);
            out.extend(page.names);
            match page.next {
                Some(next) => token = next,
                None => return out,
            }
        }
    }
}

fn flags(route: &str) -> String {
    let rows = &songline_api::openapi::table().rows;
    let row = rows.iter().find(|row| row.path == route && row.methods.iter().any(|method| method == "GET"));
    row.unwrap_or_else(|| panic!("{route} is no route")).flags.clone()
}

#[test]
fn every_list_route_is_covered_by_the_list_tests() {
    let rows = songline_api::openapi::table().rows.iter();
    let lists = rows.filter(|row| {
        matches!(&row.reply, songline_api::openapi::table::Reply::Json(songline_api::openapi::shape::Shape::List(_)))
            && row.methods.iter().any(|method| method == "GET")
    });
    let forgotten: Vec<&str> = lists
        .map(|row| row.path.as_str())
        .filter(|path| {
            !LISTS.iter().any(|list| list.route == *path) && !OTHERS.iter().any(|other| path.starts_with(other))
        })
        .collect();
    assert_eq!(forgotten, Vec::<&str>::new());
}

#[tokio::test]
async fn lists_honour_paging_and_order_where_documented_and_ignore_them_elsewhere() {
    let server = world().await;
    for list in LISTS {
        let flags = flags(list.route);
        let all = list.names(&server, "").await;
        let at = list.path;
        assert!(
            all.len() > 1 || ["/v1/services", "/v1/operator/keyring/keys", "/v1/operator/pending-work"].contains(&at),
            "{at}: {all:?}"
        );
        let mut turned = all.clone();
        turned.reverse();
        let order = list.names(&server, "reverse=true").await;
        assert_eq!(order, if flags.contains('R') { turned.clone() } else { all.clone() }, "{at} reverse");
        assert_eq!(list.names(&server, "reverse=yes").await, all, "{at}: only `true` reverses");
        if !flags.contains('P') {
            assert_eq!(list.names(&server, "per_page=1&next_token=zzz").await, all, "{at} has no pages");
            continue;
        }
        for per_page in [1, 2, 100] {
            assert_eq!(list.pages(&server, "", per_page).await, all, "{at} in pages of {per_page}");
            if flags.contains('R') {
                assert_eq!(
                    list.pages(&server, "reverse=true", per_page).await,
                    turned,
                    "{at} backwards in pages of {per_page}"
                );
            }
        }
        let none = list.ask(&server, "GET", "per_page=-1").await;
        assert!(
            none.names.is_empty() && none.next.is_some(),
            "{at}: a negative page has no rows and the token of the first"
        );
        assert_eq!(list.names(&server, "per_page=x").await, all, "{at}: what is no number is no page");
    }
}

#[tokio::test]
async fn lists_honour_prefix_and_filter_only_where_documented() {
    let server = world().await;
    for list in LISTS {
        let (at, flags) = (list.path, flags(list.route));
        let all = list.names(&server, "").await;
        if flags.contains('X') {
            let wanted: Vec<String> = all.iter().filter(|name| name.starts_with(list.prefix)).cloned().collect();
            assert!(!wanted.is_empty(), "{at}: {all:?}");
            let mut found = list.names(&server, &format!("prefix={}", list.prefix)).await;
            found.sort();
            let mut sorted = wanted;
            sorted.sort();
            assert_eq!(found, sorted, "{at} prefix={}", list.prefix);
        } else if at.starts_with("/v1/node/pool/") {
            let refused = list.ask(&server, "GET", "prefix=a").await;
            assert_eq!((refused.status, &*refused.body), (400, "prefix argument not allowed"), "{at}");
        } else {
            assert_eq!(list.names(&server, "prefix=zz").await, all, "{at} has no prefix");
        }
        let refused = list.ask(&server, "GET", "filter=%3D%3D").await;
        if !flags.contains('F') {
            assert_eq!(refused.names, all, "{at} has no filter: {}", refused.body);
            continue;
        }
        assert_eq!(refused.status, 400, "{at}: {}", refused.body);
        assert!(
            refused.body.starts_with("failed to create result paginator: failed to read filter expression: 1:1 (0): "),
            "{at}"
        );
        let refused = list.ask(&server, "GET", "filter=Nothing%20%3D%3D%20%221%22").await;
        assert_eq!(refused.status, 400, "{at}: {}", refused.body);
        assert!(
            refused.body.starts_with("failed to read result page: error finding value in datum: /Nothing"),
            "{at}: {}",
            refused.body
        );
        let first = all.first().expect("a row");
        let only = list.names(&server, &format!("filter={}%20%3D%3D%20%22{first}%22", list.field)).await;
        assert_eq!(only, std::slice::from_ref(first), "{at}");
        let rest = list.names(&server, &format!("filter={}%20!%3D%20%22{first}%22", list.field)).await;
        assert_eq!(rest, all[1..], "{at}");
        let paged = list.pages(&server, &format!("filter={}%20!%3D%20%22{first}%22", list.field), 1).await;
        assert_eq!(paged, rest, "{at}: pages of what passes");
    }
}

#[tokio::test]
async fn namespace_star_lists_every_namespace_and_a_name_only_one() {
    let server = world().await;
    for list in LISTS.iter().filter(|list| list.is_spaced) {
        let at = list.path;
        let own = list.names(&server, "").await;
        let (other, all) = (list.names(&server, "namespace=dev").await, list.names(&server, "namespace=*").await);
        assert!(!own.is_empty() && !other.is_empty(), "{at}: {own:?} {other:?}");
        let mut both: Vec<String> = own.iter().chain(&other).cloned().collect();
        both.sort();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(sorted, both, "{at}");
        assert_eq!(list.names(&server, "namespace=default").await, own, "{at}");
        let nothing = list.ask(&server, "GET", "namespace=none").await;
        assert_eq!(nothing.body, "[]", "{at}: a list of nothing is not null");
        if flags(list.route).contains('P') {
            assert_eq!(list.pages(&server, "namespace=*", 1).await, all, "{at} in pages");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blocking_lists_answer_on_a_change_or_at_their_timeout() {
    for list in LISTS {
        let (server, at) = (world().await, list.path);
        assert!(flags(list.route).contains('B'), "{at}");
        let now = list.ask(&server, "GET", "").await;
        let started = tokio::time::Instant::now();
        let late = list.ask(&server, "GET", &format!("index={}&wait=10s", now.index)).await;
        if now.index == 0 {
            assert_eq!(at, "/v1/operator/pending-work", "an index of 0 does not wait");
            continue;
        }
        assert!(started.elapsed() >= Duration::from_secs(10), "{at} did not wait at {}", now.index);
        assert_eq!((late.index, &late.names), (now.index, &now.names), "{at}");
        let started = tokio::time::Instant::now();
        list.ask(&server, "GET", &format!("index={}", now.index - 1)).await;
        assert_eq!(started.elapsed(), Duration::ZERO, "{at}: an index below does not wait");
        if at == "/v1/operator/keyring/keys" {
            continue;
        }
        let other = Arc::clone(&server);
        let index = now.index;
        let waiting = tokio::spawn(async move { list.ask(&other, "GET", &format!("index={index}")).await });
        while server.watches().waiting() == 0 {
            tokio::task::yield_now().await;
        }
        grow(&server, 5).await;
        let woken = waiting.await.expect("answers");
        assert!(woken.index > index, "{at}: {} is not above {index}", woken.index);
    }
}

#[tokio::test]
async fn invalid_list_parameters_are_refused_alike_by_every_list() {
    let server = world().await;
    for list in LISTS {
        let at = list.path;
        for (query, status, said) in [
            ("index=x", 400, "Invalid index"),
            ("index=-1", 400, "Invalid index"),
            ("wait=5", 400, "Invalid wait time"),
            ("region=mars", 500, "No path to region"),
        ] {
            let refused = list.ask(&server, "GET", query).await;
            assert_eq!(refused.status, status, "{at} {query}: {}", refused.body);
            // Lists of variables append further text.
            assert!(refused.body.starts_with(said), "{at} {query}: {}", refused.body);
        }
        let stale = list.ask(&server, "GET", "stale=maybe").await;
        assert_eq!(stale.status, 400, "{at}");
        assert!(
            stale.body.starts_with("Expect `true` or `false` for `stale` query string parameter, got maybe"),
            "{at}: {}",
            stale.body
        );
        for method in ["HEAD", "OPTIONS", "PATCH"] {
            let refused = list.ask(&server, method, "").await;
            assert_eq!((refused.status, &*refused.body), (405, "Invalid method"), "{method} {at}");
        }
        let plain = list.ask(&server, "GET", "pretty=0").await.body;
        let pretty = list.ask(&server, "GET", "pretty").await.body;
        assert!(
            !plain.contains('\n') && (pretty == "[]\n" || pretty.starts_with("[\n    ") && pretty.ends_with("\n]\n")),
            "{at}: {pretty}"
        );
        let (plain, pretty): (Value, Value) =
            (serde_json::from_str(&plain).expect("JSON"), serde_json::from_str(&pretty).expect("JSON"));
        assert_eq!(plain, pretty, "{at}");
    }
    assert!(LISTS.iter().any(|list| list.path.contains(ALLOC)));
}
