//! Several runs: each study's model, judgement and saved form.
//!
//! | module | holds |
//! |---|---|
//! | [`compare`] | paired rounds of two arms, and the verdict that they allow |
//! | [`scale`] | rounds of several sizes, and how throughput grows with them |
//! | [`capacity`] | find the highest rate that a target sustains, by probes |
//! | [`patterns`] | patterns of crawls side by side: waves, caps, semaphores, buckets |
//! | [`ladder`] | the climb from 6 to 10,000 requests a second and on, beside what was published |

pub mod capacity;
pub mod compare;
pub mod ladder;
pub mod patterns;
pub mod scale;

use serde::Serialize;

use crate::show::doc::Doc;
use crate::show::plot::Plot;

/// Result of a study: saved as JSON, and shown as a document with plots.
pub trait StudyResult: Serialize {
    /// The name of its JSON file.
    const FILE: &'static str;

    /// The document: for the terminal, `summary.md` and `report.html`.
    fn doc(&self) -> Doc;

    /// The plots, which are saved as `plots/NAME.svg`.
    fn plots(&self) -> Vec<Plot>;

    /// Files for other programs: names and contents.
    fn exports(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
