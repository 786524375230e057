//! Records whose form differs from our rows.

use serde::Deserialize;
use songline_model::{NamespaceName, RootKeyId, Str, Time, Variable, VariableData, VariableMetadata};

/// Index of the last change of a table.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct TableIndex {
    pub key: Str,
    pub value: u64,
}

/// A variable with all fields in one level.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct FlatVariable {
    namespace: NamespaceName,
    path: Str,
    #[serde(rename = "KeyID")]
    key_id: RootKeyId,
    data: songline_model::Sealed,
    create_index: u64,
    #[serde(with = "songline_model::unix_nanos")]
    create_time: Time,
    modify_index: u64,
    #[serde(with = "songline_model::unix_nanos")]
    modify_time: Time,
}

impl From<FlatVariable> for Variable {
    fn from(flat: FlatVariable) -> Self {
        Variable {
            meta: VariableMetadata {
                namespace: flat.namespace,
                path: flat.path,
                create_index: flat.create_index,
                create_time: flat.create_time,
                modify_index: flat.modify_index,
                modify_time: flat.modify_time,
            },
            encrypted: VariableData { data: flat.data, key_id: flat.key_id },
        }
    }
}
