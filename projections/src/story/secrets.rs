//! Story words for variables and root keys.

use songline_commands::{ApplyVariable, Command, DeleteRootKey, UpsertRootKey};
use songline_model::{
    DEFAULT_NAMESPACE, ROOT_KEY_ALGORITHM, RootKey, RootKeyId, RootKeyMeta, RootKeyState, Sealed, Time, Variable,
    VariableData, VariableKey, VariableMetadata, VariableOp, WrappedKey,
};

use super::{Words, id, name};
use crate::{Outcome, State};

pub(super) fn root_key(name: &str) -> RootKeyId {
    RootKeyId::from_bytes(id(name))
}

fn variable_key(path: &str) -> VariableKey {
    match path.split_once(':') {
        Some((namespace, path)) => VariableKey::new(namespace, path),
        None => VariableKey::new(DEFAULT_NAMESPACE, path),
    }
}

/// `var cas dev:a/b index=3 size=10 root=k1`: a variable in namespace dev, of ten bytes, encrypted with root key k1.
/// `root active k1 rekey`, `root delete k1`.
pub(super) fn command(words: &Words<'_>) -> Command {
    match (words.plain[0], words.plain[1]) {
        ("var", op) => {
            ApplyVariable { op: VariableOp::from_word(op).expect("an operation"), var: variable(words) }.into()
        }
        (_, "delete") => DeleteRootKey { key_id: root_key(words.plain[2]), unused_only: words.has("unused") }.into(),
        (_, state) => UpsertRootKey {
            meta: RootKeyMeta {
                key_id: words.plain.get(2).map_or(RootKeyId::NIL, |name| root_key(name)),
                algorithm: words.get("algorithm").unwrap_or(ROOT_KEY_ALGORITHM).into(),
                create_time: Time::from_nanos(5),
                state: RootKeyState::from_word(state).expect("a state of keys"),
                ..RootKeyMeta::default()
            },
            wrapped: WrappedKey {
                wrapped_by: "kek".into(),
                material: Sealed(words.get("material").unwrap_or("secret").into()),
            },
            rekey: words.has("rekey"),
        }
        .into(),
    }
}

fn variable(words: &Words<'_>) -> Variable {
    let key = variable_key(words.plain[2]);
    let time = Time::from_nanos(words.number("time").unwrap_or(1).cast_signed());
    Variable {
        meta: VariableMetadata {
            namespace: key.namespace,
            path: key.path,
            modify_index: words.number("index").unwrap_or(0),
            create_time: time,
            modify_time: time,
            ..VariableMetadata::default()
        },
        encrypted: VariableData {
            data: Sealed(vec![7; words.number("size").unwrap_or(1) as usize]),
            key_id: root_key(words.get("root").unwrap_or("k1")),
        },
    }
}

pub(super) fn show(state: &State, noun: &str, what: &str) -> String {
    let gone = || format!("{noun} {what}: none");
    match noun {
        "var" => state.variable(&variable_key(what)).map_or_else(gone, |row| {
            let (meta, size) = (&row.meta, row.encrypted.data.len());
            let times = (meta.create_time.nanos(), meta.modify_time.nanos());
            format!(
                "var {what}: {size} bytes create={} modify={} times={times:?}",
                meta.create_index, meta.modify_index
            )
        }),
        "quota" => state.variables_quota(what).map_or_else(gone, |row| {
            format!("quota {what}: {} create={} modify={}", row.size, row.create_index, row.modify_index)
        }),
        _ => state.root_keys().map(|row| show_root(state, row)).collect::<Vec<_>>().join(" "),
    }
}

fn show_root(state: &State, row: &RootKey) -> String {
    let meta = &row.meta;
    let used = if state.root_key_in_use(meta.key_id) { " used" } else { "" };
    format!(
        "{}({} create={} modify={}{used})",
        name(meta.key_id.as_bytes()),
        meta.state,
        meta.create_index,
        meta.modify_index
    )
}

pub(super) fn tell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::VariableWritten(meta) => format!("written create={} modify={}", meta.create_index, meta.modify_index),
        Outcome::VariableConflict(row) => format!("conflict {} modify={}", row.meta.path, row.meta.modify_index),
        other => format!("{other:?}"),
    }
}
