//! Search: ids by how they begin, in all kinds of things at once. Search in names is in `fuzzy`.

mod fuzzy;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use axum::response::Response;
use serde::{Deserialize, Serialize};
use songline_lang::acl::{Access, Acl, NamespaceCapability, NodePoolCapability, VariableCapability};
use songline_model::{NamespaceName, NodePoolName, Str, Variable};
use songline_projections::{State, Table};

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::gate;
use crate::http::ids;
use crate::http::mux::{Capability, Methods, Mux};
use crate::http::params::{ReadParams, quote};
use crate::server::Server;
use crate::wire::responses::QueryMeta;

/// Rows of one context that are looked at by id. Rows are counted before the last digit of an odd prefix is compared.
const SCANNED_ROWS_MAX: usize = 20;

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    mux.add(Methods::Write, "/v1/search", "", Capability::Filtered, |call| Box::pin(search(call)));
    mux.add(Methods::Write, "/v1/search/fuzzy", "", Capability::Filtered, |call| Box::pin(fuzzy::search(call)));
}

/// A kind of things that can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Context {
    Allocs,
    Jobs,
    Nodes,
    NodePools,
    Evals,
    Deployment,
    Plugins,
    Volumes,
    ScalingPolicy,
    Vars,
    Namespaces,
}

impl Context {
    /// In the order of the error text.
    const ALL: [Context; 11] = [
        Context::Allocs,
        Context::Jobs,
        Context::Nodes,
        Context::NodePools,
        Context::Evals,
        Context::Deployment,
        Context::Plugins,
        Context::Volumes,
        Context::ScalingPolicy,
        Context::Vars,
        Context::Namespaces,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Context::Allocs => "allocs",
            Context::Jobs => "jobs",
            Context::Nodes => "nodes",
            Context::NodePools => "node_pools",
            Context::Evals => "evals",
            Context::Deployment => "deployment",
            Context::Plugins => "plugins",
            Context::Volumes => "volumes",
            Context::ScalingPolicy => "scaling_policy",
            Context::Vars => "vars",
            Context::Namespaces => "namespaces",
        }
    }

    /// Where its rows are; the others have no table yet, and so no rows.
    fn table(self) -> Option<Table> {
        match self {
            Context::Allocs => Some(Table::Allocs),
            Context::Jobs => Some(Table::Jobs),
            Context::Nodes => Some(Table::Nodes),
            Context::NodePools => Some(Table::NodePools),
            Context::Evals => Some(Table::Evals),
            Context::Deployment => Some(Table::Deployment),
            Context::Namespaces => Some(Table::Namespaces),
            // Their tables have other names than they, so answers carry no index of them.
            Context::Plugins | Context::Volumes => None,
            Context::Vars => Some(Table::Variables),
            Context::ScalingPolicy => Some(Table::ScalingPolicy),
        }
    }

    /// The contexts that a word of a request means.
    fn parse(word: &str) -> Result<Vec<Context>, ApiError> {
        if word == "all" {
            return Ok(Context::ALL.to_vec());
        }
        let found = Context::ALL.into_iter().find(|context| context.as_str() == word);
        found.map(|context| vec![context]).ok_or_else(|| {
            let words: Vec<&str> = Context::ALL.iter().map(|context| context.as_str()).collect();
            let words = words.join(" ");
            ApiError::internal(format!("context must be one of [{words}] or 'all' for all contexts; got {}", quote(word)))
        })
    }
}

impl Context {
    /// The contexts that a word of a request means, of which a caller may search these. One that is asked for by name is refused; of all,
    /// the others are left out.
    fn permitted(word: &str, acl: &Acl, params: &ReadParams) -> Result<Vec<Context>, ApiError> {
        // A context of another edition: who may not see it is not told that it is none.
        if word == "quotas" && !acl.quota(Access::Read) {
            return Err(denied());
        }
        let mut contexts = Context::parse(word)?;
        let all = contexts.len() > 1;
        contexts.retain(|context| context.is_permitted(acl, &params.namespace, all));
        if contexts.is_empty() && !all { Err(denied()) } else { Ok(contexts) }
    }

    fn is_permitted(self, acl: &Acl, namespace: &str, all: bool) -> bool {
        let has = |capability| acl.namespace(namespace, capability);
        match self {
            Context::Nodes => acl.node(Access::Read),
            Context::NodePools => acl.any_node_pool(),
            Context::Namespaces => acl.any_in_namespace(namespace),
            Context::Allocs | Context::Deployment | Context::Evals | Context::Jobs => has(NamespaceCapability::ReadJob),
            Context::ScalingPolicy => has(NamespaceCapability::ReadJob) || all && has(NamespaceCapability::ListScalingPolicies),
            Context::Volumes => gate::any_of(acl, namespace, SEES_VOLUMES),
            Context::Vars => acl.any_variable(),
            Context::Plugins => acl.plugin(Access::List),
        }
    }
}

/// Each of them lets volumes be found.
const SEES_VOLUMES: &[NamespaceCapability] =
    &[NamespaceCapability::CsiListVolume, NamespaceCapability::CsiReadVolume, NamespaceCapability::ListJobs, NamespaceCapability::ReadJob];

/// What a search looks at: the state, as far as the request asks for it and its caller may see it.
#[derive(Clone, Copy)]
struct Sight<'a> {
    view: &'a State,
    params: &'a ReadParams,
    acl: &'a Acl,
}

impl Sight<'_> {
    /// Whether rows of a namespace are seen by whoever has one of these in it.
    fn sees(&self, namespace: &str, capabilities: &[NamespaceCapability]) -> bool {
        self.params.in_namespace(namespace) && gate::any_of(self.acl, namespace, capabilities)
    }

    /// Whether what belongs to jobs of a namespace is seen.
    fn sees_jobs(&self, namespace: &str) -> bool {
        self.sees(namespace, &[NamespaceCapability::ReadJob])
    }
}

/// `SearchRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    prefix: Str,
    context: Str,
    namespace: Str,
}

/// `SearchResponse` and `FuzzySearchResponse` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct SearchResponse<M: Serialize> {
    matches: BTreeMap<&'static str, M>,
    truncations: BTreeMap<&'static str, bool>,
    #[serde(flatten)]
    meta: QueryMeta,
}

async fn search<S: Server>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: SearchRequest = call.json().await?;
    let params = params(&call, &request.namespace)?;
    let contexts = Context::permitted(&request.context, call.caller()?.acl(), &params)?;
    let view = call.fresh_view(&params).await?;
    let caller = call.caller()?;
    let sight = Sight { view: &view, params: &params, acl: caller.acl() };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    for context in &contexts {
        let scanned = if *context == Context::Jobs { &request.prefix } else { even(&request.prefix) };
        let Some((found, truncated)) = by_prefix(sight, *context, scanned, &request.prefix) else {
            continue;
        };
        // Nothing found is null.
        matches.insert(context.as_str(), Some(found).filter(|found| !found.is_empty()));
        truncations.insert(context.as_str(), truncated);
    }
    respond(&call, &view, &contexts, matches, truncations)
}

/// The parameters of the query. The body's namespace counts when the query names none.
fn params<S: Server>(call: &Call<S>, namespace: &Str) -> Result<ReadParams, ApiError> {
    let mut params = call.read_params()?;
    if call.query().text("namespace").is_empty() && !namespace.is_empty() {
        params.namespace = namespace.clone();
    }
    Ok(params)
}

/// The prefix without the last digit of an odd number of them: an index of the reference has whole bytes.
fn even(prefix: &str) -> &str {
    let digits = prefix.len() - prefix.matches('-').count();
    match prefix.char_indices().next_back() {
        Some((last, _)) if !digits.is_multiple_of(2) => &prefix[..last],
        Some(_) | None => prefix,
    }
}

/// The ids that begin with `wanted` among the first that begin with `scanned`, and whether more begin so.
/// `None`: no id of this kind can begin so.
fn by_prefix(sight: Sight<'_>, context: Context, scanned: &str, wanted: &str) -> Option<(Vec<String>, bool)> {
    let Sight { view, params, acl } = sight;
    let begins = |name: &str| name.starts_with(scanned);
    let id_prefix = || ids::prefix(scanned).ok();
    Some(match context {
        Context::Allocs => {
            let prefix = id_prefix()?;
            let rows = view.allocs_with_prefix(&prefix).filter(|row| sight.sees_jobs(&row.namespace));
            starting_with(rows.map(|row| row.id), wanted)
        }
        Context::Evals => {
            let prefix = id_prefix()?;
            let rows = view.evals_with_prefix(&prefix).filter(|row| sight.sees_jobs(&row.namespace));
            starting_with(rows.map(|row| row.id), wanted)
        }
        Context::Deployment => {
            let prefix = id_prefix()?;
            let rows = view.deployments_with_prefix(&prefix).filter(|row| sight.sees_jobs(&row.namespace));
            starting_with(rows.map(|row| row.id), wanted)
        }
        Context::Nodes => starting_with(view.nodes_with_prefix(&id_prefix()?).map(|row| row.id), wanted),
        Context::Jobs if params.all_namespaces() => {
            let rows = view.jobs().filter(|row| begins(&row.id) && sight.sees_jobs(&row.namespace));
            starting_with(rows.map(|row| &row.id), wanted)
        }
        Context::Jobs => starting_with(view.jobs_with_prefix(&params.namespace, scanned).map(|row| &row.id), wanted),
        Context::NodePools => {
            let shown = |name: &&NodePoolName| begins(name.as_str()) && acl.node_pool(name, NodePoolCapability::Read);
            starting_with(view.node_pools().map(|row| &row.name).filter(shown), wanted)
        }
        Context::Namespaces => {
            let shown = |name: &&NamespaceName| begins(name.as_str()) && acl.any_in_namespace(name);
            starting_with(view.namespaces().map(|row| &row.name).filter(shown), wanted)
        }
        Context::Plugins => starting_with(view.csi_plugins().map(|row| &row.id).filter(|id| begins(id)), wanted),
        Context::Volumes => {
            let rows = view.csi_volumes().filter(|row| begins(&row.id) && sight.sees(&row.namespace, SEES_VOLUMES));
            starting_with(rows.map(|row| &row.id), wanted)
        }
        // Of every namespace, whatever the request says; of those, what the caller may list.
        Context::Vars => {
            let shown = |row: &&Arc<Variable>| acl.variable(&row.meta.namespace, &row.meta.path, VariableCapability::List);
            starting_with(view.variables_with_prefix(scanned).filter(shown).map(|row| &row.meta.path), wanted)
        }
        Context::ScalingPolicy => {
            let rows = view.scaling_policies_with_prefix(scanned).filter(|row| {
                let sees = &[NamespaceCapability::ReadJob, NamespaceCapability::ListScalingPolicies];
                sight.sees(&row.target_key().job.namespace, sees)
            });
            starting_with(rows.map(|row| &row.id), wanted)
        }
    })
}

/// Those of the first ids that begin so, and whether there are more to look at.
fn starting_with(ids: impl Iterator<Item = impl Display>, prefix: &str) -> (Vec<String>, bool) {
    let mut ids = ids.map(|id| id.to_string());
    let found = ids.by_ref().take(SCANNED_ROWS_MAX).filter(|id| id.starts_with(prefix)).collect();
    (found, ids.next().is_some())
}

fn respond<S: Server, M: Serialize>(
    call: &Call<S>,
    view: &State,
    contexts: &[Context],
    matches: BTreeMap<&'static str, M>,
    truncations: BTreeMap<&'static str, bool>,
) -> Result<Response, ApiError> {
    let index = contexts.iter().filter_map(|context| context.table()).map(|table| view.table_index(table)).max().unwrap_or(0);
    call.read(&Meta::at(index), &SearchResponse { matches, truncations, meta: call.query_meta(index) })
}

#[cfg(test)]
mod tests {
    use super::{Context, even, starting_with};

    #[test]
    fn prefixes_lose_the_last_digit_of_an_odd_number() {
        for (prefix, expected) in
            [("", ""), ("a", ""), ("ab", "ab"), ("abc", "ab"), ("e3671fa4-21", "e3671fa4-21"), ("e3671fa4-2", "e3671fa4-")]
        {
            assert_eq!(even(prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn only_the_first_rows_are_looked_at() {
        let ids = |count: usize| (0..count).map(|n| if n % 2 == 0 { format!("ab{n}") } else { format!("ac{n}") });
        assert_eq!(starting_with(ids(20), "ab").0.len(), 10);
        assert!(!starting_with(ids(20), "ab").1);
        assert_eq!(starting_with(ids(21), "ab").0.len(), 10);
        assert!(starting_with(ids(21), "ab").1);
    }

    #[test]
    fn contexts_that_are_none_are_refused() {
        assert_eq!(Context::parse("all").map(|contexts| contexts.len()).ok(), Some(11));
        let text = Context::parse("tasks").expect_err("is refused").text;
        let words = "allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces";
        assert_eq!(text, format!("context must be one of [{words}] or 'all' for all contexts; got \"tasks\""));
    }
}
