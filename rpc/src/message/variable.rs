//! `Variables`: variables in the clear, for callers with permission. Rows hold ciphertext and are not sent.

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
    /// The variable, if it exists.
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
    /// Asks for the list of variables.
    read VariablesList ("Variables.List" -> VariablesListAnswer) {}
}
message! {
    /// The variables without their contents.
    answer VariablesListAnswer {
        data: Option<Vec<VariableMetadata>>,
    }
}
message! {
    /// Writes or deletes a variable.
    write VariablesApply ("Variables.Apply" -> VariablesApplyAnswer) {
        /// `set`, `cas`, `delete` or `delete-cas`.
        op: Str,
        var: Option<VariableDecrypted>,
    }
}
message! {
    /// Result of the write.
    written VariablesApplyAnswer {
        op: Str,
        input: Option<VariableDecrypted>,
        /// `ok`, `conflict`, `conflict-redacted` or `error`.
        result: Str,
        error: Option<Str>,
        /// The existing variable that caused a conflict.
        conflict: Option<VariableDecrypted>,
        output: Option<VariableDecrypted>,
    }
}
