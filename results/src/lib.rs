//! Results of crawlmark and the conclusions from them: one run's report and its validity, studies
//! of several runs, and everything that shows or exports them.
//!
//! Reads the records of the engine and files that were saved before. Knows nothing of HTTP, of
//! command lines, of processes or pipes. `run` and `studies` describe their findings as documents;
//! `show` lays out documents and draws the plots of both.
//!
//! A module imports only from those above it (`harness/tests/tree.rs`).
//!
//! | module | holds |
//! |---|---|
//! | [`show::text`] | numbers and sentences as people read them |
//! | `judge::thresholds`, `judge::verdict`, `judge::limit`, `judge::findings` | facts about a run: their texts, and what follows from them |
//! | [`run::report`] | the report of a run, as it is saved |
//! | [`judge`] | what the report of a run shows: findings and the verdict |
//! | [`show`] | documents for terminals, Markdown and pages; plots |
//! | [`run`] | the rest of a run: its gates, directory on disk, parts, words |
//! | `metrics` | metrics of comparisons, and what a round read of them |
//! | [`import`] | results of other tools |
//! | [`studies`] | several runs: comparison, scaling, capacity, ladder |
//! | [`export`] | the report in the formats of other tools |

pub mod export;
pub mod import;
pub mod judge;
mod metrics;
pub mod run;
pub mod show;
pub mod studies;
