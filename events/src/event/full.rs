//! Events of streams with `full` beyond the reference's: dropped rows, and tables without a topic there. A new table
//! is added here with its event, or as one without events. Secrets and contents that no event may show stay out of
//! these payloads, too.

use serde::Serialize;
use serde_json::{Value, json};
use songline_commands::Kind;
use songline_model::Str;
use songline_projections::Change;

use super::{Audience, Event, Payload, Topic, event, event_type, id_text, step};

/// Types of full streams that differ from the plain ones, or that plain streams lack. Every other kind without a type
/// uses its own name.
const FULL_TYPES: &[(Kind, &str)] = &[
    (Kind::NodeUpdateEligibility, "NodeEligibility"),
    (Kind::NodeBatchDeregister, "NodeDeregistration"),
    (Kind::DeploymentDelete, "DeploymentDeleted"),
    (Kind::EvalReap, "EvaluationDeleted"),
    (Kind::JobStability, "JobStability"),
    (Kind::SchedulerConfig, "SchedulerConfigurationUpdated"),
    (Kind::ClusterMetadata, "ClusterMetadataUpdated"),
    (Kind::NamespaceUpsert, "NamespaceUpserted"),
    (Kind::NamespaceDelete, "NamespaceDeleted"),
    (Kind::AclTokenBootstrap, "ACLTokenBootstrapped"),
    (Kind::Autopilot, "AutopilotConfigurationUpdated"),
    (Kind::CSIVolumeRegister, "CSIVolumeRegistered"),
    (Kind::CSIVolumeDeregister, "CSIVolumeDeregistered"),
    (Kind::CSIVolumeClaim, "CSIVolumeClaim"),
    (Kind::CSIVolumeClaimBatch, "CSIVolumeClaim"),
    (Kind::CSIPluginDelete, "CSIPluginDeleted"),
    (Kind::VarApplyState, "VariableApplied"),
    (Kind::ScalingEventRegister, "ScalingEventRegistered"),
    (Kind::EvalDelete, "EvaluationDeletionStarted"),
    (Kind::WorkContinue, "EvaluationDeleted"),
    (Kind::WorkStop, "EvaluationDeletionStopped"),
    (Kind::RootKeyMetaUpsert, "RootKeyUpserted"),
    (Kind::RootKeyMetaDelete, "RootKeyDeleted"),
];

/// Streams that show the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Every stream.
    ToAll,
    /// Streams with `full`.
    InFull,
}

/// Type of an entry's events in full streams.
fn full_type(kind: Kind) -> &'static str {
    let named = FULL_TYPES.iter().find(|(of, _)| *of == kind).map(|(_, word)| *word);
    named.or_else(|| event_type(kind)).unwrap_or_else(|| kind.name())
}

/// Adds the events of one change: that of the plain stream (`plain`), and that of the full one where it differs.
pub(super) fn add(kind: Kind, change: &Change, plain: Option<Event>, out: &mut Vec<Event>) {
    let word = full_type(kind);
    if let Some(event) = &plain
        && event.kind == word
        && !change.is_gone()
    {
        out.extend(plain);
        return;
    }
    let full = shown(word, change).map(|(event, _)| event);
    let step = full.as_ref().map_or(0, |event| step(kind, event.topic));
    out.extend(plain.map(|event| Event { audience: Audience::Plain, ..event }));
    out.extend(full.map(|event| Event { audience: Audience::Full, step, ..event }));
}

/// Event of a row for any change, and the streams that show rows of its table. One line per table: `as_plain` for
/// topics of the reference, `own` for tables without such a topic, `None` for derived or internal tables.
pub(super) fn shown(word: &'static str, change: &Change) -> Option<(Event, Shown)> {
    let gone = change.is_gone();
    let image = change.image();
    let (shown, mut event) = match &image {
        Change::Eval { after: Some(row), .. } if gone => (
            Shown::ToAll,
            Event {
                payload: dropped("Evaluation", id_text(Some(row.id)), &row.namespace, &row.job_id),
                ..as_plain(word, &image)?
            },
        ),
        Change::Alloc { after: Some(row), .. } if gone => (
            Shown::ToAll,
            Event {
                payload: dropped("Allocation", id_text(Some(row.id)), &row.namespace, &row.job_id),
                ..as_plain(word, &image)?
            },
        ),
        Change::Job { .. } | Change::Eval { .. } | Change::Alloc { .. } | Change::Deployment { .. } => {
            (Shown::ToAll, as_plain(word, &image)?)
        }
        Change::Node { .. } | Change::NodePool { .. } => (Shown::ToAll, as_plain(word, &image)?),
        Change::AclPolicy { .. } | Change::AclToken { .. } | Change::AclRole { .. } => {
            (Shown::ToAll, as_plain(word, &image)?)
        }
        Change::AclAuthMethod { .. } | Change::AclBindingRule { .. } => (Shown::ToAll, as_plain(word, &image)?),
        Change::Namespace { after, .. } => {
            let row = after.as_ref()?;
            (Shown::InFull, own(word, Topic::Namespace, row.name.0.clone(), "Namespace", &**row))
        }
        Change::SchedulerConfig { after, .. } => (
            Shown::InFull,
            own(word, Topic::SchedulerConfiguration, "scheduler".into(), "SchedulerConfiguration", after.as_deref()?),
        ),
        Change::ClusterMeta { after, .. } => {
            (Shown::InFull, own(word, Topic::ClusterMetadata, "cluster".into(), "ClusterMetadata", after.as_deref()?))
        }
        Change::AutopilotConfig { after, .. } => (
            Shown::InFull,
            own(word, Topic::AutopilotConfiguration, "autopilot".into(), "AutopilotConfiguration", after.as_deref()?),
        ),
        Change::CsiVolume { after, .. } => {
            let row = after.as_ref()?;
            let event = own(word, Topic::CsiVolume, row.id.0.clone(), "CSIVolume", &**row);
            (
                Shown::InFull,
                Event { namespace: row.namespace.0.clone(), filter_keys: Some(vec![row.plugin_id.0.clone()]), ..event },
            )
        }
        Change::CsiPlugin { after, .. } => {
            let row = after.as_ref()?;
            (Shown::InFull, own(word, Topic::CsiPlugin, row.id.0.clone(), "CSIPlugin", &**row))
        }
        Change::Variable { after, .. } => {
            let row = &after.as_ref()?.meta;
            let event = own(word, Topic::Variable, row.path.clone(), "Variable", row);
            (Shown::InFull, Event { namespace: row.namespace.0.clone(), ..event })
        }
        Change::RootKey { after, .. } => {
            let row = &after.as_ref()?.meta;
            (Shown::InFull, own(word, Topic::RootKey, id_text(Some(row.key_id)), "RootKey", row))
        }
        Change::ServiceRegistration { .. } => (Shown::ToAll, as_plain(word, &image)?),
        Change::ScalingPolicy { after, .. } => {
            let row = after.as_ref()?;
            let target = row.target_key().job;
            let event = own(word, Topic::ScalingPolicy, row.id.clone(), "ScalingPolicy", &**row);
            (Shown::InFull, Event { namespace: target.namespace.0, filter_keys: Some(vec![target.id.0]), ..event })
        }
        Change::ScalingEvent { after, .. } => {
            let row = after.as_ref()?;
            let event = own(word, Topic::ScalingEvent, row.job_id.0.clone(), "ScalingEvents", &**row);
            (Shown::InFull, Event { namespace: row.namespace.0.clone(), ..event })
        }
        Change::PendingWork { after, .. } => {
            let row = after.as_ref()?;
            (Shown::InFull, own(word, Topic::PendingWork, row.id.0.to_string().into(), "PendingWork", &**row))
        }
        Change::JobSummary { .. }
        | Change::JobVersion { .. }
        | Change::JobSubmission { .. }
        | Change::AclTokenBootstrap { .. }
        | Change::OneTimeToken { .. }
        | Change::PeriodicLaunch { .. }
        | Change::VariablesQuota { .. }
        | Change::Idempotency { .. }
        | Change::Restored => return None,
    };
    if gone {
        event.payload = gone_row(&event.payload);
    }
    Some((event, shown))
}

/// The plain stream's event for a row that exists. Its step is that of an entry with one step.
fn as_plain(word: &'static str, image: &Change) -> Option<Event> {
    event(Kind::ApplyPlanResults, word, image)
}

/// An event of a table without a topic in the reference.
fn own<R: Serialize + ?Sized>(word: &'static str, topic: Topic, key: Str, name: &str, row: &R) -> Event {
    // Rows serialize as maps with string keys, so the conversion does not fail.
    let row = serde_json::to_value(row).unwrap_or_default();
    Event {
        topic,
        kind: word,
        key,
        namespace: Str::default(),
        filter_keys: None,
        payload: Payload::Full(json!({ name: row })),
        step: 0,
        audience: Audience::Full,
    }
}

/// Payload of a dropped evaluation or allocation. It is short, because thousands are dropped at once and earlier
/// events showed the rest.
fn dropped(name: &str, id: Str, namespace: &str, job_id: &str) -> Payload {
    Payload::Full(json!({ name: { "ID": id.as_str(), "JobID": job_id, "Namespace": namespace } }))
}

fn gone_row(payload: &Payload) -> Payload {
    let mut row = serde_json::to_value(payload).unwrap_or_default();
    if let Some(fields) = row.as_object_mut() {
        fields.insert("Deleted".to_owned(), Value::Bool(true));
    }
    Payload::Full(row)
}
