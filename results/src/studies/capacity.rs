//! Find the highest rate that a target sustains: by open-loop probes at rates between one that
//! meets the objectives and one that does not.
//!
//! A *probe* is a run at one rate, in fresh processes. It passes when every objective held, at
//! least 99 % of the requests that were due went, on time, and the target did not fall behind. It
//! is *void*, and says nothing of the target, when this client was late by more than a tenth of the
//! tightest objective on a time (and by more than the check of validity forgives), had no port or
//! descriptor, or was disturbed in a way that could have made the times that broke an objective. It
//! is void as well when a share is beyond its objective by no more than twice the part of the
//! requests that were sent late, in bunches. It is *stopped* early when most of it is refused or
//! fails. What met the objectives although this side was disturbed did meet them: that is a pass.
//!
//! | file | holds |
//! |---|---|
//! | [`search`] | choice of the next rate, and of the end |
//! | `probe` | a probe: its figures, its result, and the reasons for it |
//! | `limit` | the limit of a target, read from refusals: it corrects what bursts let pass |
//! | `chart` | the chart |
//!
//! One rule makes the statement: the capacity is what the target accepted at the highest rate that
//! is settled to pass below every rate that fails or seems to, in the worst of the probes of that
//! rate. All that later probes change is the result of earlier ones, see [`read_together`], so the
//! table of the rates and the statement never differ.

mod chart;
mod limit;
mod probe;
pub mod search;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

pub use self::limit::read_together;
use self::limit::{Limit, let_through_per_s, longest_wait_s, may_be_longer, refused};
pub use self::probe::{AttemptCounts, ProbePlan, ProbeReport, Reason, Refusals, SENT, Slow, judge};
use self::search::{
    Pace, ProbeKind, ProbeResult, RateState, Search, SearchStep, Tally, resolution,
};
pub use self::search::{Question, SearchOutcome, times_s};
use super::{Conclusion, Header, LoadStep, Notice, StudyResult, or_dash};
use crate::run::report::Environment;
use crate::show::chart::Chart;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::text::{decimal, micros};
use crawlmark_harness::units::{grouped, percent, rounded_percent};

/// Rates at which a limit is read that the search did not read, as multiples of the rate that
/// passes: far enough apart to be compared, and not so high that half is refused, which would end
/// the probe.
const LIMIT_CHECKS: [f64; 2] = [1.25, 1.6];

/// Lateness that brings requests together, as a part of the time between them.
const UNEVEN: f64 = 0.1;

/// Share of not-found responses from which on it is a caveat.
const MANY_MISSING: f64 = 0.01;

/// Part of a capacity by which it may be lower and is confirmed nevertheless.
const UNCERTAIN: f64 = 0.1;

/// A capacity, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// What every saved study begins with.
    #[serde(flatten)]
    pub header: Header,
    /// The machine.
    pub environment: Environment,
    /// Question of the search.
    pub question: Question,
    /// Outcome of the search.
    pub outcome: SearchOutcome,
    /// Good responses per second at the highest rate that passes, in the worst of its full probes,
    /// and no more than the limit that was read; null without such a rate.
    pub capacity_per_s: Option<f64>,
    /// Lowest capacity that the caveats leave open; null without a capacity.
    pub at_least_per_s: Option<f64>,
    /// Length of a probe of the highest rate that passes, s: limits over longer periods were not
    /// tested. Null without such a rate.
    pub sustained_for_s: Option<f64>,
    /// The highest rate offered that is settled to pass below every one that fails; null without
    /// one.
    pub passes_at_per_s: Option<f64>,
    /// The lowest rate that is settled to fail; null without one.
    pub fails_at_per_s: Option<f64>,
    /// The rate at which the target lets requests through once it refuses some, at the least; null
    /// unless two rates agreed on it.
    pub limit_per_s: Option<f64>,
    /// True if the time for the search was used up.
    pub out_of_time: bool,
    /// Each rate, from the lowest on.
    pub rates: Vec<RateReport>,
    /// Each probe, in the order in which they ran.
    pub probes: Vec<ProbeReport>,
}

/// All probes of a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateReport {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Full probes that passed.
    pub passes: u32,
    /// Full probes that failed.
    pub fails: u32,
    /// Probes that said nothing of the target.
    pub voids: u32,
    /// State of the rate, from its probes.
    pub standing: RateState,
    /// Good responses per second in the worst of its full probes that passed; null without one.
    pub accepted_per_s: Option<f64>,
    /// The median over its probes that were not void; null where none read it.
    pub response_p50_us: Option<f64>,
    /// Median of the 99th percentile over its probes that were not void; null where none read it.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off in the probe that it is of that it may be more.
    pub response_p99_at_least: bool,
}

impl RateReport {
    fn new(pace: Pace, tally: &Tally, probes: &[ProbeReport]) -> Self {
        let of_rate = probes.iter().filter(|probe| probe.per_min == pace);
        let said = of_rate.clone().filter(|probe| probe.seen.speaks());
        let passed = of_rate
            .filter(|probe| probe.kind == ProbeKind::Full && probe.seen == ProbeResult::Pass);
        let p50 = median(said.clone().map(|probe| (probe.response_p50_us, false)));
        let p99 = median(said.map(|probe| (probe.response_p99_us, probe.response_p99_at_least)));
        Self {
            rate_per_s: pace.per_s(),
            passes: tally.passes,
            fails: tally.fails,
            voids: tally.voids,
            standing: tally.standing(),
            accepted_per_s: passed.map(|probe| probe.accepted_per_s).reduce(f64::min),
            response_p50_us: p50.map(|(us, _)| us),
            response_p99_us: p99.map(|(us, _)| us),
            response_p99_at_least: p99.is_some_and(|(_, at_least)| at_least),
        }
    }
}

/// The median of values that were read, and its flag.
fn median(read: impl Iterator<Item = (Option<f64>, bool)>) -> Option<(f64, bool)> {
    let mut values: Vec<(f64, bool)> = read.filter_map(|(us, flag)| Some((us?, flag))).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.get(values.len() / 2).copied()
}

impl Capacity {
    /// Build the capacity from the probes of a search, of which there is at least one; without an
    /// outcome of a search that was interrupted, or whose time was over.
    pub fn new(
        header: Header,
        question: Question,
        environment: Environment,
        probes: Vec<ProbeReport>,
        outcome: Option<SearchOutcome>,
    ) -> Self {
        let probes = read_together(&question, probes);
        let search = search_of(&question, &probes);
        let (pass, fail) = search.settled();
        let rates: Vec<RateReport> = search
            .rates()
            .map(|(pace, tally)| RateReport::new(pace, tally, &probes))
            .collect();
        let pass_per_s = pass.map(Pace::per_s);
        let of_pass = rates
            .iter()
            .find(|rate| Some(rate.rate_per_s) == pass_per_s);
        let capacity_per_s = of_pass
            .and_then(|rate| rate.accepted_per_s)
            .filter(|capacity| *capacity > 0.0);
        let caveats = caveats(&question, &probes, [pass, fail]);
        let lowest = pass_per_s.map_or(f64::INFINITY, |pass| {
            let least = caveats.iter().filter_map(|caveat| caveat.least_per_s(pass));
            least.fold(f64::INFINITY, f64::min)
        });
        let is_doubtful = caveats.iter().any(CapacityFinding::is_doubt);
        let out_of_time = outcome.is_none() && !header.interrupted;
        let outcome = match outcome.unwrap_or(SearchOutcome::Undecided) {
            SearchOutcome::NotReached | SearchOutcome::Found if capacity_per_s.is_none() => {
                SearchOutcome::Unconfirmed
            }
            // What was void too often is not settled to fail.
            SearchOutcome::Found if fail.is_none() => SearchOutcome::ClientLimited,
            SearchOutcome::Found if is_doubtful => SearchOutcome::Unconfirmed,
            outcome => outcome,
        };
        Self {
            header,
            environment,
            outcome,
            capacity_per_s,
            at_least_per_s: capacity_per_s.map(|capacity| capacity.min(lowest)),
            sustained_for_s: pass_per_s
                .map(|pass| times_s(pass, &question))
                .map(|(warmup, probe)| warmup + probe),
            passes_at_per_s: pass_per_s,
            fails_at_per_s: fail.map(Pace::per_s),
            limit_per_s: Limit::of(&probes).map(|limit| limit.least_per_s),
            out_of_time,
            question,
            rates,
            probes,
        }
    }

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

/// The next step after these probes.
pub fn next_step(question: &Question, probes: &[ProbeReport]) -> SearchStep {
    let search = search_of(question, &read_together(question, probes.to_vec()));
    let step = search.next();
    let (SearchStep::Done(SearchOutcome::Found), (Some(pass), Some(fail))) =
        (step, search.settled())
    else {
        return step;
    };
    // Where refusals ended the search, and a burst may be all that passed, the limit is read before
    // a capacity is named.
    let of = |pace: Pace| probes.iter().filter(move |probe| probe.per_min == pace);
    if !of(fail).any(|probe| probe.throttled_share + probe.error_share > 0.0)
        || Limit::of(probes).is_some()
    {
        return step;
    }
    let above = LIMIT_CHECKS.map(|times| Pace::nearest(pass.per_s() * times));
    let unread = above.into_iter().find(|pace| {
        (fail..=question.bounds.greatest).contains(pace) && of(*pace).next().is_none()
    });
    unread.map_or(step, |pace| SearchStep::Probe(pace, ProbeKind::Full))
}

/// The search that these probes, which were [read together](read_together), are.
fn search_of(question: &Question, probes: &[ProbeReport]) -> Search {
    let mut search = Search::new(question.bounds);
    for probe in probes {
        search.note(probe.per_min, probe.kind, probe.seen);
    }
    search
}

/// Finding of a search: its answer, or a caveat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CapacityFinding {
    /// The outcome of the search.
    Answer {
        /// The outcome.
        outcome: SearchOutcome,
    },
    /// Responses that were not found count neither as good nor as failed.
    NotFound {
        /// Their share.
        share: f64,
    },
    /// A limit may count over a period longer than a probe.
    LongerPeriod {
        /// Least rate that the target let through once it refused requests, per second.
        let_through_per_s: f64,
        /// The longest wait that it asked for, s.
        wait_s: f64,
    },
    /// With random arrivals, a queue near its capacity grows for longer than a probe.
    RandomArrivals {
        /// Part by which the capacity may be lower.
        share: f64,
    },
    /// A limit that allows nothing at once may be higher.
    NoBurst {
        /// Lateness of this client at the 99th percentile, us.
        late_us: f64,
    },
    /// Probes that said nothing of the target.
    Void {
        /// Number of them.
        probes: usize,
        /// Reason of the last one.
        reason: Reason,
    },
    /// The time for the search was used up.
    OutOfTime {},
}

impl CapacityFinding {
    /// Lowest capacity that it leaves open; none if it does not bound it from below.
    fn least_per_s(&self, pass_per_s: f64) -> Option<f64> {
        match self {
            Self::LongerPeriod {
                let_through_per_s, ..
            } => Some(*let_through_per_s),
            Self::RandomArrivals { share } => Some(pass_per_s * (1.0 - share)),
            _ => None,
        }
    }

    /// True if a capacity with this caveat is not confirmed.
    fn is_doubt(&self) -> bool {
        match self {
            Self::LongerPeriod { .. } | Self::NoBurst { .. } => true,
            Self::RandomArrivals { share } => *share > UNCERTAIN,
            _ => false,
        }
    }

    /// A caveat as it is shown.
    fn caveat(&self) -> Notice {
        let severity = if self.is_doubt() {
            Severity::Warning
        } else {
            Severity::Neutral
        };
        let (title, remedy) = match self {
            Self::NotFound { share } => (
                format!(
                    "{} of the responses were 404 or 410, which are not accepted",
                    percent(*share)
                ),
                "Choose --ids that exist, or accept them (--expect status:200,404).",
            ),
            Self::LongerPeriod {
                let_through_per_s,
                wait_s,
            } => {
                let wait = if *wait_s > 0.0 {
                    format!(" and asked for a wait of {}", micros(wait_s * 1e6))
                } else {
                    String::new()
                };
                let rate = decimal(*let_through_per_s);
                (
                    format!(
                        "The limit may count over a period longer than a probe: once the target refused requests, it accepted as little as {rate}/s{wait}"
                    ),
                    "A --probe of twice the period would show it.",
                )
            }
            Self::RandomArrivals { share } => (
                format!(
                    "The capacity may be up to {:.0} % lower: with random arrivals, a queue this close to capacity grows for longer than a probe",
                    (share * 100.0).ceil()
                ),
                LONGER,
            ),
            Self::NoBurst { late_us } => (
                format!(
                    "The real limit may be higher if it allows no bursts, because requests that arrive too close together are then refused: this client sent some up to {} late",
                    micros(*late_us)
                ),
                LONGER,
            ),
            Self::Void { probes, reason } => (
                format!(
                    "Void probes, which say nothing of the target: {}; the last one because {}",
                    grouped(*probes as u64),
                    reason.title()
                ),
                "",
            ),
            Self::OutOfTime {} => (
                "The time for the search (--budget) was used up".to_owned(),
                "Raise it, or search a narrower range (--from, --max-rate).",
            ),
            Self::Answer { outcome } => (outcome.name().to_owned(), ""),
        };
        Notice::new(severity, title).with(remedy)
    }
}

/// Advice where a probe was too short.
const LONGER: &str = "A longer --probe would show it.";

/// The caveats of a search that ended with these rates settled.
fn caveats(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Vec<CapacityFinding> {
    let limit = Limit::of(probes);
    let of_pass = probes
        .iter()
        .filter(|probe| Some(probe.per_min) == pass && probe.seen == ProbeResult::Pass);
    let missing = of_pass
        .map(|probe| probe.counted.not_found as f64 / (probe.counted.attempts as f64).max(1.0))
        .fold(0.0, f64::max);
    let random = pass.and_then(|pass| resolution(pass.per_s(), question));
    let late_us = fail
        .filter(|_| limit.is_none())
        .and_then(|fail| unevenness(probes, fail));
    let void = probes
        .iter()
        .filter(|probe| probe.seen == ProbeResult::Void);
    let reason = void.clone().rev().find_map(|probe| probe.reasons.first());
    let caveats = [
        (missing > MANY_MISSING).then_some(CapacityFinding::NotFound { share: missing }),
        longer_period(question, probes, [pass, fail]),
        random.map(|share| CapacityFinding::RandomArrivals { share }),
        late_us.map(|late_us| CapacityFinding::NoBurst { late_us }),
        reason.map(|reason| CapacityFinding::Void {
            probes: void.count(),
            reason: reason.clone(),
        }),
    ];
    let mut caveats: Vec<CapacityFinding> = caveats.into_iter().flatten().collect();
    caveats.sort_by_key(|caveat| Reverse(caveat.is_doubt()));
    caveats
}

/// A limit over a longer period ended the search, or had all requests of a probe refused although
/// an earlier one of that rate or a higher one passed.
fn longer_period(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Option<CapacityFinding> {
    let ended = pass.zip(fail);
    let ended = ended.is_some_and(|(pass, fail)| may_be_longer(question, probes, [pass, fail]));
    let mut passed = None;
    let used_up = probes.iter().any(|probe| {
        if probe.seen == ProbeResult::Pass {
            passed = passed.max(Some(probe.per_min));
        }
        let counted = probe.counted;
        Some(probe.per_min) <= passed
            && counted.attempts > 0
            && counted.throttled == counted.attempts
    });
    let at_fail = refused(probes).filter(|probe| Some(probe.per_min) == fail);
    let let_through = let_through_per_s(at_fail).and(let_through_per_s(refused(probes)));
    (ended || used_up).then(|| CapacityFinding::LongerPeriod {
        let_through_per_s: let_through.unwrap_or(0.0),
        wait_s: longest_wait_s(probes),
    })
}

/// Lateness of this client at the 99th percentile, us, where the rate that fails was refused, and
/// that much of the time from one request to the next may have made it so.
fn unevenness(probes: &[ProbeReport], fail: Pace) -> Option<f64> {
    let refused = probes
        .iter()
        .filter(|probe| probe.per_min == fail && probe.throttled_share > 0.0);
    let late_us = refused
        .filter_map(|probe| probe.sched_lag_p99_us)
        .fold(0.0, f64::max);
    (late_us * fail.per_s() / 1e6 >= UNEVEN).then_some(late_us)
}

impl StudyResult for Capacity {
    type Finding = CapacityFinding;

    const SCHEMA: &'static str = "crawlmark.capacity/1";

    const FILE: &'static str = "capacity.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn outcome(&self) -> &'static str {
        self.outcome.name()
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn findings(&self) -> Vec<CapacityFinding> {
        let settled = [self.passes_at_per_s, self.fails_at_per_s].map(|at| at.map(Pace::nearest));
        let mut found = vec![CapacityFinding::Answer {
            outcome: self.outcome,
        }];
        found.extend(caveats(&self.question, &self.probes, settled));
        found.extend(self.out_of_time.then_some(CapacityFinding::OutOfTime {}));
        found
    }

    fn notice(&self, finding: &CapacityFinding) -> Notice {
        match finding {
            CapacityFinding::Answer { .. } => self.answer(),
            caveat => caveat.caveat(),
        }
    }

    fn load_steps(&self) -> Vec<LoadStep> {
        let steps = self.rates.iter().filter_map(|of| {
            let probe = telling(of, self).filter(|probe| probe.seen.speaks())?;
            Some(LoadStep {
                name: rate(of.rate_per_s),
                in_flight: probe.in_flight,
                per_s: probe.accepted_per_s,
                target: probe.target.clone(),
                fails: probe.seen.fails(),
            })
        });
        steps.collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.facts(facts(self)).table(table(self)).text(LEGEND)
    }

    fn chart(&self) -> Option<Chart> {
        Some(chart::chart(self))
    }

    fn conclusion(&self) -> Conclusion {
        match self.outcome {
            SearchOutcome::Found => Conclusion::Done,
            SearchOutcome::LeastFails => Conclusion::Failed,
            _ => Conclusion::Inconclusive,
        }
    }
}

/// Explanation of the marks of the table.
const LEGEND: &str = "Probes: + passed, - failed, ? void; short: only short probes, made while rates were doubled, which + and - leave \
                      out. \"-\": fewer than 1,000 good responses in a probe are too few for a p99.";

/// A rate: `4,040/s`, `22.2/s`.
fn rate(per_s: f64) -> String {
    format!("{}/s", decimal(per_s))
}

/// The rate of a probe, as it is announced.
pub fn offered(pace: Pace) -> String {
    rate(pace.per_s())
}

/// A probe in a line.
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
    let why = why.map_or_else(String::new, |why| format!(": {}", why.title()));
    format!("{} {seen}{p99}{why}", rate(probe.rate_per_s))
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
            Column::numbers("target CPUs").leaving(2),
            Column::details("reason"),
        ],
        rows: capacity.rates.iter().map(|of| row(of, capacity)).collect(),
        ..Table::default()
    }
}

/// The probe that says most of a rate: one that failed, if any did.
fn telling<'a>(of: &RateReport, capacity: &'a Capacity) -> Option<&'a ProbeReport> {
    let pace = Pace::nearest(of.rate_per_s);
    let mut probes = capacity.probes.iter().filter(|it| it.per_min == pace);
    let mut failed = probes.clone().filter(|probe| probe.seen.fails());
    failed.next().or_else(|| probes.next_back())
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
    let at_least = if of.response_p99_at_least { ">= " } else { "" };
    let probe = telling(of, capacity);
    let reason = probe.and_then(|probe| probe.reasons.first());
    let used = probe.and_then(|probe| probe.target.as_ref()?.cpus_used);
    vec![
        rate(of.rate_per_s),
        standing.to_owned(),
        (full + &void).trim_end().to_owned(),
        or_dash(of.accepted_per_s, rate),
        or_dash(of.response_p50_us, micros),
        at_least.to_owned() + &or_dash(of.response_p99_us, micros),
        used.map_or_else(String::new, decimal),
        reason.map_or_else(String::new, Reason::title),
    ]
}
