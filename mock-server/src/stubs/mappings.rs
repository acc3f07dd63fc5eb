//! The stubs that a target starts with: loaded once, before any process of it exists, and part of
//! its configuration.
//!
//! It must not know how they change at run time.

use super::load::{Loaded, OnUnsupported, load, parse};
use super::reply::{Files, Reply};
use super::report::{LoadError, StubProblems};
use super::set::Stubs;
use crate::limit::Limit;
use std::path::Path;
use std::sync::Arc;

/// Stubs that were loaded from WireMock's mapping files. A clone is another handle to them.
#[derive(Clone, Debug)]
pub struct Mappings(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loaded: Loaded<Reply>,
    files: Files,
}

impl Mappings {
    /// Loads `mappings/**/*.json` below `root`, with the bodies that they name in `__files` beside
    /// it.
    ///
    /// Stubs are added file by file in the order of their paths, within a file as they come; among
    /// stubs of one priority the last one added answers.
    ///
    /// # Errors
    ///
    /// There are no such files, or something in them is not as WireMock's format asks, or is not
    /// served here; all of it is said at once, with file and JSON pointer. With
    /// [`OnUnsupported::Skip`], stubs that are right and not served are no error.
    pub fn load(root: &Path, on_unsupported: OnUnsupported) -> Result<Self, LoadError> {
        let files = Files::Under(root.join("__files"));
        let loaded = load(root, on_unsupported, |response| {
            Reply::read(response, &files)
        })?;
        Ok(Self(Arc::new(Inner { loaded, files })))
    }

    /// Reads stubs from the text of one mapping file. Bodies in files cannot be had that way.
    ///
    /// # Errors
    ///
    /// As for [`Mappings::load`].
    pub fn parse(text: &[u8], on_unsupported: OnUnsupported) -> Result<Self, LoadError> {
        let files = Files::None;
        let loaded = parse(text, on_unsupported, |response| {
            Reply::read(response, &files)
        })?;
        Ok(Self(Arc::new(Inner { loaded, files })))
    }

    /// Number of stubs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stubs().len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the number of stubs left out because they ask for what is not served.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.0.loaded.skipped
    }

    /// Return what those ask for.
    #[must_use]
    pub fn warnings(&self) -> &StubProblems {
        &self.0.loaded.warnings
    }

    /// The limits that stubs have for themselves, each once.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::new();
        for limit in self.stubs().iter().filter_map(|stub| stub.limit.as_ref()) {
            if !limits.contains(limit) {
                limits.push(limit.clone());
            }
        }
        limits
    }

    /// Asks all stubs for one thing and another, and has each of them answer. There is nothing to
    /// see: a fuzzer of mapping files wants to know that it comes to an end.
    #[cfg(any(test, fuzzing))]
    pub fn rehearse(&self) {
        super::fuzzing::rehearse(self.stubs());
    }

    pub(crate) fn stubs(&self) -> &Stubs<Reply> {
        &self.0.loaded.stubs
    }

    pub(crate) fn files(&self) -> &Files {
        &self.0.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rehearse stubs that have much in them, as fuzzing does with any.
    #[test]
    fn the_rehearsal_that_fuzzing_relies_on_runs() {
        let mapping = br#"{"mappings": [
            {"request": {"urlPathTemplate": "/things/{a}/parts/{b}", "queryParameters": {"q": {"includes": [{"equalTo": "1"}]}}},
             "response": {"transformers": ["response-template"], "body": "{{request.path.a}} {{now}} {{randomInt}}",
                          "chunkedDribbleDelay": {"numberOfChunks": 3, "totalDuration": 3}}},
            {"request": {"bodyPatterns": [{"equalToJson": {"n": 1500}, "ignoreExtraElements": true}]},
             "response": {"delayDistribution": {"type": "lognormal", "median": 5, "sigma": 0.5}, "jsonBody": {"a": []}}}
        ]}"#;
        Mappings::parse(mapping, OnUnsupported::Refuse)
            .unwrap()
            .rehearse();
    }
}
