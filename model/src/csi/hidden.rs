//! What of a volume must not be shown: its secrets, and the flags it is mounted with, which may hold some.
//! Only the log and checkpoints have them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::Str;

/// Stands in answers for every mount flag there is.
const REDACTED: &str = "[REDACTED]";

/// What the plugin needs to know to use a volume. `Debug` and JSON show nothing of it.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct CsiSecrets(Option<BTreeMap<Str, Str>>);

impl CsiSecrets {
    /// Wraps secrets.
    pub fn new(secrets: BTreeMap<Str, Str>) -> Self {
        Self(Some(secrets))
    }

    /// The secrets themselves: for handing them to the plugin.
    pub fn reveal(&self) -> Option<&BTreeMap<Str, Str>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for CsiSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.as_ref().is_none_or(BTreeMap::is_empty) { "CsiSecrets(none)" } else { "CsiSecrets(..)" })
    }
}

impl Serialize for CsiSecrets {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_none() } else { self.0.serialize(s) }
    }
}

/// `CSIMountOptions` of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIMountOptions", rename_all = "PascalCase")]
pub struct CsiVolumeMountOptions {
    /// Such as `ext4`.
    #[serde(rename = "FSType")]
    pub fs_type: Str,
    /// Never shown.
    pub mount_flags: CsiMountFlags,
}

/// Flags of a mount. `Debug` and JSON show only that there are some.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct CsiMountFlags(Option<Vec<Str>>);

impl CsiMountFlags {
    /// Wraps flags.
    pub fn new(flags: Vec<Str>) -> Self {
        Self(Some(flags))
    }

    /// The flags themselves: for mounting.
    pub fn reveal(&self) -> Option<&[Str]> {
        self.0.as_deref()
    }

    fn shown(&self) -> Option<&'static [&'static str]> {
        self.0.as_ref().map(|flags| if flags.is_empty() { &[] } else { &[REDACTED] as &[_] })
    }
}

impl fmt::Debug for CsiMountFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CsiMountFlags").field(&self.shown()).finish()
    }
}

impl Serialize for CsiMountFlags {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { self.shown().serialize(s) } else { self.0.serialize(s) }
    }
}
