//! Variables: small secret maps that people and tasks read by path. Rows hold ciphertext only; encryption is in
//! another crate.

use serde::{Deserialize, Serialize};

use crate::{NamespaceName, RootKeyId, Sealed, Str, Time};

/// Metadata of a variable: the fields that are readable without decryption.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VariableMetadata {
    pub namespace: NamespaceName,
    pub path: Str,
    pub create_index: u64,
    /// Time of the first write.
    #[serde(with = "crate::unix_nanos")]
    pub create_time: Time,
    pub modify_index: u64,
    /// Time of the last write.
    #[serde(with = "crate::unix_nanos")]
    pub modify_time: Time,
}

/// A variable's items, encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VariableData {
    /// Nonce, ciphertext and tag.
    pub data: Sealed,
    /// The root key that encrypted the items.
    #[serde(rename = "KeyID")]
    pub key_id: RootKeyId,
}

/// A variable in its stored form: metadata, and items as ciphertext.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Variable {
    #[serde(rename = "VariableMetadata")]
    pub meta: VariableMetadata,
    #[serde(rename = "VariableData")]
    pub encrypted: VariableData,
}

/// Total size of a namespace's variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VariablesQuota {
    pub namespace: NamespaceName,
    /// Size of the encrypted data in bytes.
    pub size: i64,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Full key of a variable: paths are unique only within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct VariableKey {
    /// The variable's namespace.
    pub namespace: NamespaceName,
    /// The variable's path.
    pub path: Str,
}

impl VariableKey {
    /// The key of the variable at `path` in `namespace`.
    pub fn new(namespace: impl Into<NamespaceName>, path: impl Into<Str>) -> Self {
        Self { namespace: namespace.into(), path: path.into() }
    }
}

impl Variable {
    /// The key of the variable's row.
    pub fn key(&self) -> VariableKey {
        VariableKey { namespace: self.meta.namespace.clone(), path: self.meta.path.clone() }
    }

    /// Metadata of a variable that does not exist: all zero except namespace and path.
    pub fn absent(key: &VariableKey) -> Self {
        let meta = VariableMetadata {
            namespace: key.namespace.clone(),
            path: key.path.clone(),
            ..VariableMetadata::default()
        };
        Self { meta, encrypted: VariableData::default() }
    }
}

/// Reason why a path is invalid for a variable. The texts are the wire's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The path is empty.
    #[error("variable requires path")]
    Empty,
    /// The path is too long, or has other characters.
    #[error("invalid path {0:?}")]
    Characters(String),
    /// The path is the reserved directory itself.
    #[error(
        "\"nomad\" is a reserved top-level directory path, but you may write variables to \"nomad/jobs\", \"nomad/job-templates\", or below"
    )]
    Reserved,
    /// The path is below the reserved directory, outside the places that may be written.
    #[error(
        "only paths at \"nomad/jobs\" or \"nomad/job-templates\" and below are valid paths under the top-level \"nomad\" directory"
    )]
    ReservedBelow,
    /// The path is more than one level below the directory of job templates.
    #[error(
        "\"nomad/job-templates\" is a reserved directory path, but you may write variables at the level below it, for example, \"nomad/job-templates/template-name\""
    )]
    JobTemplates,
}

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 128;

/// Checks whether a variable may be written at this path.
pub fn check_variable_path(path: &str) -> Result<(), InvalidPath> {
    if path.is_empty() {
        return Err(InvalidPath::Empty);
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~/".contains(&byte);
    if path.len() > PATH_BYTES_MAX || !path.bytes().all(known) {
        return Err(InvalidPath::Characters(path.to_owned()));
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["nomad"] => Err(InvalidPath::Reserved),
        ["nomad", "jobs", ..] | ["nomad", "job-templates", _] => Ok(()),
        ["nomad", "job-templates", ..] => Err(InvalidPath::JobTemplates),
        ["nomad", ..] => Err(InvalidPath::ReservedBelow),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_variable_path;

    #[test]
    fn only_some_paths_under_the_reserved_nomad_directory_are_writable() {
        let told = |path: &str| check_variable_path(path).map_err(|error| error.to_string());
        let long = "x".repeat(128);
        for path in [
            "a",
            "a/",
            "/a",
            "nomadx/a",
            "NOMAD",
            "nomad/jobs",
            "nomad/jobs/",
            "nomad/jobs/a/b/c/d",
            "nomad/job-templates/a",
            &long,
        ] {
            assert_eq!(told(path), Ok(()), "{path}");
        }
        let longer = "x".repeat(129);
        for (path, text) in [
            ("", "variable requires path"),
            ("a b", "invalid path \"a b\""),
            ("a.b", "invalid path \"a.b\""),
            ("@x", "invalid path \"@x\""),
            (&longer, &format!("invalid path {longer:?}")),
            ("nomad", "\"nomad\" is a reserved top-level"),
            ("nomad/", "only paths at \"nomad/jobs\""),
            ("nomad/jobsx", "only paths at \"nomad/jobs\""),
            ("nomad/job-templates", "\"nomad/job-templates\" is a reserved directory path"),
            ("nomad/job-templates/a/b", "\"nomad/job-templates\" is a reserved directory path"),
        ] {
            assert!(told(path).is_err_and(|told| told.starts_with(text)), "{path}");
        }
    }
}
