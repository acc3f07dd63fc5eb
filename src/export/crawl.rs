//! `crawlmark export`: a saved crawl in another format.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crawlmark_harness::units::grouped;
use crawlmark_results::run::parts::without_result;

use crate::cli::{CrawlFormat, Destination, ExportArgs};
use crate::dataset::export::{CrawlExport, CrawlExportError, Exported};
use crate::dataset::manifest::Manifest;
use crate::dataset::parts::SavedParts;
use crate::dataset::saved::SavedCrawl;
use crate::error::{DONE, Error};
use crate::export::folder;
use crate::run::resume_command;
use crate::terminal::{self, ReadProgress};

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 20;

/// A file that has its name only once it is complete. Until then it is `NAME.partial`, which the
/// next export of the same name overwrites.
struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

/// Crawl that is exported.
enum Source {
    Crawl(Box<SavedCrawl>),
    Parts(Box<SavedParts>),
}

impl Source {
    fn open(place: &Path) -> Result<Self, Error> {
        match SavedParts::open(place)? {
            Some(parts) => Ok(Self::Parts(Box::new(parts))),
            None => Ok(Self::Crawl(Box::new(SavedCrawl::open(
                place,
                Manifest::read(place)?,
            )?))),
        }
    }

    /// Return the number of planned items.
    fn planned(&self) -> u64 {
        match self {
            Self::Crawl(crawl) => crawl.manifest.ids.len(),
            Self::Parts(parts) => parts.plan.crawl.ids.len(),
        }
    }

    /// Return the command that crawls the items that are left.
    fn rest(&self) -> String {
        match self {
            Self::Crawl(crawl) => {
                format!("`{}` crawls the others", resume_command(&crawl.place))
            }
            Self::Parts(parts) => without_result(&parts.missing),
        }
    }

    fn write(
        &self,
        format: CrawlFormat,
        output: impl Write + Send + 'static,
        mut progress: impl FnMut(u64),
    ) -> Result<Exported, Error> {
        let manifest = match self {
            Self::Crawl(crawl) => crawl.manifest.clone(),
            Self::Parts(parts) => parts.manifest()?,
        };
        let mut export = CrawlExport::begin(&manifest, format, output)?;
        match self {
            Self::Crawl(crawl) => export.add(crawl, progress)?,
            Self::Parts(parts) => {
                for part in &parts.parts {
                    export.add(&part.open()?, &mut progress)?;
                }
            }
        }
        Ok(export.finish()?)
    }
}

/// Exports, and returns the exit code.
pub(crate) fn export(args: &ExportArgs) -> Result<u8, Error> {
    let source = Source::open(&args.crawl)?;
    let Destination::File(path) = args.out.clone().map_or_else(|| default_path(args), Ok)? else {
        let written = source.write(
            args.to,
            BufWriter::with_capacity(BUFFER, io::stdout()),
            |_| {},
        );
        return match written {
            // A reader that has had enough and is gone is no failure.
            Err(Error::CrawlExport(CrawlExportError::Write(error)))
                if error.kind() == ErrorKind::BrokenPipe =>
            {
                Ok(DONE)
            }
            Err(Error::CrawlExport(CrawlExportError::Write(error))) => Err(Error::Output(error)),
            written => written.map(|_| DONE),
        };
    };
    let new = NewFile::create(&path)?;
    // The size of all parts is not known before they are opened.
    let (progress, bytes) = match &source {
        Source::Crawl(crawl) => (ReadProgress::fitting(args.quiet), crawl.bytes()),
        Source::Parts(_) => (ReadProgress::default(), 0),
    };
    let output = new
        .file
        .try_clone()
        .map_err(Error::unwritable(&new.partial))?;
    let written = source.write(args.to, BufWriter::with_capacity(BUFFER, output), |read| {
        progress.show(read, bytes);
    });
    progress.end();
    match written {
        Ok(exported) => {
            new.finish()?;
            if !args.quiet {
                terminal::say(&summary(&source, exported));
                terminal::print(&format!("{}\n", path.display()))?;
            }
            Ok(DONE)
        }
        Err(Error::CrawlExport(CrawlExportError::Write(error))) => {
            Err(Error::unwritable(&new.remove())(error))
        }
        Err(error) => {
            new.remove();
            Err(error)
        }
    }
}

/// The file beside the crawl that has its name and the extension of the format.
fn default_path(args: &ExportArgs) -> Result<Destination, Error> {
    let real = fs::canonicalize(&args.crawl).unwrap_or_else(|_| args.crawl.clone());
    let Some(name) = real.file_name() else {
        return Err(Error::Usage(format!(
            "name the file to write for {} with --out",
            args.crawl.display()
        )));
    };
    let mut file = OsString::from(name);
    file.push(".");
    file.push(args.to.extension());
    // As it was typed, unless that ends in something without a name.
    let beside = if args.crawl.file_name() == Some(name) {
        &args.crawl
    } else {
        &real
    };
    Ok(Destination::File(beside.with_file_name(file)))
}

fn summary(source: &Source, Exported { written, left_out }: Exported) -> String {
    let planned = source.planned();
    let part = if written + left_out < planned {
        format!(" of {} items; {}", grouped(planned), source.rest())
    } else {
        String::new()
    };
    let left_out = if left_out > 0 {
        format!(", {} without a body left out", grouped(left_out))
    } else {
        String::new()
    };
    format!("{} records{left_out}{part}\n", grouped(written))
}

impl NewFile {
    fn create(path: &Path) -> Result<Self, Error> {
        check_absent(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = File::create(&partial).map_err(Error::unwritable(&partial))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            file,
        })
    }

    /// Give the file its name.
    fn finish(self) -> Result<(), Error> {
        self.file
            .sync_all()
            .map_err(Error::unwritable(&self.partial))?;
        check_absent(&self.path)?;
        fs::rename(&self.partial, &self.path)
            .and_then(|()| File::open(folder(&self.path))?.sync_all())
            .map_err(Error::unwritable(&self.path))
    }

    fn remove(self) -> PathBuf {
        let _ = fs::remove_file(&self.partial);
        self.partial
    }
}

fn check_absent(path: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok() {
        let why = "exists and is never overwritten: name another file, or remove it";
        return Err(Error::Usage(format!("--out {} {why}", path.display())));
    }
    Ok(())
}
