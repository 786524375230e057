//! Announcements of evaluations.

use serde::Serialize;
use songline_commands::Kind;
use songline_model::{Evaluation, JobKey, Str};
use songline_projections::tables;

use super::{Announce, Dropped, text, text_or_empty};
use crate::event::{Right, Topic};
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::Evals {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Evaluation").needs(Right::ReadJob));

    fn key(row: &Evaluation) -> Str {
        text(row.id)
    }

    fn namespace(row: &Evaluation) -> Str {
        row.namespace.0.clone()
    }

    fn filter_keys(row: &Evaluation) -> Option<Vec<Str>> {
        Some(vec![row.job_id.0.clone(), text_or_empty(row.deployment_id)])
    }

    fn deleted_view(row: &Evaluation) -> impl Serialize {
        Dropped { id: text(row.id), job_id: &row.job_id, namespace: &row.namespace }
    }

    /// A registration shows the job first and its evaluation in a second frame; so do a deregistration and an update
    /// by a client.
    fn step(kind: Kind, _before: Option<&Evaluation>, _after: Option<&Evaluation>) -> u8 {
        u8::from(matches!(kind, Kind::JobRegister | Kind::JobDeregister | Kind::AllocClientUpdate))
    }

    fn object(row: &Evaluation) -> Option<Object> {
        Some(Object::new(ObjectKind::Evaluation, row.id))
    }

    fn written_at(row: &Evaluation) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Evaluation, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Eval(row.id));
        watch(WatchKey::JobEvals(JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }));
    }
}
