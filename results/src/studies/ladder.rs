//! The ladder: how a crawl got from 6 requests a second to 10,000 and on, one change at a time. Each rung is a run of its own
//! against the bundled target's `article` profile; what it came to stands beside what was published for it, with what limited
//! it here.
//!
//! The published figures are those of one crawl of IDs over the Internet, as its author measured them on a desktop: see
//! [`RUNGS`]. What limited a rung is computed from its own figures, by [`RungLimit::of`], and never from its number.

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
