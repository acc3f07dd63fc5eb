//! A capacity as text: for a terminal, for Markdown, and a probe in a line while the search goes on.

use std::fmt::Write;

use super::{decimal, micros, wrapped, write_row};
use crate::run::gates::{Condition, Unit};
use crate::studies::capacity::search::{Seen, Standing};
use crate::studies::capacity::{
    BY_BURST, Capacity, Outcome, Pace, ProbeReport, Question, RateReport, credit, resolution, sees_growth,
};
use crawlmark_harness::units::grouped;

/// A rate: `4,040/s`, `22.2/s`.
fn rate(per_s: f64) -> String {
    format!("{}/s", decimal(per_s))
}

/// Columns that the whole table takes, and those without the medians.
const WIDE: usize = 62;
const NARROW: usize = 52;

/// A wait that the target asked for that is worth a word, s.
const LONG: f64 = 10.0;

/// The rate of a probe, as it is announced.
#[must_use]
pub fn offered(pace: Pace) -> String {
    rate(pace.per_s())
}

/// What came of it, in a sentence or two.
#[must_use]
pub fn capacity_headline(capacity: &Capacity) -> String {
    let pass = capacity.passes_at_per_s.map(rate);
    let fail = capacity.fails_at_per_s.map(rate);
    let bounds = capacity.question.bounds;
    // What was accepted, where that is less than what was offered.
    let accepted = capacity.capacity_per_s.map(rate).filter(|accepted| Some(accepted) != pass.as_ref());
    let sustained = |pass: &String| accepted.as_ref().map_or_else(|| pass.clone(), |rate| format!("{rate} accepted"));
    let offered = |pass: &String| if accepted.is_some() { format!("{pass} offered") } else { pass.clone() };
    match (capacity.outcome, &pass, &fail) {
        (Outcome::Found, Some(pass), Some(fail)) => {
            format!("Capacity: {} (objectives met at {}, broken at {fail}).", sustained(pass), offered(pass))
        }
        (Outcome::LeastFails, ..) => {
            let least = rate(bounds.least.per_s());
            format!("Even {least} fails, the lowest rate of the search: start lower with --from.")
        }
        (Outcome::NotReached, ..) => {
            let most = rate(bounds.greatest.per_s());
            let least = match &accepted {
                Some(accepted) if pass.as_ref() == Some(&most) => format!("{accepted} accepted of {most}"),
                _ => most,
            };
            format!("Capacity: at least {least}, the highest rate of the search: raise it with --max-rate.")
        }
        (Outcome::ClientLimited, Some(pass), Some(fail)) => {
            format!(
                "Capacity: between {} and {fail} (objectives met at {}, broken at {fail}); in between this client could \
                 not send on schedule, or was disturbed.",
                sustained(pass),
                offered(pass)
            )
        }
        (Outcome::ClientLimited, Some(pass), None) => {
            let least = sustained(pass);
            format!("Capacity: at least {least}; this client cannot send more, so the target's capacity is unknown.")
        }
        (Outcome::ClientLimited, None, Some(fail)) => {
            format!("Capacity: below {fail}; at lower rates this client could not send on schedule, or was disturbed.")
        }
        (Outcome::ClientLimited, None, None) => {
            "This client could not send on schedule, or was disturbed: nothing certain is known about the target."
                .to_owned()
        }
        (Outcome::Unsteady, ..) => {
            "The target is unsteady: it surely failed at a rate below one that it surely passed. \
             It has no single capacity, or something else used it during the search."
                .to_owned()
        }
        (_, Some(pass), Some(fail)) => {
            format!("Not settled: objectives met at {pass}, broken at {fail}; undecided in between.")
        }
        (_, Some(pass), None) => format!("Not settled: objectives met at {pass}; no higher rate is sure to fail."),
        (_, None, Some(fail)) => format!("Not settled: objectives broken at {fail}; no lower rate is sure to pass."),
        (_, None, None) => "Not settled: no rate is sure to pass, and none to fail.".to_owned(),
    }
}

/// A probe in a line, that is read otherwise because of a later one.
#[must_use]
pub fn probe_correction(probe: &ProbeReport) -> String {
    format!("{} {} after all{}", rate(probe.rate_per_s), seen(probe.seen), why(probe))
}

/// All of what speaks against a probe is in the file.
fn why(probe: &ProbeReport) -> String {
    probe.reasons.first().map_or_else(String::new, |why| format!(": {why}"))
}

/// A probe in a line.
#[must_use]
pub fn probe_line(probe: &ProbeReport) -> String {
    let seen = seen(probe.seen);
    let p99 = probe.response_p99_us.map_or_else(String::new, |us| {
        let at_least = if probe.response_p99_at_least { "at least " } else { "" };
        format!(", p99 {at_least}{}", micros(us))
    });
    format!("{} {seen}{p99}{}", rate(probe.rate_per_s), why(probe))
}

const fn seen(seen: Seen) -> &'static str {
    match seen {
        Seen::Pass => "passes",
        Seen::Fail => "fails",
        Seen::Collapse => "fails badly",
        Seen::Void => "says nothing",
    }
}

const fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Passes => "passes",
        Standing::SeemsToPass => "seems to pass",
        Standing::Undecided => "undecided",
        Standing::SeemsToFail => "seems to fail",
        Standing::Fails => "fails",
        Standing::Unknown => "unknown",
    }
}

/// The capacity for a terminal of so many columns.
#[must_use]
pub fn capacity_text(capacity: &Capacity, columns: usize) -> String {
    let mut out = String::new();
    for line in wrapped(&capacity_headline(capacity), columns) {
        out.push_str(line);
        out.push('\n');
    }
    for (name, value) in rows(capacity) {
        write_row(&mut out, name, &value, columns);
    }
    out.push('\n');
    table(&mut out, capacity, columns);
    out
}

/// The rates, in as many columns as there is room for.
fn table(out: &mut String, capacity: &Capacity, columns: usize) {
    let has_medians = columns >= WIDE;
    let mut line = |rate: &str, standing: &str, probes: &str, p50: &str, p99: &str| {
        let p50 = if has_medians { format!("{p50:<8}  ") } else { String::new() };
        let line = if columns >= NARROW {
            format!("  {rate:>13}  {standing:<13}  {probes:<8}  {p50}{p99}")
        } else {
            format!("{rate:>10} {standing:<13} {p99}")
        };
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line("rate", "what", "probes", "p50", "p99");
    for RateRow { rate, standing, probes, p50, p99 } in capacity.rates.iter().map(RateRow::of) {
        line(&rate, standing, &probes, &p50, &p99);
    }
}

/// What else there is to know.
fn rows(capacity: &Capacity) -> Vec<(&'static str, String)> {
    let question = &capacity.question;
    let what = if question.what.is_empty() { "the bundled target" } else { &question.what };
    let mut rows = vec![("of", what.to_owned()), ("wanted", question.objectives.join(", "))];
    if let (Some(least), Some(pass), Some(fail)) =
        (capacity.capacity_per_s, capacity.passes_at_per_s, capacity.fails_at_per_s)
    {
        let width = |from: f64| (fail / from - 1.0) * 100.0;
        let wider = if width(pass) > question.bounds.precision * 100.0 + 0.1 && capacity.outcome == Outcome::Found {
            ": what lies between failed and passed by turns, and is as wide as that noise"
        } else {
            ""
        };
        rows.push(("interval", format!("{} to {}, {:.1} % apart{wider}", rate(least), rate(fail), width(least))));
    }
    if let Some(limit) = capacity.limit_per_s {
        rows.push(("limit", format!("once it refuses requests, this target lets {} through", rate(limit))));
    }
    if let Some(knee) = capacity.knee {
        let (at, us) = (rate(knee.rate_per_s), micros(knee.us));
        rows.push(("knee", format!("from {at} on, at {us}, p99 of the response time turns upward")));
    }
    let count = |wanted: &[Seen]| capacity.probes.iter().filter(|probe| wanted.contains(&probe.seen)).count();
    let (all, passed, void) = (capacity.probes.len(), count(&[Seen::Pass]), count(&[Seen::Void]));
    let failed = count(&[Seen::Fail, Seen::Collapse]);
    let said_nothing = if void > 0 { format!(", {void} said nothing of the target") } else { String::new() };
    rows.push(("probes", format!("{all}: {passed} passed, {failed} failed{said_nothing}")));
    if let Some(why) =
        capacity.probes.iter().rev().filter(|probe| probe.seen == Seen::Void).find_map(|probe| probe.reasons.first())
    {
        rows.push(("void", why.clone()));
    }
    let why = |probe: &ProbeReport| probe.reasons.first().filter(|why| why.starts_with(BY_BURST)).cloned();
    rows.extend(capacity.probes.iter().rev().find_map(why).map(|why| ("burst", why)));
    let labels = std::iter::once("unseen").chain(std::iter::repeat(""));
    rows.extend(labels.zip(unseen(capacity)));
    if capacity.out_of_time {
        let promise = capacity.probes.last().map(|probe| probe.longest_promise_s).filter(|promise| *promise >= LONG);
        let asked = promise.map_or_else(String::new, |promise| {
            format!(": the target asked to be left alone for {}", micros(promise * 1e6))
        });
        rows.push(("note", format!("its time was over (--budget) before it was{asked}; --resume goes on from there")));
    }
    if capacity.interrupted {
        rows.push(("note", "it was ended before it was over; --resume goes on from there".to_owned()));
    }
    rows
}

/// What may be otherwise than the capacity says, for its probes could not see it.
fn unseen(capacity: &Capacity) -> Vec<String> {
    let question = &capacity.question;
    let Some(rate) = capacity.passes_at_per_s else { return Vec::new() };
    let mut unseen = Vec::new();
    // What it lets through once it refuses, no burst can hide.
    if capacity.limit_per_s.is_none() {
        let (credit, percent) = (credit(rate, question), question.bounds.precision * 100.0);
        unseen.push(format!(
            "a lower limit that allows bursts: {percent:.0} % lower if it lets {} or more through at once, {:.0} % lower if {} or more: \
             a longer --probe would see it",
            grouped_up(credit),
            percent * 5.0,
            grouped_up(credit * 5.0)
        ));
    }
    if let Some(lag_us) = unevenness(capacity) {
        let lag = micros(lag_us);
        unseen.push(format!(
            "a limit that is higher, if it lets nothing through at once: it refuses what comes closer together than its pace, and \
             this client was late by as much as {lag}"
        ));
    }
    if let Some(part) = resolution(rate, question) {
        unseen.push(format!(
            "a capacity up to {:.0} % lower: with random arrivals a queue that is so near to its capacity grows for longer than a \
             probe; a longer --probe would see it",
            (part * 100.0).ceil()
        ));
    }
    if !sees_growth(rate, question) {
        let until = backlog(question).map_or_else(
            || "at any distance above the rate it sustains, because no objective is on a time".to_owned(),
            |percent| {
                format!(
                    "up to {percent:.0} % above the rate it sustains, because its times exceed the objective only after a probe"
                )
            },
        );
        unseen.push(format!(
            "a target that queues what it does not manage, {until}: that they grow is seen from {GROWTH_FROM} on, in probes of four \
             whole seconds after the warm-up"
        ));
    }
    unseen
}

/// Lateness of this client at the 99th percentile, us, where the rate that fails was refused, and that much of the time from one
/// request to the next may have made it so.
fn unevenness(capacity: &Capacity) -> Option<f64> {
    let fail = capacity.fails_at_per_s?;
    let refused =
        capacity.probes.iter().filter(|probe| Pace::nearest(fail) == probe.per_min && probe.throttled_share > 0.0);
    let late = refused.filter_map(|probe| probe.sched_lag_p99_us).fold(0.0, f64::max);
    (late * fail / 1e6 >= UNEVEN).then_some(late)
}

/// Lateness that brings requests together, as a part of the time between them.
const UNEVEN: f64 = 0.1;

/// From where on it is seen that times grow, as it is told.
const GROWTH_FROM: &str = "40/s";

/// By how many percent a rate may be too much for a target that queues without a bound, and its probe still pass: at a rate
/// `R` beyond the capacity `C` the wait is `(R/C - 1) t` after a time `t`. None when no time is wanted.
fn backlog(question: &Question) -> Option<f64> {
    let wanted = question.objectives.iter().filter_map(|objective| objective.parse::<Condition>().ok());
    let times = wanted.filter(|objective| objective.metric.unit() == Unit::Us).map(|objective| objective.limit / 1e6);
    let least = times.fold(f64::INFINITY, f64::min);
    least.is_finite().then(|| least / (question.warmup_s + question.probe_s) * 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of requests")]
fn grouped_up(count: f64) -> String {
    grouped(count.ceil().max(1.0) as u64)
}

/// A rate as a row of a table.
struct RateRow {
    rate: String,
    standing: &'static str,
    probes: String,
    p50: String,
    p99: String,
}

impl RateRow {
    fn of(report: &RateReport) -> Self {
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
        let RateReport { passes, fails, voids, .. } = *report;
        let void = if voids > 0 { format!(" ?{voids}") } else { String::new() };
        Self {
            rate: rate(report.rate_per_s),
            standing: standing(report.standing),
            probes: format!("+{passes} -{fails}{void}"),
            p50: us(report.response_p50_us),
            p99: if report.response_p99_at_least { ">= " } else { "" }.to_owned() + &us(report.response_p99_us),
        }
    }
}

/// The capacity as Markdown, for a result directory, a step summary or a comment.
#[must_use]
pub fn capacity_markdown(capacity: &Capacity) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;");
    let mut out = String::new();
    let _ = writeln!(out, "# {}: {}\n", cell(&capacity.name), capacity.outcome.name());
    let _ = writeln!(out, "{}\n\n| | |\n|---|---|", cell(&capacity_headline(capacity)));
    for (name, value) in rows(capacity) {
        let _ = writeln!(out, "| {name} | {} |", cell(&value));
    }
    let _ = writeln!(out, "\n| rate | | probes | response p50 | response p99 |\n|---|---|---|---|---|");
    for RateRow { rate, standing, probes, p50, p99 } in capacity.rates.iter().map(RateRow::of) {
        let _ = writeln!(out, "| {rate} | {standing} | {probes} | {p50} | {p99} |");
    }
    let _ = writeln!(
        out,
        "\nProbes that passed (+), failed (-) and said nothing of the target (?), beside short ones on the way up. \
         ![Latency against rate](plots/capacity.svg)\n\n{}, {} cores{}. crawlmark {}, {}.",
        cell(capacity.environment.cpu_model.as_deref().unwrap_or("an unknown CPU")),
        capacity.environment.cores,
        if capacity.environment.colocated { ", client and target together" } else { "" },
        capacity.crawlmark_version,
        capacity.started_at
    );
    out
}
