//! `plan.json`: a crawl that was resolved once for all of its parts.
//!
//! Its checksum covers all other values, whatever their order and layout: a plan that was edited is
//! refused by every command.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{PartsDirectory, digest};
use crate::run::report::CommandLine;
use crate::run::result_dir::foreign;
use crawlmark_harness::plan::{RunPlan, split_point};
use crawlmark_harness::units::IdRange;

/// Value of [`PlanFile::format`].
const FORMAT: &str = "crawlmark plan";

/// Value of [`PlanFile::version`]; higher with each change that an older program cannot read.
const VERSION: u32 = 1;

/// Name of [`PlanFile::checksum`].
const CHECKSUM: &str = "checksum";

/// Name and version of this program in a plan.
const TOOL: &str = concat!("crawlmark ", env!("CARGO_PKG_VERSION"));

/// Most parts of a crawl: as many tasks as large schedulers give an array.
pub const MAX_PARTS: u32 = 100_000;

/// A crawl in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFile {
    /// `crawlmark plan`.
    format: String,
    /// Version of the format.
    version: u32,
    /// SHA-256 of all other fields, in hexadecimal digits.
    checksum: String,
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
    /// The system refused to read the plan that `run` or `submit` names.
    #[error("--plan {}: {error}. Name the file that `crawlmark plan` wrote", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refused to read the plan in the directory of the parts.
    #[error("read the plan {}: {error}. Name the directory that the parts of a crawl share", path.display())]
    NoneShared {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// No plan.
    #[error("{} is not a plan: {why}. Name the file that `crawlmark plan` wrote, restore it, or write a new plan", path.display())]
    NotPlan {
        /// The file.
        path: PathBuf,
        /// First thing that is wrong.
        why: String,
    },
    /// A plan with another checksum than its own.
    #[error("{} was changed after `crawlmark plan` wrote it. Restore it, or write a new plan", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A plan of another version.
    #[error("{} has format version {version}, and this program, {TOOL}, reads version {VERSION}. Use the program that wrote it, or write a new plan", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
}

impl PlanFile {
    /// A plan of `crawl` in `nodes` parts, `slots` of which run at a time. The rest is to be filled
    /// in.
    #[must_use]
    pub fn new(crawl: RunPlan, nodes: u32, slots: u32) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            checksum: String::new(),
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

    /// Return the SHA-256 of its other fields, in hexadecimal digits: plans with the same are the
    /// same, whatever their layout.
    #[must_use]
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Return the text of the file, with its checksum.
    ///
    /// # Errors
    /// When a value has no form in JSON.
    pub fn into_text(mut self) -> Result<String, serde_json::Error> {
        // Hash what a reader will parse: a float may change when it is written.
        self.checksum = checksum(serde_json::from_str(&serde_json::to_string(&self)?)?);
        Ok(serde_json::to_string_pretty(&self)? + "\n")
    }

    /// Read the plan at `path`, and return it with its text.
    ///
    /// # Errors
    /// When it cannot be read, was changed, or is no plan of this version.
    pub fn read(path: &Path) -> Result<(Self, String), PlanFileError> {
        let own = || path.to_owned();
        let text =
            foreign::read_text(path).map_err(|error| PlanFileError::Io { path: own(), error })?;
        let not_plan = |why: String| PlanFileError::NotPlan { path: own(), why };
        let value: Value =
            foreign::from_str(&text).map_err(|error| not_plan(foreign::one_line(&error)))?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(not_plan(format!("its `format` is not `{FORMAT}`")));
        }
        let version = value.get("version").and_then(Value::as_u64);
        let version = version.ok_or_else(|| not_plan("it has no `version`".to_owned()))?;
        if version != u64::from(VERSION) {
            return Err(PlanFileError::Version {
                path: own(),
                version,
            });
        }
        if value.get(CHECKSUM).and_then(Value::as_str) != Some(&checksum(value.clone())) {
            return Err(PlanFileError::Changed { path: own() });
        }
        let plan: Self =
            foreign::from_str(&text).map_err(|error| not_plan(foreign::one_line(&error)))?;
        let Self {
            nodes,
            slots,
            crawl,
            ..
        } = &plan;
        let is_possible = (1..=MAX_PARTS).contains(nodes)
            && (1..=*nodes).contains(slots)
            && crawl.shards == *nodes
            && crawl.ids.len() >= u64::from(*nodes);
        if !is_possible {
            return Err(not_plan(format!(
                "its {nodes} parts and {slots} slots are none of its crawl"
            )));
        }
        Ok((plan, text))
    }

    /// Read the plan of the parts in `directory`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn shared(directory: &PartsDirectory) -> Result<Self, PlanFileError> {
        Self::read(&directory.plan())
            .map(|(plan, _)| plan)
            .map_err(|error| match error {
                PlanFileError::Io { path, error } => PlanFileError::NoneShared { path, error },
                other => other,
            })
    }

    /// Return the common start, µs after the Unix epoch; none if the plan has none.
    #[must_use]
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
    #[must_use]
    pub fn ids(&self, part: u32) -> IdRange {
        let IdRange { start, .. } = self.crawl.ids;
        let point = |i: u32| start + split_point(self.crawl.ids.len(), self.nodes.into(), i.into());
        IdRange {
            start: point(part),
            end: point(part + 1),
        }
    }
}

/// Return the SHA-256 of a plan without its checksum. Neither the order of keys nor the layout of
/// the text counts.
fn checksum(mut plan: Value) -> String {
    if let Some(fields) = plan.as_object_mut() {
        fields.remove(CHECKSUM);
    }
    plan.sort_all_objects();
    digest::hexadecimal(&Sha256::digest(plan.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crawlmark_harness::fixtures;

    use super::*;

    /// Read a plan with this text, or return the message.
    fn said(text: &str) -> Result<PlanFile, String> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("plan.json");
        fs::write(&path, text).unwrap();
        let place = path.display().to_string();
        PlanFile::read(&path)
            .map(|(plan, _)| plan)
            .map_err(|error| error.to_string().replace(&place, "plan.json"))
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

    /// Each value in a document, and its parents, as pointers.
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields
                    .iter()
                    .for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), found));
            }
            Value::Array(list) => {
                list.iter()
                    .enumerate()
                    .for_each(|(i, value)| pointers(value, &format!("{at}/{i}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push(at.to_owned());
            }
        }
    }

    #[test]
    fn a_plan_is_read_in_any_layout_and_refused_with_any_other_value() {
        let text = plan().into_text().unwrap();
        let read = said(&text).unwrap();
        assert_eq!(
            read,
            PlanFile {
                checksum: read.checksum.clone(),
                ..plan()
            }
        );
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let mut all = Vec::new();
        pointers(&value, "", &mut all);
        assert!(all.len() > 30, "{all:?}");
        for pointer in all {
            let mut edited = value.clone();
            let place = edited.pointer_mut(&pointer).unwrap();
            *place = match place.take() {
                Value::Number(number) => (number.as_f64().unwrap() + 1.0).into(),
                Value::String(text) => format!("{text}0").into(),
                Value::Bool(is) => (!is).into(),
                Value::Null => 1.into(),
                Value::Array(_) | Value::Object(_) => Value::Null,
            };
            assert!(said(&edited.to_string()).is_err(), "{pointer}");
        }
        value.as_object_mut().unwrap().sort_keys();
        assert_eq!(
            said(&value.to_string()).as_ref(),
            Ok(&read),
            "another order"
        );
        value["extra"] = 1.into();
        assert_eq!(
            said(&value.to_string()).unwrap_err(),
            "plan.json was changed after `crawlmark plan` wrote it. Restore it, or write a new plan"
        );
        value.as_object_mut().unwrap().remove("extra");
        value.as_object_mut().unwrap().remove(CHECKSUM);
        assert!(
            said(&value.to_string())
                .unwrap_err()
                .contains("was changed")
        );
    }

    #[test]
    fn what_is_no_plan_is_refused_in_a_sentence() {
        let text = plan().into_text().unwrap();
        let altered = |plan: PlanFile| plan.into_text().unwrap();
        for (text, why) in [
            (
                text[..text.len() / 2].to_owned(),
                "is not a plan: EOF while parsing",
            ),
            ("[7]".to_owned(), "its `format` is not `crawlmark plan`"),
            (
                r#"{"format": "crawlmark plan"}"#.to_owned(),
                "it has no `version`",
            ),
            (
                text.replacen("\"version\": 1", "\"version\": 2", 1),
                "has format version 2",
            ),
            (
                altered(PlanFile { nodes: 8, ..plan() }),
                "its 8 parts and 2 slots are none of its crawl",
            ),
            (
                altered(PlanFile { slots: 9, ..plan() }),
                "its 4 parts and 9 slots are none of its crawl",
            ),
        ] {
            let error = said(&text).unwrap_err();
            assert!(
                error.starts_with("plan.json ") && error.contains(why),
                "{error}"
            );
        }
    }
}
