//! A capacity as a document, and a probe in a line while the search goes on.

use crawlmark_harness::units::{percent, rounded_percent};

use super::search::{Pace, ProbeResult, RateState};
use super::{Capacity, ProbeReport, RateReport, SearchOutcome};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{decimal, micros};
use crate::studies::{Conclusion, Notice, StudyResult, doc_of};

/// Explanation of the marks of the table.
const LEGEND: &str = "Probes: + passed, - failed, ? void; short: only short probes, made while rates were doubled, which + and - leave \
                      out. \"-\": fewer than 1,000 good responses in a probe are too few for a p99.";

/// A rate: `4,040/s`, `22.2/s`.
fn rate(per_s: f64) -> String {
    format!("{}/s", decimal(per_s))
}

/// The rate of a probe, as it is announced.
#[must_use]
pub fn offered(pace: Pace) -> String {
    rate(pace.per_s())
}

/// A probe in a line.
#[must_use]
pub fn probe_line(probe: &ProbeReport) -> String {
    let seen = match probe.seen {
        ProbeResult::Pass => "passes",
        ProbeResult::Fail => "fails",
        ProbeResult::Collapse => "fails badly",
        ProbeResult::Void => "is void",
    };
    let at_least = if probe.response_p99_at_least {
        "at least "
    } else {
        ""
    };
    let p99 = probe.response_p99_us;
    let p99 = p99.map_or_else(String::new, |us| format!(", p99 {at_least}{}", micros(us)));
    let why = probe.reasons.first();
    let why = why.map_or_else(String::new, |why| format!(": {}", why.text));
    format!("{} {seen}{p99}{why}", rate(probe.rate_per_s))
}

impl Capacity {
    /// The outcome as it is shown.
    fn answer(&self) -> Notice {
        let bounds = self.question.bounds;
        let [pass, fail] = [self.passes_at_per_s, self.fails_at_per_s].map(|at| at.map(rate));
        let met = match (&pass, &fail) {
            (Some(pass), Some(fail)) => format!("objectives met at {pass}, broken at {fail}"),
            (Some(pass), None) => format!("objectives met at {pass}"),
            (None, Some(fail)) => format!("objectives broken at {fail}"),
            (None, None) => "no rate was confirmed to pass or to fail".to_owned(),
        };
        let lasts = micros(self.sustained_for_s.unwrap_or(0.0) * 1e6);
        let warning = |title: String| Notice::new(Severity::Warning, title);
        let sustained = match (self.capacity_per_s, pass) {
            (Some(per_s), _) => format!("{} for {lasts}", rate(per_s)),
            (None, Some(pass)) => {
                return warning(format!("No good response at {pass}: no capacity"));
            }
            (None, None) => "unknown".to_owned(),
        };
        match self.outcome {
            SearchOutcome::Found => {
                Notice::new(Severity::Good, format!("Capacity: {sustained} ({met})"))
            }
            SearchOutcome::Unconfirmed => {
                let least = self.at_least_per_s.filter(|_| self.at_least_per_s < self.capacity_per_s);
                let other = least.map_or_else(
                    || "higher".to_owned(),
                    |least| format!("lower, down to {}", rate(least)),
                );
                warning(format!(
                    "Not confirmed: {sustained} ({met}), but the capacity may be {other}"
                ))
            }
            SearchOutcome::LeastFails => Notice::new(
                Severity::Bad,
                format!("Even {} fails, the lowest rate of the search", offered(bounds.least)),
            )
            .with("Use a lower --from."),
            SearchOutcome::NotReached => warning(format!(
                "Capacity: at least {sustained}, and {} is the highest rate of the search",
                offered(bounds.greatest)
            ))
            .with("Use a higher --max-rate."),
            SearchOutcome::ClientLimited => warning(format!(
                "Capacity: {sustained} or more, because this client could not send more on schedule ({met})"
            )),
            SearchOutcome::Unsteady => warning(
                "The target is unsteady: it failed at a rate below one at which it passed, each confirmed".to_owned(),
            )
            .with("It has no single capacity, or something else used it during the search."),
            SearchOutcome::Undecided => warning(format!("Not settled: {met}")),
        }
    }
}

impl StudyResult for Capacity {
    const SCHEMA: &'static str = "crawlmark.capacity/1";

    const FILE: &'static str = "capacity.json";

    fn conclusion(&self) -> Conclusion {
        match self.outcome {
            SearchOutcome::Found => Conclusion::Done,
            SearchOutcome::LeastFails => Conclusion::Failed,
            _ => Conclusion::Inconclusive,
        }
    }

    fn notices(&self) -> Vec<Notice> {
        let caveats = self.caveats.iter().map(|caveat| caveat.what.notice());
        std::iter::once(self.answer()).chain(caveats).collect()
    }

    fn doc(&self) -> Doc {
        let title = format!("{}: {}", self.header.title(), self.outcome.name());
        doc_of(title, &self.notices())
            .facts(facts(self))
            .table(table(self))
            .text(LEGEND)
            .in_files()
            .plot("capacity", "Latency against rate")
            .text(self.header.made_on(&self.environment))
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::capacity(self)]
    }
}

fn facts(capacity: &Capacity) -> Vec<(&'static str, String)> {
    let question = &capacity.question;
    let mut facts = vec![
        ("target", question.target().to_owned()),
        ("objectives", question.objectives_in_words()),
    ];
    if let Some((pass, fail)) = capacity.passes_at_per_s.zip(capacity.fails_at_per_s) {
        let (apart, pass, fail) = (percent(fail / pass - 1.0), rate(pass), rate(fail));
        let precision = rounded_percent(question.bounds.precision);
        facts.push((
            "interval",
            format!("{pass} to {fail} offered, {apart} apart (--precision {precision})"),
        ));
    }
    let limit = capacity.limit_per_s.map(rate);
    facts.extend(limit.map(|limit| ("limit", format!("{limit} once the target refuses requests"))));
    facts
}

/// The rates that were probed.
fn table(capacity: &Capacity) -> Table {
    Table {
        columns: vec![
            Column::numbers("rate"),
            Column::words("objectives"),
            Column::words("probes").leaving(4),
            Column::numbers("accepted").leaving(2),
            Column::numbers("response p50").leaving(1),
            Column::numbers("response p99").leaving(3),
            Column::details("reason"),
        ],
        rows: capacity.rates.iter().map(|of| row(of, capacity)).collect(),
        ..Table::default()
    }
}

fn row(of: &RateReport, capacity: &Capacity) -> Vec<String> {
    let standing = match of.standing {
        RateState::Passes => "passes",
        RateState::SeemsToPass => "seems to pass",
        RateState::Undecided => "undecided",
        RateState::SeemsToFail => "seems to fail",
        RateState::Fails => "fails",
        RateState::Unknown => "unknown",
    };
    let full = match (of.passes, of.fails) {
        (0, 0) if of.standing == RateState::Unknown => String::new(),
        (0, 0) => "short ".to_owned(),
        (passes, fails) => format!("+{passes} -{fails} "),
    };
    let void = match of.voids {
        0 => String::new(),
        voids => format!("?{voids}"),
    };
    let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    let at_least = if of.response_p99_at_least { ">= " } else { "" };
    // That of a failed probe says most.
    let probes = || {
        capacity
            .probes
            .iter()
            .filter(|probe| Pace::nearest(of.rate_per_s) == probe.per_min)
    };
    let failed = probes().filter(|probe| probe.seen.fails());
    let reason = failed
        .chain(probes())
        .find_map(|probe| probe.reasons.first());
    vec![
        rate(of.rate_per_s),
        standing.to_owned(),
        (full + &void).trim_end().to_owned(),
        of.accepted_per_s.map_or_else(|| "-".to_owned(), rate),
        us(of.response_p50_us),
        at_least.to_owned() + &us(of.response_p99_us),
        reason.map_or_else(String::new, |why| why.text.clone()),
    ]
}
