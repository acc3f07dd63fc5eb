//! The comparison as JSON, every run included, for `--json`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::place::Places;
use crate::rounds::{Bench, Footprint, Run};
use crate::summary::Summary;

/// The name of the format.
const SCHEMA: &str = "crawlmark.side_by_side/1";

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    schema: &'static str,
    crawlmark_version: &'static str,
    target: &'a str,
    rounds: u32,
    seconds: u32,
    connections: u32,
    seed: u64,
    #[serde(flatten)]
    places: &'a Places,
    not_found: &'a [&'static str],
    could_not_run: &'a [&'static str],
    summary: &'a Summary,
    footprint: &'a Footprint,
    runs: &'a [Run],
}

impl<'a> Record<'a> {
    /// Create the record of a comparison that is over.
    pub(crate) fn new(bench: &'a Bench<'_>, runs: &'a [Run], summary: &'a Summary, footprint: &'a Footprint) -> Self {
        Self {
            schema: SCHEMA,
            crawlmark_version: env!("CARGO_PKG_VERSION"),
            target: bench.target.template(),
            rounds: bench.arguments.rounds,
            seconds: bench.arguments.seconds,
            connections: bench.arguments.connections,
            seed: bench.arguments.seed,
            places: bench.places,
            not_found: bench.missing(),
            could_not_run: bench.unusable(),
            summary,
            footprint,
            runs,
        }
    }
}

/// Writes a record to `path`.
pub(crate) fn save(record: &impl Serialize, path: &Path) -> Result<(), Error> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut file, record)?;
        writeln!(file)?;
        file.flush()
    };
    write().map_err(|error| Error::Save { path: path.to_owned(), error })
}
