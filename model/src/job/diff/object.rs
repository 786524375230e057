//! Diffs of objects in a job: single objects, sets of objects, and the order in which a set is shown.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::flat::{self, Flat};
use super::{DiffType, FieldDiff, ObjectDiff, kind_of, some};
use crate::Str;

impl ObjectDiff {
    /// Diff of the fields of one object. Its type is added or deleted if one side is absent, and edited if both are
    /// present.
    pub(super) fn of<T: Serialize>(
        name: &str,
        old: Option<&T>,
        new: Option<&T>,
        filter: &[&str],
        contextual: bool,
    ) -> Self {
        Self::from_flat(name, kind_of(old, new), &Flat::of(old, filter), &Flat::of(new, filter), contextual)
    }

    /// Same as [`ObjectDiff::of`], for objects that the caller has flattened.
    pub(super) fn from_flat(name: &str, kind: DiffType, old: &Flat, new: &Flat, contextual: bool) -> Self {
        let kind = if kind == DiffType::None { DiffType::Edited } else { kind };
        Self { kind, name: name.into(), fields: some(flat::fields(old, new, contextual)), objects: None }
    }

    /// Same as [`ObjectDiff::of`]; `None` if the objects are equal.
    pub(super) fn changed<T: Serialize + PartialEq>(
        name: &str,
        old: Option<&T>,
        new: Option<&T>,
        filter: &[&str],
        contextual: bool,
    ) -> Option<Self> {
        (old != new).then(|| Self::of(name, old, new, filter, contextual))
    }

    pub(super) fn add_objects(&mut self, more: impl IntoIterator<Item = ObjectDiff>) {
        let mut objects = self.objects.take().unwrap_or_default();
        objects.extend(more);
        self.objects = some(objects);
    }
}

/// Diff of an object of scalars, with the combined type of its fields; `None` if all are equal.
pub(super) fn object<T: Serialize>(
    name: &str,
    old: Option<&T>,
    new: Option<&T>,
    filter: &[&str],
    contextual: bool,
) -> Option<ObjectDiff> {
    from_fields(name, flat::fields(&Flat::of(old, filter), &Flat::of(new, filter), contextual))
}

/// Diff with the combined type of its fields; `None` if no field differs.
pub(super) fn from_fields(name: &str, fields: Vec<FieldDiff>) -> Option<ObjectDiff> {
    let has = |kind| fields.iter().any(|field: &FieldDiff| field.kind == kind);
    let kind = match (has(DiffType::Edited), has(DiffType::Added), has(DiffType::Deleted)) {
        (true, _, _) | (false, true, true) => DiffType::Edited,
        (false, true, false) => DiffType::Added,
        (false, false, true) => DiffType::Deleted,
        (false, false, false) => return None,
    };
    Some(ObjectDiff { kind, name: name.into(), fields: some(fields), objects: None })
}

/// Diff of two sets of objects without identity: the objects that are on one side only, sorted.
pub(super) fn set_of_objects<T: Serialize + PartialEq>(
    name: &str,
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
    contextual: bool,
) -> Vec<ObjectDiff> {
    set(old, new, |old, new| object(name, old, new, &[], contextual))
}

/// Same as [`set_of_objects`], with each object shown by `diff`.
pub(super) fn set<T: PartialEq>(
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
    diff: impl Fn(Option<&T>, Option<&T>) -> Option<ObjectDiff>,
) -> Vec<ObjectDiff> {
    let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
    let mut diffs = Vec::new();
    for (index, item) in old.iter().enumerate() {
        if !new.contains(item) && !old[..index].contains(item) {
            diffs.extend(diff(Some(item), None));
        }
    }
    for (index, item) in new.iter().enumerate() {
        if !old.contains(item) && !new[..index].contains(item) {
            diffs.extend(diff(None, Some(item)));
        }
    }
    sorted(diffs)
}

/// Diff of two sets of objects that are matched by key; each is shown by `diff`, and the list is sorted.
pub(super) fn keyed<T, K: Ord>(
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
    key: impl Fn(&T) -> K,
    diff: impl Fn(Option<&T>, Option<&T>) -> Option<ObjectDiff>,
) -> Vec<ObjectDiff> {
    let by_key = |list: &'_ Option<Vec<T>>| -> BTreeMap<K, usize> {
        list.iter().flatten().enumerate().map(|(index, item)| (key(item), index)).collect()
    };
    let (old_keys, new_keys) = (by_key(old), by_key(new));
    let at = |list: &'_ Option<Vec<T>>, index: usize| -> Option<usize> { list.as_ref().map(|_| index) };
    let mut diffs = Vec::new();
    for (key, index) in &old_keys {
        let other = new_keys.get(key).copied();
        diffs.extend(diff(
            at(old, *index).and_then(|index| old.as_ref()?.get(index)),
            other.and_then(|index| new.as_ref()?.get(index)),
        ));
    }
    for (_, index) in new_keys.iter().filter(|(key, _)| !old_keys.contains_key(key)) {
        diffs.extend(diff(None, new.as_ref().and_then(|list| list.get(*index))));
    }
    sorted(diffs)
}

/// Diff of two sets of texts: one field for each text, all of the same name.
pub(super) fn set_of_texts(
    name: &str,
    old: &Option<Vec<Str>>,
    new: &Option<Vec<Str>>,
    contextual: bool,
) -> Option<ObjectDiff> {
    let texts =
        |list: &Option<Vec<Str>>| -> std::collections::BTreeSet<Str> { list.iter().flatten().cloned().collect() };
    let (old, new) = (texts(old), texts(new));
    if old == new && !contextual {
        return None;
    }
    let mut fields: Vec<FieldDiff> = Vec::new();
    for text in &old {
        let same = if new.contains(text) { text.clone() } else { Str::default() };
        fields.extend(flat::field(name, text.clone(), same, contextual));
    }
    for text in new.difference(&old) {
        fields.extend(flat::field(name, Str::default(), text.clone(), contextual));
    }
    if fields.is_empty() {
        return None;
    }
    fields.sort_by(by_field);
    Some(from_fields(name, fields.clone()).unwrap_or(ObjectDiff {
        kind: DiffType::None,
        name: name.into(),
        fields: Some(fields),
        objects: None,
    }))
}

/// Diff of the configuration of a driver or a proxy.
pub(super) fn config(
    old: &Option<BTreeMap<Str, Value>>,
    new: &Option<BTreeMap<Str, Value>>,
    contextual: bool,
) -> Option<ObjectDiff> {
    tree("Config", old, new, contextual)
}

/// Diff of an arbitrary tree, with all its values.
pub(super) fn tree(
    name: &str,
    old: &Option<BTreeMap<Str, Value>>,
    new: &Option<BTreeMap<Str, Value>>,
    contextual: bool,
) -> Option<ObjectDiff> {
    let nothing = BTreeMap::new();
    let (old, new) = (old.as_ref().unwrap_or(&nothing), new.as_ref().unwrap_or(&nothing));
    if old == new {
        return None;
    }
    let kind = match (old.is_empty(), new.is_empty()) {
        (true, false) => DiffType::Added,
        (false, true) => DiffType::Deleted,
        (true, true) | (false, false) => DiffType::Edited,
    };
    Some(ObjectDiff::from_flat(name, kind, &Flat::of_tree(old), &Flat::of_tree(new), contextual))
}

/// Sorts diffs in the order in which sets are shown.
pub(super) fn sorted(mut diffs: Vec<ObjectDiff>) -> Vec<ObjectDiff> {
    diffs.sort_by(by_object);
    diffs
}

fn by_object(one: &ObjectDiff, other: &ObjectDiff) -> Ordering {
    let lists =
        |diff: &ObjectDiff| (diff.fields.as_ref().map_or(0, Vec::len), diff.objects.as_ref().map_or(0, Vec::len));
    one.name
        .cmp(&other.name)
        .then_with(|| rank(one.kind).cmp(&rank(other.kind)))
        .then_with(|| lists(one).cmp(&lists(other)))
        .then_with(|| compare_all(&one.fields, &other.fields, by_field))
        .then_with(|| compare_all(&one.objects, &other.objects, by_object))
}

fn by_field(one: &FieldDiff, other: &FieldDiff) -> Ordering {
    (&one.name, &one.old, &one.new).cmp(&(&other.name, &other.old, &other.new))
}

fn compare_all<T>(one: &Option<Vec<T>>, other: &Option<Vec<T>>, by: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    pairs.map(|(one, other)| by(one, other)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Order of types: edited, added, deleted, none.
fn rank(kind: DiffType) -> u8 {
    match kind {
        DiffType::Edited => 0,
        DiffType::Added => 1,
        DiffType::Deleted => 2,
        DiffType::None => 3,
    }
}
