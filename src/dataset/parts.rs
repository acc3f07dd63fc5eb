//! The saved crawls of a crawl in parts: those of the attempts that count, one after another.
//!
//! Called by `verify` and `export` for a directory with a plan. One part is open at a time. It must
//! not change anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crawlmark_results::run::parts::digest::crc32_of;
use crawlmark_results::run::parts::{AttemptRecord, MergeError, PartsDirectory, PlanFile};

use super::manifest::Manifest;
use super::saved::SavedCrawl;
use crate::error::Error;

/// The parts of a crawl, in the order of their IDs.
#[derive(Debug)]
pub(crate) struct SavedParts {
    /// The plan.
    pub(crate) plan: PlanFile,
    /// Directory of the parts.
    pub(crate) place: PathBuf,
    /// Parts that have a result.
    pub(crate) parts: Vec<SavedPart>,
}

/// The saved crawl of a part.
#[derive(Debug)]
pub(crate) struct SavedPart {
    /// Number of the part.
    pub(crate) part: u32,
    /// Directory of the saved crawl.
    pub(crate) place: PathBuf,
    /// Directory of its attempt, and the checksums of the files in it.
    attempt: PathBuf,
    files: BTreeMap<String, u32>,
}

impl SavedParts {
    /// Open the parts in the directory `place`; none if it has no plan.
    ///
    /// # Errors
    /// When the plan or a result cannot be read, is foreign, or saved nothing.
    pub(crate) fn open(place: &Path) -> Result<Option<Self>, Error> {
        let directory = PartsDirectory::at(place);
        if !directory.plan().exists() {
            return Ok(None);
        }
        let plan = PlanFile::shared(&directory)?;
        if plan.saving.is_empty() {
            return Err(Error::Usage(format!(
                "{}: the plan saves nothing. Make a plan with --save, as in --save items",
                place.display()
            )));
        }
        let mut parts = Vec::new();
        for part in 0..plan.nodes {
            let path = directory.result(part);
            let published = AttemptRecord::published(&directory, &plan, part);
            let Some(attempt) = published.map_err(|error| MergeError::Io {
                path: path.clone(),
                error,
            })?
            else {
                continue;
            };
            let AttemptRecord {
                attempt,
                saved: Some(saved),
                files,
                ..
            } = attempt
            else {
                return Err(Error::Usage(format!(
                    "{}: its attempt saved nothing. Restore it",
                    path.display()
                )));
            };
            let attempt = directory.attempt(part, &attempt);
            let place = attempt.join(saved);
            parts.push(SavedPart {
                part,
                place,
                attempt,
                files,
            });
        }
        if parts.is_empty() {
            return Err(Error::Usage(format!(
                "{}: no part has a result yet",
                place.display()
            )));
        }
        Ok(Some(Self {
            plan,
            place: place.to_owned(),
            parts,
        }))
    }

    /// Return the numbers of the parts that have no result.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let mut others = self.parts.iter().map(|part| part.part).peekable();
        (0..self.plan.nodes)
            .filter(|part| others.next_if_eq(part).is_none())
            .collect()
    }

    /// Return the description of the crawl: that of its first part, with the IDs of all.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn manifest(&self) -> Result<Manifest, Error> {
        let first = self.parts.first().map_or(&self.place, |part| &part.place);
        Ok(Manifest {
            ids: self.plan.crawl.ids,
            ..Manifest::read(first)?
        })
    }
}

impl SavedPart {
    /// Open its saved crawl.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(&self) -> Result<SavedCrawl, Error> {
        Ok(SavedCrawl::open(&self.place, Manifest::read(&self.place)?)?)
    }

    /// Return what contradicts its result: its IDs, its settings, and the checksums of files.
    pub(crate) fn contradictions(
        &self,
        crawl: &SavedCrawl,
        whole: &Manifest,
        ids: &str,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let Manifest {
            saved,
            shuffle,
            target,
            workload,
            ..
        } = &crawl.manifest;
        if crawl.manifest.ids.to_string() != ids {
            found.push(format!(
                "its IDs are {}, and those of the part {ids}",
                crawl.manifest.ids
            ));
        }
        if (saved, shuffle, target, workload)
            != (&whole.saved, &whole.shuffle, &whole.target, &whole.workload)
        {
            found.push("its settings are not those of the first part".to_owned());
        }
        for (name, sum) in &self.files {
            let path = self.attempt.join(name);
            match crc32_of(&path) {
                Ok(found) if found == *sum => {}
                Ok(_) => found.push(format!(
                    "{} has another checksum than its result says",
                    path.display()
                )),
                Err(error) => found.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
        found
    }
}
