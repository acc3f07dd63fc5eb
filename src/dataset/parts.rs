//! The saved crawls of a crawl in parts: those of the attempts that count, one after another.
//!
//! Called by `verify` and `export` for a directory with a plan. One part is open at a time. It must
//! not change anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crawlmark_harness::stats::ItemCounts;
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
    /// Items that its attempt took over from an earlier one.
    pub(crate) finished_before: u64,
    /// Items that ended in its attempt, by state.
    pub(crate) items: ItemCounts,
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
            let io = |error| MergeError::Io {
                path: path.clone(),
                error,
            };
            let Some(attempt) = AttemptRecord::read(&path).map_err(io)? else {
                continue;
            };
            let AttemptRecord {
                run_id,
                saved,
                finished_before,
                items,
                ..
            } = attempt;
            if run_id != plan.run_id || attempt.ids != plan.ids(part) {
                let wanted = format!("{} with the IDs {}", plan.run_id, plan.ids(part));
                return Err(Error::Usage(format!(
                    "{}: it is not of the run {wanted}. Restore it",
                    path.display()
                )));
            }
            let Some(saved) = saved else {
                return Err(Error::Usage(format!(
                    "{}: its attempt saved nothing. Restore it",
                    path.display()
                )));
            };
            let place = directory.attempt(part, &attempt.attempt).join(saved);
            parts.push(SavedPart {
                part,
                place,
                finished_before,
                items,
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

    /// Return what contradicts its result: its IDs, its settings, and its counts, which are those
    /// that a merge adds up.
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
        let (mut before, mut all) = (0_u64, 0_u64);
        let mut own = BTreeMap::<&str, u64>::new();
        for segment in &crawl.segments {
            let Some(Ok(checkpoint)) = &segment.checkpoint else {
                continue;
            };
            if segment.name.session < crawl.sessions() {
                before = before.saturating_add(checkpoint.tally.finished());
                continue;
            }
            all = all.saturating_add(checkpoint.records());
            for (outcome, records) in &checkpoint.tally.outcomes {
                let own = own.entry(outcome).or_default();
                *own = own.saturating_add(*records);
            }
        }
        let of = |outcome: &str| own.get(outcome).copied().unwrap_or(0);
        for (what, saved, result) in [
            ("items of earlier attempts", before, self.finished_before),
            (
                "items",
                all,
                self.items.completed().saturating_add(self.items.skipped),
            ),
            ("good items", of("ok"), self.items.ok),
            (
                "items that were not found",
                of("not_found"),
                self.items.not_found,
            ),
        ] {
            if saved != result {
                found.push(format!(
                    "it has {saved} {what}, and its result counts {result}"
                ));
            }
        }
        found
    }
}
