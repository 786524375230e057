//! A packed evaluation as a filter sees it: fields are read from the packed form, and the whole row is built only for
//! a field that is not an id, a text or a number. Both forms must give a filter the same values.

use std::cell::OnceCell;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use songline_lang::bexpr::{Plain, PlainFields};
use songline_model::{EvalId, Evaluation, Str};

use super::{Kind, ODD_PRIORITY, Packed, PackedEval, Unpack, bit, tag};

/// A packed evaluation for a filter; the whole row is built only for values in `rest` that are not ids, texts or
/// numbers.
pub(crate) struct Looked<'a> {
    id: EvalId,
    packed: &'a Packed,
    /// The first text that was built, and the tag of its field.
    text: OnceCell<(u8, Str)>,
    whole: OnceCell<Evaluation>,
}

/// Tag for the row's own id, which is not in `rest`.
const OWN_ID: u8 = u8::MAX;

/// Value of an absent optional field for a filter.
static EMPTY: LazyLock<Evaluation> = LazyLock::new(Evaluation::default);

/// The tag of an optional field.
fn tag_of(field: &str) -> Option<u8> {
    Some(match field {
        "NodeID" => tag::NODE_ID,
        "NodeModifyIndex" => tag::NODE_MODIFY_INDEX,
        "DeploymentID" => tag::DEPLOYMENT_ID,
        "StatusDescription" => tag::STATUS_DESCRIPTION,
        "Wait" => tag::WAIT,
        "WaitUntil" => tag::WAIT_UNTIL,
        "NextEval" => tag::NEXT_EVAL,
        "PreviousEval" => tag::PREVIOUS_EVAL,
        "BlockedEval" => tag::BLOCKED_EVAL,
        "FailedTGAllocs" => tag::FAILED_TG_ALLOCS,
        "ClassEligibility" => tag::CLASS_ELIGIBILITY,
        "QuotaLimitReached" => tag::QUOTA_LIMIT_REACHED,
        "EscapedComputedClass" => tag::ESCAPED_COMPUTED_CLASS,
        "AnnotatePlan" => tag::ANNOTATE_PLAN,
        "QueuedAllocations" => tag::QUEUED_ALLOCATIONS,
        "LeaderACL" => tag::LEADER_ACL,
        _ => return None,
    })
}

impl<'a> Looked<'a> {
    /// The view of the evaluation with this id.
    pub(crate) fn new(id: EvalId, packed: &'a PackedEval) -> Self {
        Self { id, packed: &packed.0, text: OnceCell::new(), whole: OnceCell::new() }
    }

    /// The text of a field that has to be built. `None` when it is empty, or when another field's text was built
    /// before.
    fn text_of(&self, tag: u8) -> Option<Plain<'_>> {
        if tag != OWN_ID && self.packed.has & bit(tag) == 0 {
            return None;
        }
        let (made, text) = self.text.get_or_init(|| {
            let text = match tag {
                OWN_ID => id_text(*self.id.as_bytes()),
                tag::STATUS_DESCRIPTION => self.rest(tag).unwrap_or_default(),
                _ => self.rest::<EvalId>(tag).map_or_else(Str::default, |id| id_text(*id.as_bytes())),
            };
            (tag, text)
        });
        (*made == tag && !text.is_empty()).then_some(Plain::Text(text))
    }

    /// A value in `rest`.
    fn rest<T: DeserializeOwned>(&self, wanted: u8) -> Option<T> {
        if self.packed.has & bit(wanted) == 0 {
            return None;
        }
        let mut rest = Unpack(rmp_serde::Deserializer::new(&self.packed.rest[..]));
        while rest.next::<u8>() != wanted {
            rest.next::<serde::de::IgnoredAny>();
        }
        Some(rest.next())
    }
}

/// Formats an id as the wire does, without the overhead of a formatter.
fn id_text(bytes: [u8; 16]) -> Str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if bytes == [0; 16] {
        return Str::default();
    }
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (n, byte) in bytes.iter().enumerate() {
        at += usize::from(matches!(n, 4 | 6 | 8 | 10));
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    Str::new(std::str::from_utf8(&text).expect("digits are ASCII"))
}

impl PlainFields for Looked<'_> {
    type Whole = Evaluation;

    /// Returns `None` for empty fields, which the whole row handles: encodings that leave out empty fields have rules
    /// of their own.
    fn plain(&self, field: &str) -> Option<Plain<'_>> {
        let row = self.packed;
        let text = |text| Some(Plain::Text(text)).filter(|_| !str::is_empty(text));
        let unsigned = |number| Some(Plain::Unsigned(number)).filter(|_| number != 0);
        let signed = |number| Some(Plain::Signed(number)).filter(|_| number != 0);
        match field {
            "Namespace" => text(row.job.namespace.as_str()),
            "JobID" => text(row.job.id.as_str()),
            "Priority" if row.priority == ODD_PRIORITY => None,
            "Priority" => signed(i64::from(row.priority)),
            "Type" => match row.kind {
                Kind::Service => text("service"),
                Kind::Batch => text("batch"),
                Kind::System => text("system"),
                Kind::SysBatch => text("sysbatch"),
                Kind::Other => None,
            },
            "TriggeredBy" => text(row.triggered_by.as_str()),
            "Status" => text(row.status.as_str()),
            "JobModifyIndex" => unsigned(row.job_modify_index),
            "SnapshotIndex" => unsigned(row.snapshot_index),
            "CreateIndex" => unsigned(row.create_index),
            "ModifyIndex" => unsigned(row.modify_index),
            "CreateTime" => signed(row.create_time.nanos()),
            "ModifyTime" => signed(row.modify_time.nanos()),
            "ID" => self.text_of(OWN_ID),
            "NodeID" => self.text_of(tag::NODE_ID),
            "DeploymentID" => self.text_of(tag::DEPLOYMENT_ID),
            "StatusDescription" => self.text_of(tag::STATUS_DESCRIPTION),
            "NextEval" => self.text_of(tag::NEXT_EVAL),
            "PreviousEval" => self.text_of(tag::PREVIOUS_EVAL),
            "BlockedEval" => self.text_of(tag::BLOCKED_EVAL),
            "NodeModifyIndex" => unsigned(self.rest(tag::NODE_MODIFY_INDEX).unwrap_or(0)),
            _ => None,
        }
    }

    fn whole(&self) -> &Evaluation {
        self.whole.get_or_init(|| self.packed.unpack(self.id))
    }

    fn whole_for(&self, field: &str) -> &Evaluation {
        match tag_of(field) {
            Some(tag) if self.packed.has & bit(tag) == 0 => &EMPTY,
            Some(_) | None => self.whole(),
        }
    }
}
