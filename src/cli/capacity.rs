//! Arguments of `capacity`.

use std::time::Duration;

use clap::Args;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::units::{Rate, parse_duration};
use crawlmark_results::run::gates::Condition;

use super::{OutputArgs, parse_error_rate, parse_limit_time, whole};

pub(super) const EXAMPLES: &str = "\
A probe is an open-loop `crawlmark run` at one rate, in a process of its own, with the
flags after --. It makes no retries and no throttle pauses (the target rests between
probes). The search doubles the rate from --from until a rate fails. Then it bisects to
--precision. Then it probes both of these rates again, until each has three more passes
than failures, or three more failures than passes. No rate is more than twice a rate
that passed. A probe stops when half of its requests fail or are refused.

Exit codes: 0 found · 3 even the lowest rate fails
            5 not found: the result is unconfirmed and longer probes may differ,
              all rates up to --max-rate pass, this client cannot send more,
              the target is unsteady, or --budget was used up
            1 a probe could not run · 2 usage
            129 / 130 / 143 ended by a signal: what was probed is saved

Examples:
  The rate that a target with a limit of 4,000 a second sustains:
    crawlmark capacity -- --target-limit 4000/s:burst=100
  A remote service, with at most 500 requests a second:
    crawlmark capacity 'http://staging.example.com/items/{id}' --max-rate 500/s
  A limit per minute needs probes longer than a minute:
    crawlmark capacity 'http://127.0.0.1:8080/items/{id}' --warmup 60s \\
        --probe 120s --budget 2h";

/// Arguments of `capacity`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct CapacityArgs {
    /// Target URL, with {id} for the ID [default: the bundled target]
    ///
    /// The bundled target is started for each probe.
    #[arg(help_heading = None::<&str>)]
    pub url: Option<String>,

    /// Fail a rate unless this holds, as in `error_rate < 1%`; repeatable
    ///
    /// Written as for `run` (see `crawlmark run --help`), but without a window. It must hold at
    /// low rates: `error_rate > 1%` and absolute rates, as in `goodput > 95/s`, are refused.
    /// Shares of requests are evaluated for the time after the warm-up, and also for the second
    /// half of a probe.
    ///
    /// `goodput_share > 99%` is about the requests that meet each --objective after `--`, as in
    /// 'response < 200ms'.
    ///
    /// If --threshold, --slo-p99 and --max-error-rate are not given, response_p99 < 500ms is
    /// required. error_rate < 1% and throttled_rate < 1% are required unless you give other
    /// limits for them.
    ///
    /// These conditions are always required: 99 % of the requests are sent. The 99th
    /// percentile of the send delay is at most 2 ms, a tenth of the median service time,
    /// or a tenth of the shortest time objective (at most 50 ms), whichever is longest.
    /// The number of unanswered requests does not grow throughout the probe. Not-found
    /// responses (404, 410) are not errors, but they are good only if --expect accepts
    /// them.
    #[arg(
        long,
        alias = "fail-if",
        value_name = "EXPR",
        help_heading = "Objectives",
        verbatim_doc_comment
    )]
    pub threshold: Vec<Condition>,
    /// Fail a rate if p99 of the response time exceeds TIME
    #[arg(long, value_name = "TIME", value_parser = parse_limit_time, help_heading = "Objectives")]
    pub slo_p99: Option<Duration>,
    /// Fail a rate if its error rate exceeds SHARE, as in 1% or 0.01
    #[arg(long, value_name = "SHARE", value_parser = parse_error_rate, help_heading = "Objectives")]
    pub max_error_rate: Option<Condition>,

    /// Schedule requests evenly (constant) or at random (poisson)
    #[arg(long, value_name = "constant|poisson", default_value = Arrivals::Constant.name())]
    pub arrivals: Arrivals,
    /// Lowest rate to probe; the search starts there
    #[arg(long, value_name = "RATE", default_value = "50/s")]
    pub from: Rate,
    /// Highest rate to probe [default: 100,000/s]
    ///
    /// Required for targets outside this machine and private networks.
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<Rate>,
    /// Stop when the highest passing and lowest failing rate are this close
    #[arg(hide_short_help = true, long, value_name = "N%", default_value = "2%", value_parser = parse_precision)]
    pub precision: f64,
    /// Duration of a probe, after its warm-up; at least 1s
    ///
    /// With poisson arrivals and an objective for a time, probes of low rates take longer.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    pub probe: Duration,
    /// Warm-up of each probe, excluded from its figures
    ///
    /// The warm-up also uses up the burst that a limit allows.
    #[arg(hide_short_help = true, short = 'w', long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// Pause after each probe of a target given by URL
    ///
    /// After a probe that failed, the pause is three times as long. It is always at least as long
    /// as the target asks.
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub rest: Duration,
    /// Start no probe after this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub budget: Duration,
    /// Seed of the first probe; each further probe uses the next one
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub seed: u32,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,

    /// True if it is part of another study, whose clients may retry: the probes do not.
    #[arg(skip)]
    pub is_part: bool,
    /// Flags of `crawlmark run` for every probe
    #[arg(last = true, value_name = "RUN FLAGS", help_heading = None::<&str>)]
    pub run: Vec<String>,
}

/// A part of the rate, from 0.1 % to 50 %.
fn parse_precision(text: &str) -> Result<f64, String> {
    text.strip_suffix('%')
        .unwrap_or(text)
        .trim()
        .parse()
        .ok()
        .filter(|percent| (0.1..=50.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("`{text}` is not a valid precision: write 0.1% to 50%"))
}
