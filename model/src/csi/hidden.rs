//! Hidden fields of a volume: its secrets, and its mount flags, which may contain secrets. Only the log and
//! checkpoints hold them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::Str;

/// Replaces every mount flag in responses.
const REDACTED: &str = "[REDACTED]";

/// Secrets that the plugin needs to use a volume. `Debug` and JSON hide them.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct CsiSecrets(Option<BTreeMap<Str, Str>>);

impl CsiSecrets {
    /// Wraps secrets.
    pub fn new(secrets: BTreeMap<Str, Str>) -> Self {
        Self(Some(secrets))
    }

    /// These secrets, overlaid by those of a request.
    #[must_use]
    pub fn overlaid(&self, request: &CsiSecrets) -> Self {
        let both = self.0.iter().chain(&request.0).flatten();
        let both: BTreeMap<Str, Str> = both.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self((self.0.is_some() || request.0.is_some()).then_some(both))
    }

    /// Returns the secrets, to hand them to the plugin.
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

/// `CSIMountOptions` of a volume: file system and mount flags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIMountOptions", rename_all = "PascalCase")]
pub struct CsiVolumeMountOptions {
    /// File system, such as `ext4`.
    #[serde(rename = "FSType")]
    pub fs_type: Str,
    /// Mount flags; hidden in every response.
    pub mount_flags: CsiMountFlags,
}

/// Mount flags. `Debug` and JSON show only whether there are any.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct CsiMountFlags(Option<Vec<Str>>);

impl CsiMountFlags {
    /// Wraps flags.
    pub fn new(flags: Vec<Str>) -> Self {
        Self(Some(flags))
    }

    /// Returns the flags, to mount the volume.
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
