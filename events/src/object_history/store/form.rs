//! Stored form of the record: keys and values of entries, changes and sweeps.

use songline_commands::Kind;
use songline_model::{Str, Time};

use super::{Before, EntryMark, How, Touch};
use crate::entry::{AppliedEntry, Ending};
use crate::object_history::error::ObjectHistoryError;
use crate::object_history::object::{Object, ObjectKind, Step};
use crate::sweep::Sweep;

/// Version of the stored form. A record of another one is filled anew from the log.
pub(super) const FORM: u8 = 2;

const CREATED: u8 = 1;
const UPDATED: u8 = 2;
const DELETED: u8 = 3;

/// First byte of a sweep among the keys in an entry's mark. No key begins with it.
pub(super) const SWEEP: u8 = 0;

const DONE: u8 = 1;
const REFUSED: u8 = 2;
const REPEATED: u8 = 3;

/// Bytes of time, kind and tag at the beginning of an entry's mark.
const MARK_BYTES: usize = 11;

/// Mark of an entry: time, kind and ending. The keys of its changes are appended to it.
pub(super) fn mark_value(entry: &AppliedEntry) -> Vec<u8> {
    let mut value = entry.at.nanos().to_be_bytes().to_vec();
    value.extend_from_slice(&entry.kind.number().to_be_bytes());
    match &entry.ending {
        Ending::Done => {
            value.push(DONE);
            push_bytes(&mut value, &[]);
        }
        Ending::Refused(text) => {
            value.push(REFUSED);
            push_bytes(&mut value, text.as_bytes());
        }
        Ending::Repeated(first) => {
            value.push(REPEATED);
            push_bytes(&mut value, &first.to_be_bytes());
        }
    }
    value
}

/// Appends the length of `bytes` as a big-endian `u32`, and `bytes`.
pub(super) fn push_bytes(value: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    value.extend_from_slice(&length.to_be_bytes());
    value.extend_from_slice(&bytes[..length as usize]);
}

/// Takes bytes that `push_bytes` appended. `None`: they are truncated.
fn take_bytes<'v>(value: &mut &'v [u8]) -> Option<&'v [u8]> {
    let (length, rest) = value.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *value = rest;
    Some(bytes)
}

/// Keys in the mark of an entry.
pub(super) struct StoredEntry<'v> {
    /// Keys of the entry's changes.
    pub(super) keys: Vec<&'v [u8]>,
    /// The entry's sweep, encoded.
    pub(super) sweep: Option<&'v [u8]>,
}

impl StoredEntry<'_> {
    /// Decodes the sweep of the entry at `index`.
    pub(super) fn sweep(&self, index: u64) -> Result<Option<Sweep>, ObjectHistoryError> {
        self.sweep.map(|sweep| Sweep::decode(sweep).ok_or(ObjectHistoryError::Damaged(index))).transpose()
    }
}

pub(super) fn stored_entry(index: u64, value: &[u8]) -> Result<StoredEntry<'_>, ObjectHistoryError> {
    let damaged = || ObjectHistoryError::Damaged(index);
    let mut rest = value.get(MARK_BYTES..).ok_or_else(damaged)?;
    take_bytes(&mut rest).ok_or_else(damaged)?;
    let mut entry = StoredEntry { keys: Vec::new(), sweep: None };
    while !rest.is_empty() {
        match take_bytes(&mut rest).ok_or_else(damaged)? {
            [SWEEP, sweep @ ..] => entry.sweep = Some(sweep),
            key => entry.keys.push(key),
        }
    }
    Ok(entry)
}

pub(super) fn sweep_key(sweep: &Sweep, index: u64) -> Vec<u8> {
    let (first, last) = sweep.created();
    [last, index, first].iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Parses a `sweep_key`: create index of the last evaluation, index of the entry, create index of the first
/// evaluation.
pub(super) fn sweep_of_key(key: &[u8]) -> Option<(u64, u64, u64)> {
    let (numbers, _) = key.as_chunks::<8>();
    let [last, index, first] = numbers else { return None };
    Some((u64::from_be_bytes(*last), u64::from_be_bytes(*index), u64::from_be_bytes(*first)))
}

/// Value of a change: tag, kind of the entry, namespace, a zero byte, and of an update the JSON of the row before it
/// when no covered entry wrote that row. All other rows are payloads of events.
pub(super) fn change_value(kind: Kind, namespace: &str, step: Step) -> Result<Vec<u8>, serde_json::Error> {
    let (tag, before) = match step {
        Step::Created => (CREATED, Vec::new()),
        Step::Updated(before) => (UPDATED, before.transpose()?.unwrap_or_default()),
        Step::Deleted => (DELETED, Vec::new()),
    };
    let [high, low] = kind.number().to_be_bytes();
    Ok([&[tag, high, low], namespace.as_bytes(), &[0], &before[..]].concat())
}

/// The value of an update with the row before it, which is dropped from the event history. `None`: the value is that of
/// another step, or has the row.
pub(super) fn with_row_before(value: &[u8], before: &[u8]) -> Option<Vec<u8>> {
    let (tag, rest) = value.split_first()?;
    (*tag == UPDATED && rest.last() == Some(&0)).then(|| [value, before].concat())
}

/// Whether the value is that of a new object.
pub(super) fn is_of_new(value: &[u8]) -> bool {
    value.first() == Some(&CREATED)
}

pub(super) fn touch(key: &[u8], value: &[u8]) -> Result<Touch, ObjectHistoryError> {
    let index = index_of_change(key);
    let damaged = || ObjectHistoryError::Damaged(index);
    let (head, rest) = value.split_at_checked(3).ok_or_else(damaged)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(damaged)?;
    let (namespace, before) = (Str::from(String::from_utf8_lossy(&rest[..end]).into_owned()), &rest[end + 1..]);
    let kind = Kind::from_number(u16::from_be_bytes([head[1], head[2]])).ok_or_else(damaged)?;
    let how = match head[0] {
        CREATED => How::Created,
        UPDATED if before.is_empty() => How::Updated(Before::Unknown),
        UPDATED => How::Updated(Before::Row(before.to_vec())),
        DELETED => How::Deleted,
        _ => return Err(damaged()),
    };
    Ok(Touch { index, kind, namespace, how })
}

pub(super) fn mark(index: u64, value: &[u8]) -> Result<EntryMark, ObjectHistoryError> {
    let damaged = || ObjectHistoryError::Damaged(index);
    let (at, rest) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
    let kind = Kind::from_number(u16::from_be_bytes(*kind)).ok_or_else(damaged)?;
    let (tag, mut rest) = rest.split_first().ok_or_else(damaged)?;
    let rest = take_bytes(&mut rest).ok_or_else(damaged)?;
    let ending = match *tag {
        DONE => Ending::Done,
        REFUSED => Ending::Refused(String::from_utf8_lossy(rest).into_owned()),
        REPEATED => Ending::Repeated(index_at(rest)),
        _ => return Err(damaged()),
    };
    Ok(EntryMark { index, at: Time::from_nanos(i64::from_be_bytes(*at)), kind, ending })
}

pub(super) fn index_at(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Key of a change. A zero byte ends each part, and no part contains one.
pub(super) fn change_key(object: &Object, index: u64) -> Vec<u8> {
    let parts = [object.kind.as_str(), object.namespace.as_str(), object.id.as_str()];
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum::<usize>() + 8);
    for part in parts {
        key.extend_from_slice(part.as_bytes());
        key.push(0);
    }
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// Parses a `change_key`. `None`: it is damaged.
pub(super) fn object_of_key(key: &[u8]) -> Option<(Object, u64)> {
    let (parts, index) = key.split_last_chunk::<8>()?;
    let mut parts = parts.split(|byte| *byte == 0);
    let mut part = || parts.next();
    let text = |part: &[u8]| Some(Str::from(std::str::from_utf8(part).ok()?.to_owned()));
    let object = Object { kind: ObjectKind::from_word(part()?)?, namespace: text(part()?)?, id: text(part()?)? };
    Some((object, u64::from_be_bytes(*index)))
}

/// Index of the entry in a `change_key`.
pub(super) fn index_of_change(key: &[u8]) -> u64 {
    key.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_change_names_its_object_and_entry() {
        for object in [Object::job("default", "web/canary"), Object::new(ObjectKind::NodePool, "gpu")] {
            assert_eq!(object_of_key(&change_key(&object, 258)), Some((object, 258)));
        }
        assert_eq!(object_of_key(b"job"), None);
    }

    #[test]
    fn only_an_update_without_its_row_before_gets_one() {
        let value = |step| change_value(Kind::JobRegister, "default", step).unwrap();
        assert_eq!(with_row_before(&value(Step::Created), b"{}"), None);
        assert_eq!(with_row_before(&value(Step::Updated(Some(Ok(b"{}".to_vec())))), b"{}"), None);
        let filled = with_row_before(&value(Step::Updated(None)), b"{}").unwrap();
        assert_eq!(filled, value(Step::Updated(Some(Ok(b"{}".to_vec())))));
    }
}
