//! `plan.json`: a crawl that was resolved once for all of its parts.
//!
//! It is sealed: a plan that was edited is refused by every command.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::PartsDirectory;
use super::digest::{hexadecimal, is_sealed, seal};
use crate::run::report::CommandLine;
use crate::run::result_dir::foreign;
use crawlmark_harness::plan::{RunPlan, split_point};
use crawlmark_harness::units::IdRange;

/// Value of [`PlanFile::format`], with another number after each change.
const FORMAT: &str = "crawlmark plan/1";

/// Name and version of this program in a plan.
const TOOL: &str = concat!("crawlmark ", env!("CARGO_PKG_VERSION"));

/// Most parts of a crawl: as many tasks as large schedulers give an array.
pub const MAX_PARTS: u32 = 100_000;

/// A crawl in parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// `crawlmark plan/1`.
    format: String,
    /// SHA-256 of its text, in hexadecimal digits.
    #[serde(skip)]
    digest: String,
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
    /// Time at which all parts start, RFC 3339 in UTC; null if each starts as soon as it has a
    /// slot.
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
    /// The system refused to read it.
    #[error("read the plan {}: {error}. Name the directory that the parts share, or the file that `crawlmark plan` wrote", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// No plan, one of another format, or one that was edited.
    #[error("{} {why}. Name the file that `crawlmark plan` wrote, restore it, or write a new plan", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// First thing that is wrong.
        why: String,
    },
}

impl PlanFile {
    /// A plan of `crawl` in `nodes` parts, `slots` of which run at a time. The rest is to be filled
    /// in.
    pub fn new(crawl: RunPlan, nodes: u32, slots: u32) -> Self {
        Self {
            format: FORMAT.to_owned(),
            digest: String::new(),
            tool: TOOL.to_owned(),
            program: String::new(),
            run_id: String::new(),
            created_at: String::new(),
            nodes,
            slots,
            start_at: None,
            crawl: RunPlan {
                shards: nodes,
                ..crawl
            },
            command: CommandLine::default(),
            saving: Vec::new(),
        }
    }

    /// Return the SHA-256 of its text, in hexadecimal digits; nothing of a plan that was not read.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Return the text of the file, with its checksum.
    ///
    /// # Errors
    /// When a value has no form in JSON.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        Ok(seal(&serde_json::to_string_pretty(self)?))
    }

    /// Read the plan at `path`, and return it with its text.
    ///
    /// # Errors
    /// When it cannot be read, was changed, or is no plan of this format.
    pub fn read(path: &Path) -> Result<(Self, String), PlanFileError> {
        let path = path.to_owned();
        let text = match foreign::read_small_text(&path) {
            Ok(text) => text,
            Err(error) => return Err(PlanFileError::Io { path, error }),
        };
        match Self::parse(&text) {
            Ok(plan) => Ok((plan, text)),
            Err(why) => Err(PlanFileError::Unusable { path, why }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let none = |error| format!("is not a plan: {}", foreign::one_line(&error));
        let Head { format } = foreign::from_str(text).map_err(none)?;
        if format != FORMAT {
            let found = foreign::short(&format);
            return Err(format!(
                "has the format `{found}`, and this program, {TOOL}, reads `{FORMAT}`"
            ));
        }
        if !is_sealed(text) {
            return Err("was changed after `crawlmark plan` wrote it".to_owned());
        }
        let plan: Self = serde_json::from_str(text).map_err(none)?;
        let (nodes, slots, crawl) = (plan.nodes, plan.slots, &plan.crawl);
        let is_possible = (1..=MAX_PARTS).contains(&nodes)
            && (1..=nodes).contains(&slots)
            && crawl.shards == nodes
            && crawl.ids.len() >= u64::from(nodes);
        if !is_possible {
            return Err(format!(
                "has {nodes} parts and {slots} slots, which its crawl cannot have"
            ));
        }
        let digest = hexadecimal(&Sha256::digest(text));
        Ok(Self { digest, ..plan })
    }

    /// Read the plan of the parts in `directory`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn shared(directory: &PartsDirectory) -> Result<Self, PlanFileError> {
        Self::read(&directory.plan()).map(|(plan, _)| plan)
    }

    /// Return the common start, µs after the Unix epoch; none if the plan has none.
    pub fn start_us(&self) -> Option<u64> {
        let at = SystemTime::from(
            self.start_at
                .as_ref()?
                .parse::<humantime::Timestamp>()
                .ok()?,
        );
        let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    }

    /// Return the IDs of a part, by the split law.
    pub fn ids(&self, part: u32) -> IdRange {
        let IdRange { start, .. } = self.crawl.ids;
        let [start, end] = [part, part + 1]
            .map(|i| start + split_point(self.crawl.ids.len(), self.nodes.into(), i.into()));
        IdRange { start, end }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crawlmark_harness::fixtures;
    use proptest::prelude::*;

    use super::*;

    /// Read a plan with this text.
    fn read(text: impl AsRef<[u8]>) -> Result<PlanFile, PlanFileError> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("plan.json");
        fs::write(&path, text).unwrap();
        PlanFile::read(&path).map(|(plan, _)| plan)
    }

    fn plan() -> PlanFile {
        let ids = IdRange { start: 0, end: 40 };
        PlanFile::new(
            RunPlan {
                ids,
                ..fixtures::plan()
            },
            4,
            2,
        )
    }

    proptest! {
        #[test]
        fn no_bit_of_a_plan_can_change(at in any::<prop::sample::Index>()) {
            let text = plan().text().unwrap();
            let digest = read(&text).unwrap().digest;
            prop_assert_eq!(read(&text).unwrap(), PlanFile { digest, ..plan() });
            let mut bytes = text.into_bytes();
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(bytes).is_err());
        }
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        let text = plan().text().unwrap();
        for text in [
            text.replacen("plan/1", "plan/0", 1),
            text.replacen("\"slots\": 2", "\"slots\": 3", 1),
            text[..text.len() / 2].to_owned(),
            "[7]".to_owned(),
            PlanFile { nodes: 8, ..plan() }.text().unwrap(),
            PlanFile { slots: 9, ..plan() }.text().unwrap(),
        ] {
            assert!(matches!(read(&text), Err(PlanFileError::Unusable { .. })));
        }
    }
}
