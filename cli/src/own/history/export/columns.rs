//! Parquet files of an export. Rows wait in memory until they are a row group; each column is then written at once.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::row::{Row, TEXTS};

/// Most rows of a row group.
const GROUP_ROWS_MAX: usize = 65_536;

/// A file whose rows are written in groups.
pub(super) struct Columns {
    writer: SerializedFileWriter<File>,
    rows: Vec<Row>,
    bytes: usize,
}

impl Columns {
    /// Begins a file.
    pub(super) fn begin(file: File) -> io::Result<Self> {
        let schema = parse_message_type(&schema()).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // Payloads hardly repeat: a dictionary of them would be given up each time.
            .set_column_dictionary_enabled(ColumnPath::from("payload"), false)
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        Ok(Self { writer, rows: Vec::new(), bytes: 0 })
    }

    /// Adds a row. Writes a row group if enough rows wait.
    pub(super) fn add(&mut self, row: Row) -> io::Result<()> {
        self.bytes += row.bytes();
        self.rows.push(row);
        if self.rows.len() >= GROUP_ROWS_MAX { self.flush() } else { Ok(()) }
    }

    /// Bytes of the rows in memory.
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Writes the rows in memory as a row group.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() { Ok(()) } else { group(&mut self.writer, rows).map_err(failed) }
    }

    /// Writes the rest and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        self.writer.into_inner().map_err(failed)
    }
}

/// The columns as the text of a schema. The topic is a partition: pandas refuses a directory whose files have it, too.
fn schema() -> String {
    let texts: String = TEXTS[1..].iter().map(|column| format!("OPTIONAL BYTE_ARRAY {column} (STRING); ")).collect();
    format!(
        "message event {{ REQUIRED INT64 index (INTEGER(64,false)); OPTIONAL INT64 time (TIMESTAMP(MICROS,true)); \
         REQUIRED BOOLEAN deleted; {texts}}}"
    )
}

fn group(writer: &mut SerializedFileWriter<File>, mut rows: Vec<Row>) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut next = column(&mut group)?;
    let indexes: Vec<i64> = rows.iter().map(|row| row.index.cast_signed()).collect();
    next.typed::<Int64Type>().write_batch(&indexes, None, None)?;
    next.close()?;

    let mut next = column(&mut group)?;
    let times: Vec<i64> = rows.iter().filter_map(|row| row.time_us).collect();
    let present: Vec<i16> = rows.iter().map(|row| i16::from(row.time_us.is_some())).collect();
    next.typed::<Int64Type>().write_batch(&times, Some(&present), None)?;
    next.close()?;

    let mut next = column(&mut group)?;
    let deleted: Vec<bool> = rows.iter().map(|row| row.deleted).collect();
    next.typed::<BoolType>().write_batch(&deleted, None, None)?;
    next.close()?;

    for at in 1..TEXTS.len() {
        let mut next = column(&mut group)?;
        let present: Vec<i16> = rows.iter().map(|row| i16::from(row.texts[at].is_some())).collect();
        let texts: Vec<ByteArray> =
            rows.iter_mut().filter_map(|row| row.texts[at].take()).map(|text| text.into_bytes().into()).collect();
        next.typed::<ByteArrayType>().write_batch(&texts, Some(&present), None)?;
        next.close()?;
    }
    group.close()?;
    Ok(())
}

fn column<'g>(group: &'g mut SerializedRowGroupWriter<'_, File>) -> Result<SerializedColumnWriter<'g>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".to_owned()))
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => io::Error::other(error),
        error => io::Error::other(error),
    }
}
