//! A saved crawl as CSV (RFC 4180): a header line, then a row for each record. An empty field is
//! one that the record does not have.

use std::fmt::Display;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Sink, SinkError, Use};
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::{RecordText, SavedBody, SavedRecord};

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
        let columns: Vec<RecordField> = RecordField::ALL
            .into_iter()
            .map(|(field, _)| field)
            .filter(|field| fields.has(*field))
            .collect();
        let of_body = OF_BODY
            .into_iter()
            .filter(|_| fields.has(RecordField::Body));
        let names: Vec<&str> = fields.keys().chain(of_body).collect();
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
        self.row.clear();
        for field in &self.columns {
            if *field != RecordField::Id {
                self.row.push(b',');
            }
            let text = |text: &Option<RecordText<'_>>, row: &mut Vec<u8>| {
                if let Some(RecordText(text)) = text {
                    quote(text, row);
                }
            };
            let row = &mut self.row;
            match field {
                RecordField::Id => number(Some(record.id), row)?,
                RecordField::Url => text(&record.url, row),
                RecordField::Status => number(record.status, row)?,
                RecordField::Outcome => quote(&record.outcome.0, row),
                RecordField::Attempts => number(record.attempts, row)?,
                RecordField::At => text(&record.at, row),
                RecordField::LatencyUs => number(record.latency_us, row)?,
                RecordField::ContentType => text(&record.content_type, row),
                RecordField::Digest => text(&record.digest, row),
                RecordField::Body => {
                    match record.body()? {
                        None => row.push(b','),
                        Some(SavedBody::Json(text)) => {
                            quote(text, row);
                            row.push(b',');
                        }
                        Some(SavedBody::Text(text)) => {
                            quote(&text, row);
                            row.push(b',');
                        }
                        Some(SavedBody::Binary(bytes)) => {
                            row.extend_from_slice(STANDARD.encode(bytes).as_bytes());
                            row.extend_from_slice(b",base64");
                        }
                    }
                    row.push(b',');
                    number(record.body_bytes, row)?;
                }
            }
        }
        self.row.extend_from_slice(b"\r\n");
        self.output.write_all(&self.row)?;
        Ok(Use::Written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.output.flush()
    }
}

fn number(value: Option<impl Display>, row: &mut Vec<u8>) -> io::Result<()> {
    value.map_or(Ok(()), |value| write!(row, "{value}"))
}

/// Append a text, in quotes where it could be taken for more than one field, and where it is empty:
/// a field without quotes is one that the record does not have.
fn quote(text: &str, row: &mut Vec<u8>) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        row.extend_from_slice(text.as_bytes());
        return;
    }
    row.push(b'"');
    for (n, part) in text.split('"').enumerate() {
        if n > 0 {
            row.extend_from_slice(b"\"\"");
        }
        row.extend_from_slice(part.as_bytes());
    }
    row.push(b'"');
}
