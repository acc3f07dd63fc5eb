//! The saved crawls of a crawl in parts: those of the attempts that count, one after another.
//!
//! Called by `verify` and `export` for a directory with a plan. One part is open at a time. It must
//! not change anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crawlmark_harness::units::IdRange;
use crawlmark_results::run::parts::digest::crc32_of;
use crawlmark_results::run::parts::{PartsDirectory, PlanFile, PublishedParts};

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
    /// Numbers of the others.
    pub(crate) missing: Vec<u32>,
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
        let PublishedParts {
            plan,
            attempts,
            missing,
            ..
        } = PublishedParts::read(&directory)?;
        if plan.saving.is_empty() {
            let why = "the plan saves nothing. Make a plan with --save, as in --save items";
            return Err(refuse(place, why));
        }
        let mut parts = Vec::new();
        for record in attempts {
            let part = record.part;
            let Some(saved) = record.saved else {
                let why = "its attempt saved nothing. Restore it";
                return Err(refuse(&directory.result(part), why));
            };
            let attempt = directory.attempt(part, &record.attempt);
            parts.push(SavedPart {
                part,
                place: attempt.join(saved),
                attempt,
                files: record.files,
            });
        }
        if parts.is_empty() {
            return Err(refuse(place, "no part has a result yet"));
        }
        Ok(Some(Self {
            plan,
            place: place.to_owned(),
            parts,
            missing,
        }))
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

/// The error of a file of the parts.
fn refuse(path: &Path, why: &str) -> Error {
    Error::Usage(format!("{}: {why}", path.display()))
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
        ids: IdRange,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let Manifest {
            saved,
            shuffle,
            target,
            workload,
            ..
        } = &crawl.manifest;
        if crawl.manifest.ids != ids {
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
