//! Case-insensitive search in names: of jobs and their parts, nodes, allocations, namespaces and pools. Objects
//! without a name are found by a prefix of their id.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_lang::acl::{Access, NodePoolCapability, VariableCapability};
use songline_model::{Job, Service, Str, Task, TaskGroup};
use songline_projections::IdPrefix;

use super::clock::Clock;
use super::{Context, Sight, Wanted, by_prefix, params, respond};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::off_worker::off_the_worker;
use crate::server::Reads;

/// Smallest length of the text, in bytes.
const TERM_BYTES_MIN: usize = 2;
/// Largest number of matches per context in an answer: the best of all matches.
const MATCHES_MAX: usize = 100;

/// Body of a search for a part of a name.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct FuzzySearchRequest {
    text: Str,
    context: Str,
    prefix: Str,
    namespace: Str,
}

/// A name that matches, with the path of ids that leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FuzzyMatch {
    #[serde(rename = "ID")]
    id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scope: Vec<String>,
}

pub(super) async fn search<S: Reads>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: FuzzySearchRequest = call.json().await?;
    let params = params(&call, &request.namespace)?;
    if request.text.len() < TERM_BYTES_MIN {
        let text =
            format!("fuzzy search query must be at least {TERM_BYTES_MIN} characters, got {}", request.text.len());
        return Err(ApiError::internal(text));
    }
    // Over all namespaces no context is refused, as in the reference: the objects are filtered instead.
    let contexts = if params.all_namespaces() {
        Context::parse(&request.context)?
    } else {
        Context::permitted(&request.context, call.caller()?.acl(), &params)?
    };
    let view = call.fresh_view(&params).await?;
    let contexts = Context::searched(contexts, &view);
    let caller = call.caller()?;
    let sight = Sight { view: &view, params: &params, acl: caller.acl() };
    // The reference searches the text only among ids with the body's prefix, so ids must have both prefixes.
    let wanted = Wanted { begins: &request.text, scanned: &request.prefix };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    off_the_worker(|| {
        let mut clock = Clock::start();
        for (nth, context) in contexts.iter().enumerate() {
            clock.share(contexts.len() - nth);
            if by_id(*context) {
                let Some((found, truncated)) = by_prefix(sight, *context, wanted, &mut clock) else {
                    continue;
                };
                matches.insert(
                    context.as_str(),
                    found.into_iter().map(|id| FuzzyMatch { id, scope: Vec::new() }).collect(),
                );
                truncations.insert(context.as_str(), truncated);
                continue;
            }
            let mut found = Found::new(&request.text);
            let looked_at_all = look(sight, *context, &mut found, &mut clock);
            truncations.insert(context.as_str(), !looked_at_all);
            truncations.extend(found.truncated.iter().map(|name| (*name, true)));
            matches.extend(found.sorted());
        }
    });
    respond(&call, &view, &contexts, matches, truncations)
}

/// Whether objects of this kind have no name.
fn by_id(context: Context) -> bool {
    match context {
        Context::Evals | Context::Deployment | Context::ScalingPolicy | Context::Volumes => true,
        Context::Allocs | Context::Jobs | Context::Nodes | Context::NodePools => false,
        Context::Plugins | Context::Vars | Context::Namespaces | Context::Quotas => false,
    }
}

/// Offers all names of one context that the caller may see: no context was refused to a search over all namespaces.
/// False: the time ran out before all rows were read.
fn look(sight: Sight<'_>, context: Context, found: &mut Found, clock: &mut Clock) -> bool {
    let Sight { view, params, acl } = sight;
    let one = |found: &mut Found, name: &str, scope: &[&dyn Display]| found.offer(context.as_str(), name, scope);
    match context {
        Context::Jobs if params.all_namespaces() => scan(clock, view.jobs(), |job| {
            if sight.sees_jobs(&job.namespace) {
                offer_job(found, job);
            }
        }),
        Context::Jobs => scan(clock, view.jobs_in(&params.namespace), |job| offer_job(found, job)),
        Context::Allocs => {
            let every = IdPrefix::parse("").expect("no digits are a prefix");
            scan(clock, view.allocs_with_prefix(&every), |row| {
                if sight.sees_jobs(&row.namespace) {
                    one(found, &row.name, &[&row.namespace, &row.id]);
                }
            })
        }
        Context::Nodes if !acl.node(Access::Read) => true,
        Context::Nodes => scan(clock, view.nodes(), |row| one(found, &row.name, &[&row.id])),
        Context::NodePools => scan(clock, view.node_pools(), |row| {
            if acl.node_pool(&row.name, NodePoolCapability::Read) {
                one(found, row.name.as_str(), &[&row.name]);
            }
        }),
        Context::Namespaces => scan(clock, view.namespaces(), |row| {
            if acl.any_in_namespace(&row.name) {
                one(found, row.name.as_str(), &[]);
            }
        }),
        // In one namespace, the right to list plugins was checked before and is enough.
        Context::Plugins if params.all_namespaces() && !acl.plugin(Access::Read) => true,
        Context::Plugins => scan(clock, view.csi_plugins(), |row| one(found, row.id.as_str(), &[])),
        Context::Quotas if !acl.quota(Access::Read) => true,
        Context::Quotas => scan(clock, view.quota_specs(), |row| one(found, row.name.as_str(), &[])),
        Context::Vars => scan(clock, view.variables(), |row| {
            let may = acl.variable(&row.meta.namespace, &row.meta.path, VariableCapability::List);
            if may && params.in_namespace(&row.meta.namespace) {
                one(found, &row.meta.path, &[&row.meta.namespace, &row.meta.path]);
            }
        }),
        Context::Evals | Context::Deployment | Context::ScalingPolicy | Context::Volumes => true,
    }
}

/// Offers rows until the time runs out; false when it did.
fn scan<T>(clock: &mut Clock, rows: impl Iterator<Item = T>, mut offer: impl FnMut(T)) -> bool {
    for row in rows {
        if clock.is_over() {
            return false;
        }
        offer(row);
    }
    true
}

/// Offers the names of a job and of its parts.
fn offer_job(found: &mut Found, job: &Job) {
    found.offer("jobs", &job.name, &[&job.namespace, &job.id]);
    for group in job.task_groups.iter().flatten() {
        found.offer("groups", &group.name, &[&job.namespace, &job.id]);
        offer_services(found, &group.services, &[&job.namespace, &job.id, &group.name]);
        for task in group.tasks.iter().flatten() {
            offer_task(found, job, group, task);
        }
    }
}

fn offer_task(found: &mut Found, job: &Job, group: &TaskGroup, task: &Task) {
    let scope: [&dyn Display; 4] = [&job.namespace, &job.id, &group.name, &task.name];
    found.offer("tasks", &task.name, &scope[..3]);
    offer_services(found, &task.services, &scope);
    let (context, param) = match task.driver.as_str() {
        "docker" => ("images", "image"),
        "exec" | "raw_exec" => ("commands", "command"),
        "java" => ("classes", "class"),
        _ => return,
    };
    if let Some(Value::String(text)) = task.config.as_ref().and_then(|config| config.get(param)) {
        found.offer(context, text, &scope);
    }
}

fn offer_services(found: &mut Found, services: &Option<Vec<Service>>, scope: &[&dyn Display]) {
    for service in services.iter().flatten() {
        found.offer("services", &service.name, scope);
    }
}

/// Matches found so far.
struct Found {
    /// The searched text in lower case.
    text: String,
    /// Matches by context, each with its byte offset in the name. A long list is cut to its best matches from time to
    /// time.
    matches: BTreeMap<&'static str, Vec<(usize, FuzzyMatch)>>,
    /// Contexts whose matches are not all shown.
    truncated: BTreeSet<&'static str>,
}

impl Found {
    fn new(text: &str) -> Self {
        Self { text: text.to_lowercase(), matches: BTreeMap::new(), truncated: BTreeSet::new() }
    }

    /// Adds a name that contains the text.
    fn offer(&mut self, context: &'static str, name: &str, scope: &[&dyn Display]) {
        let Some(place) = place_of(name, &self.text) else {
            return;
        };
        let taken = self.matches.entry(context).or_default();
        let scope = scope.iter().map(|part| part.to_string()).collect();
        taken.push((place, FuzzyMatch { id: name.to_owned(), scope }));
        if taken.len() > MATCHES_MAX {
            self.truncated.insert(context);
        }
        if taken.len() >= 2 * MATCHES_MAX {
            keep_best(taken);
        }
    }

    /// Matches of each context, ordered by offset, length and name.
    fn sorted(self) -> impl Iterator<Item = (&'static str, Vec<FuzzyMatch>)> {
        self.matches.into_iter().map(|(context, mut matches)| {
            keep_best(&mut matches);
            (context, matches.into_iter().map(|(_, found)| found).collect())
        })
    }
}

/// Sorts matches, best first, and drops those beyond the bound.
fn keep_best(matches: &mut Vec<(usize, FuzzyMatch)>) {
    matches.sort_by(|(a, one), (b, other)| (a, one.id.len(), &one.id).cmp(&(b, other.id.len(), &other.id)));
    matches.truncate(MATCHES_MAX);
}

/// Byte offset of `text` in the lower-case form of `name`. `text` is in lower case already.
fn place_of(name: &str, text: &str) -> Option<usize> {
    if name.is_ascii() {
        // Fast path: nearly all names are ASCII, and are compared without a copy.
        return name.as_bytes().windows(text.len()).position(|part| part.eq_ignore_ascii_case(text.as_bytes()));
    }
    name.to_lowercase().find(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Found, MATCHES_MAX, place_of, scan};

    fn check(text: &str, names: &[&str], expected: &[&str]) {
        let mut found = Found::new(text);
        names.iter().for_each(|name| found.offer("jobs", name, &[]));
        let matches: Vec<String> = found.sorted().flat_map(|(_, matches)| matches).map(|found| found.id).collect();
        assert_eq!(matches, expected);
    }

    #[test]
    fn fuzzy_matches_are_ordered_by_position_then_length_then_alphabet() {
        let names = ["a-wwww", "wwww-b", "wwww-a", "wwww", "bb-wwww", "WWWW-aa", "a-wwww-a", "other"];
        check("wwww", &names, &["wwww", "wwww-a", "wwww-b", "WWWW-aa", "a-wwww", "a-wwww-a", "bb-wwww"]);
        check("WwW", &["xwww"], &["xwww"]);
        check("nothing", &names, &[]);
    }

    #[test]
    fn fuzzy_match_ignores_case_in_any_alphabet() {
        assert_eq!(place_of("ABC", "bc"), Some(1));
        assert_eq!(place_of("\u{c4}BC", "\u{e4}b"), Some(0));
        assert_eq!(place_of("ab", "abc"), None);
        assert_eq!(place_of("abc", "\u{e4}"), None);
    }

    #[test]
    fn fuzzy_search_scans_every_row_when_time_allows() {
        let mut found = Found::new("hit");
        let mut clock = Clock::of(Duration::from_secs(60));
        let all =
            scan(&mut clock, 0..100_000, |nth| found.offer("jobs", if nth == 99_999 { "a hit" } else { "other" }, &[]));
        assert!(all && found.truncated.is_empty());
        assert_eq!(found.sorted().count(), 1);
        assert!(!scan(&mut Clock::of(Duration::ZERO), 0..100_000, |_| {}));
    }

    #[test]
    fn fuzzy_search_keeps_best_100_matches_per_context_and_reports_truncation() {
        let mut found = Found::new("hit");
        (0..MATCHES_MAX).for_each(|nth| found.offer("jobs", &format!("later hit {nth}"), &[]));
        assert!(found.truncated.is_empty());
        (0..MATCHES_MAX).for_each(|nth| found.offer("jobs", &format!("hit {nth}"), &[]));
        assert!(found.truncated.contains("jobs"));
        let matches: Vec<String> = found.sorted().flat_map(|(_, matches)| matches).map(|found| found.id).collect();
        assert_eq!(matches.len(), 100);
        assert!(matches.iter().all(|id| id.starts_with("hit")), "{matches:?}");
    }
}
