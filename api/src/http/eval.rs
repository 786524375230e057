//! Evaluations: list, count, read, delete.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeleteEvals, EvalChoice, Slice, WorkId};
use songline_events::watch::WatchKey;
use songline_lang::bexpr::Filter;
use songline_model::{EvalId, Evaluation, Str};
use songline_projections::{EvalList, State, Table, is_safe_to_delete};
use songline_wire::alloc::AllocFields;
use songline_wire::eval::{EvalDeleteRequest, EvalStub, EvalView};
use songline_wire::responses::{EvalCountResponse, EvalDeleteResponse};

use crate::error::ApiError;
use crate::http::alloc::{readable, stubs};
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::http::off_worker::off_the_worker;
use crate::http::paging::{self, Page, Token};
use crate::http::params::ReadParams;
use crate::http::work;
use crate::server::{Reads, Writes};
use songline_lang::acl::{Acl, NamespaceCapability};

/// Largest number of ids in a deletion: as many as fit into 256 KiB.
const DELETE_IDS_MAX: usize = 7281;

/// Slice of a deletion that its first entry does. A small deletion ends with it; the rest is done in slices of
/// measured size.
const FIRST_SLICE: Slice = Slice::of_rows(256);

/// Number of rows above which a walk runs off the worker thread, because other requests must not wait for it.
const WALKED_AT_ONCE: usize = 20_000;

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/evaluations", "", Capability::Namespace(&[NamespaceCapability::ReadJob]), |call| {
        Box::pin(list(call))
    });
    mux.add(Methods::Delete, "/v1/evaluations", "", Capability::Management, |call| Box::pin(delete(call)));
    mux.add(
        Methods::Get,
        "/v1/evaluations/count",
        "",
        Capability::Namespace(&[NamespaceCapability::ReadJob]),
        |call| Box::pin(count(call)),
    );
    mux.add(
        Methods::Get,
        "/v1/evaluation/",
        "{}/allocations",
        Capability::Namespace(&[NamespaceCapability::ReadJob]),
        |call| Box::pin(allocations(call)),
    );
    mux.add(Methods::Get, "/v1/evaluation/", "{}", Capability::Namespace(&[NamespaceCapability::ReadJob]), |call| {
        Box::pin(read(call))
    });
}

/// Evaluations whose ids have the wanted prefix, in the order of their ids.
fn rows_with_prefix<'v>(
    view: &'v State,
    params: &ReadParams,
) -> Result<impl DoubleEndedIterator<Item = Arc<Evaluation>> + use<'v>, ApiError> {
    let prefix = ids::prefix(&params.prefix)
        .map_err(|error| ApiError::internal(format!("eval lookup failed: index error: {error}")))?;
    Ok(view.evals_with_prefix(&prefix))
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let (status, job) = (call.query().text("status").into_owned(), call.query().text("job").into_owned());
    let has_other_filters = !status.is_empty() || !job.is_empty();
    if has_other_filters && !params.filter.is_empty() {
        return Err(ApiError::bad_request("Filter expression cannot be used with other filter parameters"));
    }
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Evals)], |view| {
        let caller = call.caller()?;
        let asked = Asked { params: &params, acl: caller.acl(), status: &status, job: &job };
        let page = if params.prefix.is_empty() { page(view, asked)? } else { page_with_prefix(view, asked)? };
        Ok(At { index: view.table_index(Table::Evals), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

/// Conditions of a list, and the rights of its caller.
#[derive(Clone, Copy)]
struct Asked<'a> {
    params: &'a ReadParams,
    acl: &'a Acl,
    status: &'a str,
    job: &'a str,
}

impl Asked<'_> {
    fn sees(&self, namespace: &str) -> bool {
        self.params.in_namespace(namespace) && self.acl.namespace(namespace, NamespaceCapability::ReadJob)
    }
}

fn page(view: &State, asked: Asked<'_>) -> Result<Page<Arc<Evaluation>>, ApiError> {
    let params = asked.params;
    let filter = paging::parse_filter(&params.filter)?;
    let list = EvalList {
        namespace: Some(params.namespace.as_str()).filter(|_| !params.all_namespaces()),
        in_namespace: &|namespace| asked.sees(namespace),
        job: asked.job,
        status: asked.status,
        filter: filter.as_ref(),
        reverse: params.reverse,
        from: paging::first_index(params),
        is_before: &|index, id| paging::is_before(params, index, id),
        rows_max: paging::rows_max(params),
    };
    let rows = if view.table_len(Table::Evals) > WALKED_AT_ONCE {
        off_the_worker(|| view.list_evals(&list))
    } else {
        view.list_evals(&list)
    };
    let rows = rows.map_err(|error| paging::read_failed(&error))?;
    Ok(paging::cut(params, rows, |eval| Token::Indexed(eval.create_index, eval.id.to_string())))
}

fn page_with_prefix(view: &State, asked: Asked<'_>) -> Result<Page<Arc<Evaluation>>, ApiError> {
    let keep = |eval: &Evaluation| {
        asked.sees(&eval.namespace)
            && (asked.status.is_empty() || eval.status.as_str() == asked.status)
            && (asked.job.is_empty() || eval.job_id == *asked.job)
    };
    paging::page(
        asked.params,
        paging::ordered(asked.params, rows_with_prefix(view, asked.params)?),
        |eval: &Evaluation| Token::Text(eval.id.to_string()),
        keep,
    )
}

async fn count<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let filter = match params.filter.as_str() {
        "" => None,
        text => Some(Filter::parse(text).map_err(|error| ApiError::internal(error.to_string()))?),
    };
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Evals)], |view| {
        let caller = call.caller()?;
        let counts = |namespace: &str| {
            params.in_namespace(namespace) && caller.acl().namespace(namespace, NamespaceCapability::ReadJob)
        };
        let count = match params.prefix.as_str() {
            "" => view.count_evals(filter.as_ref(), |namespace| counts(namespace)),
            _ => {
                let passes = |eval: &Arc<Evaluation>| {
                    let wanted = filter.as_ref().is_none_or(|filter| filter.matches(&**eval).unwrap_or(false));
                    counts(&eval.namespace) && wanted
                };
                rows_with_prefix(view, &params)?.filter(passes).count()
            }
        };
        Ok(At { index: view.table_index(Table::Evals), value: count as u64 })
    })
    .await?;
    let meta = call.query_meta(found.index);
    call.read(&Meta::at(found.index), &EvalCountResponse { count: found.value, meta })
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = eval_id(call.id()).map_err(|error| {
        ApiError::internal(format!("failed to lookup eval: eval lookup failed: index error: {error}"))
    })?;
    let related = call.query().boolean("related")?.unwrap_or(false);
    let found = blocking::run(&call, &params, &[WatchKey::Eval(id)], |view| {
        let row = view.eval(id);
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Evals), |row| row.modify_index);
        let caller = call.caller()?;
        let mut relatives = row.as_ref().filter(|_| related).map(|row| relatives(view, row)).unwrap_or_default();
        relatives.retain(|row| caller.acl().namespace(&row.namespace, NamespaceCapability::ReadJob));
        Ok(At { index, value: (row, relatives) })
    })
    .await?;
    let (row, relatives) = &found.value;
    match row {
        Some(eval) => {
            call.require_in(&eval.namespace, &[NamespaceCapability::ReadJob])?;
            let stubs = relatives.iter().map(|eval| EvalStub::new(eval)).collect();
            call.read(&Meta::at(found.index), &EvalView::new(eval, stubs))
        }
        None => Err(ApiError::missing("eval not found", found.index)),
    }
}

/// All evaluations that are reachable from an evaluation by its links.
fn relatives(view: &State, eval: &Evaluation) -> Vec<Arc<Evaluation>> {
    let links = |eval: &Evaluation| {
        [eval.next_eval, eval.previous_eval, eval.blocked_eval].into_iter().flatten().collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::from([eval.id]);
    let mut open = links(eval);
    let mut out = Vec::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if let Some(found) = view.eval(id) {
            open.extend(links(&found));
            out.push(found);
        }
    }
    out.sort_by_key(|eval| (eval.create_index, eval.id));
    out
}

async fn allocations<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = eval_id(call.id()).map_err(|error| ApiError::internal(format!("index error: {error}")))?;
    let found = blocking::run(&call, &params, &[WatchKey::EvalAllocs(id)], |view| {
        if let Some(eval) = view.eval(id) {
            call.require_in(&eval.namespace, &[NamespaceCapability::ReadJob])?;
        }
        let rows = readable(call.caller()?.acl(), view.allocs_of_eval(id));
        Ok(At { index: view.table_index(Table::Allocs), value: rows })
    })
    .await?;
    call.read(&Meta::at(found.index), &stubs(&found.value, AllocFields::default()))
}

async fn delete<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let request: EvalDeleteRequest = call.json().await?;
    let asked = request.eval_ids.unwrap_or_default();
    match (asked.is_empty(), request.filter.is_empty()) {
        (false, false) => return Err(ApiError::bad_request("evals cannot be deleted by both ID and filter")),
        (true, true) => return Err(ApiError::bad_request("evals must be deleted by either ID or filter")),
        _ if asked.len() > DELETE_IDS_MAX => {
            let text = format!("request includes {} evaluation IDs, must be {DELETE_IDS_MAX} or fewer", asked.len());
            return Err(ApiError::bad_request(text));
        }
        (false, true) | (true, false) => {}
    }
    let view = call.view();
    let paused = view
        .scheduler_config()
        .map_or(call.server.info().default_scheduler_config.pause_eval_broker, |config| config.pause_eval_broker);
    if !paused {
        return Err(ApiError::internal("eval broker is enabled; eval broker must be paused to delete evals"));
    }
    let (choice, repeats) = if request.filter.is_empty() {
        let ids = safe_ids(&view, &asked)?;
        let repeats = ids.len() - ids.iter().collect::<BTreeSet<_>>().len();
        (EvalChoice::Ids(ids), repeats as u64)
    } else {
        Filter::parse(&request.filter).map_err(|error| ApiError::internal(error.to_string()))?;
        (EvalChoice::Filter(request.filter), 0)
    };
    drop(view);
    let opened = call.propose(DeleteEvals { choice, slice: FIRST_SLICE }).await?;
    let work = work::ended(&*call.server, WorkId(opened.index)).await?;
    match &work.ended {
        Some(ended) if !ended.refused.is_empty() => Err(ApiError::internal(ended.refused.to_string())),
        // The reference writes nothing when nothing matches, and then has no index to report.
        Some(_) if work.deleted == 0 => call.written(0, &EvalDeleteResponse { count: 0, index: 0 }),
        // As in Nomad, an id that is given twice counts twice.
        Some(ended) => {
            let answer = EvalDeleteResponse { count: work.deleted + repeats, index: ended.index };
            call.written(ended.index, &answer)
        }
        None => Err(ApiError::internal("the work has not ended")),
    }
}

/// Ids of evaluations that exist and may be deleted. One other id fails the request.
fn safe_ids(view: &State, asked: &[Str]) -> Result<Vec<EvalId>, ApiError> {
    let mut evals = Vec::with_capacity(asked.len());
    for text in asked {
        let id =
            eval_id(text).map_err(|error| ApiError::internal(format!("eval lookup failed: index error: {error}")))?;
        let eval = view.eval(id).ok_or_else(|| ApiError::internal("eval not found"))?;
        if !is_safe_to_delete(view, &eval) {
            return Err(ApiError::internal(format!("eval {id} is not safe to delete")));
        }
        evals.push(id);
    }
    Ok(evals)
}

fn eval_id(text: &str) -> Result<EvalId, String> {
    Ok(ids::exact(text)?.map(EvalId::from).unwrap_or_default())
}

#[cfg(test)]
mod tests;
