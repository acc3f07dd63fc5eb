//! A comparison as it is saved, `comparison.json` (schema `crawlmark.comparison/1`), and as it is
//! shown.
//!
//! Made by `ab` from rounds that it ran, and by `compare` from rounds that were saved. What it
//! found is the [`Comparison`] of [`judge`].

use std::collections::BTreeMap;

use crawlmark_harness::stats::median;
use crawlmark_harness::units::percent;
use serde::{Deserialize, Serialize};

use super::commands::{Execution, readings_of_executions, readings_of_parts};
use super::design::{Arm, DesignError, Pair, Round, pair_up};
use super::disturbance::{BEYOND, Disturbance};
use super::judgement::{
    Comparison, Evidence, MetricResult, MetricVerdict, Overall, Rule, Undecided,
};
use super::metric::{Metric, Reading, SHARE, Statistic, Worse};
use super::runs::readings_of_run;
use super::statistics::Interval;
use super::{chart, judge};
use crate::export::contest_junit;
use crate::judge::{self as judging, Finding};
use crate::run::report::{Report, Verdict};
use crate::show::chart::Chart;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::text::{capital, counted};
use crate::studies::differences::Difference;
use crate::studies::{Conclusion, Header, Notice, RoundsOf, StudyResult, or_dash, warnings};

/// A comparison, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// All but the rounds, and what follows from them.
    #[serde(flatten)]
    pub context: ContestContext,
    /// Result of the comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Every round, in the order in which they ran.
    pub rounds: Vec<RoundReport>,
}

/// Parts of a contest that do not follow from its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContestContext {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The side that is compared with.
    pub base: Side,
    /// The side that is judged.
    pub candidate: Side,
    /// Differences between their plans and machines, besides the measurements.
    pub differences: Vec<Difference>,
    /// Result of two equal arms on this machine just before; null when that was not requested.
    pub noise_floor: Option<Comparison>,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Name that the user gives it.
    pub name: String,
    /// The side as typed.
    pub what: String,
}

/// A round as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// The pair that it belongs to, counted from 1.
    pub pair: usize,
    /// What is judged of it.
    #[serde(flatten)]
    pub round: Round,
    /// The directory of its result; null of a command.
    pub result: Option<String>,
    /// Executions of its command; none of a crawl.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<Execution>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Warnings and errors of the run.
    #[serde(serialize_with = "judging::serialize")]
    pub findings: Vec<Finding>,
}

impl RoundReport {
    /// The round of `arm` in the `pair`-th pair, whose run has this report, saved in `result`. Only
    /// both reports of the pair show whether it was disturbed ([`Disturbance::of_pair`]).
    pub fn new(report: &Report, pair: usize, arm: Arm, result: String) -> Self {
        Self {
            pair,
            round: Round {
                arm,
                readings: readings_of_run(report),
                disturbance: Disturbance::None,
            },
            result: Some(result),
            executions: Vec::new(),
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            findings: warnings(report),
        }
    }
}

impl RoundReport {
    /// The round of `arm` in the `pair`-th pair, of these executions of a command, from start to
    /// end.
    pub fn of_command(
        executions: Vec<Execution>,
        pair: usize,
        arm: Arm,
        [started_at, finished_at]: [String; 2],
    ) -> Self {
        Self {
            pair,
            round: Round {
                arm,
                readings: readings_of_executions(&executions),
                disturbance: Disturbance::None,
            },
            result: None,
            executions,
            started_at,
            finished_at,
            validity: Verdict::Valid,
            findings: Vec::new(),
        }
    }
}

/// Return the name of the folder of a round.
pub fn round_folder(pair: usize, arm: Arm) -> String {
    format!("{pair:03}-{arm}")
}

/// Judge rounds that ran in pairs by these metrics.
///
/// # Errors
/// When they are no pairs, or their order does not allow a verdict: see [`DesignError`].
pub fn judge_rounds(metrics: &[Metric], rounds: &[RoundReport]) -> Result<Comparison, DesignError> {
    // A share that is 1 throughout tells nothing, and would cost the others a part of the error.
    let telling = metrics.iter().filter(|metric| {
        let mut readings = rounds.iter().map(|of| of.round.readings.of(&metric.name));
        metric.unit != SHARE || readings.any(|reading| reading != Reading::Gating(1.0))
    });
    let telling: Vec<Metric> = telling.cloned().collect();
    let taken: Vec<Round> = rounds.iter().map(|round| round.round.clone()).collect();
    let mut pairs = pair_up(&taken)?;
    for (pair, two) in pairs.iter_mut().zip(rounds.chunks_exact(2)) {
        let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| {
            let of_arm = two.iter().filter(move |of| of.round.arm == arm);
            of_arm.flat_map(|of| readings_of_parts(&of.executions))
        });
        pair.parts = base.zip(candidate).map(Into::into).collect();
    }
    let comparison = judge(&telling, &pairs, &Rule::standard())?;
    let plain = telling.iter().filter(|metric| is_plain(metric, &pairs));
    let plain: Vec<&str> = plain.map(|metric| &*metric.name).collect();
    Ok(if plain.is_empty() {
        comparison
    } else {
        comparison.plain(&plain)
    })
}

/// Counted pairs from which on a plain loss is a regression before the first look. By chance alone,
/// six losses of six come once in 64 comparisons, and so large ones never.
const PLAIN: usize = 6;

/// Counted pairs from which on a candidate without a good item is one: one run of each decides
/// nothing.
const PLAIN_WITHOUT_GOOD: usize = 2;

/// True if the candidate was worse by more than a disturbance explains in every counted pair.
fn is_plain(metric: &Metric, pairs: &[Pair]) -> bool {
    if metric.statistic == Statistic::Tail {
        return false;
    }
    let counted = pairs.iter().filter(|pair| pair.undisturbed());
    let (mut least, mut count) = (PLAIN_WITHOUT_GOOD, 0);
    for pair in counted {
        let both = [&pair.base, &pair.candidate].map(|side| side.of(&metric.name));
        let [Reading::Gating(base), Reading::Gating(candidate)] = both else {
            return false;
        };
        let is_worse = match metric.worse {
            Worse::Less => base > candidate * BEYOND,
            Worse::More => candidate > base * BEYOND,
        };
        if !is_worse {
            return false;
        }
        if metric.worse == Worse::More || candidate > 0.0 {
            least = PLAIN;
        }
        count += 1;
    }
    count >= least
}

impl Contest {
    /// The greatest loss that passes in any of its metrics, percent.
    fn bound_percent(&self) -> f64 {
        let bounds = self.metrics().into_iter().map(|metric| metric.passes_below);
        bounds.fold(0.0, f64::max) * 100.0
    }

    /// Build a contest by these metrics from these rounds, given in the order in which they ran.
    ///
    /// # Errors
    /// When that order does not allow a verdict: see [`DesignError`].
    pub fn new(
        metrics: &[Metric],
        rounds: Vec<RoundReport>,
        context: ContestContext,
    ) -> Result<Self, DesignError> {
        Ok(Self {
            context,
            comparison: judge_rounds(metrics, &rounds)?,
            rounds,
        })
    }

    /// The metrics that were compared.
    pub fn metrics(&self) -> Vec<Metric> {
        let all = self.comparison.metrics.iter();
        all.map(|one| one.metric.clone()).collect()
    }

    /// Number of pairs that count.
    fn counted(&self) -> usize {
        let rounds = self.rounds.iter();
        let counted = rounds.filter(|of| of.round.disturbance == Disturbance::None);
        counted.count() / 2
    }

    /// The readings of a metric in the counted rounds of an arm, in the order in which they ran; in
    /// all of them when none counts.
    pub fn values(&self, arm: Arm, metric: &Metric) -> Vec<f64> {
        let all = self.counted() == 0;
        let rounds = self.rounds.iter().map(|of| &of.round);
        rounds
            .filter(|of| of.arm == arm && (all || of.disturbance == Disturbance::None))
            .filter_map(|of| of.readings.of(&metric.name).value())
            .collect()
    }
}

/// Fact about a comparison, with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ContestFinding {
    /// The verdict over all.
    Answer {
        /// The verdict.
        verdict: Overall,
        /// Pairs that count.
        counted: usize,
        /// Pairs that were left out.
        left_out: usize,
        /// The metrics that led to it.
        metrics: Vec<MetricResult>,
    },
    /// Pairs that were left out for one reason.
    PairsLeftOut {
        /// The reason.
        disturbance: Disturbance,
        /// Number of them.
        count: usize,
        /// All pairs.
        of: usize,
    },
    /// The base was a regression against itself.
    EqualSidesDiffer {},
    /// What a pair read tells something of the next.
    Autocorrelated {
        /// Metric, with its evidence.
        metric: Box<MetricResult>,
        /// Autocorrelation of neighbouring pairs.
        autocorrelation: f64,
    },
}

/// A ratio and its interval as a change: `+4.9 % (+4.7 .. +5.1)`.
pub(crate) fn change(ratio: f64, interval: Option<Interval>) -> String {
    let interval = interval.map_or_else(String::new, |interval| {
        format!(" ({} .. {})", signed(interval.low), signed(interval.high))
    });
    format!("{} %{interval}", signed(ratio))
}

impl Evidence {
    /// The estimate and its interval, as a change.
    pub(super) fn change(&self) -> String {
        change(self.ratio, self.ratio_interval)
    }
}

/// A ratio as a change in percent, with its sign.
pub(in crate::studies) fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    // Without it, a small loss is shown as -0.0.
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    if percent.abs() < 9.95 {
        format!("{percent:+.1}")
    } else {
        format!("{percent:+.0}")
    }
}

/// The estimate of a comparison that goes on.
pub fn contest_standing(comparison: &Comparison) -> String {
    let all = comparison.metrics.iter();
    let estimates: Vec<String> = all
        .filter_map(|one| Some(format!("{} {}", one.metric.column, one.evidence?.change())))
        .collect();
    format!("estimate: {}", estimates.join(", "))
}

impl StudyResult for Contest {
    type Finding = ContestFinding;

    const SCHEMA: &'static str = "crawlmark.comparison/1";

    const FILE: &'static str = "comparison.json";

    fn header(&self) -> &Header {
        &self.context.header
    }

    fn outcome(&self) -> &'static str {
        self.comparison.verdict.name()
    }

    fn findings(&self) -> Vec<ContestFinding> {
        let (verdict, all) = (self.comparison.verdict, &self.comparison.metrics);
        let (pairs, counted) = (self.rounds.len() / 2, self.counted());
        let led = all
            .iter()
            .filter(|one| one.verdict.weight() == Some(verdict));
        let mut found = vec![ContestFinding::Answer {
            verdict,
            counted,
            left_out: pairs - counted,
            metrics: led.cloned().collect(),
        }];
        let mut left_out = BTreeMap::<Disturbance, usize>::new();
        for pair in self.rounds.chunks(2) {
            *left_out.entry(pair[0].round.disturbance).or_default() += 1;
        }
        left_out.remove(&Disturbance::None);
        for (disturbance, count) in left_out {
            found.push(ContestFinding::PairsLeftOut {
                disturbance,
                count,
                of: pairs,
            });
        }
        let floor = self.context.noise_floor.as_ref();
        if floor.is_some_and(|equal| equal.verdict == Overall::Regression) {
            found.push(ContestFinding::EqualSidesDiffer {});
        }
        for one in all {
            let evidence = one.evidence.filter(Evidence::is_autocorrelated);
            if let Some(autocorrelation) = evidence.and_then(|it| it.autocorrelation) {
                found.push(ContestFinding::Autocorrelated {
                    metric: Box::new(one.clone()),
                    autocorrelation,
                });
            }
        }
        found
    }

    fn notice(&self, finding: &ContestFinding) -> Notice {
        match finding {
            ContestFinding::Answer {
                verdict,
                counted: pairs,
                left_out,
                metrics,
            } => {
                let left_out = match left_out {
                    0 => String::new(),
                    some => format!(" ({some} left out)"),
                };
                let first = metrics.first().and_then(|one| one.verdict.because());
                let why = match (verdict, first) {
                    (Overall::Pass, _) => {
                        format!("no metric got worse by {} % or more", self.bound_percent())
                    }
                    (Overall::Regression, _) => {
                        let worse: Vec<String> = metrics.iter().map(worse).collect();
                        worse.join("; ")
                    }
                    (Overall::Inconclusive, Some(why)) => {
                        format!("{}: {why}", metrics[0].metric.title)
                    }
                    (Overall::Inconclusive, None) => {
                        "no metric was read in both sides of each pair".to_owned()
                    }
                };
                let (severity, remedy) = match (verdict, first) {
                    (Overall::Pass, _) => (Severity::Good, ""),
                    (Overall::Regression, _) => (Severity::Bad, ""),
                    (_, Some(Undecided::TooFewPairs { .. })) => (
                        Severity::Warning,
                        "`crawlmark ab` runs as many as are needed.",
                    ),
                    (Overall::Inconclusive, _) => (Severity::Warning, ""),
                };
                let (name, pairs) = (
                    capital(verdict.name()),
                    counted(*pairs as u64, "counted pair"),
                );
                Notice::new(severity, format!("{name} after {pairs}{left_out}: {why}")).with(remedy)
            }
            ContestFinding::PairsLeftOut {
                disturbance,
                count,
                of,
            } => {
                let (of, why) = (counted(*of as u64, "pair"), disturbance.words());
                Notice::new(
                    Severity::Warning,
                    format!("{count} of {of} left out: {why}"),
                )
            }
            ContestFinding::EqualSidesDiffer {} => Notice::new(
                Severity::Warning,
                "The base was a regression against itself on this machine",
            ),
            ContestFinding::Autocorrelated {
                metric,
                autocorrelation,
            } => {
                let name = &metric.metric.title;
                Notice::new(
                    Severity::Warning,
                    capital(&format!(
                        "{name}: neighbouring pairs depend on each other (autocorrelation {autocorrelation:.2}), so its interval is too narrow"
                    )),
                )
                .with("The random order keeps the p value right.")
            }
        }
    }

    fn rounds(&self) -> Vec<RoundsOf<'_>> {
        let sides = [
            (Arm::Base, " of the base"),
            (Arm::Candidate, " of the candidate"),
        ];
        let sides = sides.map(|(arm, side)| {
            let rounds = self.rounds.iter().filter(|of| of.round.arm == arm);
            let findings = rounds.map(|round| &*round.findings).collect();
            RoundsOf { side, findings }
        });
        sides.into()
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.table(self.sides()).table(self.verdicts())
    }

    fn chart(&self) -> Option<Chart> {
        Some(chart::chart(self))
    }

    fn conclusion(&self) -> Conclusion {
        match self.comparison.verdict {
            Overall::Pass => Conclusion::Done,
            Overall::Regression => Conclusion::Failed,
            Overall::Inconclusive => Conclusion::Inconclusive,
        }
    }

    fn exports(&self) -> Vec<(&'static str, String)> {
        vec![("junit.xml", contest_junit(self))]
    }
}

/// A metric that is a regression, and by how much.
fn worse(one: &MetricResult) -> String {
    let by = one.evidence.as_ref().map(Evidence::change);
    let by = by.unwrap_or_else(|| "far less".to_owned());
    format!("{} {by}", one.metric.title)
}

impl Contest {
    /// The table of what is compared.
    fn sides(&self) -> Table {
        let ContestContext {
            base,
            candidate,
            differences,
            ..
        } = &self.context;
        let mut rows: Vec<Vec<String>> = differences
            .iter()
            .map(|one| {
                [&one.what, &one.base, &one.candidate]
                    .map(Clone::clone)
                    .to_vec()
            })
            .collect();
        // A target of its own has a row of its own.
        if !differences.iter().any(Difference::is_of_command) {
            rows.insert(
                0,
                vec!["what".to_owned(), base.what.clone(), candidate.what.clone()],
            );
        }
        let each = [Arm::Base, Arm::Candidate].map(|arm| {
            let mut rounds = self.rounds.iter();
            let round = rounds.find(|of| of.round.arm == arm);
            round.map_or(0, |round| round.executions.len())
        });
        if each != [0, 0] {
            let [base, candidate] = each.map(|count| count.to_string());
            rows.push(vec!["executions a round".to_owned(), base, candidate]);
        }
        Table {
            columns: ["", "base", "candidate"].map(Column::words).to_vec(),
            rows,
            ..Table::default()
        }
    }

    /// The table of metrics: verdict, medians of both sides, and the change.
    fn verdicts(&self) -> Table {
        // What is only to be shown and was not read throughout is left out.
        let all = self.comparison.metrics.iter();
        let worth =
            all.filter(|one| one.evidence.is_some() || one.verdict != MetricVerdict::Informational);
        Table {
            columns: vec![
                Column::words("metric"),
                Column::words("verdict"),
                Column::numbers("base"),
                Column::numbers("candidate"),
                Column::numbers("change (95 %)"),
                Column::numbers("p").leaving(1),
                Column::numbers("base to itself").leaving(2),
                Column::sentences("reason"),
            ],
            rows: worth.map(|one| self.row(one)).collect(),
            ..Table::default()
        }
    }

    /// The row of a metric.
    pub(crate) fn row(&self, one: &MetricResult) -> Vec<String> {
        let metric = &one.metric;
        let medians = [Arm::Base, Arm::Candidate].map(|arm| median(&mut self.values(arm, metric)));
        let [base, candidate] = medians.map(|value| or_dash(value, |value| metric.in_unit(value)));
        // Where nothing was estimated, the medians are shown.
        let ratio = medians[1].zip(medians[0].filter(|base| *base > 0.0));
        let ratio = ratio.map(|(candidate, base)| format!("{} %", signed(candidate / base)));
        let changed = one.evidence.as_ref().map(Evidence::change).or(ratio);
        // Before the first look, p only invites to stop early.
        let p = one.evidence.and_then(|evidence| evidence.p_adjusted);
        let p = p.filter(|_| self.comparison.look.is_some());
        let floor = self.context.noise_floor.as_ref();
        let floor = floor.and_then(|equal| equal.of(&metric.name)?.evidence);
        let reason = match one.verdict {
            // The answer says how many pairs are missing.
            MetricVerdict::Inconclusive {
                because: Undecided::TooFewPairs { .. },
                ..
            } => String::new(),
            MetricVerdict::Inconclusive {
                minimum_detectable_effect: Some(effect),
                because: because @ Undecided::Noise,
            } if effect < 1.0 => format!(
                "{because}; a loss of {} or more would have been detected",
                percent(effect)
            ),
            verdict => verdict
                .because()
                .map_or_else(String::new, |because| because.to_string()),
        };
        vec![
            metric.column.clone().into_owned(),
            one.verdict.name().to_owned(),
            base,
            candidate,
            changed.unwrap_or_else(|| "-".to_owned()),
            or_dash(p, probability),
            floor.as_ref().map_or_else(String::new, Evidence::change),
            reason,
        ]
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "below 0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}
