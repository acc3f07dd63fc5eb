//! `crawl.json`: what a saved crawl is, written once when it begins.
//!
//! Written by `run --save`; read by `run --resume`, `verify` and `export`. It must not change while
//! the crawl grows: what changes is in the segments.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

use clap::ValueEnum;
use crawlmark_harness::files::{PRIVATE, Root};
use crawlmark_harness::plan::WorkloadSettings;
use crawlmark_harness::units::IdRange;
use crawlmark_results::run::parts::digest::{is_sealed, seal};
use crawlmark_results::run::report::CommandLine;
use crawlmark_results::run::result_dir::foreign::read_small_text;
use serde::{Deserialize, Serialize};

use crate::ids::Shuffle;

/// Name of the file in the directory of a saved crawl.
pub const MANIFEST: &str = "crawl.json";

/// Name of the file that is locked while a session runs.
pub const LOCK: &str = "lock";

/// Longest wait for the processes of a session that was killed just now.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Interval between two looks at the lock.
const LOCK_STEP: Duration = Duration::from_millis(20);

/// Lock [`LOCK`], which the last process of a session that was killed just now may still hold.
///
/// # Errors
/// When another process holds it for longer, or the file system has no locks.
pub(crate) fn take_lock(
    file: &File,
    take: fn(&File) -> Result<(), TryLockError>,
) -> Result<(), TryLockError> {
    for _ in 1..LOCK_WAIT.as_millis() / LOCK_STEP.as_millis() {
        match take(file) {
            Err(TryLockError::WouldBlock) => sleep(LOCK_STEP),
            taken => return taken,
        }
    }
    take(file)
}

/// Value of [`Manifest::format`], with another number after each change of the directory's format.
pub const FORMAT: &str = "crawlmark crawl/1";

/// Description of a saved crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// Program that began the crawl, with its version.
    pub tool: String,
    /// Start of the first session, RFC 3339 in UTC.
    pub created: String,
    /// Hash of the first session's plan; as `plan.config_hash` of a result.
    pub plan: String,
    /// URL template, or the number of URLs; without secrets.
    pub target: String,
    /// IDs of the crawl.
    pub ids: IdRange,
    /// Order of the IDs (`--shuffle`); none if it is their own.
    pub shuffle: Option<ShuffledRange>,
    /// Settings of what is saved.
    pub saved: Saved,
    /// Settings that have to be the same in each session.
    pub workload: LastingSettings,
    /// Command line that began it, without secrets.
    pub command: CommandLine,
    /// First session of each refresh, in which all items are asked for again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshes: Vec<u32>,
}

/// Settings that have to be the same in each session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LastingSettings {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Hash of the URLs, headers and bodies of the requests, 16 hexadecimal digits.
    pub request_content: String,
    /// As `plan.workload` of a result.
    #[serde(flatten)]
    pub settings: WorkloadSettings,
}

/// Reason why a directory holds no crawl that this program can read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// No such file.
    #[error("{} holds no saved crawl: it has no {MANIFEST}. Name the directory that `crawlmark run --save` made", .0.display())]
    Missing(PathBuf),
    /// The system refused to read it.
    #[error("{} cannot be read: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// No description of a crawl, or one of another format.
    #[error("{} {why}. Restore it from a backup, use the program that wrote it, or crawl into another directory", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// First thing that is wrong.
        why: String,
    },
}

impl Manifest {
    /// Read the description of the crawl in the directory `place`.
    ///
    /// # Errors
    /// When there is none, or none that this program knows.
    pub fn read(place: &Path) -> Result<Self, ManifestError> {
        // The format first: another one may have other fields.
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let path = place.join(MANIFEST);
        let text = match read_small_text(&path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Err(ManifestError::Missing(place.to_owned()));
            }
            Err(error) => return Err(ManifestError::Io { path, error }),
        };
        let why = match serde_json::from_str::<Head>(&text) {
            Ok(Head { format }) if format != FORMAT => {
                format!("has the format `{format}`, and this program reads `{FORMAT}`")
            }
            Ok(_) if !is_sealed(&text) => {
                "is damaged: its checksum does not match its bytes".to_owned()
            }
            Ok(_) => match serde_json::from_str::<Self>(&text) {
                Ok(manifest) if !manifest.ids.is_empty() => return Ok(manifest),
                Ok(_) => "has no IDs".to_owned(),
                Err(error) => format!("is damaged: {error}"),
            },
            Err(error) => format!("is damaged: {error}"),
        };
        Err(ManifestError::Unusable { path, why })
    }

    /// Return the first session of the last refresh, or of the crawl: only from there on, a record
    /// finishes its item.
    pub(crate) fn since(&self) -> u32 {
        self.refreshes.last().copied().unwrap_or(1)
    }

    /// Return the order of the IDs; none if it is their own.
    pub(crate) fn shuffle(&self) -> Option<Shuffle> {
        self.shuffle
            .map(|ShuffledRange { range, seed }| Shuffle::new(range, seed))
    }

    /// Write it to the directory `place`: whole or not at all, and on the disk when this returns.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, place: &Path) -> io::Result<()> {
        let sealed = seal(&serde_json::to_string_pretty(self)?);
        Root::with_mode(place, self.saved.mode).replace(MANIFEST, |file| {
            file.write_all(sealed.as_bytes())?;
            file.sync_all()
        })?;
        File::open(place)?.sync_all()
    }
}

/// Range whose IDs are crawled in a shuffled order: item `i` of [`Manifest::ids`] has the ID
/// `Shuffle::new(range, seed).id(i)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShuffledRange {
    /// Range that is permuted; it holds the IDs of the crawl.
    pub range: IdRange,
    /// Seed of the permutation.
    pub seed: u64,
}

/// Part of each response that is saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Fields of a record.
    pub fields: Fields,
    /// Responses whose bodies are saved.
    pub bodies: Bodies,
    /// Longest body that is saved whole, bytes.
    pub max_body: u64,
    /// Failure that loses no committed record.
    pub durability: Durability,
    /// Permissions of the files. Of a session: a file may be of somebody else.
    #[serde(skip, default = "private")]
    pub mode: u32,
}

const fn private() -> u32 {
    PRIVATE
}

/// Responses whose bodies are saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bodies {
    /// Good responses.
    #[default]
    Good,
    /// All responses.
    All,
    /// None.
    None,
}

/// Failure that loses no committed record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A process that is killed.
    Process,
    /// A machine that loses power, too: each commit waits for the disk.
    #[default]
    Power,
}

impl Durability {
    /// Return its name, as it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Power => "power",
        }
    }
}

/// Field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordField {
    /// ID in the URL.
    Id,
    /// URL, where it is not the template with the ID.
    Url,
    /// HTTP status.
    Status,
    /// Outcome.
    Outcome,
    /// Requests for the item.
    Attempts,
    /// Time at which the last request was sent, UTC.
    At,
    /// Service time of the last request, µs.
    LatencyUs,
    /// Content type.
    ContentType,
    /// `ETag` of the response.
    Etag,
    /// `Last-Modified` of the response.
    LastModified,
    /// First 128 bits of the SHA-256 of the body as it is saved.
    Digest,
    /// Body.
    Body,
}

impl RecordField {
    /// Every field, in the order of a record, by its key.
    pub const ALL: [(Self, &str); 12] = [
        (Self::Id, "id"),
        (Self::Url, "url"),
        (Self::Status, "status"),
        (Self::Outcome, "outcome"),
        (Self::Attempts, "attempts"),
        (Self::At, "at"),
        (Self::LatencyUs, "latency_us"),
        (Self::ContentType, "content_type"),
        (Self::Etag, "etag"),
        (Self::LastModified, "last_modified"),
        (Self::Digest, "digest"),
        (Self::Body, "body"),
    ];

    /// Return its key in a record.
    pub const fn key(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Set of fields; the ID and the outcome are always among them: without outcomes, a resumed session
/// could not tell which items to ask for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct Fields(u16);

impl Default for Fields {
    fn default() -> Self {
        Self((1 << RecordField::ALL.len()) - 1)
    }
}

impl Fields {
    /// True if the field is one of them.
    pub const fn has(self, field: RecordField) -> bool {
        self.0 & (1 << field as u16) != 0
    }

    /// Return them with their keys, in the order of a record.
    pub fn iter(self) -> impl Iterator<Item = (RecordField, &'static str)> {
        RecordField::ALL
            .into_iter()
            .filter(move |(field, _)| self.has(*field))
    }

    /// Return their keys, in the order of a record.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|(_, key)| key)
    }

    fn of<'a>(keys: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut fields = Self(1 << RecordField::Id as u16 | 1 << RecordField::Outcome as u16);
        for key in keys {
            let found = RecordField::ALL.into_iter().find(|(_, name)| *name == key);
            let Some((field, _)) = found else {
                let all: Vec<&str> = Self::default().keys().collect();
                return Err(format!(
                    "`{key}` is not a field of a record: use some of {}",
                    all.join(", ")
                ));
            };
            fields.0 |= 1 << field as u16;
        }
        Ok(fields)
    }
}

impl FromStr for Fields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::of(text.split(',').map(str::trim))
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.keys().collect::<Vec<_>>().join(","))
    }
}

impl From<Fields> for Vec<String> {
    fn from(fields: Fields) -> Self {
        fields.keys().map(str::to_owned).collect()
    }
}

impl TryFrom<Vec<String>> for Fields {
    type Error = String;

    fn try_from(keys: Vec<String>) -> Result<Self, String> {
        Self::of(keys.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_without_a_crawl_of_this_format_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = |text: &str| {
            fs::write(place.path().join(MANIFEST), text).unwrap();
            Manifest::read(place.path()).unwrap_err()
        };
        let missing = Manifest::read(place.path()).unwrap_err();
        assert!(matches!(missing, ManifestError::Missing(_)));
        let head = format!(r#"{{"format": "{FORMAT}""#);
        let other = head.replace("crawl/1", "crawl/0") + "}";
        for text in ["{", &other, &format!("{head}}}"), &seal(&head)] {
            assert!(matches!(refused(text), ManifestError::Unusable { .. }));
        }
    }
}
