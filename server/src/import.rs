//! Import of Nomad's snapshot archives: all rows with their ids, indexes, versions and times, as a state of ours.
//!
//! Every record is decoded before anything is written, and what cannot be carried is listed. The container is in
//! `archive`, the entry of the log in `archives`.

mod bundle;
mod carried;
mod forms;
mod key_file;
mod payload;
mod records;
mod rows;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Seek};

use songline_api::NotCarried;
use songline_model::{RootKeyMeta, WrappedKey};
use songline_projections::State;

use crate::archive::Meta;
pub use bundle::{Bundle, ContentKind, KeyFiles, write as write_bundle};
pub use key_file::{KEY_FILE_SUFFIX, KeyFileError, RootKeyFile};
use records::Records;
use rows::Rows;

/// Reasons why the records of an archive are refused.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The content could not be read from its file.
    #[error("reading the records of the archive")]
    Read(#[from] io::Error),
    /// The content does not begin as Nomad's does.
    #[error("the content begins with byte {0:#04x}: this is not a state that Nomad wrote")]
    NotRecords(u8),
    /// The content ends inside a record.
    #[error("record {number} (type {kind} at byte {offset}) is cut off")]
    CutOff { number: u64, kind: u8, offset: u64 },
    /// A record does not decode.
    #[error("record {number} ({name}, type {kind} at byte {offset}) cannot be read: {reason}")]
    Record { number: u64, kind: u8, name: &'static str, offset: u64, reason: String },
    /// A record is of a type that 1.6 does not have.
    #[error(
        "record {number} at byte {offset} has type {kind}, which is unknown; `skip_unknown` leaves out such records"
    )]
    UnknownType { number: u64, kind: u8, offset: u64 },
    /// A root key could not be taken over.
    #[error("root key {key}: {reason}")]
    Key { key: String, reason: String },
}

/// Source of the root keys that belong to an archive.
pub trait RootKeys {
    /// The wrapped material of a key; `None` without its key file. The error says what is wrong with the file.
    fn wrapped(&self, meta: &RootKeyMeta) -> Result<Option<WrappedKey>, String>;
}

/// Choices of an import.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether records of unknown types are left out. Otherwise they are refused.
    pub skip_unknown: bool,
}

/// The state of an archive.
#[derive(Debug)]
pub struct Imported {
    /// All rows.
    pub state: State,
    /// Contents of the cluster that the state does not have, with the reasons.
    pub not_carried: Vec<NotCarried>,
}

/// Reads the content of an archive from its start to its end.
pub fn read(
    content: &mut (impl Read + Seek),
    meta: &Meta,
    keys: &dyn RootKeys,
    options: Options,
) -> Result<Imported, ImportError> {
    let mut rows = Rows::new(meta.index, keys, options);
    // Allocations come before the job versions that they share, so they are decoded in a second pass.
    let mut records = Records::open(&mut *content)?;
    while let Some(record) = records.next()? {
        rows.first_pass(&record)?;
    }
    let mut records = Records::open(&mut *content)?;
    while let Some(record) = records.next()? {
        rows.second_pass(&record)?;
    }
    Ok(rows.finish())
}
