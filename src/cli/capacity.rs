//! What can be typed after `capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::gates::Condition;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::units::{Rate, parse_duration};

use super::{KeepArgs, parse_error_rate, parse_limit_time, whole};

pub(super) const EXAMPLES: &str = "\
A probe is an open-loop `crawlmark run` at one rate, in a process of its own, with the
flags after --, without retries and without a pause when it is told to wait (that comes
between the probes). Rates rise from --from by factors of two until one fails, are
halved to --precision, and both ends are probed until they are settled: no rate
is more than twice one that passed, and a probe of which half is refused is stopped.

Exit codes: 0 found · 3 even the least rate fails
            5 not found: all rates up to --max-rate pass, this client cannot send
              more, the target is unsteady, or time was over
            129 / 130 / 143 ended by a signal; --resume goes on from there

Examples:
  The rate that a target with a limit of 4,000 a second sustains:
    crawlmark capacity -- --target-limit 4000/s:burst=100
  Half of the answers within 20 ms and 99 % within 100 ms, as independent users come:
    crawlmark capacity 'http://127.0.0.1:8080/items/{id}' --arrivals poisson \\
        --fail-if 'response_p50 < 20ms' --slo-p99 100ms --max-error-rate 0.1%
  A service elsewhere, which may be asked for 500 a second and no more:
    crawlmark capacity 'http://staging.example.com/items/{id}' --max-rate 500/s
  A limit that counts by the minute takes probes that are longer than one:
    crawlmark capacity 'http://127.0.0.1:8080/items/{id}' --warmup 60s \\
        --probe 120s --budget 2h
  Go on where it was interrupted:
    crawlmark capacity --resume results/runs/2026-11-22T10-00-00Z-capacity \\
        -- --target-limit 4000/s";

const FAIL_IF: &str = "\
What must hold at a rate that passes, as in 'response_p99 < 250ms'; may be repeated

Written as for `run` (see `crawlmark run --help`), without a window. Shares
of attempts are judged after the warm-up, and of the later half of a probe as
well. Unless objectives are named, by this, --slo-p99 or --max-error-rate:
response_p99 < 500ms; and, unless they are named themselves, error_rate < 1%
and throttled_rate < 1% in any case. What is always wanted: 99 % of the
requests went, on time, and response times did not grow throughout the probe,
as they do where more comes than is managed (seen in four whole seconds after
the warm-up and more).";

/// Arguments of `capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// The target, with {id} where the ID goes; without it, the bundled one, started for each probe
    pub url: Option<String>,

    /// What must hold at a rate that passes, as in `response_p99 < 250ms`; may be repeated
    #[arg(long, value_name = "EXPR", long_help = FAIL_IF, help_heading = "Objectives")]
    pub fail_if: Vec<Condition>,
    /// Fail a rate if p99 of the response time exceeds TIME
    #[arg(long, value_name = "TIME", value_parser = parse_limit_time, help_heading = "Objectives")]
    pub slo_p99: Option<Duration>,
    /// Fail a rate if its error rate exceeds SHARE, as in 1% or 0.01
    #[arg(long, value_name = "SHARE", value_parser = parse_error_rate, help_heading = "Objectives")]
    pub max_error_rate: Option<Condition>,

    /// When requests are intended: constant, evenly, or poisson, at random
    #[arg(long, value_name = "constant|poisson", default_value = Arrivals::Constant.name(), help_heading = "Search")]
    pub arrivals: Arrivals,
    /// The rate to begin with, and the least
    #[arg(long, value_name = "RATE", default_value = "50/s", help_heading = "Search")]
    pub from: Rate,
    /// The greatest rate that is offered; 100,000/s unless given, and needed for a target that is neither on this machine nor in
    /// a private network
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    pub max_rate: Option<Rate>,
    /// How near to each other the highest rate that passes and the lowest that fails have to come
    #[arg(long, value_name = "N%", default_value = "2%", value_parser = parse_precision, help_heading = "Search")]
    pub precision: f64,
    /// How long a probe measures, after its warm-up; longer at low rates with poisson arrivals and an objective on a time
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration, help_heading = "Search")]
    pub probe: Duration,
    /// What a probe leaves out at its start; it uses up what a limit lets through at once
    #[arg(short = 'w', long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, help_heading = "Search")]
    pub warmup: Duration,
    /// How long a target of yours is left alone after a probe, three times as long after one that failed, and as long as it asks for
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, help_heading = "Search")]
    pub rest: Duration,
    /// Begin no probe after this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration, help_heading = "Search")]
    pub budget: Duration,
    /// The seed of the first probe; each has the next one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(0..=u32::MAX.into()), help_heading = "Search")]
    pub seed: u32,
    /// Go on from the probes that a search of the same flags saved in this directory, though it was killed
    #[arg(long, value_name = "DIR", help_heading = "Search")]
    pub resume: Option<PathBuf>,

    /// Where it goes, and how it is told.
    #[command(flatten)]
    pub keep: KeepArgs,

    /// Flags of `crawlmark run` for every probe
    #[arg(last = true, value_name = "RUN FLAGS")]
    pub run: Vec<String>,
}

/// A part of the rate, from 0.1 % to 50 %.
fn parse_precision(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let percent = percent.filter(|percent| (0.1..=50.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("`{text}` is no precision: write 0.1% to 50%"))
}
