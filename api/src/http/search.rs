//! Search for ids by prefix in several kinds of objects at once. `fuzzy` searches in names, `clock` bounds the time.

mod clock;
mod fuzzy;

use std::collections::BTreeMap;

use axum::response::Response;
use serde::{Deserialize, Serialize};
use songline_lang::acl::{Access, Acl, NamespaceCapability, NodePoolCapability, VariableCapability};
use songline_model::Str;
use songline_projections::{IdPrefix, State, Table};
use songline_wire::responses::QueryMeta;

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::gate;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::off_worker::off_the_worker;
use crate::http::params::{ReadParams, quote};
use crate::server::{Agent, Reads};

use clock::Clock;

/// Largest number of ids per context in an answer. The number of rows that are read is bounded only by the time of
/// `Clock`.
const MATCHES_MAX: usize = 20;

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    let filtered = Capability::Late(&Capability::Filtered);
    mux.add(Methods::Write, "/v1/search", "", filtered, |call| Box::pin(search(call)));
    mux.add(Methods::Write, "/v1/search/fuzzy", "", filtered, |call| Box::pin(fuzzy::search(call)));
}

/// A kind of objects that can be searched.
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
    /// Not one of `ALL`, which is the reference's list. A search in all contexts covers it where there are quotas.
    Quotas,
}

impl Context {
    /// All contexts, in the order of the error text.
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
            Context::Quotas => "quotas",
        }
    }

    /// Table whose index the answer carries for this kind, if any.
    fn table(self) -> Option<Table> {
        match self {
            Context::Allocs => Some(Table::Allocs),
            Context::Jobs => Some(Table::Jobs),
            Context::Nodes => Some(Table::Nodes),
            Context::NodePools => Some(Table::NodePools),
            Context::Evals => Some(Table::Evals),
            Context::Deployment => Some(Table::Deployment),
            Context::Namespaces => Some(Table::Namespaces),
            // The tables of these kinds have other names than the kinds, so answers carry no index of them.
            Context::Plugins | Context::Volumes => None,
            Context::Vars => Some(Table::Variables),
            Context::Quotas => Some(Table::QuotaSpecs),
            Context::ScalingPolicy => Some(Table::ScalingPolicy),
        }
    }

    /// Contexts that a request names.
    fn parse(word: &str) -> Result<Vec<Context>, ApiError> {
        let known = || Context::ALL.into_iter().chain([Context::Quotas]);
        if word == "all" {
            return Ok(known().collect());
        }
        let found = known().find(|context| context.as_str() == word);
        found.map(|context| vec![context]).ok_or_else(|| {
            let words: Vec<&str> = Context::ALL.iter().map(|context| context.as_str()).collect();
            let words = words.join(" ");
            ApiError::internal(format!(
                "context must be one of [{words}] or 'all' for all contexts; got {}",
                quote(word)
            ))
        })
    }
}

impl Context {
    /// Contexts that a request names and that the caller may search. A forbidden context is refused when it is named,
    /// and left out of `all`.
    fn permitted(word: &str, acl: &Acl, params: &ReadParams) -> Result<Vec<Context>, ApiError> {
        let mut contexts = Context::parse(word)?;
        let all = contexts.len() > 1;
        contexts.retain(|context| context.is_permitted(acl, &params.namespace, all));
        if contexts.is_empty() && !all { Err(denied()) } else { Ok(contexts) }
    }

    /// The contexts that a search covers. Without any quota, a search in all contexts answers as the reference does.
    fn searched(mut contexts: Vec<Context>, view: &State) -> Vec<Context> {
        if contexts.len() > 1 && view.quota_specs().next().is_none() {
            contexts.retain(|context| *context != Context::Quotas);
        }
        contexts
    }

    fn is_permitted(self, acl: &Acl, namespace: &str, all: bool) -> bool {
        let has = |capability| acl.namespace(namespace, capability);
        match self {
            Context::Nodes => acl.node(Access::Read),
            Context::NodePools => acl.any_node_pool(),
            Context::Namespaces => acl.any_in_namespace(namespace),
            Context::Allocs | Context::Deployment | Context::Evals | Context::Jobs => has(NamespaceCapability::ReadJob),
            Context::ScalingPolicy => {
                has(NamespaceCapability::ReadJob) || all && has(NamespaceCapability::ListScalingPolicies)
            }
            Context::Volumes => gate::any_of(acl, namespace, SEES_VOLUMES),
            Context::Vars => acl.any_variable(),
            Context::Plugins => acl.plugin(Access::List),
            Context::Quotas => acl.quota(Access::Read),
        }
    }
}

/// Capabilities each of which permits to find volumes.
const SEES_VOLUMES: &[NamespaceCapability] = &[
    NamespaceCapability::CsiListVolume,
    NamespaceCapability::CsiReadVolume,
    NamespaceCapability::ListJobs,
    NamespaceCapability::ReadJob,
];

/// The part of the state that a search covers: objects that the request asks for and the caller may see.
#[derive(Clone, Copy)]
struct Sight<'a> {
    view: &'a State,
    params: &'a ReadParams,
    acl: &'a Acl,
}

impl Sight<'_> {
    /// Whether the search covers rows of a namespace, for a caller with one of these capabilities in it.
    fn sees(&self, namespace: &str, capabilities: &[NamespaceCapability]) -> bool {
        self.params.in_namespace(namespace) && gate::any_of(self.acl, namespace, capabilities)
    }

    /// Whether the search covers jobs of a namespace, and their evaluations, allocations and deployments.
    fn sees_jobs(&self, namespace: &str) -> bool {
        self.sees(namespace, &[NamespaceCapability::ReadJob])
    }
}

/// Body of a search for prefixes of ids and names.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct SearchRequest {
    prefix: Str,
    context: Str,
    namespace: Str,
}

/// Answer of both searches: matches by context, and the contexts whose list was cut off.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct SearchResponse<M: Serialize> {
    matches: BTreeMap<&'static str, M>,
    truncations: BTreeMap<&'static str, bool>,
    #[serde(flatten)]
    meta: QueryMeta,
}

async fn search<S: Reads>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: SearchRequest = call.json().await?;
    let params = params(&call, &request.namespace)?;
    let contexts = Context::permitted(&request.context, call.caller()?.acl(), &params)?;
    let view = call.fresh_view(&params).await?;
    let contexts = Context::searched(contexts, &view);
    let caller = call.caller()?;
    let sight = Sight { view: &view, params: &params, acl: caller.acl() };
    let wanted = Wanted { begins: &request.prefix, scanned: &request.prefix };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    off_the_worker(|| {
        let mut clock = Clock::start();
        for (nth, context) in contexts.iter().enumerate() {
            clock.share(contexts.len() - nth);
            let Some((found, truncated)) = by_prefix(sight, *context, wanted, &mut clock) else {
                continue;
            };
            // An empty list is null on the wire.
            matches.insert(context.as_str(), Some(found).filter(|found| !found.is_empty()));
            truncations.insert(context.as_str(), truncated);
        }
    });
    respond(&call, &view, &contexts, matches, truncations)
}

/// Parameters of the search. The body's namespace counts when the query names none.
fn params<S: Agent>(call: &Call<S>, namespace: &Str) -> Result<ReadParams, ApiError> {
    let mut params = call.read_params()?;
    if call.query().text("namespace").is_empty() && !namespace.is_empty() {
        params.namespace = namespace.clone();
    }
    Ok(params)
}

/// Prefixes that an id must have.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    /// Prefix of the ids in the answer.
    begins: &'a str,
    /// Prefix with which the reference scans its index. A context with UUIDs is in the answer only if this is a
    /// prefix of UUIDs.
    scanned: &'a str,
}

impl Wanted<'_> {
    /// The UUIDs with the wanted prefix. `None`: the scanned prefix is not one of UUIDs, so the context is left out of
    /// the answer.
    fn uuids(self) -> Option<Uuids> {
        ids::prefix(even(self.scanned)).ok()?;
        Some(Uuids(IdPrefix::parse(&self.begins.replace('-', "")).ok()))
    }
}

/// A range of UUIDs; `None`: no UUID begins with the wanted text.
struct Uuids(Option<IdPrefix>);

impl Uuids {
    fn rows<'r, T, I: Iterator<Item = T> + 'r>(
        self,
        rows: impl Fn(&IdPrefix) -> I + 'r,
    ) -> impl Iterator<Item = T> + 'r {
        self.0.into_iter().flat_map(move |prefix| rows(&prefix))
    }
}

/// The prefix without the last digit of an odd number of digits. The reference's index is keyed by whole bytes, so
/// only this part of a prefix must be hexadecimal.
fn even(prefix: &str) -> &str {
    let digits = prefix.len() - prefix.matches('-').count();
    match prefix.char_indices().next_back() {
        Some((last, _)) if !digits.is_multiple_of(2) => &prefix[..last],
        Some(_) | None => prefix,
    }
}

/// The first ids with the wanted prefix, and whether the list is truncated by number or by time. `None`: the context
/// is left out of the answer.
fn by_prefix(sight: Sight<'_>, context: Context, wanted: Wanted<'_>, clock: &mut Clock) -> Option<(Vec<String>, bool)> {
    let Sight { view, params, acl } = sight;
    let begins = wanted.begins;
    let mut first = First { wanted, clock };
    Some(match context {
        Context::Allocs => {
            let rows = wanted.uuids()?.rows(|prefix| view.allocs_with_prefix(prefix));
            first.of(rows, |row| sight.sees_jobs(&row.namespace).then(|| row.id.to_string()))
        }
        Context::Evals => {
            let rows = wanted.uuids()?.rows(|prefix| view.evals_with_prefix(prefix));
            first.of(rows, |row| sight.sees_jobs(&row.namespace).then(|| row.id.to_string()))
        }
        Context::Deployment => {
            let rows = wanted.uuids()?.rows(|prefix| view.deployments_with_prefix(prefix));
            first.of(rows, |row| sight.sees_jobs(&row.namespace).then(|| row.id.to_string()))
        }
        Context::Nodes => {
            first.of(wanted.uuids()?.rows(|prefix| view.nodes_with_prefix(prefix)), |row| Some(row.id.to_string()))
        }
        Context::Jobs if params.all_namespaces() => first.of(view.jobs(), |row| {
            (row.id.starts_with(begins) && sight.sees_jobs(&row.namespace)).then(|| row.id.to_string())
        }),
        Context::Jobs => first.of(view.jobs_with_prefix(&params.namespace, begins), |row| Some(row.id.to_string())),
        Context::NodePools => first.of(view.node_pools(), |row| {
            let shown = row.name.as_str().starts_with(begins) && acl.node_pool(&row.name, NodePoolCapability::Read);
            shown.then(|| row.name.to_string())
        }),
        Context::Namespaces => first.of(view.namespaces(), |row| {
            let shown = row.name.as_str().starts_with(begins) && acl.any_in_namespace(&row.name);
            shown.then(|| row.name.to_string())
        }),
        Context::Plugins => first.of(view.csi_plugins(), |row| row.id.starts_with(begins).then(|| row.id.to_string())),
        Context::Volumes => first.of(view.csi_volumes(), |row| {
            (row.id.starts_with(begins) && sight.sees(&row.namespace, SEES_VOLUMES)).then(|| row.id.to_string())
        }),
        Context::Quotas => {
            first.of(view.quota_specs(), |row| row.name.starts_with(begins).then(|| row.name.to_string()))
        }
        // Variables of all namespaces, whatever the request names, as far as the caller may list them.
        Context::Vars => first.of(view.variables_with_prefix(begins), |row| {
            let may = acl.variable(&row.meta.namespace, &row.meta.path, VariableCapability::List);
            may.then(|| row.meta.path.to_string())
        }),
        Context::ScalingPolicy => first.of(view.scaling_policies_with_prefix(begins), |row| {
            let sees = &[NamespaceCapability::ReadJob, NamespaceCapability::ListScalingPolicies];
            sight.sees(&row.target_key().job.namespace, sees).then(|| row.id.to_string())
        }),
    })
}

/// Collects the first matching ids of one context.
struct First<'a> {
    wanted: Wanted<'a>,
    clock: &'a mut Clock,
}

impl First<'_> {
    /// The first matching ids, and whether there are more or the time ran out. `id` returns `None` for a row that
    /// does not match or that the caller may not see.
    fn of<T>(&mut self, rows: impl Iterator<Item = T>, id: impl Fn(&T) -> Option<String>) -> (Vec<String>, bool) {
        let (begins, scanned) = (self.wanted.begins, even(self.wanted.scanned));
        let mut found = Vec::new();
        for row in rows {
            if self.clock.is_over() {
                return (found, true);
            }
            let matching = id(&row).filter(|id| id.starts_with(begins) && id.starts_with(scanned));
            let Some(id) = matching else { continue };
            if found.len() == MATCHES_MAX {
                return (found, true);
            }
            found.push(id);
        }
        (found, false)
    }
}

fn respond<S: Reads, M: Serialize>(
    call: &Call<S>,
    view: &State,
    contexts: &[Context],
    matches: BTreeMap<&'static str, M>,
    truncations: BTreeMap<&'static str, bool>,
) -> Result<Response, ApiError> {
    let index =
        contexts.iter().filter_map(|context| context.table()).map(|table| view.table_index(table)).max().unwrap_or(0);
    call.read(&Meta::at(index), &SearchResponse { matches, truncations, meta: call.query_meta(index) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Context, First, MATCHES_MAX, Wanted, even};

    fn first(ids: impl Iterator<Item = String>, begins: &str, clock: &mut Clock) -> (Vec<String>, bool) {
        First { wanted: Wanted { begins, scanned: begins }, clock }.of(ids, |id| Some(id.clone()))
    }

    #[test]
    fn search_prefix_of_odd_length_drops_its_last_digit() {
        for (prefix, expected) in [
            ("", ""),
            ("a", ""),
            ("ab", "ab"),
            ("abc", "ab"),
            ("e3671fa4-21", "e3671fa4-21"),
            ("e3671fa4-2", "e3671fa4-"),
        ] {
            assert_eq!(even(prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn search_finds_a_match_behind_100000_other_rows() {
        let ids = (0..100_000).map(|n| format!("ac{n:05}")).chain(["ad".to_owned()]);
        assert_eq!(first(ids, "ad", &mut Clock::of(Duration::from_secs(60))), (vec!["ad".to_owned()], false));
    }

    #[test]
    fn search_answer_has_at_most_20_matches_per_context_and_reports_truncation() {
        let ids = |count: usize| (0..count).map(|n| format!("ab{n:02}"));
        let mut clock = Clock::of(Duration::from_secs(60));
        let (found, truncated) = first(ids(MATCHES_MAX), "ab", &mut clock);
        assert_eq!((found.len(), truncated), (20, false));
        let (found, truncated) = first(ids(MATCHES_MAX + 1), "ab", &mut clock);
        assert_eq!((found.len(), truncated), (20, true));
    }

    #[test]
    fn search_that_runs_out_of_time_reports_truncation() {
        let ids = (0..100_000).map(|n| format!("ac{n}"));
        assert_eq!(first(ids, "ad", &mut Clock::of(Duration::ZERO)), (Vec::new(), true));
    }

    #[test]
    fn unknown_search_contexts_are_refused() {
        assert_eq!(Context::parse("all").map(|contexts| contexts.len()).ok(), Some(12));
        let text = Context::parse("tasks").expect_err("is refused").text;
        let words = "allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces";
        assert_eq!(text, format!("context must be one of [{words}] or 'all' for all contexts; got \"tasks\""));
    }
}
