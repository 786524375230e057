//! Display of rows and changes in stories.

use super::*;

pub(crate) fn show_change(change: &Change) -> String {
    fn mark<R>(before: &Option<Arc<R>>, after: &Option<Arc<R>>, noun: &str, name: impl Fn(&R) -> String) -> String {
        let sign = match (before, after) {
            (None, _) => "+",
            (_, None) => "-",
            _ => "~",
        };
        let row = after.as_ref().or(before.as_ref()).expect("a change has a row");
        format!("{sign}{noun}:{}", name(row))
    }
    match change {
        Change::Node { before, after } => mark(before, after, "node", |row| name(row.id.as_bytes())),
        Change::NodePool { before, after } => mark(before, after, "pool", |row| row.name.to_string()),
        Change::Job { before, after } => mark(before, after, "job", |row| row.id.to_string()),
        Change::JobSummary { before, after } => mark(before, after, "summary", |row| row.job_id.to_string()),
        Change::JobVersion { before, after } => {
            mark(before, after, "version", |row| format!("{}.{}", row.id, row.version))
        }
        Change::JobSubmission { before, after } => {
            mark(before, after, "source", |row| format!("{}.{}", row.job_id, row.version))
        }
        Change::Deployment { before, after } => mark(before, after, "deployment", |row| name(row.id.as_bytes())),
        Change::Eval { before, after } => mark(before, after, "eval", |row| name(row.id.as_bytes())),
        Change::Alloc { before, after } => mark(before, after, "alloc", |row| name(row.id.as_bytes())),
        Change::ScalingPolicy { before, after } => mark(before, after, "policy", |row| row.id.to_string()),
        Change::ScalingEvent { before, after } => mark(before, after, "scalings", |row| row.job_id.to_string()),
        Change::ServiceRegistration { before, after } => mark(before, after, "service", |row| row.id.to_string()),
        Change::SchedulerConfig { before, after } => mark(before, after, "config", |_| String::new()),
        Change::ClusterMeta { before, after } => mark(before, after, "cluster", |row| row.cluster_id.to_string()),
        Change::Namespace { before, after } => mark(before, after, "namespace", |row| row.name.to_string()),
        Change::AclPolicy { before, after } => mark(before, after, "policy", |row| row.name.to_string()),
        Change::AclToken { before, after } => mark(before, after, "token", |row| name(row.accessor_id.as_bytes())),
        Change::AclTokenBootstrap { before, after } => mark(before, after, "bootstrap", |row| row.index.to_string()),
        Change::OneTimeToken { before, after } => mark(before, after, "once", |row| name(row.accessor_id.as_bytes())),
        Change::AclRole { before, after } => mark(before, after, "role", |row| name(row.id.as_bytes())),
        Change::AclAuthMethod { before, after } => mark(before, after, "method", |row| row.name.to_string()),
        Change::AclBindingRule { before, after } => mark(before, after, "rule", |row| name(row.id.as_bytes())),
        Change::AutopilotConfig { before, after } => mark(before, after, "autopilot", |_| String::new()),
        Change::PeriodicLaunch { before, after } => mark(before, after, "launch", |row| row.id.to_string()),
        Change::Variable { before, after } => mark(before, after, "var", |row| row.meta.path.to_string()),
        Change::VariablesQuota { before, after } => {
            mark(before, after, "quota", |row| format!("{}={}", row.namespace, row.size))
        }
        Change::RootKey { before, after } => mark(before, after, "root", |row| name(row.meta.key_id.as_bytes())),
        Change::Idempotency { before, after } => mark(before, after, "key", |row| row.key.to_string()),
        Change::CsiVolume { before, after } => mark(before, after, "volume", |row| row.id.to_string()),
        Change::CsiPlugin { before, after } => mark(before, after, "plugin", |row| row.id.to_string()),
        Change::PendingWork { before, after } => mark(before, after, "work", |row| row.id.0.to_string()),
        Change::Restored => "restored".into(),
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
