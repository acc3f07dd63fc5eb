//! A comparison as it is saved, `comparison.json` (schema `crawlmark.comparison/1`), and as it is
//! shown.
//!
//! Made by `ab` from rounds that it ran, and by `compare` from rounds that were saved. What it
//! found is the [`Comparison`] of [`judge`].

use std::collections::BTreeMap;

use crawlmark_harness::stats::median;
use crawlmark_harness::units::{micros, percent, rounded_percent};
use serde::{Deserialize, Serialize};

use super::chart;
use super::design::{Arm, BEYOND, DesignError, Disturbance, Pair, Round, pair_up};
use super::judge;
use super::judgement::{
    Comparison, Evidence, LOOKS, MetricResult, MetricVerdict, Overall, Undecided,
};
use super::profile::{FunctionResult, Per, ProfileResult, RoundProfile, compare_functions};
use super::shape::{QuantileResult, RoundShape, compare_shapes, shape_of_executions, shape_of_run};
use super::statistics::{change, change_in_two, time_change};
use crate::metrics::{
    Execution, Metric, Reading, SHARE, Statistic, Worse, log_change, readings_of_executions,
    readings_of_parts, readings_of_run,
};
use crate::run::report::{Report, Verdict};
use crate::show::doc::{Column, Doc, Figure, Table};
use crate::show::junit::{self, Suite, TestCase};
use crate::show::text::counted;
use crate::studies::differences::Difference;
use crate::studies::{
    Conclusion, Header, Picture, RoundRun, StudyFinding, StudyResult, figure, in_rounds, or_dash,
};

/// A comparison, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// All but the rounds, and what follows from them.
    #[serde(flatten)]
    pub context: ContestContext,
    /// Result of the comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Quantiles of the service time of crawls or the wall time of commands, as their ratio to the
    /// median; empty where rounds have too few values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<QuantileResult>,
    /// CPU time by function; none without `--profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileResult>,
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
    /// Reason why functions were not sampled; none if they were, or were not to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_profiled: Option<String>,
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
    /// Its run.
    #[serde(flatten)]
    pub run: RoundRun,
    /// Time in which it was measured, s; none of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_s: Option<f64>,
    /// Executions of its command; none of a crawl.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<Execution>,
    /// CPU time by function; none if that was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<RoundProfile>,
    /// Quantiles of its times, beside the median; none with too few of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<RoundShape>,
}

impl RoundReport {
    /// The round of `arm` in the `pair`-th pair, whose run has this report, saved in `result`. Only
    /// both reports of the pair show whether it was disturbed ([`Disturbance::of_pair`]).
    pub fn new(report: &Report, pair: usize, arm: Arm, result: String) -> Self {
        Self {
            pair,
            round: Round::of(arm, readings_of_run(report)),
            run: RoundRun::of(report, result),
            measured_s: Some(report.totals.duration_s),
            executions: Vec::new(),
            shape: shape_of_run(report),
            profile: report.target.as_ref().and_then(|target| {
                let (each_us, all_us) = (target.cpu_us_per_attempt?, target.cpu_us?);
                let profile = target.profile.as_ref()?;
                Some(RoundProfile::new(profile, all_us, each_us, Per::Request))
            }),
        }
    }

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
            round: Round::of(arm, readings_of_executions(&executions)),
            run: RoundRun {
                result: None,
                started_at,
                finished_at,
                validity: Verdict::Valid,
                findings: Vec::new(),
            },
            measured_s: None,
            shape: shape_of_executions(&executions),
            executions,
            profile: None,
        }
    }

    /// True if its pair counts.
    pub(super) fn counts(&self) -> bool {
        self.round.disturbance == Disturbance::None
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
    let telling: Vec<Metric> = metrics
        .iter()
        .filter(|metric| {
            let mut readings = rounds.iter().map(|of| of.round.readings.of(&metric.name));
            metric.unit != SHARE || readings.any(|reading| reading != Reading::Gating(1.0))
        })
        .cloned()
        .collect();
    let taken: Vec<Round> = rounds.iter().map(|round| round.round.clone()).collect();
    let mut pairs = pair_up(&taken)?;
    for (pair, two) in pairs.iter_mut().zip(rounds.chunks_exact(2)) {
        let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| {
            two.iter()
                .filter(move |of| of.round.arm == arm)
                .flat_map(|of| readings_of_parts(&of.executions))
        });
        pair.parts = base.zip(candidate).map(Into::into).collect();
    }
    let comparison = judge(&telling, &pairs, &LOOKS)?;
    let plain: Vec<&str> = telling
        .iter()
        .filter(|metric| is_plain(metric, &pairs))
        .map(|metric| &*metric.name)
        .collect();
    Ok(if plain.is_empty() {
        comparison
    } else {
        comparison.plain(&plain)
    })
}

/// Functions in a table at most.
const MOST_FUNCTIONS: usize = 20;

/// Functions that findings name at most.
const NAMED: usize = 3;

/// What both rounds of each counted pair have, base first.
fn of_pairs<'a, T>(
    rounds: &'a [RoundReport],
    of: impl Fn(&'a RoundReport) -> Option<T>,
) -> Vec<[T; 2]> {
    let side = |pair: &'a [RoundReport], arm| of(pair.iter().find(|it| it.round.arm == arm)?);
    rounds
        .chunks_exact(2)
        .filter(|pair| pair[0].counts())
        .filter_map(|pair| Some([side(pair, Arm::Base)?, side(pair, Arm::Candidate)?]))
        .collect()
}

/// Metrics at the top of a page at most.
const MOST_FIGURES: usize = 5;

/// Counted pairs from which on a plain loss is a regression before the first look. By chance alone,
/// six losses of six come once in 64 comparisons, and so large ones never.
const PLAIN: usize = 6;

/// Counted pairs from which on a candidate without a good item is one: one run of each decides
/// nothing.
const PLAIN_WITHOUT_GOOD: usize = 2;

/// Counted pairs from which on a plain loss of coarse readings is one. Noise of their own size is
/// likely; that all of so many agree comes once in 65,536 comparisons.
const PLAIN_COARSE: usize = LOOKS[0].pairs;

/// True if the candidate was worse by more than a disturbance explains in every counted pair.
fn is_plain(metric: &Metric, pairs: &[Pair]) -> bool {
    if metric.statistic == Statistic::Tail {
        return false;
    }
    let (mut least, mut count) = (PLAIN_WITHOUT_GOOD, 0);
    for pair in pairs.iter().filter(|pair| pair.undisturbed()) {
        let both = [&pair.base, &pair.candidate].map(|side| side.of(&metric.name));
        let [Some(base), Some(candidate)] = both.map(Reading::value) else {
            return false;
        };
        if both
            .iter()
            .any(|one| matches!(one, Reading::Informational(_)))
        {
            return false;
        }
        if both.iter().any(|one| one.longer().is_some()) {
            least = PLAIN_COARSE;
        }
        let loss = metric.toward_worse(log_change([base, candidate]));
        if loss.is_nan() || loss <= BEYOND.ln() {
            return false;
        }
        if metric.worse == Worse::More || candidate != 0.0 {
            least = least.max(PLAIN);
        }
        count += 1;
    }
    count >= least
}

impl Contest {
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
            shape: compare_shapes(&of_pairs(&rounds, |of| of.shape)),
            profile: compare_functions(&of_pairs(&rounds, |of| of.profile.as_ref())),
            rounds,
        })
    }

    /// The figures of two single runs, without a verdict.
    #[must_use]
    pub fn without_verdict(mut self) -> Self {
        self.comparison = self.comparison.without_verdict();
        self
    }

    /// Time that a round needs for a verdict on a metric, s, by those that were run.
    fn needed_s(&self, longer: f64) -> Option<f64> {
        let shortest = self
            .rounds
            .iter()
            .map(|of| of.measured_s)
            .collect::<Option<Vec<f64>>>()?;
        Some((shortest.into_iter().reduce(f64::min)? * longer).ceil())
    }

    /// The metrics that were compared.
    pub fn metrics(&self) -> Vec<Metric> {
        self.comparison
            .metrics
            .iter()
            .map(|one| one.metric.clone())
            .collect()
    }

    /// The rounds of an arm, in the order in which they ran.
    fn of_arm(&self, arm: Arm) -> impl Iterator<Item = &RoundReport> {
        self.rounds.iter().filter(move |of| of.round.arm == arm)
    }

    /// The readings of a metric in the counted rounds of an arm, in the order in which they ran; in
    /// all of them when none counts.
    pub fn values(&self, arm: Arm, metric: &Metric) -> Vec<f64> {
        let all = !self.rounds.iter().any(RoundReport::counts);
        self.of_arm(arm)
            .filter(|of| all || of.counts())
            .filter_map(|of| of.round.readings.of(&metric.name).value())
            .collect()
    }
}

/// The estimate of a comparison that goes on.
pub fn contest_estimate(comparison: &Comparison) -> String {
    let estimates: Vec<String> = comparison
        .metrics
        .iter()
        .filter_map(|one| Some(format!("{} {}", one.metric.column, one.evidence?.change())))
        .collect();
    format!("estimate: {}", estimates.join(", "))
}

impl StudyResult for Contest {
    const SCHEMA: &'static str = "crawlmark.comparison/1";

    const FILE: &'static str = "comparison.json";

    fn chart(&self) -> [&'static str; 2] {
        ["pairs", "Pairs"]
    }

    fn header(&self) -> &Header {
        &self.context.header
    }

    fn outcome(&self) -> String {
        self.comparison.verdict.name().to_owned()
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let (verdict, all) = (self.comparison.verdict, &self.comparison.metrics);
        let (pairs, counted) = (
            self.rounds.len() / 2,
            self.rounds.iter().filter(|of| of.counts()).count() / 2,
        );
        let led_to_it = |one: &&MetricResult| one.verdict.weight() == Some(verdict);
        let bounds = all.iter().map(|one| one.metric.passes_below);
        let mut led: Vec<MetricResult> = all.iter().filter(led_to_it).cloned().collect();
        // What surely got worse is the reason to be told, with what would decide.
        led.sort_by_key(|one| one.verdict.longer().is_none());
        let longer = led.iter().find_map(|one| one.verdict.longer());
        let mut found = vec![StudyFinding::Comparison {
            verdict,
            counted,
            left_out: pairs - counted,
            metrics: led,
            passes_below: bounds.fold(0.0, f64::max),
            needed_s: longer.and_then(|longer| self.needed_s(longer)),
        }];
        found.extend(self.shape_changed());
        found.extend(self.functions_changed());
        let not_profiled = self.context.not_profiled.clone();
        found.extend(not_profiled.map(|reason| StudyFinding::NotProfiled { reason }));
        let uneven = self.profile.as_ref().filter(|profile| !profile.is_even());
        found.extend(uneven.map(|profile| StudyFinding::SampledUnevenly {
            samples: profile.samples,
            started: profile.started,
        }));
        found.extend(self.not_judged());
        let mut left_out = BTreeMap::<Disturbance, usize>::new();
        for pair in self.rounds.chunks(2).filter(|pair| !pair[0].counts()) {
            *left_out.entry(pair[0].round.disturbance).or_default() += 1;
        }
        for (disturbance, count) in left_out {
            found.push(StudyFinding::PairsLeftOut {
                disturbance,
                count,
                of: pairs,
            });
        }
        found.extend(
            [Arm::Base, Arm::Candidate]
                .into_iter()
                .filter_map(|arm| self.failed(arm)),
        );
        let floor = self.context.noise_floor.as_ref();
        if floor.is_some_and(|equal| equal.verdict == Overall::Regression) {
            found.push(StudyFinding::EqualSidesDiffer {});
        }
        found.extend(all.iter().filter_map(|one| {
            let evidence = one.evidence.filter(Evidence::is_autocorrelated)?;
            Some(StudyFinding::Autocorrelated {
                metric: one.metric.title.to_string(),
                autocorrelation: evidence.autocorrelation?,
            })
        }));
        for (arm, side) in [
            (Arm::Base, " of the base"),
            (Arm::Candidate, " of the candidate"),
        ] {
            let runs: Vec<&RoundRun> = self.of_arm(arm).map(|of| &of.run).collect();
            found.extend(in_rounds(side, &runs));
        }
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        // Those that decided first.
        let mut all: Vec<&MetricResult> = self.comparison.metrics.iter().collect();
        all.sort_by_key(|one| one.verdict.weight().is_none());
        let figure_of = |one: &MetricResult| {
            let evidence = one
                .evidence
                .as_ref()
                .filter(|evidence| evidence.has_ratio())?;
            let [value, interval] = change_in_two(evidence.ratio, evidence.shown_interval());
            figure(one.metric.title.to_string(), Some(value), interval)
        };
        all.into_iter()
            .filter_map(figure_of)
            .take(MOST_FIGURES)
            .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.table(self.sides())
            .table(self.verdicts())
            .table(self.shapes())
            .section("functions", "Functions", self.functions(), "")
    }

    fn short_table(&self, _columns: usize) -> Option<Table> {
        let mut table = self.verdicts();
        let pairs = self.rounds.iter().filter(|of| of.counts()).count() / 2;
        table.caption = counted(pairs as u64, "pair");
        table.columns.splice(
            1..4,
            [
                Column::numbers("base \u{2192} candidate").leaving(3),
                Column::words("verdict").leaving(4),
            ],
        );
        for row in &mut table.rows {
            let [verdict, base, candidate] = [1, 2, 3].map(|at| row[at].clone());
            row.splice(1..4, [format!("{base} \u{2192} {candidate}"), verdict]);
        }
        Some(table)
    }

    fn picture(&self) -> Option<Picture> {
        let Self {
            context, rounds, ..
        } = self;
        let pairs = rounds.iter().filter(|of| of.counts()).count() / 2;
        let is_command = rounds.iter().any(|of| !of.executions.is_empty());
        Some(Picture {
            subtitle: format!(
                "candidate against base, in percent · {} · dots are pairs, bars 95 % intervals",
                counted(pairs as u64, "pair")
            ),
            command: if is_command { "ab, commands" } else { "ab" },
            of: [("base", &context.base), ("candidate", &context.candidate)]
                .into_iter()
                .map(|(side, arm)| {
                    (
                        side,
                        if arm.name == side {
                            &arm.what
                        } else {
                            &arm.name
                        },
                    )
                })
                .filter(|(_, words)| !words.is_empty())
                .map(|(side, words)| format!("{side} {words}"))
                .collect(),
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        match self.comparison.verdict {
            Overall::Pass => Conclusion::Done,
            Overall::Regression => Conclusion::Failed,
            // A comparison without a verdict is no gate that passes.
            Overall::NotJudged | Overall::Inconclusive => Conclusion::Inconclusive,
        }
    }

    fn exports(&self) -> Vec<(&'static str, String)> {
        vec![(junit::FILE, self.junit())]
    }
}

impl Contest {
    /// The comparison as `JUnit`: a test case for each metric that may decide.
    fn junit(&self) -> String {
        let mut cases = Vec::new();
        for one in &self.comparison.metrics {
            let ok = match one.verdict {
                MetricVerdict::Informational { .. } => continue,
                MetricVerdict::Pass => Some(true),
                MetricVerdict::Regression => Some(false),
                MetricVerdict::Inconclusive { .. } => None,
            };
            let mut cells = self.row(one);
            cells.remove(0);
            cells.retain(|cell| !cell.is_empty());
            cases.push(TestCase {
                name: one.metric.name.clone().into_owned(),
                said: format!("{}: {}", one.metric.title, cells.join(", ")),
                kind: "comparison",
                ok,
            });
        }
        let sides = &self.context;
        let suite = Suite {
            name: &sides.header.name,
            class: "comparison",
            timestamp: &sides.header.started_at,
            duration_s: 0.0,
            properties: &[
                ("verdict", self.comparison.verdict.name()),
                ("base", &sides.base.what),
                ("candidate", &sides.candidate.what),
            ],
        };
        suite.document(&cases)
    }

    /// The executions of an arm that failed, which count with `--ignore-failure`.
    fn failed(&self, arm: Arm) -> Option<StudyFinding> {
        let executions = self.of_arm(arm).flat_map(|of| &of.executions);
        let (failed, good): (Vec<&Execution>, Vec<&Execution>) =
            executions.partition(|one| one.exit_code != Some(0));
        (!failed.is_empty()).then(|| StudyFinding::ExecutionsFailed {
            arm,
            failed: failed.len() as u64,
            of: (failed.len() + good.len()) as u64,
            exit_codes: failed.iter().filter_map(|one| one.exit_code).collect(),
        })
    }

    /// The metrics that could have decided and were read too little of.
    fn not_judged(&self) -> Option<StudyFinding> {
        let (longer, metrics): (Vec<f64>, Vec<String>) = self
            .comparison
            .metrics
            .iter()
            .filter_map(|one| match one.verdict {
                MetricVerdict::Informational { longer } => Some((longer?, &one.metric.title)),
                _ => None,
            })
            .map(|(longer, title)| (longer, title.to_string()))
            .unzip();
        let longer = longer.into_iter().reduce(f64::max)?;
        Some(StudyFinding::NotJudged {
            metrics,
            longer,
            needed_s: self.needed_s(longer),
        })
    }

    fn sides(&self) -> Table {
        let context = &self.context;
        let row = |what: &str, base: &str, candidate: &str| {
            [what, base, candidate].map(str::to_owned).to_vec()
        };
        let differences = &context.differences;
        let mut rows = Vec::new();
        // A target of its own has a row of its own.
        if !differences.iter().any(Difference::is_of_command) {
            rows.push(row("what", &context.base.what, &context.candidate.what));
        }
        rows.extend(
            differences
                .iter()
                .map(|one| row(&one.what, &one.base, &one.candidate)),
        );
        let each = [Arm::Base, Arm::Candidate].map(|arm| {
            self.of_arm(arm)
                .next()
                .map_or(0, |round| round.executions.len())
        });
        if each != [0, 0] {
            let [base, candidate] = each.map(|count| count.to_string());
            rows.push(row("executions a round", &base, &candidate));
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
        let worth = self
            .comparison
            .metrics
            .iter()
            .filter(|one| one.evidence.is_some() || one.verdict.weight().is_some());
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

    /// The quantile that differs most surely.
    fn shape_changed(&self) -> Option<StudyFinding> {
        let it = self
            .shape
            .iter()
            .filter(|it| it.differs)
            .min_by(|one, other| one.p_adjusted.total_cmp(&other.p_adjusted))?;
        Some(StudyFinding::ShapeChanged {
            of: self.shape_of().to_owned(),
            quantile: it.quantile,
            base: it.base,
            candidate: it.candidate,
        })
    }

    /// The functions that differ most.
    fn functions_changed(&self) -> Vec<StudyFinding> {
        let Some(profile) = &self.profile else {
            return Vec::new();
        };
        profile
            .functions
            .iter()
            .filter(|it| it.differs)
            .take(NAMED)
            .map(|it| StudyFinding::FunctionChanged {
                function: it.function.clone(),
                change_us: it.change_us,
                interval_us: it.interval_us,
                share_of_change: it.share_of_change,
                per: profile.per,
            })
            .collect()
    }

    /// Times whose shape is compared.
    fn shape_of(&self) -> &'static str {
        let is_command = self.rounds.iter().any(|of| !of.executions.is_empty());
        if is_command {
            "wall time"
        } else {
            "service time"
        }
    }

    /// The table of quantiles beside the median.
    fn shapes(&self) -> Table {
        let row = |it: &QuantileResult| {
            vec![
                format!("p{:.0} / median", it.quantile * 100.0),
                if it.differs { "differs" } else { "same" }.to_owned(),
                format!("{:.3}", it.base),
                format!("{:.3}", it.candidate),
                change(it.ratio, it.interval),
                probability(it.p_adjusted),
            ]
        };
        if self.shape.is_empty() {
            return Table::default();
        }
        Table {
            caption: format!("Shape of the {}", self.shape_of()),
            columns: vec![
                Column::words("quantile"),
                Column::words("shape"),
                Column::numbers("base"),
                Column::numbers("candidate"),
                Column::numbers("change (95 %)"),
                Column::numbers("p").leaving(1),
            ],
            rows: self.shape.iter().map(row).collect(),
            ..Table::default()
        }
    }

    /// The table of functions.
    fn functions(&self) -> Table {
        let Some(profile) = &self.profile else {
            return Table::default();
        };
        let row = |it: &FunctionResult| {
            vec![
                it.function.clone(),
                micros(it.base_us),
                micros(it.candidate_us),
                time_change(it.change_us, it.interval_us),
                probability(it.p_adjusted),
                it.share_of_change.map_or_else(String::new, rounded_percent),
            ]
        };
        Table {
            caption: format!(
                "CPU time by function, per {}, from {}",
                profile.per,
                counted(profile.samples, "sample")
            ),
            columns: vec![
                Column::words("function"),
                Column::numbers("base"),
                Column::numbers("candidate"),
                Column::numbers("change (95 %)"),
                Column::numbers("p").leaving(1),
                Column::numbers("of the change").leaving(2),
            ],
            rows: profile
                .functions
                .iter()
                .take(MOST_FUNCTIONS)
                .map(row)
                .collect(),
            ..Table::default()
        }
    }

    /// The row of a metric.
    pub(crate) fn row(&self, one: &MetricResult) -> Vec<String> {
        let metric = &one.metric;
        let medians = [Arm::Base, Arm::Candidate].map(|arm| median(&mut self.values(arm, metric)));
        let [base, candidate] = medians.map(|value| or_dash(value, |value| metric.in_unit(value)));
        // Where nothing was estimated, the medians are shown.
        let ratio = medians[1]
            .zip(medians[0].filter(|base| *base > 0.0))
            .map(|(candidate, base)| change(candidate / base, None));
        let changed = one.evidence.as_ref().map(Evidence::change).or(ratio);
        // Before the first look, p only invites to stop early.
        let p = one
            .evidence
            .and_then(|evidence| evidence.p_adjusted)
            .filter(|_| self.comparison.look.is_some());
        let floor = self
            .context
            .noise_floor
            .as_ref()
            .and_then(|equal| equal.of(&metric.name)?.evidence);
        let mut reason = String::new();
        if let MetricVerdict::Inconclusive {
            because,
            minimum_detectable_effect: effect,
        } = one.verdict
            // The answer says how many pairs are missing.
            && !matches!(because, Undecided::TooFewPairs { .. })
        {
            let effect = effect.filter(|effect| because == Undecided::Noise && *effect < 1.0);
            let detected = effect.map(|effect| {
                format!(
                    "; a loss of {} or more would have been detected",
                    percent(effect)
                )
            });
            reason = because.to_string() + &detected.unwrap_or_default();
        }
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
