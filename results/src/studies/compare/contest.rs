//! A comparison as it is saved, `comparison.json` (schema `crawlmark.comparison/1`), and as it is
//! shown.
//!
//! Made by `ab` from rounds that it ran, and by `compare` from rounds that were saved. What it
//! found is the [`Comparison`] of [`judge`].

use std::collections::BTreeMap;

use crawlmark_harness::stats::{FailureCause, median};
use crawlmark_harness::units::{grouped, percent};
use serde::{Deserialize, Serialize};

use super::design::{Arm, DesignError, Disturbance, Pair, Round, pair_up};
use super::differences::Difference;
use super::judge;
use super::judgement::{Comparison, Evidence, Finding, MetricVerdict, Overall, Rule, Undecided};
use super::metric::{BEYOND, Metric, Reading, Readings, TargetCpu};
use crate::export::contest_junit;
use crate::run::report::{Report, Verdict, cause_in_words, failures, listed};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{capital, counted};
use crate::studies::{Conclusion, Header, Notice, StudyResult, doc_of};

/// A comparison, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// All but the rounds, and what follows from them.
    #[serde(flatten)]
    pub context: ContestContext,
    /// Over all: the comparison's.
    pub verdict: Overall,
    /// Result of the comparison.
    pub comparison: Comparison,
    /// Parts of their items that failed or were given up.
    pub failures: Failures,
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

/// Items that failed or were given up, as parts of those that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// Part of the base's items.
    pub base: f64,
    /// Part of the candidate's items.
    pub candidate: f64,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// The pair that it belongs to, counted from 1.
    pub pair: usize,
    /// Arm of the round.
    pub arm: Arm,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// State of the machine during its pair.
    pub disturbance: Disturbance,
    /// Readings of the round.
    pub readings: Readings,
    /// Items that ended by themselves.
    pub items: u64,
    /// Items that failed or were given up.
    pub failed: u64,
    /// Failed requests by key of the cause.
    pub causes: BTreeMap<String, u64>,
}

impl RoundReport {
    /// The round of `arm` in the `pair`-th pair, whose run has this report, saved in `result`. Only
    /// both reports of the pair show whether it was disturbed ([`Disturbance::of_pair`]).
    #[must_use]
    pub fn new(
        report: &Report,
        pair: usize,
        arm: Arm,
        result: String,
        target_cpu: TargetCpu,
    ) -> Self {
        let items = report.ledger.items;
        let causes = failures(&report.totals.requests).into_iter();
        Self {
            pair,
            arm,
            result,
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            disturbance: Disturbance::None,
            readings: Readings::taken_from(report, target_cpu),
            items: items.completed(),
            failed: items.failed + items.gave_up,
            causes: causes.map(|(cause, count)| (cause.key(), count)).collect(),
        }
    }

    fn is_counted(&self) -> bool {
        self.disturbance == Disturbance::None
    }

    /// True if no item was good.
    fn had_no_good(&self) -> bool {
        let good = [self.readings.ok_share, self.readings.throughput].map(Reading::value);
        good.into_iter().flatten().all(|value| value <= 0.0)
    }

    /// Readings as they are judged. A round without a good item counts as one with half an item, so
    /// that it has a logarithm, too; the shares of all other rounds are as they were read, in
    /// either arm.
    fn judged(&self, is_corrected: bool) -> Readings {
        let ok_share = match self.readings.ok_share {
            Reading::Gating(share) if is_corrected => {
                Reading::Gating(share.max(0.5 / self.items.max(1) as f64))
            }
            share => share,
        };
        Readings {
            ok_share,
            ..self.readings
        }
    }
}

/// Return the name of the folder of a round.
#[must_use]
pub fn round_folder(pair: usize, arm: Arm) -> String {
    format!("{pair:03}-{arm}")
}

fn of_arm(rounds: &[RoundReport], arm: Arm) -> impl Iterator<Item = &RoundReport> {
    rounds.iter().filter(move |round| round.arm == arm)
}

/// True if no round of `arm` had a good item.
fn had_no_good(rounds: &[RoundReport], arm: Arm) -> bool {
    of_arm(rounds, arm).all(RoundReport::had_no_good)
}

/// Part of the items of `arm` that failed.
fn failed_share(rounds: &[RoundReport], arm: Arm) -> f64 {
    // Read from a file, they may be more together than a number of items can be.
    let items: f64 = of_arm(rounds, arm).map(|round| round.items as f64).sum();
    let failed: f64 = of_arm(rounds, arm).map(|round| round.failed as f64).sum();
    failed / items.max(1.0)
}

/// Judge rounds that ran in pairs.
///
/// # Errors
/// When they are no pairs, or their order does not allow a verdict: see [`DesignError`].
pub fn judge_rounds(rounds: &[RoundReport]) -> Result<Comparison, DesignError> {
    // What is 1 throughout tells nothing, and would cost the others a share of the error.
    let all_ok = rounds
        .iter()
        .all(|round| round.readings.ok_share == Reading::Gating(1.0));
    // Of an arm without a good item there is no ratio: half an item would invent one, which depends
    // on the number of items.
    let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| had_no_good(rounds, arm));
    let mut taken = Vec::new();
    for round in rounds {
        let mut readings = round.judged(!base && !candidate);
        if all_ok {
            readings.ok_share = Reading::Absent;
        }
        taken.push(Round {
            arm: round.arm,
            readings,
            disturbance: round.disturbance,
        });
    }
    let pairs = pair_up(&taken)?;
    let comparison = judge(&pairs, &Rule::standard())?;
    // One run of each decides nothing, and a disturbed pair neither.
    let counted = pairs.iter().filter(|pair| pair.undisturbed()).count();
    Ok(if candidate && !base && counted > 1 {
        comparison.without_good()
    } else if comparison.look.is_none() && is_plain(&pairs) {
        comparison.plain()
    } else {
        comparison
    })
}

/// Counted pairs from which on a plain loss is a regression before the first look. By chance alone,
/// six losses of six come once in 64 comparisons, and so large ones never.
const PLAIN: usize = 6;

/// True if the candidate did less than a disturbance explains in every counted pair.
fn is_plain(pairs: &[Pair]) -> bool {
    let is_loss = |pair: &&Pair| {
        let [base, candidate] = [pair.base, pair.candidate].map(|one| one.throughput.value());
        base > candidate.map(|value| value * BEYOND)
    };
    let counted = || pairs.iter().filter(|pair| pair.undisturbed());
    counted().count() >= PLAIN && counted().all(|pair| is_loss(&pair))
}

impl Contest {
    /// Build a contest from these rounds, given in the order in which they ran.
    ///
    /// # Errors
    /// When that order does not allow a verdict: see [`DesignError`].
    pub fn new(rounds: Vec<RoundReport>, context: ContestContext) -> Result<Self, DesignError> {
        let comparison = judge_rounds(&rounds)?;
        let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| failed_share(&rounds, arm));
        Ok(Self {
            context,
            verdict: comparison.verdict,
            comparison,
            failures: Failures { base, candidate },
            rounds,
        })
    }

    /// True if the machine was disturbed in every pair: what was read is shown, and decides
    /// nothing.
    #[must_use]
    pub fn is_all_disturbed(&self) -> bool {
        !self.rounds.iter().any(RoundReport::is_counted)
    }

    /// Rounds whose figures are shown: those of counted pairs, or all when there is none.
    fn shown(&self) -> impl Iterator<Item = &RoundReport> {
        let all = self.is_all_disturbed();
        self.rounds
            .iter()
            .filter(move |round| all || round.is_counted())
    }

    /// Return the readings of a metric in the rounds of an arm that are shown, in the order in
    /// which they ran.
    #[must_use]
    pub fn values(&self, arm: Arm, metric: Metric) -> Vec<f64> {
        self.shown()
            .filter(|round| round.arm == arm)
            .filter_map(|round| round.readings.of(metric).value())
            .collect()
    }

    fn median(&self, arm: Arm, metric: Metric) -> Option<f64> {
        median(&mut self.values(arm, metric))
    }

    /// The findings, the answer first.
    #[must_use]
    pub fn findings(&self) -> Vec<ContestFinding> {
        let all = &self.comparison.findings;
        let worse = all
            .iter()
            .filter(|one| one.verdict == MetricVerdict::Regression);
        let pairs = self.rounds.len() / 2;
        let counted = self
            .rounds
            .iter()
            .filter(|round| round.is_counted())
            .count()
            / 2;
        let mut found = vec![ContestFinding::Answer {
            verdict: self.verdict,
            counted,
            left_out: pairs - counted,
            worse: worse
                .filter_map(|one| Some((one.metric, one.evidence?)))
                .collect(),
            undecided: all
                .iter()
                .find(|one| one.verdict.weight() == Some(self.verdict))
                .map(|one| (one.metric, one.verdict)),
        }];
        for arm in [Arm::Base, Arm::Candidate] {
            if had_no_good(&self.rounds, arm) {
                found.push(ContestFinding::no_good(&self.rounds, arm));
            }
        }
        if pairs == 1 {
            found.push(ContestFinding::SinglePair {});
        }
        if counted == 0 {
            found.push(ContestFinding::AllDisturbed {});
        }
        let disturbances = self.rounds.chunks(2).map(|pair| pair[0].disturbance);
        for (disturbance, count) in counts(disturbances) {
            if disturbance != Disturbance::None {
                found.push(ContestFinding::PairsLeftOut {
                    disturbance,
                    count,
                    of: pairs,
                });
            }
        }
        for (verdict, count) in counts(self.shown().map(|round| round.validity)) {
            if verdict != Verdict::Valid {
                let of = self.shown().count();
                found.push(ContestFinding::RoundsJudged { verdict, count, of });
            }
        }
        let Failures { base, candidate } = self.failures;
        if base.max(candidate) > 0.0 {
            found.push(ContestFinding::ItemsFailed { base, candidate });
        }
        let floor = self.context.noise_floor.as_ref();
        if floor.is_some_and(|equal| equal.verdict == Overall::Regression) {
            found.push(ContestFinding::EqualSidesDiffer {});
        }
        if self.context.header.interrupted {
            found.push(ContestFinding::Interrupted {});
        }
        found
    }
}

/// How often each value is there.
fn counts<T: Ord>(values: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

/// Fact about a comparison, with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum ContestFinding {
    /// The verdict over all.
    Answer {
        /// The verdict.
        verdict: Overall,
        /// Pairs that count.
        counted: usize,
        /// Pairs that were left out.
        left_out: usize,
        /// Metrics that are a regression.
        worse: Vec<(Metric, Evidence)>,
        /// The first metric that led to the verdict.
        undecided: Option<(Metric, MetricVerdict)>,
    },
    /// An arm had no good response.
    NoGoodResponse {
        /// The arm.
        arm: Arm,
        /// Failed requests by key of the cause.
        causes: BTreeMap<String, u64>,
        /// Items that were not found.
        not_found: u64,
    },
    /// One run of each side.
    SinglePair {},
    /// Every pair was disturbed.
    AllDisturbed {},
    /// Pairs that were left out for one reason.
    PairsLeftOut {
        /// The reason.
        disturbance: Disturbance,
        /// Number of them.
        count: usize,
        /// All pairs.
        of: usize,
    },
    /// Rounds of counted pairs that are not valid by themselves.
    RoundsJudged {
        /// Their verdict.
        verdict: Verdict,
        /// Number of them.
        count: usize,
        /// All rounds that count.
        of: usize,
    },
    /// Items failed or were given up.
    ItemsFailed {
        /// Part of the base's.
        base: f64,
        /// Part of the candidate's.
        candidate: f64,
    },
    /// The base was a regression against itself.
    EqualSidesDiffer {},
    /// Not all rounds were run.
    Interrupted {},
}

impl ContestFinding {
    fn no_good(rounds: &[RoundReport], arm: Arm) -> Self {
        let mut causes = BTreeMap::<String, u64>::new();
        let mut not_found = 0_u64;
        for round in of_arm(rounds, arm) {
            not_found = not_found.saturating_add(round.items.saturating_sub(round.failed));
            for (cause, count) in &round.causes {
                let sum = causes.entry(cause.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        Self::NoGoodResponse {
            arm,
            causes,
            not_found,
        }
    }

    /// The finding as it is shown.
    #[must_use]
    pub fn notice(&self) -> Notice {
        let warning = |title: String| Notice::new(Severity::Warning, title);
        match self {
            Self::Answer {
                verdict,
                counted: pairs,
                left_out,
                worse,
                undecided,
            } => {
                let left_out = match left_out {
                    0 => String::new(),
                    some => format!(" ({some} left out)"),
                };
                let worse: Vec<String> = worse
                    .iter()
                    .map(|(metric, evidence)| format!("{} {}", metric.title(), change(evidence)))
                    .collect();
                let why = match (verdict, undecided) {
                    (Overall::Pass, _) => "no metric got worse by 4 % or more".to_owned(),
                    (Overall::Regression, _) if worse.is_empty() => {
                        "the candidate had no good response".to_owned()
                    }
                    (Overall::Regression, _) => worse.join("; "),
                    (
                        _,
                        Some((
                            metric,
                            verdict @ (MetricVerdict::Incomparable { .. }
                            | MetricVerdict::Inconclusive {
                                because: Undecided::Coarse { .. },
                                ..
                            }),
                        )),
                    ) => format!("{}: {}", metric.title(), verdict.reason()),
                    (_, Some((_, verdict))) => verdict.reason(),
                    (_, None) => "no metric was read in both sides of each pair".to_owned(),
                };
                let severity = match verdict {
                    Overall::Pass => Severity::Good,
                    Overall::Inconclusive | Overall::Incomparable => Severity::Warning,
                    Overall::Regression => Severity::Bad,
                };
                let (verdict, pairs) = (capital(verdict.name()), counted(*pairs as u64, "counted pair"));
                Notice::new(severity, format!("{verdict} after {pairs}{left_out}: {why}"))
            }
            Self::NoGoodResponse {
                arm,
                causes,
                not_found,
            } => {
                let words = |key: &String| FailureCause::of_key(key).map_or_else(|| key.clone(), cause_in_words);
                let mut came = listed(causes.iter().map(|(key, count)| (words(key), *count)));
                if *not_found > 0 {
                    came = format!("{came}, {} not found", grouped(*not_found));
                }
                let came = came.trim_start_matches(", ");
                Notice::new(Severity::Bad, format!("The {arm} had no good response: {came}"))
            }
            Self::SinglePair {} => warning(
                "One run of each: the machine may have caused the differences, so there is no verdict".to_owned(),
            )
            .with("`crawlmark ab` makes as many runs as needed."),
            Self::AllDisturbed {} => warning(
                "The machine was disturbed in every pair, so these figures decide nothing".to_owned(),
            )
            .with("Run both again on an idle machine."),
            Self::PairsLeftOut {
                disturbance,
                count,
                of,
            } => warning(format!(
                "{count} of {} left out: {}",
                counted(*of as u64, "pair"),
                disturbance.words()
            )),
            Self::RoundsJudged { verdict, count, of } => Notice::new(
                Severity::Neutral,
                format!("{count} of {of} rounds are {} by themselves; their pairs count unless the rounds of one differ in CPU speed, \
                    stolen CPU time or pauses", verdict.name()),
            ),
            Self::ItemsFailed { base, candidate } => warning(format!(
                "{} of the items of the base failed, {} of the candidate's",
                percent(*base),
                percent(*candidate)
            )),
            Self::EqualSidesDiffer {} => {
                warning("The base was a regression against itself on this machine".to_owned())
            }
            Self::Interrupted {} => warning("Interrupted before all rounds were run".to_owned()),
        }
    }
}

/// The estimate and its interval: `+4.9 % (+4.7 .. +5.1)`.
#[must_use]
pub fn change(evidence: &Evidence) -> String {
    let interval = evidence
        .ratio_interval
        .map_or_else(String::new, |interval| {
            format!(" ({} .. {})", signed(interval.low), signed(interval.high))
        });
    format!("{} %{interval}", signed(evidence.ratio))
}

/// A ratio as a change in percent, with its sign.
fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    // Without it, a small loss is shown as -0.0.
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    if percent.abs() < 9.95 {
        format!("{percent:+.1}")
    } else {
        format!("{percent:+.0}")
    }
}

/// Figures of one pair: the candidate beside the base in each metric that both have. One pair is no
/// verdict.
#[must_use]
pub fn pair_line(pair: &[RoundReport]) -> String {
    let value = |arm: Arm, metric: Metric| {
        let round = of_arm(pair, arm).next()?;
        round.readings.of(metric).value()
    };
    let changed = |metric: Metric| {
        let ratio = value(Arm::Candidate, metric)? / value(Arm::Base, metric)?;
        // That all items were ok is no news.
        let is_shown =
            ratio.is_finite() && (metric != Metric::OkShare || (ratio - 1.0).abs() > 0.0);
        is_shown.then(|| format!("{} {} %", metric.column(), signed(ratio)))
    };
    let changed: Vec<String> = Metric::ALL.into_iter().filter_map(changed).collect();
    format!("candidate: {}", changed.join(", "))
}

/// The estimate of a comparison that goes on, with the pairs that it rests on.
#[must_use]
pub fn contest_standing(comparison: &Comparison) -> String {
    let (mut pairs, mut estimates) = (0, Vec::new());
    for finding in &comparison.findings {
        let Some(evidence) = finding.evidence else {
            continue;
        };
        if finding.verdict != MetricVerdict::Informational {
            pairs = pairs.max(evidence.pairs);
            estimates.push(format!("{} {}", finding.metric.column(), change(&evidence)));
        }
    }
    let pairs = counted(pairs as u64, "pair");
    format!("estimate from {pairs}: {}", estimates.join(", "))
}

impl StudyResult for Contest {
    const SCHEMA: &'static str = "crawlmark.comparison/1";

    const FILE: &'static str = "comparison.json";

    fn conclusion(&self) -> Conclusion {
        match self.verdict {
            Overall::Pass => Conclusion::Done,
            Overall::Regression => Conclusion::Failed,
            Overall::Inconclusive | Overall::Incomparable => Conclusion::Inconclusive,
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.findings().iter().map(ContestFinding::notice).collect()
    }

    fn doc(&self) -> Doc {
        let context = &self.context;
        let medians = if self.is_all_disturbed() {
            "all"
        } else {
            "the counted pairs"
        };
        let title = format!("{}: {}", context.header.name, self.verdict.name());
        doc_of(title, &self.notices())
            .table(self.sides())
            .table(self.metrics())
            .in_files()
            .plot("pairs", "Ratios of the pairs")
            .text(format!(
                "{} rounds; medians of {medians}. {}",
                grouped(self.rounds.len() as u64),
                context.header.made_by()
            ))
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::pairs(self)]
    }

    fn exports(&self) -> Vec<(&'static str, String)> {
        vec![("junit.xml", contest_junit(self))]
    }
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
        // A target or program of its own has a row of its own.
        if !differences.iter().any(Difference::is_of_command) {
            rows.insert(
                0,
                vec!["what".to_owned(), base.what.clone(), candidate.what.clone()],
            );
        }
        Table {
            columns: ["", "base", "candidate"].map(Column::words).to_vec(),
            rows,
            ..Table::default()
        }
    }

    /// The table of metrics: verdict, medians of both sides, and the change.
    #[must_use]
    pub fn metrics(&self) -> Table {
        // What is only to be shown and was not read throughout is left out.
        let is_worth =
            |one: &&Finding| one.evidence.is_some() || one.verdict != MetricVerdict::Informational;
        let findings = self.comparison.findings.iter().filter(is_worth);
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
            rows: findings.map(|finding| self.row(finding)).collect(),
            ..Table::default()
        }
    }

    /// The row of a metric.
    pub(crate) fn row(&self, finding: &Finding) -> Vec<String> {
        let metric = finding.metric;
        let medians = [Arm::Base, Arm::Candidate].map(|arm| self.median(arm, metric));
        let [base, candidate] = medians
            .map(|value| value.map_or_else(|| "-".to_owned(), |value| metric.in_unit(value)));
        // Where nothing was estimated, the medians are shown.
        let ratio = medians[1].zip(medians[0].filter(|base| *base > 0.0));
        let ratio = ratio.map(|(candidate, base)| format!("{} %", signed(candidate / base)));
        let changed = finding.evidence.as_ref().map(change).or(ratio);
        // Before the first look, p only invites to stop early.
        let p = finding.evidence.and_then(|evidence| evidence.p_adjusted);
        let p = p.filter(|_| self.comparison.look.is_some());
        let floor = self.context.noise_floor.as_ref();
        let floor = floor.and_then(|equal| equal.finding(metric)?.evidence);
        let reason = match finding.verdict {
            // The answer says how many pairs are missing.
            MetricVerdict::Inconclusive {
                because: Undecided::TooFewPairs { .. },
                ..
            } => String::new(),
            MetricVerdict::Inconclusive {
                minimum_detectable_effect: Some(effect),
                because: Undecided::Noise,
            } if effect < 1.0 => format!(
                "{}; a loss of {} or more would have been detected",
                finding.verdict.reason(),
                percent(effect)
            ),
            verdict => verdict.reason(),
        };
        vec![
            metric.column().to_owned(),
            finding.verdict.name().to_owned(),
            base,
            candidate,
            changed.unwrap_or_else(|| "-".to_owned()),
            p.map_or_else(|| "-".to_owned(), probability),
            floor.as_ref().map_or_else(String::new, change),
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
