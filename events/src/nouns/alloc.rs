//! Announcements of allocations. They are shown without their job, which has events and a history of its own.

use std::sync::Arc;

use serde::Serialize;
use songline_model::{Allocation, Str};
use songline_projections::tables;
use songline_wire::alloc::EventAlloc;

use super::{Announce, Dropped, text, text_or_empty};
use crate::event::{Right, Topic};
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::Allocs {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Allocation").needs(Right::ReadJob));

    fn key(row: &Allocation) -> Str {
        text(row.id)
    }

    fn namespace(row: &Allocation) -> Str {
        row.namespace.0.clone()
    }

    fn filter_keys(row: &Allocation) -> Option<Vec<Str>> {
        Some(vec![row.job_id.0.clone(), text_or_empty(row.deployment_id)])
    }

    fn view(row: &Allocation) -> impl Serialize {
        EventAlloc(row)
    }

    fn deleted_view(row: &Allocation) -> impl Serialize {
        Dropped { id: text(row.id), job_id: &row.job_id, namespace: &row.namespace }
    }

    fn object(row: &Allocation) -> Option<Object> {
        Some(Object::new(ObjectKind::Allocation, row.id))
    }

    fn written_at(row: &Allocation) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Allocation, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Alloc(row.id));
        watch(WatchKey::JobAllocs(row.job_key()));
        if let Some(node) = row.node_id {
            watch(WatchKey::NodeAllocs(node));
        }
        if let Some(eval) = row.eval_id {
            watch(WatchKey::EvalAllocs(eval));
        }
        if let Some(deployment) = row.deployment_id {
            watch(WatchKey::DeploymentAllocs(deployment));
        }
    }

    /// An update may move the allocation to another evaluation or deployment, whose readers wait, too.
    fn changed_keys(
        before: Option<&Arc<Allocation>>,
        after: Option<&Arc<Allocation>>,
        watch: &mut impl FnMut(WatchKey),
    ) {
        before.into_iter().chain(after).for_each(|row| Self::watch_keys(row, watch));
        let ordered = |row: Option<&Arc<Allocation>>| row.map(|row| row.alloc_modify_index);
        if ordered(before) != ordered(after)
            && let Some(node) = after.or(before).and_then(|row| row.node_id)
        {
            watch(WatchKey::NodeOrders(node));
        }
    }
}
