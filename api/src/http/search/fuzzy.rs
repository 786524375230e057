//! Search in names, whatever the letter case: of jobs and what they consist of, of nodes, allocations, namespaces and pools.
//! Things without a name are found by the beginning of their id.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_lang::acl::{NodePoolCapability, VariableCapability};
use songline_model::{Job, Service, Str, Task, TaskGroup};
use songline_projections::IdPrefix;

use super::{Context, Sight, by_prefix, even, params, respond};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::Server;

/// Shortest text, in bytes.
const TERM_BYTES_MIN: usize = 2;
/// Rows of one context that are looked at.
const SCANNED_ROWS_MAX: usize = 20;
/// Matches of one context in an answer.
const MATCHES_MAX: usize = 100;

/// `FuzzySearchRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct FuzzySearchRequest {
    text: Str,
    context: Str,
    prefix: Str,
    namespace: Str,
}

/// `FuzzyMatch` of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FuzzyMatch {
    #[serde(rename = "ID")]
    id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scope: Vec<String>,
}

pub(super) async fn search<S: Server>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: FuzzySearchRequest = call.json().await?;
    let params = params(&call, &request.namespace)?;
    if request.text.len() < TERM_BYTES_MIN {
        let text = format!("fuzzy search query must be at least {TERM_BYTES_MIN} characters, got {}", request.text.len());
        return Err(ApiError::internal(text));
    }
    let contexts = Context::permitted(&request.context, call.caller()?.acl(), &params)?;
    let view = call.fresh_view(&params).await?;
    let caller = call.caller()?;
    let sight = Sight { view: &view, params: &params, acl: caller.acl() };
    let (mut matches, mut truncations) = (BTreeMap::new(), BTreeMap::new());
    for context in &contexts {
        if by_id(*context) {
            let scanned = even(&request.prefix);
            let Some((found, truncated)) = by_prefix(sight, *context, scanned, &request.text) else {
                continue;
            };
            matches.insert(context.as_str(), found.into_iter().map(|id| FuzzyMatch { id, scope: Vec::new() }).collect());
            truncations.insert(context.as_str(), truncated);
            continue;
        }
        let mut found = Found::new(&request.text);
        look(sight, *context, &mut found);
        truncations.insert(context.as_str(), false);
        truncations.extend(found.truncated.iter().map(|name| (*name, true)));
        matches.extend(found.sorted());
    }
    respond(&call, &view, &contexts, matches, truncations)
}

/// Whether things of this kind have no name.
fn by_id(context: Context) -> bool {
    match context {
        Context::Evals | Context::Deployment | Context::ScalingPolicy | Context::Volumes => true,
        Context::Allocs | Context::Jobs | Context::Nodes | Context::NodePools => false,
        Context::Plugins | Context::Vars | Context::Namespaces => false,
    }
}

fn look(sight: Sight<'_>, context: Context, found: &mut Found) {
    let Sight { view, params, acl } = sight;
    let one = |found: &mut Found, name: &str, scope: &[&dyn std::fmt::Display]| found.offer(context.as_str(), name, scope);
    match context {
        Context::Jobs if params.all_namespaces() => {
            found.scan(view.jobs().filter(|job| sight.sees_jobs(&job.namespace)), |found, job| offer_job(found, job));
        }
        Context::Jobs => found.scan(view.jobs_in(&params.namespace), |found, job| offer_job(found, job)),
        Context::Allocs => {
            let every = IdPrefix::parse("").expect("no digits are a prefix");
            let rows = view.allocs_with_prefix(&every).filter(|row| sight.sees_jobs(&row.namespace));
            found.scan(rows, |found, row| one(found, &row.name, &[&row.namespace, &row.id]));
        }
        Context::Nodes => found.scan(view.nodes(), |found, row| one(found, &row.name, &[&row.id])),
        Context::NodePools => {
            let rows = view.node_pools().filter(|row| acl.node_pool(&row.name, NodePoolCapability::Read));
            found.scan(rows, |found, row| one(found, row.name.as_str(), &[&row.name]));
        }
        Context::Namespaces => {
            let rows = view.namespaces().filter(|row| acl.any_in_namespace(&row.name));
            found.scan(rows, |found, row| one(found, row.name.as_str(), &[]));
        }
        Context::Plugins => found.scan(view.csi_plugins(), |found, row| one(found, row.id.as_str(), &[])),
        Context::Vars => {
            let rows = view.variables().filter(|row| {
                let may = acl.variable(&row.meta.namespace, &row.meta.path, VariableCapability::List);
                may && params.in_namespace(&row.meta.namespace)
            });
            found.scan(rows, |found, row| one(found, &row.meta.path, &[&row.meta.namespace, &row.meta.path]));
        }
        Context::Evals | Context::Deployment | Context::ScalingPolicy | Context::Volumes => {}
    }
}

/// Offers the names of a job and of all that is in it.
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
    let scope: [&dyn std::fmt::Display; 4] = [&job.namespace, &job.id, &group.name, &task.name];
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

fn offer_services(found: &mut Found, services: &Option<Vec<Service>>, scope: &[&dyn std::fmt::Display]) {
    for service in services.iter().flatten() {
        found.offer("services", &service.name, scope);
    }
}

/// What has been found so far.
struct Found {
    /// In lower case.
    text: String,
    /// By context, each with the place of the match.
    matches: BTreeMap<&'static str, Vec<(usize, FuzzyMatch)>>,
    /// Contexts in which not all was looked at or shown.
    truncated: BTreeSet<&'static str>,
    /// Whether the row that is being looked at is the last one although there are more.
    limited: bool,
}

impl Found {
    fn new(text: &str) -> Self {
        Self { text: text.to_lowercase(), matches: BTreeMap::new(), truncated: BTreeSet::new(), limited: false }
    }

    /// Looks at the first rows.
    fn scan<T>(&mut self, rows: impl Iterator<Item = T>, offer: impl Fn(&mut Self, T)) {
        let mut rows = rows.peekable();
        for nth in 1..=SCANNED_ROWS_MAX {
            let Some(row) = rows.next() else {
                break;
            };
            self.limited = nth == SCANNED_ROWS_MAX && rows.peek().is_some();
            offer(self, row);
        }
    }

    /// Takes a name if it has the text.
    fn offer(&mut self, context: &'static str, name: &str, scope: &[&dyn std::fmt::Display]) {
        let Some(place) = name.to_lowercase().find(&self.text) else {
            return;
        };
        let taken = self.matches.entry(context).or_default();
        let full = taken.len() >= MATCHES_MAX;
        if !full {
            let scope = scope.iter().map(|part| part.to_string()).collect();
            taken.push((place, FuzzyMatch { id: name.to_owned(), scope }));
        }
        // Rows that follow are told of only where the last row had something.
        if full || self.limited {
            self.truncated.insert(context);
        }
    }

    /// By place of the match, then the shorter, then the alphabet.
    fn sorted(self) -> impl Iterator<Item = (&'static str, Vec<FuzzyMatch>)> {
        self.matches.into_iter().map(|(context, mut matches)| {
            matches.sort_by(|(a, one), (b, other)| (a, one.id.len(), &one.id).cmp(&(b, other.id.len(), &other.id)));
            (context, matches.into_iter().map(|(_, found)| found).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Found;

    fn check(text: &str, names: &[&str], expected: &[&str]) {
        let mut found = Found::new(text);
        found.scan(names.iter(), |found, name| found.offer("jobs", name, &[]));
        let matches: Vec<String> = found.sorted().flat_map(|(_, matches)| matches).map(|found| found.id).collect();
        assert_eq!(matches, expected);
    }

    #[test]
    fn matches_stand_by_place_then_length_then_alphabet() {
        let names = ["a-wwww", "wwww-b", "wwww-a", "wwww", "bb-wwww", "WWWW-aa", "a-wwww-a", "other"];
        check("wwww", &names, &["wwww", "wwww-a", "wwww-b", "WWWW-aa", "a-wwww", "a-wwww-a", "bb-wwww"]);
        check("WwW", &["xwww"], &["xwww"]);
        check("nothing", &names, &[]);
    }

    #[test]
    fn what_follows_the_last_row_is_told_only_if_that_row_matches() {
        let truncated = |hit: usize, rows: usize| {
            let mut found = Found::new("hit");
            found.scan(0..rows, |found, nth| found.offer("jobs", if nth == hit { "hit" } else { "other" }, &[]));
            !found.truncated.is_empty()
        };
        assert!(truncated(19, 21));
        assert!(!truncated(19, 20));
        assert!(!truncated(3, 21));
    }
}
