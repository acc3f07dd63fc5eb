//! Results of crawlmark and the conclusions from them: one run's report and its validity, studies
//! of several runs, and everything that shows or exports them.
//!
//! Reads the records of the engine and files that were saved before. Knows nothing of HTTP, of
//! command lines, of processes or pipes. `run` and `studies` describe their findings as documents;
//! `show` lays out documents and draws the plots of both.
//!
//! | module | holds |
//! |---|---|
//! | [`run`] | one run: its report, validity, gates, directory on disk, and cuts of it |
//! | [`judge`] | what the report of a run shows: findings and the verdict |
//! | [`studies`] | several runs: comparison, scaling, capacity, ladder |
//! | [`show`] | text for terminals and Markdown, plots, pages |
//! | [`export`] | the report in the formats of other tools |
//! | [`import`] | results of other tools |

pub mod export;
pub mod import;
pub mod judge;
pub mod run;
pub mod show;
pub mod studies;
