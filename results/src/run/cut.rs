//! Parts of a saved run, measured again: selected seconds, shards and responses.
//!
//! A [`Cutter`] is made from the [`Report`](crate::run::report::Report) and the requested part
//! ([`Cut`]), receives every line of `latency.hlog` ([`Entry`]), and returns the results of the
//! part ([`CutReport`]). The cut of everything equals the report, cell by cell. Nothing here reads
//! files: [`result_dir`](crate::run::result_dir) does.
//!
//! | room | for |
//! |---|---|
//! | `ask` | requested part, resolved to seconds and shards of the run |
//! | `steady` | detection of the steady state |
//! | `entry` | lines of `latency.hlog` |
//! | `cutter` | sums of lines, and the results of the part |
//! | `cut_report`, `words` | results as saved, and as a document |
//! | [`laws`] | laws of reading any line, for fuzzing and tests |

mod ask;
mod cut_report;
mod cutter;
mod entry;
pub mod laws;
mod steady;
mod words;

pub use self::ask::{
    Ask, Cut, CutError, Outcomes, SecondError, Shards, ShardsError, Span, parse_second,
};
pub use self::cut_report::{Answered, Counted, CutReport, CutSeconds, CutSource, SCHEMA};
pub use self::cutter::{Cutter, Foreign};
pub use self::entry::{CENSORED, Entry, Kind, LineFault, LineReader};
pub use self::steady::{NotSteady, SHORTEST_S, SettledSeries, SteadyState, find as find_steady};
pub use self::words::doc;
