//! A saved crawl as WARC/1.1 (ISO 28500:2017): a `warcinfo` record, then a `resource` record for
//! each saved body, gzip per record.
//!
//! `resource` and not `response`, for the heads of responses are not saved. A record without a body
//! is left out.

use std::io::{self, Write};
use std::str::FromStr;

use crawlmark_results::run::parts::digest::hexadecimal;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use uuid::Builder;

use super::{CrawlExportError, Sink, SinkError, Use};
use crate::crawl::{IdFormat, Template};
use crate::dataset::manifest::{Manifest, RecordField};
use crate::dataset::record::SavedRecord;

/// Writer of WARC.
pub(super) struct Warc<W> {
    output: W,
    urls: Option<Urls>,
    /// Start of the first session: date of the `warcinfo` record, and of records whose own was not
    /// saved.
    created: String,
    /// Starts the hash of each record's ID.
    seed: Sha256,
    /// ID of the `warcinfo` record.
    info: String,
}

/// URLs of records that have none of their own.
struct Urls {
    template: Template,
    format: Option<IdFormat>,
}

impl Urls {
    fn of(manifest: &Manifest) -> Option<Self> {
        let template = manifest.target.parse().ok()?;
        let format = manifest
            .workload
            .get("id_format")
            .map(|format| IdFormat::from_str(format));
        Some(Self {
            template,
            format: format.transpose().ok()?,
        })
    }

    fn url(&self, id: u64) -> String {
        let (before, after) = self.template.path();
        let mut url = [self.template.origin(), before].concat();
        if let Some(after) = after {
            let mut digits = Vec::new();
            IdFormat::write_or_plain(self.format, id, &mut digits);
            url.push_str(&String::from_utf8_lossy(&digits));
            url.push_str(after);
        }
        url
    }
}

impl<W: Write> Warc<W> {
    /// Write the `warcinfo` record.
    ///
    /// # Errors
    /// When the crawl saved no bodies, or not the URLs of several templates; or when it cannot be
    /// written.
    pub(super) fn new(manifest: &Manifest, output: W) -> Result<Self, CrawlExportError> {
        let fields = manifest.saved.fields;
        if !fields.has(RecordField::Body) {
            let why = "--to warc: this crawl saved no bodies, and WARC holds nothing else. Export as csv or jsonl";
            return Err(CrawlExportError::Lacking(why.to_owned()));
        }
        let urls = Urls::of(manifest);
        if urls.is_none() && !fields.has(RecordField::Url) {
            let why = "--to warc: this crawl of several URLs did not save the URL of each record, which WARC needs. Export as csv or \
                       jsonl";
            return Err(CrawlExportError::Lacking(why.to_owned()));
        }
        let seed = Sha256::new()
            .chain_update(&manifest.plan)
            .chain_update(&manifest.created);
        let info = record_id(&seed, b"warcinfo");
        let mut warc = Self {
            output,
            urls,
            created: manifest.created.clone(),
            seed,
            info,
        };
        let block = format!(
            "software: crawlmark/{}\r\nformat: WARC File Format 1.1\r\nisPartOf: {}\r\n",
            env!("CARGO_PKG_VERSION"),
            plain(&manifest.target)
        );
        let named = [
            ("WARC-Type", "warcinfo"),
            ("WARC-Record-ID", &warc.info.clone()),
            ("WARC-Date", &warc.created.clone()),
            ("Content-Type", "application/warc-fields"),
        ];
        warc.write(&named, block.as_bytes())?;
        Ok(warc)
    }

    /// Write a record as a gzip member of its own.
    fn write(&mut self, named: &[(&str, &str)], block: &[u8]) -> io::Result<()> {
        let mut record = GzEncoder::new(&mut self.output, Compression::default());
        write!(record, "WARC/1.1\r\n")?;
        for (name, value) in named {
            write!(record, "{name}: {}\r\n", plain(value))?;
        }
        write!(record, "Content-Length: {}\r\n\r\n", block.len())?;
        record.write_all(block)?;
        record.write_all(b"\r\n\r\n")?;
        record.finish().map(drop)
    }
}

impl<W: Write> Sink for Warc<W> {
    fn record(&mut self, record: &SavedRecord<'_>, _: &str) -> Result<Use, SinkError> {
        let Some(body) = record.body()? else {
            return Ok(Use::LeftOut);
        };
        let url = match (record.url.as_deref(), &self.urls) {
            (Some(url), _) => url.to_owned(),
            (None, Some(urls)) => urls.url(record.id),
            (None, None) => return Err("it has no URL".to_owned().into()),
        };
        let id = record_id(&self.seed, &record.id.to_be_bytes());
        let digest = format!("sha256:{}", hexadecimal(&Sha256::digest(body.bytes())));
        let date = record.at.as_deref().unwrap_or(&self.created).to_owned();
        let content_type = record.content_type.as_deref();
        let content_type = content_type.unwrap_or("application/octet-stream");
        let info = self.info.clone();
        let mut named = vec![
            ("WARC-Type", "resource"),
            ("WARC-Record-ID", &*id),
            ("WARC-Warcinfo-ID", &*info),
            ("WARC-Date", &*date),
            ("WARC-Target-URI", &*url),
            ("WARC-Block-Digest", &*digest),
            ("WARC-Payload-Digest", &*digest),
            ("Content-Type", content_type),
        ];
        if record.body_bytes.is_some() {
            named.push(("WARC-Truncated", "length"));
        }
        self.write(&named, body.bytes())?;
        Ok(Use::Written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.output.flush()
    }
}

/// Return the ID of a record: a UUID of version 8 (RFC 9562) from the crawl and the record, the
/// same in each export.
fn record_id(seed: &Sha256, of: &[u8]) -> String {
    let hash = seed.clone().chain_update(of).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    format!("<{}>", Builder::from_custom_bytes(bytes).into_uuid().urn())
}

/// Value of a named field without what would end it.
fn plain(value: &str) -> String {
    value.replace(char::is_control, " ")
}
