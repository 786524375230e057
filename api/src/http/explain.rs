//! `explain/allocation/ID`: causes of an allocation's placement, changes and stop, as steps and as sentences. `chain`
//! finds the steps, `words` writes the sentences.

mod chain;
mod words;

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_model::{AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, NodeId, Time};

use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::history::whole_id;
use crate::http::mux::{Methods, Mux};
use crate::http::past::{changes_complete_from, recorded_with_rows, say_complete_from};
use crate::http::shown::Shown;
use crate::server::Reads;
use songline_lang::acl::NamespaceCapability;

use chain::{Chain, Step};

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    mux.add(
        Methods::Get,
        "/v1/explain/",
        "allocation/{}",
        Capability::Namespace(&[NamespaceCapability::ReadJob]),
        |call| Box::pin(explain(call)),
    );
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Explanation<'a> {
    #[serde(rename = "ID")]
    id: AllocId,
    name: &'a str,
    namespace: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(rename = "NodeID")]
    node_id: Option<NodeId>,
    /// Empty when the caller may not read nodes.
    node_name: &'a str,
    desired_status: AllocDesiredStatus,
    client_status: AllocClientStatus,
    /// Index and time of the explained state.
    index: u64,
    time: Time,
    /// State of the allocation in one sentence.
    summary: String,
    steps: Vec<Step>,
    /// The steps in words, with their times.
    sentences: Vec<String>,
}

async fn explain<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = AllocId::from(whole_id(call.id())?);
    let (past, view) = recorded_with_rows(&call, &params).await?;
    let (index, complete_from) = (view.applied_index(), changes_complete_from(past));
    let shown = Shown::to(&call.caller()?);
    let chain = Chain::new(past, Arc::clone(&view), shown.clone());
    let row = chain.allocation(id).await?;
    // A caller that may read one namespace gets no explanation of another namespace's allocations.
    let in_sight = |row: &Arc<Allocation>| params.in_namespace(&row.namespace) && shown.jobs_in(&row.namespace);
    let Some(row) = row.filter(in_sight) else {
        return Err(ApiError::missing("alloc not found", index));
    };
    let is_there = view.alloc(id).is_some();
    let steps = chain.of_allocation(&row).await?;
    let sentences = steps.iter().map(words::sentence).collect();
    let alloc: &Allocation = &row;
    let explanation = Explanation {
        id,
        name: &alloc.name,
        namespace: &alloc.namespace,
        job_id: &alloc.job_id,
        node_id: alloc.node_id,
        node_name: if shown.nodes() { &alloc.node_name } else { "" },
        desired_status: alloc.desired_status,
        client_status: alloc.client_status,
        index,
        time: view.applied_at(),
        summary: words::summary(alloc, is_there, &shown),
        steps,
        sentences,
    };
    Ok(say_complete_from(call.read(&Meta::at(index), &explanation)?, complete_from))
}
