//! The ladder: a crawl that grows from 6 requests per second to more than 10,000, one change at a
//! time. Each rung is a run of its own against the bundled target's `article` profile. Its result
//! is shown beside the published one, with the limit of this run.
//!
//! The published figures are those of one crawl of IDs over the Internet, as its author measured
//! them on a desktop: see [`RUNGS`]. What limited a rung is computed from its own figures, by
//! [`RungLimit::of`], and never from its number.
//!
//! | room | for |
//! |---|---|
//! | `rung` | rungs as published |
//! | `reading`, `limit` | readings of a rung's run, and its limit |
//! | `notes` | causes of differences from the published figures |
//! | `saved`, `words` | `ladder.json`; ladder as a document and in lines |

mod limit;
mod notes;
mod reading;
mod rung;
mod saved;
mod words;

pub use self::limit::{LimitedBy, RungLimit};
pub use self::reading::{CpuUse, RungReadings};
pub use self::rung::{Published, RUNGS, Rung};
pub use self::saved::{ClimbContext, Climbed, FILE, Ladder, Probe, RungReport, SCHEMA};
pub use self::words::{ladder_headline, ladder_standing, published};
