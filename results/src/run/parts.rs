//! A crawl in parts, on several machines: the plan that they share, the files of their shared
//! directory, and the merge of the parts.
//!
//! ```text
//! DIR/plan.json                    the plan, the same for all
//! DIR/slots/                       leases of the budget
//! DIR/part-00003/ATTEMPT/          what an attempt at part 3 wrote: `frames`, `status.json`, `attempt.json`, `result/`
//! DIR/part-00003/RESULT            the `attempt.json` of the attempt that counts, published by link(2)
//! ```
//!
//! | room | for |
//! |---|---|
//! | `directory` | names in it |
//! | `plan_file` | [`PlanFile`] |
//! | [`digest`] | SHA-256 of plans and programs |
//! | `attempt` | [`AttemptRecord`]: what an attempt says of itself |
//! | `status` | [`AttemptStatus`]: what an attempt says of itself while it goes on |
//! | `overview` | all parts at a glance, look by look |
//! | `merge` | the published parts as one report |
//!
//! Called by the commands `plan`, `run --plan`, `merge` and `watch`. It must not crawl.

mod attempt;
pub mod digest;
mod directory;
mod merge;
mod overview;
mod plan_file;
mod status;

pub use self::attempt::{AttemptRecord, ClockReading};
pub use self::directory::PartsDirectory;
#[cfg(test)]
pub(crate) use self::merge::judge as judge_merged;
pub use self::merge::{
    Completeness, MergeError, PublishedParts, counted_requests, merge, without_result,
};
pub use self::overview::{
    HighestTime, PartCounts, PartRow, PartState, PartsOverview, PartsWatch, UnreadParts,
};
pub use self::plan_file::{MAX_PARTS, PlanFile, PlanFileError};
pub use self::status::{AttemptState, AttemptStatus};
