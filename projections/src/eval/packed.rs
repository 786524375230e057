//! Packed form of an evaluation, a third of the row's size, because there may be millions. Fields that every
//! evaluation has are stored directly; the job key is shared by all evaluations of the job; the other fields, mostly
//! empty, are a few bytes of msgpack.
//!
//! The packed form exists in memory only: digests, checkpoints and other crates use whole rows.

mod looked;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Time};

use crate::state::State;
use crate::table::Kept;

pub(crate) use looked::Looked;

/// A packed evaluation without its id, which is the key.
#[derive(Debug, Clone)]
pub(crate) struct PackedEval(Arc<Packed>);

#[derive(Debug)]
struct Packed {
    job: Arc<JobKey>,
    job_modify_index: u64,
    snapshot_index: u64,
    create_index: u64,
    modify_index: u64,
    create_time: Time,
    modify_time: Time,
    triggered_by: EvalTrigger,
    status: EvalStatus,
    kind: Kind,
    /// The priority; `ODD_PRIORITY` if it is stored in `rest`.
    priority: i16,
    /// Bit set of the optional fields in `rest`, by their tags.
    has: u16,
    /// Optional fields as pairs of a tag and a value, in msgpack.
    rest: Box<[u8]>,
}

/// Size of a packed row in bytes without `rest`.
#[cfg(test)]
pub(crate) const PACKED_BYTES: usize = size_of::<Packed>();

/// The job type, if it is one of the known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Service,
    Batch,
    System,
    SysBatch,
    /// Another word, stored in `rest`.
    Other,
}

/// Marker for a priority that does not fit in an `i16`.
const ODD_PRIORITY: i16 = i16::MIN;

/// Tags of the values in `rest`. They are never written to disk, so they may change. Tags of optional fields are 1 to
/// 16.
mod tag {
    pub const KIND: u8 = 0;
    pub const NODE_ID: u8 = 1;
    pub const NODE_MODIFY_INDEX: u8 = 2;
    pub const DEPLOYMENT_ID: u8 = 3;
    pub const STATUS_DESCRIPTION: u8 = 4;
    pub const WAIT: u8 = 5;
    pub const WAIT_UNTIL: u8 = 6;
    pub const NEXT_EVAL: u8 = 7;
    pub const PREVIOUS_EVAL: u8 = 8;
    pub const BLOCKED_EVAL: u8 = 9;
    pub const FAILED_TG_ALLOCS: u8 = 10;
    pub const CLASS_ELIGIBILITY: u8 = 11;
    pub const QUOTA_LIMIT_REACHED: u8 = 12;
    pub const ESCAPED_COMPUTED_CLASS: u8 = 13;
    pub const ANNOTATE_PLAN: u8 = 14;
    pub const QUEUED_ALLOCATIONS: u8 = 15;
    pub const LEADER_ACL: u8 = 16;
    pub const PRIORITY: u8 = 17;
}

/// The table's entry of an evaluation: the create index, by which the packed row is found in `evals_by_create`. A
/// write copies the table leaf that a view shares; with reference-counted entries, every copy and drop would change
/// each counter in the leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvalPlace {
    create_index: u64,
}

impl EvalPlace {
    /// Index of the entry that created the evaluation.
    pub(crate) fn create_index(&self) -> u64 {
        self.create_index
    }
}

impl Kept<EvalId, Evaluation> for EvalPlace {
    fn keep(_state: &State, row: &Arc<Evaluation>) -> Self {
        Self { create_index: row.create_index }
    }

    fn row(&self, state: &State, key: &EvalId) -> Arc<Evaluation> {
        state.by.evals_by_create.get(&(self.create_index, *key)).expect("every row of the table has its place").row(key)
    }
}

impl PackedEval {
    /// Packs a row. The job key is shared with other evaluations of the job.
    pub(crate) fn new(state: &State, row: &Evaluation) -> Self {
        let key = super::job_key(row);
        let job =
            state.by.evals_by_job.get_key_value(&key).map_or_else(|| Arc::new(key), |(shared, _)| Arc::clone(shared));
        Self(Arc::new(Packed::new(row, job)))
    }

    /// Unpacks the row.
    pub(crate) fn row(&self, key: &EvalId) -> Arc<Evaluation> {
        Arc::new(self.0.unpack(*key))
    }

    /// The job's key.
    pub(crate) fn job(&self) -> &Arc<JobKey> {
        &self.0.job
    }

    /// The evaluation's status.
    pub(crate) fn status(&self) -> EvalStatus {
        self.0.status
    }
}

impl Packed {
    fn new(row: &Evaluation, job: Arc<JobKey>) -> Self {
        // Destructured in full, so that a new field can not be forgotten here.
        let Evaluation {
            id: _,
            namespace: _,
            priority,
            kind,
            triggered_by,
            job_id: _,
            job_modify_index,
            node_id,
            node_modify_index,
            deployment_id,
            status,
            status_description,
            wait,
            wait_until,
            next_eval,
            previous_eval,
            blocked_eval,
            failed_tg_allocs,
            class_eligibility,
            quota_limit_reached,
            escaped_computed_class,
            annotate_plan,
            queued_allocations,
            leader_acl,
            snapshot_index,
            create_index,
            modify_index,
            create_time,
            modify_time,
        } = row;
        let mut rest = Rest::default();
        let kind = match kind {
            JobType::Service => Kind::Service,
            JobType::Batch => Kind::Batch,
            JobType::System => Kind::System,
            JobType::SysBatch => Kind::SysBatch,
            JobType::Other(word) => {
                rest.add(tag::KIND, word);
                Kind::Other
            }
        };
        let small = i16::try_from(*priority).ok().filter(|priority| *priority != ODD_PRIORITY);
        rest.add_some(tag::PRIORITY, Some(priority).filter(|_| small.is_none()));
        rest.add_some(tag::NODE_ID, node_id.as_ref());
        rest.add_unless_default(tag::NODE_MODIFY_INDEX, node_modify_index);
        rest.add_some(tag::DEPLOYMENT_ID, deployment_id.as_ref());
        rest.add_unless_default(tag::STATUS_DESCRIPTION, status_description);
        rest.add_unless_default(tag::WAIT, wait);
        rest.add_some(tag::WAIT_UNTIL, wait_until.as_ref());
        rest.add_some(tag::NEXT_EVAL, next_eval.as_ref());
        rest.add_some(tag::PREVIOUS_EVAL, previous_eval.as_ref());
        rest.add_some(tag::BLOCKED_EVAL, blocked_eval.as_ref());
        rest.add_some(tag::FAILED_TG_ALLOCS, failed_tg_allocs.as_deref());
        rest.add_some(tag::CLASS_ELIGIBILITY, class_eligibility.as_deref());
        rest.add_unless_default(tag::QUOTA_LIMIT_REACHED, quota_limit_reached);
        rest.add_unless_default(tag::ESCAPED_COMPUTED_CLASS, escaped_computed_class);
        rest.add_unless_default(tag::ANNOTATE_PLAN, annotate_plan);
        rest.add_some(tag::QUEUED_ALLOCATIONS, queued_allocations.as_deref());
        rest.add_unless_default(tag::LEADER_ACL, leader_acl);
        Self {
            job,
            priority: small.unwrap_or(ODD_PRIORITY),
            job_modify_index: *job_modify_index,
            snapshot_index: *snapshot_index,
            create_index: *create_index,
            modify_index: *modify_index,
            create_time: *create_time,
            modify_time: *modify_time,
            triggered_by: *triggered_by,
            status: *status,
            kind,
            has: rest.has,
            rest: rest.bytes.into_boxed_slice(),
        }
    }

    fn unpack(&self, id: EvalId) -> Evaluation {
        let mut row = Evaluation {
            id,
            namespace: self.job.namespace.clone(),
            job_id: self.job.id.clone(),
            priority: i64::from(self.priority),
            job_modify_index: self.job_modify_index,
            snapshot_index: self.snapshot_index,
            create_index: self.create_index,
            modify_index: self.modify_index,
            create_time: self.create_time,
            modify_time: self.modify_time,
            triggered_by: self.triggered_by,
            status: self.status,
            kind: match self.kind {
                Kind::Service | Kind::Other => JobType::Service,
                Kind::Batch => JobType::Batch,
                Kind::System => JobType::System,
                Kind::SysBatch => JobType::SysBatch,
            },
            ..Evaluation::default()
        };
        let mut rest = Unpack(rmp_serde::Deserializer::new(&self.rest[..]));
        while !rest.0.get_ref().is_empty() {
            match rest.next::<u8>() {
                tag::PRIORITY => row.priority = rest.next(),
                tag::KIND => row.kind = JobType::Other(rest.next()),
                tag::NODE_ID => row.node_id = Some(rest.next()),
                tag::NODE_MODIFY_INDEX => row.node_modify_index = rest.next(),
                tag::DEPLOYMENT_ID => row.deployment_id = Some(rest.next()),
                tag::STATUS_DESCRIPTION => row.status_description = rest.next(),
                tag::WAIT => row.wait = rest.next(),
                tag::WAIT_UNTIL => row.wait_until = Some(rest.next()),
                tag::NEXT_EVAL => row.next_eval = Some(rest.next()),
                tag::PREVIOUS_EVAL => row.previous_eval = Some(rest.next()),
                tag::BLOCKED_EVAL => row.blocked_eval = Some(rest.next()),
                tag::FAILED_TG_ALLOCS => row.failed_tg_allocs = Some(Arc::new(rest.next())),
                tag::CLASS_ELIGIBILITY => row.class_eligibility = Some(Arc::new(rest.next())),
                tag::QUOTA_LIMIT_REACHED => row.quota_limit_reached = rest.next(),
                tag::ESCAPED_COMPUTED_CLASS => row.escaped_computed_class = rest.next(),
                tag::ANNOTATE_PLAN => row.annotate_plan = rest.next(),
                tag::QUEUED_ALLOCATIONS => row.queued_allocations = Some(Arc::new(rest.next())),
                tag::LEADER_ACL => row.leader_acl = rest.next(),
                other => unreachable!("{other} was never written"),
            }
        }
        row
    }
}

/// The bit of an optional field; 0 for the two tags of fields that are not optional.
fn bit(tag: u8) -> u16 {
    match tag {
        1..=16 => 1 << (tag - 1),
        _ => 0,
    }
}

#[derive(Default)]
struct Rest {
    bytes: Vec<u8>,
    has: u16,
}

impl Rest {
    fn add<T: serde::Serialize + ?Sized>(&mut self, tag: u8, value: &T) {
        self.has |= bit(tag);
        crate::digest::encode(&tag, &mut self.bytes);
        crate::digest::encode(&value, &mut self.bytes);
    }

    fn add_some<T: serde::Serialize>(&mut self, tag: u8, value: Option<&T>) {
        if let Some(value) = value {
            self.add(tag, value);
        }
    }

    fn add_unless_default<T: serde::Serialize + Default + PartialEq>(&mut self, tag: u8, value: &T) {
        if *value != T::default() {
            self.add(tag, value);
        }
    }
}

struct Unpack<'a>(rmp_serde::Deserializer<rmp_serde::decode::ReadReader<&'a [u8]>>);

impl Unpack<'_> {
    fn next<T: DeserializeOwned>(&mut self) -> T {
        T::deserialize(&mut self.0).expect("what was packed here can be read")
    }
}

#[cfg(test)]
mod tests;
