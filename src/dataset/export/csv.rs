//! A saved crawl as CSV (RFC 4180): a header line, then a row for each record. An empty field is
//! one that the record does not have.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Sink, SinkError, Use};
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::{SavedBody, SavedRecord, Value};

/// Columns behind the body.
const OF_BODY: [&str; 2] = ["body_encoding", "body_bytes"];

/// Writer of CSV.
pub(super) struct Csv<W> {
    output: W,
    columns: Vec<RecordField>,
    row: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// Write the header line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn new(manifest: &Manifest, mut output: W) -> io::Result<Self> {
        let fields = manifest.saved.fields;
        let (columns, mut names): (Vec<_>, Vec<_>) = fields.iter().unzip();
        if fields.has(RecordField::Body) {
            names.extend(OF_BODY);
        }
        write!(output, "{}\r\n", names.join(","))?;
        Ok(Self {
            output,
            columns,
            row: Vec::new(),
        })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn record(&mut self, record: &SavedRecord<'_>, _: &str) -> Result<Use, SinkError> {
        let row = &mut self.row;
        row.clear();
        for field in &self.columns {
            if *field != RecordField::Id {
                row.push(b',');
            }
            if *field != RecordField::Body {
                write(record.value(*field), row);
                continue;
            }
            match record.body()? {
                None => row.push(b','),
                Some(SavedBody::Binary(bytes)) => {
                    row.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                    row.extend_from_slice(b",base64");
                }
                Some(text) => {
                    write(Value::Bytes(Some(text.bytes())), row);
                    row.push(b',');
                }
            }
            row.push(b',');
            write(Value::Number(record.body_bytes), row);
        }
        row.extend_from_slice(b"\r\n");
        self.output.write_all(row)?;
        Ok(Use::Written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.output.flush()
    }
}

/// Append a value: a text in quotes where it could be taken for more than one field, and where it
/// is empty, for a field without quotes is one that the record does not have.
fn write(value: Value<'_>, row: &mut Vec<u8>) {
    let text = match value {
        Value::Number(None) | Value::Bytes(None) => return,
        Value::Number(Some(number)) => {
            return row.extend_from_slice(number.to_string().as_bytes());
        }
        Value::Bytes(Some(text)) => text,
    };
    if !text.is_empty() && !text.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return row.extend_from_slice(text);
    }
    row.push(b'"');
    for byte in text {
        let times = if *byte == b'"' { 2 } else { 1 };
        row.extend(std::iter::repeat_n(*byte, times));
    }
    row.push(b'"');
}
