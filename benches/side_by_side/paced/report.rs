//! The comparison of paced clients as text and as JSON. Pure.

use std::fmt::Write;

use serde::Serialize;

use super::contestant::{self, OWN, Times};
use super::{PacedRun, RATES};
use crate::arguments::PacedArguments;
use crate::place::Places;
use crate::summary::median;

/// The name of the format.
const SCHEMA: &str = "crawlmark.side_by_side.paced/1";

/// At 10,000/s, crawlmark sends at most so late at the median and at the 99th percentile, us.
const GOAL_LAG_US: [f64; 2] = [100.0, 300.0];
/// The median that it reports is above the target's own by at most this, us.
const GOAL_ABOVE_SERVICE_US: f64 = 60.0;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct PacedRecord<'a> {
    schema: &'static str,
    crawlmark_version: &'static str,
    rounds: u32,
    seconds: u32,
    connections: u32,
    seed: u64,
    #[serde(flatten)]
    places: &'a Places,
    notes: &'a [String],
    lines: Vec<PacedRow>,
    runs: &'a [PacedRun],
}

/// One client at one rate: medians over the rounds.
#[derive(Debug, Serialize)]
struct PacedRow {
    rate: u32,
    client: &'static str,
    cpu_us_per_request: f64,
    /// Its CPU per request over that of crawlmark in the same round.
    cpu_over_crawlmark: Option<f64>,
    /// Share of the requests asked for that ended.
    achieved: f64,
    #[serde(flatten)]
    times: Times,
}

impl<'a> PacedRecord<'a> {
    /// Create the record of a comparison that is over.
    pub(super) fn new(
        arguments: &PacedArguments,
        places: &'a Places,
        runs: &'a [PacedRun],
        notes: &'a [String],
    ) -> Self {
        let PacedArguments { rounds, seconds, connections, seed, .. } = *arguments;
        let everybody = RATES.iter().flat_map(|rate| contestant::ALL.iter().map(move |one| (*rate, one.name)));
        let lines = everybody.filter_map(|(rate, client)| PacedRow::of(runs, rate, client, seconds)).collect();
        let crawlmark_version = env!("CARGO_PKG_VERSION");
        Self { schema: SCHEMA, crawlmark_version, rounds, seconds, connections, seed, places, notes, lines, runs }
    }
}

impl PacedRow {
    fn of(runs: &[PacedRun], rate: u32, client: &'static str, seconds: u32) -> Option<Self> {
        let at_rate = || runs.iter().filter(move |run| run.rate == rate);
        let own = |round: u32| at_rate().find(|run| run.client == OWN && run.round == round);
        let of = || at_rate().filter(|run| run.client == client);
        let over = |figure: fn(&PacedRun) -> Option<f64>| median(of().filter_map(figure).collect());
        let ratio = |run: &PacedRun| Some(run.cpu_us_per_request / own(run.round)?.cpu_us_per_request);
        let asked = f64::from(rate) * f64::from(seconds);
        Some(Self {
            rate,
            client,
            cpu_us_per_request: over(|run| Some(run.cpu_us_per_request))?,
            cpu_over_crawlmark: median(of().filter_map(ratio).collect()),
            achieved: over(|run| Some(run.requests as f64))? / asked,
            times: Times {
                median_us: over(|run| run.times.median_us),
                service_median_us: over(|run| run.times.service_median_us),
                lag_p50_us: over(|run| run.times.lag_p50_us),
                lag_p99_us: over(|run| run.times.lag_p99_us),
            },
        })
    }
}

/// Everything, for people.
pub(super) fn render(record: &PacedRecord<'_>, target: &str) -> String {
    // Writing to a String cannot fail.
    let mut text = format!(
        "\ntarget {target}\n{} rounds of {} s at each rate, {} connections, order shuffled with seed {}; us\n\n",
        record.rounds, record.seconds, record.connections, record.seed
    );
    let _ = writeln!(
        text,
        "{:>8} {:<17} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>12}",
        "rate", "client", "sent", "latency", "service", "send lag", "", "CPU", "CPU against"
    );
    let _ = writeln!(
        text,
        "{:>8} {:<17} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>12}",
        "", "", "of asked", "median", "median", "median", "p99", "request", OWN
    );
    for line in &record.lines {
        let PacedRow { rate, client, cpu_us_per_request, cpu_over_crawlmark, achieved, times } = line;
        let us = |time: Option<f64>| time.map_or("-".to_owned(), |us| format!("{us:.0}"));
        let ratio = cpu_over_crawlmark.map_or("-".to_owned(), |ratio| format!("{ratio:.2} x"));
        let _ = writeln!(
            text,
            "{rate:>8} {client:<17} {:>8.1}% {:>9} {:>9} {:>9} {:>9} {cpu_us_per_request:>9.1}  {ratio:>12}",
            achieved * 100.0,
            us(times.median_us),
            us(times.service_median_us),
            us(times.lag_p50_us),
            us(times.lag_p99_us),
        );
    }
    text.push('\n');
    for note in record.notes {
        let _ = writeln!(text, "{note}");
    }
    for line in record.lines.iter().filter(|line| line.client == OWN) {
        let Times { median_us, service_median_us, lag_p50_us, lag_p99_us } = line.times;
        if let (Some(median), Some(service)) = (median_us, service_median_us) {
            let _ = writeln!(
                text,
                "{OWN} at {}/s: the median reported is {:.0} us above the target's own (goal: at most {GOAL_ABOVE_SERVICE_US})",
                line.rate,
                median - service
            );
        }
        if let (10_000, Some(p50), Some(p99)) = (line.rate, lag_p50_us, lag_p99_us) {
            let [goal_p50, goal_p99] = GOAL_LAG_US;
            let _ = writeln!(
                text,
                "{OWN} at {}/s: sent {p50:.0} us late at the median (goal: at most {goal_p50}), {p99:.0} at p99 (goal: at most {goal_p99})",
                line.rate
            );
        }
    }
    text
}
