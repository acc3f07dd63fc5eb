//! Arguments that cut a part out of a result.

use clap::{Args, ValueEnum};
use crawlmark_results::run::cut::{Ask, Outcomes, Shards, Span, parse_second};

/// Part of a result to measure again; none without any of these.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A part of one result")]
pub struct CutArgs {
    /// Start at this second [default: the end of the warm-up]
    #[arg(long, value_name = "TIME", value_parser = parse_second)]
    pub from: Option<u64>,
    /// End before this second [default: the end of the run]
    #[arg(long, value_name = "TIME", value_parser = parse_second)]
    pub to: Option<u64>,
    /// Find the seconds in which the run was steady
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub steady: bool,
    /// Include only these shards: 0-3, or 0,2,5-7
    #[arg(long, value_name = "NUMBERS")]
    pub shards: Option<Shards>,
    /// Include only the times of these responses
    #[arg(long, value_name = "KIND")]
    pub outcome: Option<OutcomeFilter>,
    /// Print the part as JSON
    #[arg(long)]
    pub json: bool,
}

/// Kinds of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutcomeFilter {
    /// Good and not-found responses.
    Ok,
    /// Throttled responses.
    Throttled,
    /// Rejected, challenged and failed requests.
    Error,
    /// Each kind by itself.
    All,
}

impl CutArgs {
    /// Return the requested part; none without any of these flags.
    #[must_use]
    pub fn ask(&self) -> Option<Ask> {
        let Self {
            from,
            to,
            steady,
            shards,
            outcome,
            json,
        } = self.clone();
        let asked = from.is_some()
            || to.is_some()
            || steady
            || shards.is_some()
            || outcome.is_some()
            || json;
        asked.then_some(Ask {
            span: if steady {
                Span::Steady
            } else {
                Span::Seconds { from, to }
            },
            shards,
            outcomes: match outcome {
                None | Some(OutcomeFilter::All) => Outcomes::All,
                Some(OutcomeFilter::Ok) => Outcomes::Ok,
                Some(OutcomeFilter::Throttled) => Outcomes::Throttled,
                Some(OutcomeFilter::Error) => Outcomes::Error,
            },
        })
    }
}
