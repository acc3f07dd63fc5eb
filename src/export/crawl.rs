//! `crawlmark export`: the records of a saved crawl, for other programs.

use std::io::{ErrorKind, Write};

use crate::cli::ExportArgs;
use crate::dataset::export::{CrawlExportError, export as write};
use crate::dataset::manifest::Manifest;
use crate::dataset::parts::SavedParts;
use crate::dataset::saved::SavedCrawl;
use crate::error::{DONE, Error};
use crate::terminal::DataWriter;

/// Prints the records of a crawl, or of its parts one after another, and returns the exit code.
pub(crate) fn export(args: &ExportArgs) -> Result<u8, Error> {
    match print(args) {
        // A reader that has had enough and is gone is no failure.
        Err(Error::CrawlExport(CrawlExportError::Write(error))) => match error.kind() {
            ErrorKind::BrokenPipe => Ok(DONE),
            _ => Err(Error::Output(error)),
        },
        printed => printed.map(|()| DONE),
    }
}

fn print(args: &ExportArgs) -> Result<(), Error> {
    let mut output = DataWriter::new();
    if let Some(parts) = SavedParts::open(&args.crawl)? {
        for part in &parts.parts {
            write(&part.open()?, &mut output)?;
        }
    } else {
        let crawl = SavedCrawl::open(&args.crawl, Manifest::read(&args.crawl)?)?;
        write(&crawl, &mut output)?;
    }
    output
        .flush()
        .map_err(|error| CrawlExportError::Write(error).into())
}
