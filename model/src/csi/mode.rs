//! Modes and states of volumes and claims: words on the wire, or numbers where the wire has numbers.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Str;

macro_rules! open_words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        ///
        /// Unknown words are kept: registration does not check them, and responses show them.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// An unknown word.
            Other(Str),
        }

        impl $name {
            /// The word as the wire spells it.
            pub fn as_str(&self) -> &str {
                match self { $($name::$variant => $word,)* $name::Other(word) => word }
            }

            /// Whether the word is empty.
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
    /// Number of concurrent users of a volume, and of nodes they may be on.
    CsiAccessMode {
        /// On a volume: not claimed. On a claim: not specified.
        #[default] Unknown = "",
        /// One reader.
        SingleNodeReader = "single-node-reader-only",
        /// One writer.
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
    /// Form in which a volume appears on its node.
    CsiAttachmentMode {
        /// On a volume: not claimed. On a claim: not specified.
        #[default] Unknown = "",
        /// A mounted file system.
        FileSystem = "file-system",
        /// A block device.
        BlockDevice = "block-device",
    }
);

impl CsiAccessMode {
    /// Whether the mode allows writing.
    pub fn is_writer(&self) -> bool {
        match self {
            CsiAccessMode::SingleNodeWriter
            | CsiAccessMode::MultiNodeSingleWriter
            | CsiAccessMode::MultiNodeMultiWriter => true,
            CsiAccessMode::Unknown
            | CsiAccessMode::SingleNodeReader
            | CsiAccessMode::MultiNodeReader
            | CsiAccessMode::Other(_) => false,
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
    /// Purpose of a claim; a number on the wire.
    CsiClaimMode {
        /// Reading.
        #[default] Read = 0,
        /// Reading and writing.
        Write = 1,
        /// No use: garbage collection releases the claim.
        Gc = 2,
    }
);
numbers!(
    /// Progress of a claim's release; a number on the wire.
    CsiClaimState {
        /// The claim is held.
        #[default] Taken = 0,
        /// Its node has unmounted the volume.
        NodeDetached = 1,
        /// The controller has detached the volume from the node.
        ControllerDetached = 2,
        /// All steps are done; the claim can be removed.
        ReadyToFree = 3,
        /// The claim is no longer used; the steps above are still to be done.
        Unpublishing = 4,
    }
);
