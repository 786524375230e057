//! The modes of volumes and claims: words of the wire, and numbers where the wire has numbers.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Str;

macro_rules! open_words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        ///
        /// Other words are kept: nobody checks them when a volume is registered, and answers show them.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// A word that means nothing here.
            Other(Str),
        }

        impl $name {
            /// The wire's word.
            pub fn as_str(&self) -> &str {
                match self { $($name::$variant => $word,)* $name::Other(word) => word }
            }

            /// Whether it says nothing.
            pub fn is_unknown(&self) -> bool {
                *self == $name::Unknown
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word { $($word => $name::$variant,)* other => $name::Other(other.into()) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Ok($name::from(Str::deserialize(d)?.as_str()))
            }
        }
    };
}

open_words!(
    /// How many may use a volume at once, and from how many nodes.
    CsiAccessMode {
        /// Of a volume: nobody holds it. Of a claim: it says nothing.
        #[default] Unknown = "",
        /// One reader.
        SingleNodeReader = "single-node-reader-only",
        /// One, who writes.
        SingleNodeWriter = "single-node-writer",
        /// Any number of readers.
        MultiNodeReader = "multi-node-reader-only",
        /// Any number of readers and one writer.
        MultiNodeSingleWriter = "multi-node-single-writer",
        /// Any number of writers.
        MultiNodeMultiWriter = "multi-node-multi-writer",
    }
);
open_words!(
    /// As what a volume appears on its node.
    CsiAttachmentMode {
        /// Of a volume: nobody holds it. Of a claim: it says nothing.
        #[default] Unknown = "",
        /// Mounted.
        FileSystem = "file-system",
        /// A device.
        BlockDevice = "block-device",
    }
);

impl CsiAccessMode {
    /// Whether somebody may write in this mode.
    pub fn is_writer(&self) -> bool {
        match self {
            CsiAccessMode::SingleNodeWriter | CsiAccessMode::MultiNodeSingleWriter | CsiAccessMode::MultiNodeMultiWriter => true,
            CsiAccessMode::Unknown | CsiAccessMode::SingleNodeReader | CsiAccessMode::MultiNodeReader | CsiAccessMode::Other(_) => false,
        }
    }
}

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(into = "u8", try_from = "u8")]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl From<$name> for u8 {
            fn from(value: $name) -> u8 {
                match value { $($name::$variant => $number),* }
            }
        }

        impl TryFrom<u8> for $name {
            type Error = String;
            fn try_from(number: u8) -> Result<Self, String> {
                match number {
                    $($number => Ok($name::$variant),)*
                    other => Err(format!("unknown {} {other}", stringify!($name))),
                }
            }
        }
    };
}

numbers!(
    /// What a claim is for; a number on the wire.
    CsiClaimMode {
        /// Reading.
        #[default] Read = 0,
        /// Reading and writing.
        Write = 1,
        /// Nothing: a garbage collection gives the claim back.
        Gc = 2,
    }
);
numbers!(
    /// How far a claim is on its way back; a number on the wire.
    CsiClaimState {
        /// It is held.
        #[default] Taken = 0,
        /// Its node has unmounted the volume.
        NodeDetached = 1,
        /// The controller has detached the volume from the node.
        ControllerDetached = 2,
        /// Nothing of it is left outside.
        ReadyToFree = 3,
        /// Nobody uses it any more; the steps above are still to be done.
        Unpublishing = 4,
    }
);
