//! Progress of a run: a view that is drawn in place on a terminal, lines elsewhere. Called from the
//! supervisor's loop; starts no thread.
//!
//! | room | for |
//! |---|---|
//! | `gauge` | figures read from the run |
//! | `text`, `words` | lines as data; number formats, and words on failures |
//! | `table`, `fold` | rows of shards, and the choice of shards |
//! | `sparkline`, `details` | a course of values as one line; lines below the total |
//! | `chart`, `panels` | charts made of characters; panels of the live view |
//! | `frame`, `canvas` | the view for a given size, drawn in place |
//! | `bars`, `lines` | progress on a terminal; progress elsewhere |
//! | `parts` | view of all parts of a crawl on several machines |
//! | `samples` | runs for tests |

mod bars;
mod canvas;
mod chart;
mod details;
mod fold;
mod frame;
mod gauge;
mod lines;
mod panels;
mod parts;
mod sparkline;
mod table;
mod text;
mod words;

#[cfg(test)]
mod samples;

use std::env;
use std::io::{self, IsTerminal};

use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::Live;
use crawlmark_results::run::report::IntervalRow;

use self::bars::Bars;
use self::lines::Lines;
pub(crate) use self::parts::{PartsProgress, snapshot as parts_snapshot};
pub(super) use self::sparkline::Glyphs;

/// Display of the progress of a run.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Not at all.
    Silent,
    /// A line now and then.
    Lines(Box<Lines>),
    /// A row per shard, one for all, and what there is to know beside.
    Bars(Box<Bars>),
}

impl Progress {
    /// A view when standard error is a terminal that one can draw on, else lines.
    pub(crate) fn fitting(plan: &RunPlan) -> Self {
        if io::stderr().is_terminal() && !console::is_dumb() {
            Self::Bars(Box::new(Bars::new(plan, glyphs())))
        } else {
            Self::Lines(Box::new(Lines::new(plan)))
        }
    }

    /// Show the state of the run and its last seconds. What is printed next starts on a clean line,
    /// at any time.
    pub(crate) fn show(&mut self, live: &Live, seconds: &[IntervalRow]) {
        match self {
            Self::Silent => {}
            Self::Lines(lines) => lines.show(live),
            Self::Bars(bars) => bars.show(live, seconds),
        }
    }
}

/// The characters that the terminal has.
pub(super) fn glyphs() -> Glyphs {
    Glyphs::of(&env::var("TERM").unwrap_or_default(), &locale())
}

/// The locale of characters: the first of these variables that says anything does so, as POSIX has
/// it.
fn locale() -> String {
    let said = |name: &&str| env::var(name).is_ok_and(|value| !value.is_empty());
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find(|name| said(name))
        .and_then(|name| env::var(name).ok())
        .unwrap_or_default()
}
