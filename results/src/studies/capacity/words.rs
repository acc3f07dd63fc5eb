//! A capacity as a document, and a probe in a line while the search goes on.

use super::search::{Pace, ProbeResult, RateState};
use super::{Capacity, ProbeReport, RateReport, SearchOutcome, WithText};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{decimal, micros};
use crate::studies::{Conclusion, StudyResult};

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

/// Summarize the result in a sentence.
#[must_use]
pub fn capacity_headline(capacity: &Capacity) -> String {
    let bounds = capacity.question.bounds;
    let [pass, fail] = [capacity.passes_at_per_s, capacity.fails_at_per_s].map(|at| at.map(rate));
    let met = match (&pass, &fail) {
        (Some(pass), Some(fail)) => format!("objectives met at {pass}, broken at {fail}"),
        (Some(pass), None) => format!("objectives met at {pass}"),
        (None, Some(fail)) => format!("objectives broken at {fail}"),
        (None, None) => "no rate was confirmed to pass or to fail".to_owned(),
    };
    let lasts = capacity.sustained_for_s.unwrap_or(0.0);
    let sustained = capacity
        .capacity_per_s
        .map(|per_s| format!("{} for {}", rate(per_s), micros(lasts * 1e6)));
    let sustained = match (sustained, &pass) {
        (Some(sustained), _) => sustained,
        (None, Some(pass)) => return format!("No good response at {pass}: no capacity."),
        (None, None) => String::new(),
    };
    match capacity.outcome {
        SearchOutcome::Found => format!("Capacity: {sustained} ({met})."),
        SearchOutcome::Unconfirmed => {
            let (least, per_s) = (capacity.at_least_per_s, capacity.capacity_per_s);
            let other = match least.filter(|_| least < per_s) {
                Some(least) => format!("lower, down to {}", rate(least)),
                None => "higher".to_owned(),
            };
            format!("Not confirmed: {sustained} ({met}), but the capacity may be {other}.")
        }
        SearchOutcome::LeastFails => format!(
            "Even {} fails, the lowest rate of the search: use a lower --from.",
            offered(bounds.least)
        ),
        SearchOutcome::NotReached => format!(
            "Capacity: at least {sustained}, and {} is the highest rate of the search: use a higher --max-rate.",
            offered(bounds.greatest)
        ),
        SearchOutcome::ClientLimited => {
            let least = if sustained.is_empty() {
                String::new()
            } else {
                format!("at least {sustained}, ")
            };
            format!("Capacity: {least}otherwise unknown, because this client could not send more on schedule ({met}).")
        }
        SearchOutcome::Unsteady => {
            "The target is unsteady: it failed at a rate below one at which it passed, each confirmed. It has no single capacity, or \
             something else used it during the search."
                .to_owned()
        }
        SearchOutcome::Undecided => format!("Not settled: {met}."),
    }
}

const fn severity(outcome: SearchOutcome) -> Severity {
    match outcome {
        SearchOutcome::Found => Severity::Good,
        SearchOutcome::LeastFails => Severity::Bad,
        _ => Severity::Warning,
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

    fn doc(&self) -> Doc {
        let together = if self.environment.colocated {
            ", client and target together"
        } else {
            ""
        };
        let cpu = self.environment.cpu_model.as_deref();
        let text = |caveat: &WithText<_>| caveat.text.clone();
        Doc::new(format!("{}: {}", self.header.title(), self.outcome.name()))
            .headline(severity(self.outcome), &capacity_headline(self))
            .facts(facts(self))
            .table(table(self))
            .text(LEGEND)
            .list("Caveats", self.caveats.iter().map(text).collect())
            .in_files()
            .plot("capacity", "Latency against rate")
            .text(format!(
                "{}, {} cores{together}. {}",
                cpu.unwrap_or("an unknown CPU"),
                self.environment.cores,
                self.header.made_by()
            ))
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::capacity(self)]
    }
}

fn facts(capacity: &Capacity) -> Vec<(&'static str, String)> {
    let question = &capacity.question;
    let what = match question.what.as_str() {
        "" => "the bundled target",
        what => what,
    };
    let objectives: Vec<String> = question
        .objectives
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut facts = vec![
        ("target", what.to_owned()),
        ("objectives", objectives.join(", ")),
    ];
    if let Some((pass, fail)) = capacity.passes_at_per_s.zip(capacity.fails_at_per_s) {
        let (apart, precision) = (
            (fail / pass - 1.0) * 100.0,
            question.bounds.precision * 100.0,
        );
        facts.push((
            "interval",
            format!(
                "{} to {} offered, {apart:.1} % apart (--precision {precision}%)",
                rate(pass),
                rate(fail)
            ),
        ));
    }
    if let Some(limit) = capacity.limit_per_s {
        let limit = rate(limit);
        facts.push((
            "limit",
            format!(
                "{limit} or a little more, by what the target accepted once it refused requests"
            ),
        ));
    }
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
    let of_rate = |probe: &&ProbeReport| Pace::nearest(of.rate_per_s) == probe.per_min;
    let reasons = |fails: bool| {
        let mut probes = capacity.probes.iter().filter(of_rate);
        probes.find_map(|probe| {
            probe
                .reasons
                .first()
                .filter(|_| probe.seen.fails() == fails)
        })
    };
    let failure = reasons(true).or_else(|| reasons(false));
    vec![
        rate(of.rate_per_s),
        standing.to_owned(),
        (full + &void).trim_end().to_owned(),
        of.accepted_per_s.map_or_else(|| "-".to_owned(), rate),
        us(of.response_p50_us),
        at_least.to_owned() + &us(of.response_p99_us),
        failure.map_or_else(String::new, |why| why.text.clone()),
    ]
}
