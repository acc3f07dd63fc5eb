//! A saved crawl as Parquet: a column for each field, bodies as bytes, zstd.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::{Sink, SinkError, Use};
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::{SavedBody, SavedRecord, Value};

/// Rows of a row group at most: what `DuckDB` takes at a time.
const MOST_ROWS: usize = 122_880;

/// Bytes of values of a row group, unless a single record has more.
const MOST_BYTES: usize = 64 << 20;

/// Columns by field, as the schema has them. A body that was cut has `body_bytes`.
const COLUMNS: [(RecordField, &str); 11] = [
    (RecordField::Id, "required int64 id (integer(64,false))"),
    (RecordField::Url, "optional binary url (string)"),
    (
        RecordField::Status,
        "optional int32 status (integer(16,false))",
    ),
    (RecordField::Outcome, "optional binary outcome (string)"),
    (
        RecordField::Attempts,
        "optional int32 attempts (integer(32,false))",
    ),
    (
        RecordField::At,
        "optional int64 at (timestamp(micros,true))",
    ),
    (
        RecordField::LatencyUs,
        "optional int64 latency_us (integer(64,false))",
    ),
    (
        RecordField::ContentType,
        "optional binary content_type (string)",
    ),
    (RecordField::Digest, "optional binary digest (string)"),
    (RecordField::Body, "optional binary body"),
    (
        RecordField::Body,
        "optional int64 body_bytes (integer(64,false))",
    ),
];

/// Columns whose values hardly ever come twice.
const UNIQUE: [&str; 5] = ["id", "at", "latency_us", "digest", "body"];

/// Writer of Parquet.
pub(super) struct Parquet<W: Write + Send> {
    output: SerializedFileWriter<W>,
    columns: Vec<(RecordField, ParquetColumn)>,
    rows: usize,
    bytes: usize,
}

/// Values of a column that are not written yet, and for each row 1 or, where it has none, 0.
struct ParquetColumn {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bytes(Vec<ByteArray>),
}

impl<W: Write + Send> Parquet<W> {
    /// Begin the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn new(manifest: &Manifest, output: W) -> io::Result<Self> {
        let fields = manifest.saved.fields;
        let columns = || COLUMNS.into_iter().filter(|(field, _)| fields.has(*field));
        let names: Vec<&str> = columns().map(|(_, column)| column).collect();
        let schema = parse_message_type(&format!("message crawl {{ {}; }}", names.join(";")))
            .map_err(io_error)?;
        let level = ZstdLevel::try_new(3).map_err(io_error)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(concat!("crawlmark version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_column_statistics_enabled(ColumnPath::from("body"), EnabledStatistics::None);
        for name in UNIQUE {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), false);
        }
        let output =
            SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties.build()))
                .map_err(io_error)?;
        Ok(Self {
            output,
            columns: columns()
                .map(|(field, column)| (field, ParquetColumn::new(column)))
                .collect(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Write the rows as a row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.output.next_row_group()?;
        for (field, ParquetColumn { levels, values }) in &mut self.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let levels = (*field != RecordField::Id).then_some(&levels[..]);
            match (column.untyped(), values) {
                (ColumnWriter::Int32ColumnWriter(column), Values::Int32(values)) => {
                    column.write_batch(values, levels, None)?;
                }
                (ColumnWriter::Int64ColumnWriter(column), Values::Int64(values)) => {
                    column.write_batch(values, levels, None)?;
                }
                (ColumnWriter::ByteArrayColumnWriter(column), Values::Bytes(values)) => {
                    column.write_batch(values, levels, None)?;
                }
                _ => {
                    return Err(ParquetError::General(
                        "a column has another type than its values".to_owned(),
                    ));
                }
            }
            column.close()?;
        }
        group.close()?;
        for (_, column) in &mut self.columns {
            column.clear();
        }
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl ParquetColumn {
    fn new(column: &str) -> Self {
        let values = match column.split(' ').nth(1) {
            Some("int32") => Values::Int32(Vec::new()),
            Some("int64") => Values::Int64(Vec::new()),
            _ => Values::Bytes(Vec::new()),
        };
        Self {
            levels: Vec::new(),
            values,
        }
    }

    fn push(&mut self, value: Value<'_>) {
        let is_absent = matches!(value, Value::Number(None) | Value::Bytes(None));
        self.levels.push(i16::from(!is_absent));
        match (&mut self.values, value) {
            // Unsigned numbers are stored as their bits.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fields of these columns have 32 bits at most"
            )]
            (Values::Int32(values), Value::Number(number)) => {
                values.extend(number.map(|number| (number as u32).cast_signed()));
            }
            (Values::Int64(values), Value::Number(number)) => {
                values.extend(number.map(u64::cast_signed));
            }
            (Values::Bytes(values), Value::Bytes(bytes)) => {
                values.extend(bytes.map(|bytes| ByteArray::from(bytes.to_vec())));
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Bytes(values) => values.clear(),
        }
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn record(&mut self, record: &SavedRecord<'_>, line: &str) -> Result<Use, SinkError> {
        let (body, at_us) = (record.body()?, record.at_us()?);
        for (field, column) in &mut self.columns {
            let value = match field {
                RecordField::At => Value::Number(at_us),
                RecordField::Body if matches!(column.values, Values::Int64(_)) => {
                    Value::Number(record.body_bytes)
                }
                RecordField::Body => Value::Bytes(body.as_ref().map(SavedBody::bytes)),
                field => record.value(*field),
            };
            column.push(value);
        }
        self.rows += 1;
        self.bytes += line.len();
        if self.rows == MOST_ROWS || self.bytes >= MOST_BYTES {
            self.flush().map_err(io_error)?;
        }
        Ok(Use::Written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.flush().map_err(io_error)?;
        self.output.close().map_err(io_error)?;
        Ok(())
    }
}

/// The error of the output, if it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}
