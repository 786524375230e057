//! Gauges of the tables, updated from the changes that apply publishes. A scrape reads the numbers and never walks a
//! table.
//!
//! Only a state that replaces another one (a restored archive, an installed checkpoint) is walked, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::{
    AllocClientStatus, Allocation, Job, JobKey, JobStatus, JobSummary, Node, NodeId, NodeStatus, Str, TaskGroupSummary,
};
use songline_projections::{Change, State};

use super::family::{Family, Labels};

const ALLOC_STATUSES: usize = AllocClientStatus::ALL.len();
/// Reads one count of a group's summary.
type Count = fn(&TaskGroupSummary) -> i64;
/// The metrics of a group's summary: name, help, count.
const SUMMARY: [(&str, &str, Count); 7] = [
    ("nomad.nomad.job_summary.queued", "Allocations of a group that wait for a place.", |group| group.queued),
    ("nomad.nomad.job_summary.complete", "Allocations of a group that completed.", |group| group.complete),
    ("nomad.nomad.job_summary.failed", "Allocations of a group that failed.", |group| group.failed),
    ("nomad.nomad.job_summary.running", "Allocations of a group that run.", |group| group.running),
    ("nomad.nomad.job_summary.starting", "Allocations of a group that are starting.", |group| group.starting),
    ("nomad.nomad.job_summary.lost", "Allocations of a group that were lost with their nodes.", |group| group.lost),
    ("nomad.nomad.job_summary.unknown", "Allocations of a group whose nodes are disconnected.", |group| group.unknown),
];

/// The gauges, behind the one lock that apply and a scrape share.
#[derive(Debug)]
pub(crate) struct Kept {
    tallies: Mutex<Tallies>,
    /// Whether summaries of dispatched jobs are shown.
    dispatched: bool,
}

#[derive(Debug, Default)]
struct Tallies {
    nodes: BTreeMap<NodeId, NodeTally>,
    /// Shared with scrapes, which encode them without the lock.
    summaries: BTreeMap<JobKey, Arc<[Group]>>,
    node_status: [u64; NodeStatus::ALL.len()],
    job_status: [u64; JobStatus::ALL.len()],
    alloc_status: [u64; ALLOC_STATUSES],
}

#[derive(Debug, Default)]
struct NodeTally {
    /// `None` when the node has allocations but no row.
    labels: Option<Arc<Labels>>,
    allocs: [u64; ALLOC_STATUSES],
}

#[derive(Debug, Clone)]
struct Group {
    name: Str,
    labels: Arc<Labels>,
    counts: [i64; SUMMARY.len()],
}

impl Kept {
    /// Gauges of an empty state.
    pub(super) fn new(dispatched: bool) -> Self {
        Self { tallies: Mutex::default(), dispatched }
    }

    /// Updates the gauges from the changes of entries, in their order. No entry may have replaced the state.
    pub(super) fn on_changes<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let mut changes = changes.filter(|change| is_told(change)).peekable();
        if changes.peek().is_some() {
            let mut tallies = self.tallies.lock();
            changes.for_each(|change| tallies.on_change(change, self.dispatched));
        }
    }

    /// Recounts by walking a state that replaced another one.
    pub(super) fn rebuild(&self, view: &State) {
        let mut fresh = Tallies::default();
        view.nodes().for_each(|node| fresh.node(None, Some(node)));
        view.jobs().for_each(|job| fresh.job(None, Some(job)));
        view.job_summaries().for_each(|summary| fresh.summary(None, Some(summary), self.dispatched));
        view.allocs().for_each(|alloc| fresh.alloc(None, Some(alloc)));
        *self.tallies.lock() = fresh;
    }

    /// Adds the gauges that every server shows.
    pub(super) fn of_every_server(&self, out: &mut Vec<Family>) {
        let tallies = self.tallies.lock();
        let nodes = NodeStatus::ALL.iter().map(|status| (status.as_str(), tallies.node_status[*status as usize]));
        out.push(Family::by("songline.nodes", "Nodes by status.", "status", nodes));
        let allocs =
            AllocClientStatus::ALL.iter().map(|status| (status.as_str(), tallies.alloc_status[*status as usize]));
        out.push(Family::by("songline.allocs", "Allocations by client status.", "client_status", allocs));
    }

    /// Adds the gauges that only the leader shows, so that a sum over all servers is right.
    pub(super) fn of_leader(&self, out: &mut Vec<Family>) {
        let (job_status, nodes, summaries) = {
            let tallies = self.tallies.lock();
            let told = tallies.nodes.values().filter_map(|node| Some((Arc::clone(node.labels.as_ref()?), node.allocs)));
            (
                tallies.job_status,
                told.collect::<Vec<_>>(),
                tallies.summaries.values().map(Arc::clone).collect::<Vec<_>>(),
            )
        };
        for (status, name) in [
            (JobStatus::Pending, "nomad.nomad.job_status.pending"),
            (JobStatus::Running, "nomad.nomad.job_status.running"),
            (JobStatus::Dead, "nomad.nomad.job_status.dead"),
        ] {
            out.push(Family::gauge(name, "Jobs in this status.", job_status[status as usize] as f64));
        }
        for (nth, (name, help, _)) in SUMMARY.iter().enumerate() {
            let rows = summaries.iter().flat_map(|groups| groups.iter());
            out.push(Family::gauges(
                name,
                help,
                rows.map(|group| (Arc::clone(&group.labels), group.counts[nth] as f64)).collect(),
            ));
        }
        for (name, help, statuses) in [
            (
                "nomad.client.allocations.pending",
                "Allocations of a node that have not started.",
                &[AllocClientStatus::Pending][..],
            ),
            ("nomad.client.allocations.running", "Allocations of a node that run.", &[AllocClientStatus::Running]),
            (
                "nomad.client.allocations.terminal",
                "Allocations of a node that are over and not collected yet.",
                &[AllocClientStatus::Complete, AllocClientStatus::Failed, AllocClientStatus::Lost],
            ),
            ("nomad.client.allocations.unknown", "Allocations of a disconnected node.", &[AllocClientStatus::Unknown]),
        ] {
            let count =
                |allocs: &[u64; ALLOC_STATUSES]| statuses.iter().map(|status| allocs[*status as usize]).sum::<u64>();
            out.push(Family::gauges(
                name,
                help,
                nodes.iter().map(|(labels, allocs)| (Arc::clone(labels), count(allocs) as f64)).collect(),
            ));
        }
    }
}

/// Whether a change can move a gauge.
fn is_told(change: &Change) -> bool {
    matches!(change, Change::Node { .. } | Change::Job { .. } | Change::JobSummary { .. } | Change::Alloc { .. })
}

impl Tallies {
    fn on_change(&mut self, change: &Change, dispatched: bool) {
        match change {
            Change::Node { before, after } => self.node(before.as_deref(), after.as_deref()),
            Change::Job { before, after } => self.job(before.as_deref(), after.as_deref()),
            Change::JobSummary { before, after } => self.summary(before.as_deref(), after.as_deref(), dispatched),
            Change::Alloc { before, after } => self.alloc(before.as_deref(), after.as_deref()),
            // The other tables have no gauge here.
            _ => {}
        }
    }

    fn node(&mut self, before: Option<&Node>, after: Option<&Node>) {
        shift(&mut self.node_status, before.map(|node| node.status as usize), after.map(|node| node.status as usize));
        let named = |node: &Node| (node.datacenter.clone(), node.node_class.clone(), node.node_pool.clone());
        match (before, after) {
            (_, Some(node)) => {
                let tally = self.nodes.entry(node.id).or_default();
                if tally.labels.is_none() || before.map(named) != Some(named(node)) {
                    tally.labels = Some(node_labels(node));
                }
            }
            (Some(node), None) => {
                if let Some(tally) = self.nodes.get_mut(&node.id) {
                    tally.labels = None;
                }
                self.forget_empty(node.id);
            }
            (None, None) => {}
        }
    }

    fn job(&mut self, before: Option<&Job>, after: Option<&Job>) {
        shift(&mut self.job_status, before.map(|job| job.status as usize), after.map(|job| job.status as usize));
    }

    fn alloc(&mut self, before: Option<&Allocation>, after: Option<&Allocation>) {
        let place = |alloc: &Allocation| (alloc.node_id, alloc.client_status as usize);
        let (left, entered) = (before.map(place), after.map(place));
        if left == entered {
            return;
        }
        shift(&mut self.alloc_status, left.map(|(_, status)| status), entered.map(|(_, status)| status));
        if let Some((Some(node), status)) = entered {
            self.nodes.entry(node).or_default().allocs[status] += 1;
        }
        if let Some((Some(node), status)) = left {
            if let Some(tally) = self.nodes.get_mut(&node) {
                tally.allocs[status] = tally.allocs[status].saturating_sub(1);
            }
            self.forget_empty(node);
        }
    }

    fn forget_empty(&mut self, node: NodeId) {
        if self.nodes.get(&node).is_some_and(|tally| tally.labels.is_none() && tally.allocs == [0; ALLOC_STATUSES]) {
            self.nodes.remove(&node);
        }
    }

    fn summary(&mut self, before: Option<&JobSummary>, after: Option<&JobSummary>, dispatched: bool) {
        let Some(row) = after.or(before) else { return };
        if !dispatched && row.job_id.contains(DISPATCHED) {
            return;
        }
        let key = JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() };
        let Some(after) = after else {
            self.summaries.remove(&key);
            return;
        };
        let known = self.summaries.get(&key);
        let groups = after.summary.iter().flatten().map(|(name, counts)| {
            let same = known.and_then(|groups| groups.iter().find(|group| group.name == *name));
            let labels = same.map_or_else(|| group_labels(after, name), |group| Arc::clone(&group.labels));
            Group { name: name.clone(), labels, counts: SUMMARY.map(|(_, _, count)| count(counts)) }
        });
        let groups: Arc<[Group]> = groups.collect();
        self.summaries.insert(key, groups);
    }
}

/// Moves one object from the count of a status to that of another.
fn shift(counts: &mut [u64], left: Option<usize>, entered: Option<usize>) {
    if let Some(left) = left {
        counts[left] = counts[left].saturating_sub(1);
    }
    if let Some(entered) = entered {
        counts[entered] += 1;
    }
}

fn node_labels(node: &Node) -> Arc<Labels> {
    let class = if node.node_class.is_empty() { "none" } else { node.node_class.as_str() };
    let id = node.id.to_string();
    Labels::new(&[
        ("node_id", &id),
        ("datacenter", &node.datacenter),
        ("node_class", class),
        ("node_pool", &node.node_pool),
    ])
}

/// Separates the parent's id from the rest in the id of a dispatched job.
const DISPATCHED: &str = "/dispatch-";
/// Like [`DISPATCHED`], in the id of a job that a periodic job launched.
const PERIODIC: &str = "/periodic-";

fn group_labels(summary: &JobSummary, group: &str) -> Arc<Labels> {
    let job = summary.job_id.as_str();
    let mut pairs = vec![("job", job), ("task_group", group), ("namespace", summary.namespace.as_str())];
    for (mark, label) in [(DISPATCHED, "dispatch_id"), (PERIODIC, "periodic_id")] {
        if let Some((parent, id)) = job.split_once(mark) {
            pairs.extend([("parent_id", parent), (label, id)]);
            break;
        }
    }
    Labels::new(&pairs)
}
