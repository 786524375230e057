//! `Variables`: in the clear, as those see them who may. Rows hold ciphertext and are not on this wire.

use std::collections::BTreeMap;

use songline_model::{NamespaceName, Secret, Str, VariableMetadata};

use super::message;

message! {
    /// Asks for a variable.
    read VariablesRead ("Variables.Read" -> VariablesReadAnswer) {
        path: Str,
    }
}
message! {
    /// It, if it is there.
    answer VariablesReadAnswer {
        data: Option<VariableDecrypted>,
    }
}
message! {
    /// A variable in the clear. Times are Unix nanoseconds.
    plain VariableDecrypted {
        namespace: NamespaceName,
        path: Str,
        create_index: u64,
        create_time: i64,
        modify_index: u64,
        modify_time: i64,
        items: Option<BTreeMap<Str, Secret>>,
    }
}
message! {
    /// Asks which variables there are.
    read VariablesList ("Variables.List" -> VariablesListAnswer) {}
}
message! {
    /// They, without what is in them.
    answer VariablesListAnswer {
        data: Option<Vec<VariableMetadata>>,
    }
}
message! {
    /// Writes or deletes a variable.
    write VariablesApply ("Variables.Apply" -> VariablesApplyAnswer) {
        /// `set`, `cas`, `delete`, `delete-cas`.
        op: Str,
        var: Option<VariableDecrypted>,
    }
}
message! {
    /// What came of it.
    written VariablesApplyAnswer {
        op: Str,
        input: Option<VariableDecrypted>,
        /// `ok`, `conflict`, `conflict-redacted`, `error`.
        result: Str,
        error: Option<Str>,
        /// What is there instead.
        conflict: Option<VariableDecrypted>,
        output: Option<VariableDecrypted>,
    }
}
