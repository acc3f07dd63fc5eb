//! A part of a saved run, measured again: some of its seconds, some of its shards, some of its answers.
//!
//! A [`Cutter`] is made from the [`Report`](crate::run::report::Report) and what is asked ([`Cut`]), is fed every line of `latency.hlog`
//! ([`Entry`]), and says what the part came to ([`CutReport`]). The cut of everything equals the report, cell
//! by cell. Nothing here reads files: [`results`](crate::run::result_dir) does.

mod ask;
mod cells;
mod cut_report;
mod cutter;
mod entry;
pub mod laws;
mod steady;
mod words;

pub use self::ask::{
    Ask, Chosen, Cut, CutError, Outcomes, SecondError, SecondRange, Shards, ShardsError, Span, parse_second,
};
pub use self::cut_report::{Answered, Counted, CutReport, CutSeconds, CutSource, SCHEMA};
pub use self::cutter::{Cutter, Foreign};
pub use self::entry::{CENSORED, Entry, Kind, LineFault, LineReader};
pub use self::steady::{NotSteady, SHORTEST_S, SettledSeries, SteadyState, find as find_steady};
pub use self::words::doc;
