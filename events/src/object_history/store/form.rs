//! Stored form of the record: keys and values of entries, changes and sweeps.

use serde::ser::Error;
use songline_commands::Kind;
use songline_model::{Str, Time};

use super::{EntryMark, ObjectChange, ObjectDiff};
use crate::entry::{AppliedEntry, Ending};
use crate::object_history::diff;
use crate::object_history::error::ObjectHistoryError;
use crate::object_history::object::{Object, Step};
use crate::sweep::Sweep;

/// A new object with its fields as a list of changes: the form of version 0.1.0, which is read only.
const CREATED_FIELDS: u8 = 1;
const UPDATED: u8 = 2;
const DELETED: u8 = 3;
/// A new object with its whole row.
const CREATED: u8 = 4;

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

/// Value of a change. `None`: no field that is shown has changed.
pub(super) fn change_value(kind: Kind, namespace: &str, step: Step) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let head = |tag: u8| {
        let mut value = vec![tag];
        value.extend_from_slice(&kind.number().to_be_bytes());
        value.extend_from_slice(namespace.as_bytes());
        value.push(0);
        value
    };
    match step {
        Step::Created(row) => Ok(Some([&head(CREATED)[..], row?.as_bytes()].concat())),
        Step::Updated(before, after) => {
            let mut value = head(UPDATED);
            let differ = diff::between(&before?, &after?, &mut value).map_err(serde_json::Error::custom)?;
            Ok(differ.then_some(value))
        }
        Step::Deleted => Ok(Some(head(DELETED))),
    }
}

/// Whether the value is that of a new object.
pub(super) fn is_of_new(value: &[u8]) -> bool {
    matches!(value.first(), Some(&(CREATED | CREATED_FIELDS)))
}

pub(super) fn object_change(key: &[u8], value: &[u8]) -> Result<ObjectChange, ObjectHistoryError> {
    let index = key.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let damaged = || ObjectHistoryError::Damaged(index);
    let (head, rest) = value.split_at_checked(3).ok_or_else(damaged)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(damaged)?;
    let (namespace, json) = (Str::from(String::from_utf8_lossy(&rest[..end]).into_owned()), &rest[end + 1..]);
    let kind = Kind::from_number(u16::from_be_bytes([head[1], head[2]])).ok_or_else(damaged)?;
    let fields = || serde_json::from_slice(json).map_err(|source| ObjectHistoryError::Content { index, source });
    let diff = match head[0] {
        CREATED => {
            ObjectDiff::Created(diff::of_new(json).map_err(|source| ObjectHistoryError::Content { index, source })?)
        }
        CREATED_FIELDS => ObjectDiff::Created(fields()?),
        UPDATED => ObjectDiff::Updated(fields()?),
        DELETED => ObjectDiff::Deleted,
        _ => return Err(damaged()),
    };
    Ok(ObjectChange { index, kind, namespace, diff })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object_history::FieldChange;

    #[test]
    fn created_object_of_the_first_release_is_read() {
        let key = change_key(&Object::job("default", "web"), 2);
        let fields = r#"[{"Path":"Count","Old":null,"New":3}]"#;
        let kind = Kind::JobRegister.number().to_be_bytes();
        let value = [&[CREATED_FIELDS][..], &kind, b"default\0", fields.as_bytes()].concat();
        assert!(is_of_new(&value));
        let change = object_change(&key, &value).unwrap();
        let field = FieldChange { path: "Count".to_owned(), old: json!(null), new: json!(3) };
        assert_eq!((change.index, change.diff), (2, ObjectDiff::Created(vec![field])));
    }
}
