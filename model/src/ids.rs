//! Identifiers: newtypes of 16 bytes, and of names, with parsing and printing. The named objects are in other modules.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::{KeyBytes, Str, form};

/// A text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid UUID: {0:?}")]
pub struct InvalidId(pub String);

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// 16 bytes; a text of 36 characters in JSON, 16 bytes in the log. All zero means "none" and is the empty text.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(Uuid);

        impl $name {
            /// No id: the empty text in JSON.
            pub const NIL: Self = Self(Uuid::nil());

            /// The id of these 16 bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The 16 bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Whether this is the absent id.
            pub fn is_nil(&self) -> bool {
                self.0.is_nil()
            }
        }

        impl KeyBytes for $name {
            fn write_to(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_bytes());
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.is_nil() { Ok(()) } else { self.0.hyphenated().fmt(f) }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if text.is_empty() {
                    return Ok(Self::NIL);
                }
                if text.len() != 36 {
                    return Err(InvalidId(text.to_owned()));
                }
                Uuid::try_parse(text).map(Self).map_err(|_| InvalidId(text.to_owned()))
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() {
                    s.collect_str(self)
                } else {
                    serialize_uuid(&self.0, s)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                deserialize_uuid(d).map(Self)
            }
        }
    };
}

uuid_id!(
    /// Names a node.
    NodeId
);
uuid_id!(
    /// Names an allocation.
    AllocId
);
uuid_id!(
    /// Names an evaluation.
    EvalId
);
uuid_id!(
    /// Names a deployment.
    DeploymentId
);
uuid_id!(
    /// Names an ACL token; not a secret.
    AccessorId
);
uuid_id!(
    /// Names an ACL role.
    RoleId
);
uuid_id!(
    /// Names an ACL binding rule.
    BindingRuleId
);
uuid_id!(
    /// Names a root key.
    RootKeyId
);

struct UuidVisitor;

impl<'de> serde::de::Visitor<'de> for UuidVisitor {
    type Value = Uuid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a UUID, as a text of 36 characters or 16 bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Uuid, E> {
        if text.is_empty() {
            return Ok(Uuid::nil());
        }
        Uuid::try_parse(text).map_err(|_| E::custom(InvalidId(text.to_owned())))
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Uuid, E> {
        Uuid::from_slice(bytes).map_err(E::custom)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Uuid, E> {
        Ok(Uuid::nil())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Uuid, D::Error> {
        d.deserialize_bytes(self)
    }
}

/// The 16 bytes, so that an encoder can tell that they are an id.
pub(crate) fn serialize_uuid<S: Serializer>(id: &Uuid, s: S) -> Result<S::Ok, S::Error> {
    struct Digits<'a>(&'a [u8; 16]);
    impl Serialize for Digits<'_> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.serialize_bytes(self.0)
        }
    }
    s.serialize_newtype_struct(form::ID, &Digits(id.as_bytes()))
}

pub(crate) fn deserialize_uuid<'de, D: Deserializer<'de>>(d: D) -> Result<Uuid, D::Error> {
    if d.is_human_readable() {
        d.deserialize_str(UuidVisitor)
    } else {
        d.deserialize_newtype_struct(form::ID, UuidVisitor)
    }
}

/// `#[serde(with)]` module for an id that may be absent: `None` is written as the empty text.
pub mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the id; `None` as the empty text.
    pub fn serialize<T: Serialize + Default + Copy, S: Serializer>(id: &Option<T>, s: S) -> Result<S::Ok, S::Error> {
        id.unwrap_or_default().serialize(s)
    }

    /// Reads an id; the empty text is `None`.
    pub fn deserialize<'de, T, D>(d: D) -> Result<Option<T>, D::Error>
    where
        T: Deserialize<'de> + Default + PartialEq,
        D: Deserializer<'de>,
    {
        let id = T::deserialize(d)?;
        Ok((id != T::default()).then_some(id))
    }
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Str);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl KeyBytes for $name {
            fn write_to(&self, out: &mut Vec<u8>) {
                self.0.write_to(out);
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                self.0.as_str()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.0.as_str()
            }
        }

        impl<T: AsRef<str>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(Str::new(text))
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0.as_str())
            }
        }
    };
}

name_id!(
    /// The id of a job within its namespace: any text without spaces.
    JobId
);
name_id!(
    /// The name of a namespace.
    NamespaceName
);
name_id!(
    /// The name of a node pool.
    NodePoolName
);
name_id!(
    /// The name of a quota.
    QuotaName
);
name_id!(
    /// The name of an event sink.
    EventSinkName
);

name_id!(
    /// The id of a CSI volume within its namespace: any text.
    CsiVolumeId
);
name_id!(
    /// The id of a CSI plugin: any text; controllers and node instances share it.
    CsiPluginId
);

/// Full key of a CSI volume: volume ids are unique only within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CsiVolumeKey {
    /// The volume's namespace.
    pub namespace: NamespaceName,
    /// The volume's id.
    pub id: CsiVolumeId,
}

impl CsiVolumeKey {
    /// The key of volume `id` in `namespace`.
    pub fn new(namespace: impl Into<NamespaceName>, id: impl Into<CsiVolumeId>) -> Self {
        Self { namespace: namespace.into(), id: id.into() }
    }
}

/// Full key of a job: job ids are unique only within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct JobKey {
    /// The job's namespace.
    pub namespace: NamespaceName,
    /// The job's id.
    pub id: JobId,
}

impl JobKey {
    /// The key of job `id` in `namespace`.
    pub fn new(namespace: impl Into<NamespaceName>, id: impl Into<JobId>) -> Self {
        Self { namespace: namespace.into(), id: id.into() }
    }
}
