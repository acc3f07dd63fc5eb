//! `plan.json`: a crawl that was resolved once for all of its parts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::run::report::CommandLine;
use crate::run::result_dir::foreign;
use crawlmark_harness::plan::{RunPlan, split_point};
use crawlmark_harness::units::IdRange;

/// Value of [`PlanFile::format`].
const FORMAT: &str = "crawlmark plan";

/// Value of [`PlanFile::version`]; higher with each change that an older program cannot read.
const VERSION: u32 = 1;

/// Most parts of a crawl: as many tasks as large schedulers give an array.
pub const MAX_PARTS: u32 = 100_000;

/// A crawl in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFile {
    /// `crawlmark plan`.
    format: String,
    /// Version of the format.
    version: u32,
    /// Program that made it, with its version.
    pub tool: String,
    /// SHA-256 of the program's file, in hexadecimal digits: all parts run the same program.
    pub program: String,
    /// Unique to the crawl.
    pub run_id: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// Number of parts.
    pub nodes: u32,
    /// Most parts that run at once. Each has an equal share of the rate and of the connections.
    pub slots: u32,
    /// Time at which all parts start, RFC 3339 in UTC; null if each starts as soon as it has a slot.
    #[serde(default)]
    pub start_at: Option<String>,
    /// The whole crawl: all IDs, connections and rate, with a shard for each part.
    pub crawl: RunPlan,
    /// Command line that each part repeats, without secrets.
    pub command: CommandLine,
    /// Flags of saving, which the command line of a result does not hold; none if nothing is saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saving: Vec<String>,
}

/// Reason why a file is no plan that this program can carry out.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// The system refused.
    #[error("read the plan {}: {error}. Name a plan that `crawlmark plan` made, or the directory that its parts share (--into)", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// No plan.
    #[error("{} is not a plan that `crawlmark plan` made: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// First thing that is wrong.
        why: String,
    },
    /// A later program made it.
    #[error("{} has format version {version}, and this program reads version {VERSION}. Use a newer crawlmark", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

impl PlanFile {
    /// A plan of `crawl` in `nodes` parts, `slots` of which run at a time. The rest is to be filled in.
    #[must_use]
    pub fn new(crawl: RunPlan, nodes: u32, slots: u32) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool: concat!("crawlmark ", env!("CARGO_PKG_VERSION")).to_owned(),
            program: String::new(),
            run_id: String::new(),
            created_at: String::new(),
            nodes,
            slots,
            start_at: None,
            crawl: RunPlan { shards: nodes, ..crawl },
            command: CommandLine::default(),
            saving: Vec::new(),
        }
    }

    /// Read the plan at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no plan of this version.
    pub fn read(path: &Path) -> Result<(Self, String), PlanFileError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let text = foreign::read_text(path).map_err(|error| PlanFileError::Io { path: path.to_owned(), error })?;
        let damaged = |why: String| PlanFileError::Damaged { path: path.to_owned(), why };
        let parsed = |error: serde_json::Error| damaged(foreign::one_line(&error));
        let Head { format, version } = foreign::from_str(&text).map_err(parsed)?;
        if format != FORMAT {
            return Err(damaged(format!("its format is `{}`, not `{FORMAT}`", foreign::short(&format))));
        }
        if version > VERSION {
            return Err(PlanFileError::Newer { path: path.to_owned(), version });
        }
        let plan: Self = foreign::from_str(&text).map_err(parsed)?;
        plan.check().map_err(damaged)?;
        Ok((plan, text))
    }

    fn check(&self) -> Result<(), String> {
        let Self { nodes, slots, crawl, .. } = self;
        if *nodes == 0 || *nodes > MAX_PARTS || crawl.shards != *nodes {
            return Err(format!("it has {nodes} parts, and 1 to {MAX_PARTS} are possible"));
        }
        if *slots == 0 || slots > nodes {
            return Err(format!("it has {slots} slots for {nodes} parts"));
        }
        if let Some(at) = self.start_at.as_ref().filter(|_| self.start_us().is_none()) {
            return Err(format!("its `start_at` is `{}`, which is not a time", foreign::short(at)));
        }
        if crawl.ids.len() < u64::from(*nodes) {
            return Err(format!("it has {} IDs for {nodes} parts", crawl.ids.len()));
        }
        Ok(())
    }

    /// Return the common start, µs after the Unix epoch; none if the plan has none.
    #[must_use]
    pub fn start_us(&self) -> Option<u64> {
        let at = SystemTime::from(self.start_at.as_ref()?.parse::<humantime::Timestamp>().ok()?);
        let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    }

    /// Return the IDs of a part, by the split law.
    #[must_use]
    pub fn ids(&self, part: u32) -> IdRange {
        let IdRange { start, .. } = self.crawl.ids;
        let point = |i: u32| start + split_point(self.crawl.ids.len(), self.nodes.into(), i.into());
        IdRange { start: point(part), end: point(part + 1) }
    }
}
