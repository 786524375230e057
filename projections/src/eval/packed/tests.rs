//! A packed evaluation unpacks to the same row, and filters see no difference.

use std::collections::BTreeMap;

use songline_lang::bexpr::Filter;
use songline_model::{AllocMetric, DeploymentId, Dur, NodeId, Secret, Str, Time};

use super::*;

fn full() -> Evaluation {
    Evaluation {
        id: EvalId::from_bytes([1; 16]),
        namespace: "dev".into(),
        priority: -3,
        kind: JobType::Other("odd".into()),
        triggered_by: EvalTrigger::NodeUpdate,
        job_id: "a-job-with-a-name-that-is-not-kept-inline".into(),
        job_modify_index: 1 << 40,
        node_id: Some(NodeId::from_bytes([2; 16])),
        node_modify_index: 77,
        deployment_id: Some(DeploymentId::from_bytes([3; 16])),
        status: EvalStatus::Failed,
        status_description: "it went wrong".into(),
        wait: Dur::from_secs(3),
        wait_until: Some(Time::from_secs(99)),
        next_eval: Some(EvalId::from_bytes([4; 16])),
        previous_eval: Some(EvalId::from_bytes([5; 16])),
        blocked_eval: Some(EvalId::from_bytes([6; 16])),
        failed_tg_allocs: Some(Arc::new(
            [(Str::new("g"), AllocMetric { nodes_evaluated: 3, ..AllocMetric::default() })].into(),
        )),
        class_eligibility: Some(Arc::new([(Str::new("v1:9"), true)].into())),
        quota_limit_reached: "q".into(),
        escaped_computed_class: true,
        annotate_plan: true,
        queued_allocations: Some(Arc::new([(Str::new("g"), 4)].into())),
        leader_acl: Secret::new("token"),
        snapshot_index: 5,
        create_index: 6,
        modify_index: 7,
        create_time: Time::from_nanos(8),
        modify_time: Time::from_nanos(-9),
    }
}

fn rows() -> Vec<Evaluation> {
    let mut rows = vec![full(), Evaluation::default()];
    // An empty map differs from an absent one.
    rows.push(Evaluation { queued_allocations: Some(Arc::new(BTreeMap::new())), ..Evaluation::default() });
    for priority in [i64::MIN, i64::MAX, -32768, -32767, 32767, 32768] {
        rows.push(Evaluation { priority, ..Evaluation::default() });
    }
    for kind in [JobType::Service, JobType::Batch, JobType::System, JobType::SysBatch] {
        rows.push(Evaluation {
            kind,
            priority: 50,
            status: EvalStatus::Complete,
            job_id: "web".into(),
            ..Evaluation::default()
        });
    }
    rows
}

fn packed(row: &Evaluation) -> PackedEval {
    PackedEval::new(&State::empty(), row)
}

#[test]
fn packed_evaluation_unpacks_to_the_same_row() {
    for row in rows() {
        assert_eq!(*packed(&row).row(&row.id), row);
    }
}

#[test]
fn filter_matches_a_packed_evaluation_as_the_full_row() {
    let fields = [
        "ID",
        "Namespace",
        "Priority",
        "Type",
        "TriggeredBy",
        "JobID",
        "JobModifyIndex",
        "NodeID",
        "NodeModifyIndex",
        "DeploymentID",
        "Status",
        "StatusDescription",
        "Wait",
        "WaitUntil",
        "NextEval",
        "FailedTGAllocs",
        "QuotaLimitReached",
        "EscapedComputedClass",
        "QueuedAllocations",
        "SnapshotIndex",
        "CreateIndex",
        "ModifyIndex",
        "CreateTime",
        "ModifyTime",
        "Nonsense",
        "Status.deeper",
    ];
    let tests = [
        "== \"\"",
        "== 0",
        "== 50",
        "== batch",
        "== complete",
        "== web",
        "!= \"node-update\"",
        "is empty",
        "is not empty",
        "matches \"^[a-w]\"",
        "matches \"[\"",
        "contains e",
    ];
    for row in rows() {
        let packed = packed(&row);
        for field in fields {
            for test in tests {
                let filter = Filter::parse(&format!("{field} {test}")).expect("is a filter");
                assert_eq!(
                    filter.matches_fields(&Looked::new(row.id, &packed)),
                    filter.matches(&row),
                    "{field} {test}"
                );
            }
        }
        let both = Filter::parse("Status == complete and (Priority == 50 or \"e\" in JobID) and not (Type == batch)")
            .expect("is a filter");
        assert_eq!(both.matches_fields(&Looked::new(row.id, &packed)), both.matches(&row));
    }
}
