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
//! | `chart` | response times and refusals over the rates |
//! | `limit` | the limit of a target, read from refusals: it corrects what bursts let pass |
//!
//! One rule makes the statement: the capacity is what the target accepted at the highest rate that
//! is settled to pass below every rate that fails or seems to, in the worst of the probes of that
//! rate. All that later probes change is the result of earlier ones, see [`read_together`], so the
//! table of the rates and the statement never differ.

mod chart;
mod limit;
mod probe;
pub mod search;

use serde::{Deserialize, Serialize};

pub use self::limit::read_together;
use self::limit::{Limit, longer_period, random_rate, refuses_neighbours};
pub use self::probe::*;
pub use self::search::*;
use super::{
    Conclusion, Header, LoadStep, Picture, StudyFinding, StudyResult, figure, load, name_of,
    or_dash, rate,
};
use crate::judge::Finding;
use crate::run::report::Environment;
use crate::show::doc::{Column, Doc, Figure, Severity, Table};
use crate::show::text::{counted, decimal, micros};
use crawlmark_harness::units::{percent, rounded_percent};

/// Rates at which a limit is read that the search did not read, as multiples of the rate that
/// passes: far enough apart to be compared, and not so high that half is refused, which would end
/// the probe.
const LIMIT_CHECKS: [f64; 2] = [1.25, 1.6];

/// Share of not-found responses from which on it is a caveat.
const MANY_MISSING: f64 = 0.01;

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
    /// Numbers of its probes.
    #[serde(flatten)]
    pub tally: Tally,
    /// State of the rate, from its probes.
    #[serde(rename = "standing")]
    pub state: RateState,
    /// Good responses per second in the worst of its full probes that passed; null without one.
    pub accepted_per_s: Option<f64>,
    /// Median response time in the probe that says most of the rate; null where it was not read.
    pub response_p50_us: Option<f64>,
    /// 99th percentile in that probe; null where it was not read.
    pub response_p99_us: Option<f64>,
    /// True if so many were cut off in that probe that it may be more.
    pub response_p99_at_least: bool,
}

impl RateReport {
    fn of(pace: Pace, tally: &Tally, probes: &[ProbeReport]) -> Self {
        let probe = telling(pace, probes);
        Self {
            rate_per_s: pace.per_s(),
            tally: *tally,
            state: tally.state(),
            accepted_per_s: probes
                .iter()
                .filter(|probe| {
                    probe.plan.per_min == pace
                        && probe.plan.kind == ProbeKind::Full
                        && probe.seen == ProbeResult::Pass
                })
                .map(|probe| probe.accepted_per_s)
                .reduce(f64::min),
            response_p50_us: probe.and_then(|probe| probe.response_p50_us),
            response_p99_us: probe.and_then(|probe| probe.response_p99_us),
            response_p99_at_least: probe.is_some_and(|probe| probe.response_p99_at_least),
        }
    }
}

/// The outcome of a search whose highest rates were void: a client that was disturbed sent all in
/// time.
fn beyond_the_last(probes: &[ProbeReport]) -> SearchOutcome {
    let last_void = probes.iter().rfind(|it| it.seen == ProbeResult::Void);
    match last_void.and_then(|probe| probe.reasons.first()) {
        Some(StudyFinding::Disturbed { finding })
            if !matches!(
                finding.as_deref(),
                Some(Finding::CpuFull { .. } | Finding::ClientThrottled { .. })
            ) =>
        {
            SearchOutcome::Undecided
        }
        _ => SearchOutcome::ClientLimited,
    }
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
            .map(|(pace, tally)| RateReport::of(pace, tally, &probes))
            .collect();
        let pass_per_s = pass.map(Pace::per_s);
        let capacity_per_s = rates
            .iter()
            .find(|of| Some(of.rate_per_s) == pass_per_s)
            .and_then(|of| of.accepted_per_s)
            .filter(|capacity| *capacity > 0.0);
        let caveats = caveats(&question, &probes, [pass, fail]);
        let at_least_per_s = caveats
            .iter()
            .filter_map(|caveat| match caveat {
                StudyFinding::LongerPeriod {
                    let_through_per_s, ..
                } => Some(*let_through_per_s),
                StudyFinding::RandomArrivals { share } => Some(pass_per_s? * (1.0 - share)),
                _ => None,
            })
            .chain(capacity_per_s)
            .reduce(f64::min);
        let beyond = beyond_the_last(&probes);
        let out_of_time = outcome.is_none() && !header.interrupted;
        let outcome = match outcome.unwrap_or(SearchOutcome::Undecided) {
            SearchOutcome::NotReached | SearchOutcome::Found if capacity_per_s.is_none() => {
                SearchOutcome::Unconfirmed
            }
            // What was void too often is not settled to fail.
            SearchOutcome::Found if fail.is_none() => beyond,
            SearchOutcome::ClientLimited => beyond,
            SearchOutcome::Found if caveats.iter().any(StudyFinding::is_doubt) => {
                SearchOutcome::Unconfirmed
            }
            outcome => outcome,
        };
        Self {
            header,
            environment,
            outcome,
            capacity_per_s,
            at_least_per_s: at_least_per_s.filter(|_| capacity_per_s.is_some()),
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
}

/// The probe that says most of a rate: one that failed, if any did.
fn telling(pace: Pace, probes: &[ProbeReport]) -> Option<&ProbeReport> {
    of_rates(probes)
        .filter(|probe| probe.plan.per_min == pace)
        .max_by_key(|probe| (probe.seen.fails(), probe.seen.speaks()))
}

/// The probes that say something of their rate.
fn of_rates(probes: &[ProbeReport]) -> impl Iterator<Item = &ProbeReport> {
    probes
        .iter()
        .filter(|probe| probe.plan.kind != ProbeKind::Random)
}

/// The next step after these probes.
pub fn next_step(question: &Question, probes: &[ProbeReport]) -> SearchStep {
    if let Some(pace) = random_rate(question, probes) {
        return SearchStep::Probe(pace, ProbeKind::Random);
    }
    let search = search_of(question, &read_together(question, probes.to_vec()));
    let step = search.next();
    let (SearchStep::Done(SearchOutcome::Found), (Some(pass), Some(fail))) =
        (step, search.settled())
    else {
        return step;
    };
    // Where refusals ended the search, and a burst may be all that passed, the limit is read before
    // a capacity is named.
    let is_refused =
        |probe: &ProbeReport| probe.plan.per_min == fail && probe.refused_share() > 0.0;
    let is_known = Limit::of(probes).is_some() || refuses_neighbours(probes).is_some();
    if !probes.iter().any(is_refused) || is_known {
        return step;
    }
    LIMIT_CHECKS
        .map(|times| Pace::nearest(pass.per_s() * times))
        .into_iter()
        .find(|pace| {
            (fail..=question.bounds.greatest).contains(pace) && telling(*pace, probes).is_none()
        })
        .map_or(step, |pace| SearchStep::Probe(pace, ProbeKind::Full))
}

/// The search that these probes, which were [read together](read_together), are.
fn search_of(question: &Question, probes: &[ProbeReport]) -> Search {
    let mut search = Search::new(question.bounds);
    for probe in of_rates(probes) {
        search.note(probe.plan.per_min, probe.plan.kind, probe.seen);
    }
    search
}

/// The caveats of a search that ended with these rates settled, those that leave it unconfirmed
/// first.
fn caveats(
    question: &Question,
    probes: &[ProbeReport],
    [pass, fail]: [Option<Pace>; 2],
) -> Vec<StudyFinding> {
    let mut caveats = Vec::new();
    let share = probes
        .iter()
        .filter(|probe| Some(probe.plan.per_min) == pass && probe.seen == ProbeResult::Pass)
        .map(|probe| probe.counted.share(probe.counted.not_found))
        .fold(0.0, f64::max);
    if share > MANY_MISSING {
        caveats.push(StudyFinding::NotFound { share });
    }
    caveats.extend(longer_period(question, probes, [pass, fail]));
    let random = pass.and_then(|pass| resolution(pass.per_s(), question));
    caveats.extend(random.map(|share| StudyFinding::RandomArrivals { share }));
    let neighbours = refuses_neighbours(probes).zip(fail);
    caveats.extend(neighbours.map(|(share, _)| StudyFinding::NoBurst { share }));
    let void: Vec<&ProbeReport> = probes
        .iter()
        .filter(|probe| probe.seen == ProbeResult::Void)
        .collect();
    let reason = void.iter().rev().find_map(|probe| probe.reasons.first());
    caveats.extend(reason.map(|reason| StudyFinding::Void {
        probes: void.len(),
        reason: Box::new(reason.clone()),
    }));
    caveats.sort_by_key(|caveat| !caveat.is_doubt());
    caveats
}

impl StudyResult for Capacity {
    const SCHEMA: &'static str = "crawlmark.capacity/1";

    const FILE: &'static str = "capacity.json";

    fn chart(&self) -> [&'static str; 2] {
        ["capacity", "Latency against rate"]
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn outcome(&self) -> String {
        name_of(&self.outcome)
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let settled_per_s = [self.passes_at_per_s, self.fails_at_per_s];
        let bounds = self.question.bounds;
        let mut found = vec![StudyFinding::Capacity {
            outcome: self.outcome,
            per_s: self.capacity_per_s,
            least_per_s: self.at_least_per_s,
            for_s: self.sustained_for_s,
            settled_per_s,
            bounds_per_s: [bounds.least, bounds.greatest].map(Pace::per_s),
        }];
        let settled = settled_per_s.map(|at| at.map(Pace::nearest));
        found.extend(caveats(&self.question, &self.probes, settled));
        found.extend(self.out_of_time.then_some(StudyFinding::OutOfTime {}));
        let steps = self.rates.iter().filter_map(|of| {
            let probe = self.telling(of).filter(|probe| probe.seen.speaks())?;
            Some(LoadStep {
                name: rate(of.rate_per_s),
                target: probe.target.clone(),
                fails: probe.seen.fails(),
            })
        });
        // A target that refuses has a limit, and ran out of nothing.
        let refuses = self
            .probes
            .iter()
            .any(|probe| probe.seen.fails() && probe.counted.throttled > 0);
        let limits = load::limits(&steps.collect::<Vec<_>>()).into_iter();
        found.extend(
            limits.filter(|one| !(refuses && matches!(one, StudyFinding::NothingRanOut { .. }))),
        );
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        let p99 = self
            .rates
            .iter()
            .find(|of| Some(of.rate_per_s) == self.passes_at_per_s)
            .and_then(|of| of.response_p99_us);
        [
            ("Capacity", self.capacity_per_s.map(rate), "good responses"),
            ("Limits met at", self.passes_at_per_s.map(rate), "offered"),
            ("Broken at", self.fails_at_per_s.map(rate), "offered"),
            ("p99", p99.map(micros), "at the highest rate that passes"),
            ("Refuses above", self.limit_per_s.map(rate), "at least"),
        ]
        .into_iter()
        .filter_map(|(name, value, detail)| figure(name, value, detail.to_owned()))
        .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        let columns = vec![
            Column::numbers("rate"),
            Column::words("objectives"),
            Column::words("probes").leaving(4),
            Column::numbers("accepted").leaving(2),
            Column::numbers("response p50").leaving(1),
            Column::numbers("response p99").leaving(3),
            Column::numbers("target CPUs").leaving(2),
            Column::details("reason"),
        ];
        doc.facts(self.facts())
            .table(Table {
                columns,
                rows: self.rates.iter().map(|of| self.row(of)).collect(),
                ..Table::default()
            })
            .text(LEGEND)
    }

    fn short_table(&self, _columns: usize) -> Option<Table> {
        let columns = vec![
            Column::numbers("offered"),
            Column::numbers("accepted").leaving(2),
            Column::numbers("p50").leaving(1),
            Column::numbers("p99").leaving(3),
            Column::numbers("refused").leaving(4),
            Column::words("full probes"),
        ];
        let edge = self.fails_at_per_s.or(self.passes_at_per_s);
        let above = self
            .rates
            .iter()
            .position(|of| edge.is_some_and(|edge| of.rate_per_s >= edge));
        let from = above
            .unwrap_or(self.rates.len())
            .saturating_sub(BESIDE_THE_EDGE);
        let near = self.rates.iter().skip(from).take(2 * BESIDE_THE_EDGE);
        Some(Table {
            columns,
            rows: near.map(|of| self.short_row(of)).collect(),
            ..Table::default()
        })
    }

    fn picture(&self) -> Option<Picture> {
        let held = self
            .passes_at_per_s
            .map(|pass| format!(" hold at {}", rate(pass)));
        let broken = self
            .fails_at_per_s
            .map(|fail| format!(" break at {}", rate(fail)));
        let known: Vec<String> = held.into_iter().chain(broken).collect();
        let objectives = match known.len() {
            0 => String::new(),
            _ => format!(" · objectives{}", known.join(" and")),
        };
        Some(Picture {
            subtitle: format!("response time against the offered rate{objectives}"),
            command: "capacity",
            of: vec![
                self.question.target().to_owned(),
                format!("open loop, {}", counted(self.probes.len() as u64, "probe")),
            ],
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        match self.outcome {
            SearchOutcome::Found => Conclusion::Done,
            SearchOutcome::LeastFails => Conclusion::Failed,
            _ => Conclusion::Inconclusive,
        }
    }
}

/// Rates on each side of the lowest that fails which the terminal shows.
const BESIDE_THE_EDGE: usize = 3;

/// Explanation of the marks of the table.
const LEGEND: &str = "Probes: + passed, - failed, ? void; short: only short probes, made while rates were doubled, which + and - leave \
                      out. \"-\": fewer than 1,000 good responses in a probe are too few for a p99.";

/// A probe in a line.
pub fn probe_line(probe: &ProbeReport) -> String {
    if probe.plan.kind == ProbeKind::Random {
        let refused = percent(probe.refused_share());
        return format!(
            "{} at random times: {refused} refused",
            rate(probe.plan.rate_per_s)
        );
    }
    let seen = match probe.seen {
        ProbeResult::Pass => "passes",
        ProbeResult::Fail => "fails",
        ProbeResult::Collapse => "fails badly",
        ProbeResult::Void => "is void",
    };
    let p99 = probe.response_p99_us.map_or_else(String::new, |us| {
        let at_least = ["", "at least "][usize::from(probe.response_p99_at_least)];
        format!(", p99 {at_least}{}", micros(us))
    });
    let why = match probe.reasons.first() {
        Some(reason) => format!(": {}", reason.notice().title),
        None => String::new(),
    };
    format!("{} {seen}{p99}{why}", rate(probe.plan.rate_per_s))
}

impl Capacity {
    fn telling(&self, of: &RateReport) -> Option<&ProbeReport> {
        telling(Pace::nearest(of.rate_per_s), &self.probes)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let question = &self.question;
        let mut facts = vec![
            ("target", question.target().to_owned()),
            ("objectives", question.objectives_in_words()),
        ];
        if let Some((pass, fail)) = self.passes_at_per_s.zip(self.fails_at_per_s) {
            let interval = format!(
                "{} to {} offered, {} apart (--precision {})",
                rate(pass),
                rate(fail),
                percent(fail / pass - 1.0),
                rounded_percent(question.bounds.precision)
            );
            facts.push(("interval", interval));
        }
        let limit = self.limit_per_s.map(rate);
        facts.extend(
            limit.map(|limit| ("limit", format!("{limit} once the target refuses requests"))),
        );
        facts
    }

    /// The row of a rate in the end at the terminal: whether it holds, and in how many of its probes.
    fn short_row(&self, of: &RateReport) -> Vec<String> {
        let mark = match of.state {
            RateState::Passes | RateState::SeemsToPass => Severity::Good.symbol(),
            RateState::Fails | RateState::SeemsToFail => Severity::Bad.symbol(),
            RateState::Undecided | RateState::Unknown => Severity::Warning.symbol(),
        };
        let Tally { passes, fails, .. } = of.tally;
        let agreeing = if mark == Severity::Bad.symbol() {
            fails
        } else {
            passes
        };
        let probes = match passes + fails {
            0 => String::new(),
            all => format!(" {agreeing} of {all}"),
        };
        vec![
            rate(of.rate_per_s),
            or_dash(of.accepted_per_s, rate),
            or_dash(of.response_p50_us, micros),
            or_dash(of.response_p99_us, micros),
            or_dash(self.telling(of).map(ProbeReport::refused_share), percent),
            format!("{mark}{probes}"),
        ]
    }

    fn row(&self, of: &RateReport) -> Vec<String> {
        let Tally {
            passes,
            fails,
            voids,
            ..
        } = of.tally;
        let full = match (passes, fails) {
            (0, 0) if of.state == RateState::Unknown => String::new(),
            (0, 0) => "short ".to_owned(),
            _ => format!("+{passes} -{fails} "),
        };
        let void = match voids {
            0 => String::new(),
            _ => format!("?{voids}"),
        };
        let at_least = if of.response_p99_at_least { ">= " } else { "" };
        let probe = self.telling(of);
        let used = probe.and_then(|probe| probe.target.as_ref()?.cpus_used);
        let reason = probe.and_then(|probe| probe.reasons.first());
        vec![
            rate(of.rate_per_s),
            name_of(&of.state),
            (full + &void).trim_end().to_owned(),
            or_dash(of.accepted_per_s, rate),
            or_dash(of.response_p50_us, micros),
            at_least.to_owned() + &or_dash(of.response_p99_us, micros),
            used.map_or_else(String::new, decimal),
            reason.map_or_else(String::new, |reason| reason.notice().title),
        ]
    }
}
