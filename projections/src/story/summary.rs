//! Display of job summaries in stories.

use std::fmt::Write;

use songline_model::{JobChildrenSummary, JobSummary};

pub(super) fn show_summary(row: &JobSummary) -> String {
    let mut out = format!("summary {}:", row.job_id);
    for (name, group) in row.summary.iter().flatten() {
        let counts = [
            ("queued", group.queued),
            ("starting", group.starting),
            ("running", group.running),
            ("complete", group.complete),
            ("failed", group.failed),
            ("lost", group.lost),
            ("unknown", group.unknown),
        ];
        write!(out, " {name}({})", nonzero(&counts)).expect("writes");
    }
    if let Some(children) = row.children.as_ref().filter(|children| **children != JobChildrenSummary::default()) {
        let counts = [("pending", children.pending), ("running", children.running), ("dead", children.dead)];
        write!(out, " children({})", nonzero(&counts)).expect("writes");
    }
    write!(out, " create={} modify={}", row.create_index, row.modify_index).expect("writes");
    out
}

pub(super) fn nonzero(counts: &[(&str, i64)]) -> String {
    counts
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(name, count)| format!("{name}={count}"))
        .collect::<Vec<_>>()
        .join(" ")
}
