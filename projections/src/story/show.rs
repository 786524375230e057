//! Display of rows and changes in stories.

use super::*;
use crate::table::TableType;
use crate::{Visitor, Visits};

/// A change in one word, such as `+node:a`: a sign for created, deleted or updated, and the row's name.
pub(crate) fn show_change(change: &Change) -> String {
    change.visit(Show)
}

struct Show;

impl Visitor for Show {
    type Out = String;

    fn restored(self) -> String {
        "restored".into()
    }
}

impl<T: TableType> Visits<T> for Show {
    fn visit(self, before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> String {
        let sign = match (before, after) {
            (None, _) => "+",
            (_, None) => "-",
            _ => "~",
        };
        let row = after.or(before).expect("a change has a row");
        format!("{sign}{}", T::in_story(row))
    }
}

pub(super) fn show_node(row: &Node) -> String {
    let mut out = format!("node {}: {} {}", name(row.id.as_bytes()), row.status, row.scheduling_eligibility);
    write!(out, " pool={} create={} modify={}", row.node_pool, row.create_index, row.modify_index).expect("writes");
    write!(out, " missed={} told={}", row.last_missed_heartbeat_index, row.last_alloc_update_index).expect("writes");
    if let Some(drain) = &row.last_drain {
        write!(
            out,
            " drain={} by={:?} meta={:?}",
            drain.status,
            drain.accessor_id,
            drain.meta.iter().flatten().collect::<Vec<_>>()
        )
        .expect("writes");
    }
    let events: Vec<String> =
        row.events.iter().flatten().map(|event| format!("{}@{}", event.message, event.create_index)).collect();
    write!(out, " events={events:?}").expect("writes");
    out
}

pub(super) fn show_job(row: &Job) -> String {
    let groups: Vec<String> = row.groups().map(|group| format!("{}:{}", group.name, group.count)).collect();
    let flags = [(row.stop, " stopped"), (row.stable, " stable")]
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, text)| *text)
        .collect::<String>();
    format!(
        "job {}: {}{flags} version={} create={} modify={} job-modify={} groups={}",
        row.id,
        row.status,
        row.version,
        row.create_index,
        row.modify_index,
        row.job_modify_index,
        groups.join(",")
    )
}

pub(super) fn show_alloc(row: &Allocation) -> String {
    let mut out = format!("alloc {}: {}/{}", name(row.id.as_bytes()), row.desired_status, row.client_status);
    write!(out, " create={} modify={} alloc-modify={}", row.create_index, row.modify_index, row.alloc_modify_index)
        .expect("writes");
    write!(out, " version={}", row.job.as_ref().map_or(0, |job| job.version)).expect("writes");
    if !row.desired_description.is_empty() {
        write!(out, " {:?}", row.desired_description).expect("writes");
    }
    if let Some(next) = row.next_allocation {
        write!(out, " next={}", name(next.as_bytes())).expect("writes");
    }
    if let Some(status) = &row.deployment_status {
        write!(out, " healthy={:?}@{} canary={}", status.healthy, status.modify_index, status.canary).expect("writes");
    }
    if row.desired_transition != DesiredTransition::default() {
        write!(
            out,
            " migrate={:?} skip-delay={:?}",
            row.desired_transition.migrate, row.desired_transition.no_shutdown_delay
        )
        .expect("writes");
    }
    let states: Vec<&str> = row.alloc_states.iter().flatten().map(|state| state.value.as_str()).collect();
    if !states.is_empty() {
        write!(out, " states={}", states.join(",")).expect("writes");
    }
    out
}

pub(super) fn show_deployment(row: &Deployment) -> String {
    let mut out = format!("deployment {}: {} {:?}", name(row.id.as_bytes()), row.status, row.status_description);
    write!(out, " create={} modify={}", row.create_index, row.modify_index).expect("writes");
    for (name_of, group) in row.task_groups.iter().flatten() {
        let counts =
            [("placed", group.placed_allocs), ("healthy", group.healthy_allocs), ("unhealthy", group.unhealthy_allocs)];
        write!(out, " {name_of}({})", nonzero(&counts)).expect("writes");
        if group.promoted {
            write!(out, " promoted").expect("writes");
        }
        if let Some(by) = group.require_progress_by {
            write!(out, " by={}s", by.secs()).expect("writes");
        }
        let canaries: Vec<String> = group.placed_canaries.iter().flatten().map(|id| name(id.as_bytes())).collect();
        if !canaries.is_empty() {
            write!(out, " canaries={}", canaries.join(",")).expect("writes");
        }
    }
    out
}
