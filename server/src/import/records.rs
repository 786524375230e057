//! The records of `state.bin`: a header, then one type byte and one msgpack value each, until the end.

use std::io::{Read, Seek, SeekFrom};

use songline_rpc::msgpack::{Scanner, SkipError};

use super::ImportError;

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;
/// Largest record, in bytes. An allocation with its job has some 10 kB.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// One record.
pub(super) struct Record<'a> {
    /// Number of the record, from 1.
    pub number: u64,
    /// Offset of the type byte in `state.bin`.
    pub offset: u64,
    /// Type byte.
    pub kind: u8,
    /// The msgpack value.
    pub value: &'a [u8],
}

/// Reads records one after another.
pub(super) struct Records<R> {
    input: R,
    buffer: Vec<u8>,
    /// Start in the buffer of what was not returned yet.
    at: usize,
    /// Offset in the content of the buffer's start.
    offset: u64,
    number: u64,
}

impl<R: Read + Seek> Records<R> {
    /// Goes to the start of the content and reads the header.
    pub(super) fn open(mut input: R) -> Result<Self, ImportError> {
        input.seek(SeekFrom::Start(0))?;
        let mut records = Self { input, buffer: Vec::new(), at: 0, offset: 0, number: 0 };
        if !records.fill()? {
            return Err(ImportError::CutOff { number: 0, kind: 0, offset: 0 });
        }
        // The header is a struct without fields; fields of other versions are skipped.
        let first = records.buffer[0];
        if !is_map(first) {
            return Err(ImportError::NotRecords(first));
        }
        let length = records.scan(0, 0)?;
        records.at += length;
        Ok(records)
    }

    /// The next record; `None` at the end of the content.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, ImportError> {
        if self.at == self.buffer.len() && !self.fill()? {
            return Ok(None);
        }
        let kind = self.buffer[self.at];
        self.number += 1;
        let length = self.scan(1, kind)?;
        let offset = self.offset + self.at as u64;
        let start = self.at + 1;
        self.at = start + length;
        Ok(Some(Record { number: self.number, offset, kind, value: &self.buffer[start..self.at] }))
    }

    /// Length of the value that starts `skip` bytes after the current place. Reads as much as it needs.
    fn scan(&mut self, skip: usize, kind: u8) -> Result<usize, ImportError> {
        let mut scanner = Scanner::new(RECORD_BYTES_MAX);
        loop {
            let rest = self.buffer.get(self.at + skip..).unwrap_or_default();
            match scanner.scan(rest) {
                Ok(Some(length)) => return Ok(length),
                Ok(None) => {}
                Err(error) => return Err(self.malformed(kind, &error)),
            }
            if !self.fill()? {
                let offset = self.offset + self.at as u64;
                return Err(ImportError::CutOff { number: self.number, kind, offset });
            }
        }
    }

    fn malformed(&self, kind: u8, error: &SkipError) -> ImportError {
        ImportError::Record {
            number: self.number,
            kind,
            name: super::rows::name(kind),
            offset: self.offset + self.at as u64,
            reason: error.to_string(),
        }
    }

    /// Reads more bytes behind those of the buffer. Returns false at the end of the content.
    fn fill(&mut self) -> Result<bool, ImportError> {
        self.buffer.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        let read = self.input.by_ref().take(READ_BYTES as u64).read_to_end(&mut self.buffer)?;
        Ok(read > 0)
    }
}

fn is_map(byte: u8) -> bool {
    matches!(byte, 0x80..=0x8f | 0xde | 0xdf)
}
