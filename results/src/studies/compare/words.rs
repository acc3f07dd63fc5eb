//! A comparison in words: as a document, and in a line while it goes on.

use std::iter;

use crawlmark_harness::stats::median;
use crawlmark_harness::units::grouped;

use super::saved::had_no_good;
use super::{
    Arm, Comparison, Contest, Difference, Disturbance, Evidence, FILE, Finding, Metric,
    MetricVerdict, Mismatch, Overall, RoundReport, Undecided,
};
use crate::export::contest_junit;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{capital, counted, decimal, micros};
use crate::studies::{Conclusion, StudyResult};

/// Return the name of a metric in words.
#[must_use]
pub const fn metric_words(metric: Metric) -> &'static str {
    match metric {
        Metric::TargetCpuPerAttempt => "target CPU per request",
        Metric::CpuPerAttempt => "client CPU per request",
        Metric::Throughput => "good items per second",
        Metric::OkShare => "share of ok items",
        Metric::ServiceP50 => "service time, median",
        Metric::ServiceP99 => "service time, p99",
    }
}

/// Its name in a column of eleven.
pub(crate) const fn short_name(metric: Metric) -> &'static str {
    match metric {
        Metric::TargetCpuPerAttempt => "target CPU",
        Metric::CpuPerAttempt => "client CPU",
        Metric::Throughput => "throughput",
        Metric::OkShare => "ok share",
        Metric::ServiceP50 => "service p50",
        Metric::ServiceP99 => "service p99",
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

/// The verdict in a sentence.
#[must_use]
pub fn contest_headline(contest: &Contest) -> String {
    let without: Vec<String> = [Arm::Base, Arm::Candidate]
        .into_iter()
        .filter_map(|arm| no_good(contest, arm))
        .collect();
    if !without.is_empty() {
        return format!(
            "{}. {} after {}.",
            without.join(". "),
            capital(contest.verdict.name()),
            pairs(contest)
        );
    }
    let worse: Vec<String> = contest
        .comparison
        .findings
        .iter()
        .filter(|finding| finding.verdict == MetricVerdict::Regression)
        .filter_map(|finding| {
            Some(format!(
                "{} {}",
                metric_words(finding.metric),
                change(&finding.evidence?)
            ))
        })
        .collect();
    let what = match contest.verdict {
        Overall::Regression => format!("the candidate is worse: {}", worse.join("; ")),
        Overall::Pass => "no metric got worse by 4 % or more".to_owned(),
        Overall::Inconclusive => undecided(contest),
        Overall::Incomparable => no_ratio(contest),
    };
    format!(
        "{} after {}: {what}.",
        capital(contest.verdict.name()),
        pairs(contest)
    )
}

/// Sentence on an arm without a good response:
/// `The candidate had no good response: 1,654 failed (status 500)`.
fn no_good(contest: &Contest, arm: Arm) -> Option<String> {
    if !had_no_good(&contest.rounds, arm) {
        return None;
    }
    let rounds = || contest.rounds.iter().filter(|round| round.arm == arm);
    let failed = rounds().fold(0, |sum: u64, round| sum.saturating_add(round.failed));
    let items = rounds().fold(0, |sum: u64, round| sum.saturating_add(round.items));
    let mut causes: Vec<&str> = Vec::new();
    for cause in rounds().flat_map(|round| &round.causes) {
        if !causes.contains(&cause.as_str()) {
            causes.push(cause);
        }
    }
    let causes = if causes.is_empty() {
        String::new()
    } else {
        format!(" ({})", causes.join(", "))
    };
    let missing = items.saturating_sub(failed);
    let came = [
        (failed > 0).then(|| format!("{} failed{causes}", grouped(failed))),
        (missing > 0).then(|| format!("{} not found", grouped(missing))),
    ];
    let came: Vec<String> = came.into_iter().flatten().collect();
    let came = if came.is_empty() {
        "no item ended".to_owned()
    } else {
        came.join(", ")
    };
    Some(format!("The {arm} had no good response: {came}"))
}

/// Number of pairs, and the look that decided.
fn pairs(contest: &Contest) -> String {
    let counted = contest
        .rounds
        .iter()
        .filter(|round| round.disturbance == Disturbance::None)
        .count()
        / 2;
    let left_out = contest.rounds.len() / 2 - counted;
    let plural = if counted == 1 { "" } else { "s" };
    let more = match left_out {
        0 => String::new(),
        1 if counted == 0 => " (1 was left out)".to_owned(),
        some if counted == 0 => format!(" ({some} were left out)"),
        1 => " (1 more was left out)".to_owned(),
        more => format!(" ({more} more were left out)"),
    };
    format!("{counted} counted pair{plural}{more}")
}

/// Reason why the metrics cannot be compared: that of the first.
fn no_ratio(contest: &Contest) -> String {
    let why = contest
        .comparison
        .findings
        .iter()
        .find_map(|finding| match finding.verdict {
            MetricVerdict::Incomparable { because } => Some(format!(
                "{}: {}",
                metric_words(finding.metric),
                mismatch(finding.metric, because)
            )),
            _ => None,
        });
    why.unwrap_or_else(|| "no metric was read in both sides of each pair".to_owned())
}

/// Reason why a metric cannot be compared, with the remedy where there is one.
fn mismatch(metric: Metric, because: Mismatch) -> String {
    match because {
        Mismatch::Missing { .. } if metric.is_percentile() => {
            format!("{because}, because good responses were too few: use longer rounds (-d)")
        }
        _ => because.to_string(),
    }
}

/// Reason why nothing was decided.
fn undecided(contest: &Contest) -> String {
    let why = contest
        .comparison
        .findings
        .iter()
        .find_map(|finding| match finding.verdict {
            MetricVerdict::Inconclusive { because, .. } => Some((finding.metric, because)),
            _ => None,
        });
    match why {
        Some((metric, because @ Undecided::Coarse { .. })) => {
            format!("{}: {because}", metric_words(metric))
        }
        Some((_, because)) => because.to_string(),
        None => "nothing was decided".to_owned(),
    }
}

/// Figures of one pair: the candidate beside the base in each metric that both have. One pair is no
/// verdict.
#[must_use]
pub fn pair_line(pair: &[RoundReport]) -> String {
    let value = |arm: Arm, metric: Metric| {
        pair.iter()
            .find(|round| round.arm == arm)
            .and_then(|round| round.readings.of(metric).value())
    };
    let shown = Metric::ALL.into_iter().filter_map(|metric| {
        let (base, candidate) = (value(Arm::Base, metric)?, value(Arm::Candidate, metric)?);
        let is_shown = match metric {
            // 0 is a share, too.
            Metric::OkShare => base > 0.0 && (base < 1.0 || candidate < 1.0),
            _ => base > 0.0 && candidate > 0.0,
        };
        is_shown.then(|| format!("{} {} %", short_name(metric), signed(candidate / base)))
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        "nothing to compare".to_owned()
    } else {
        format!("candidate: {}", shown.join(", "))
    }
}

/// The estimate of a comparison that goes on, with the pairs that it rests on; nothing before the
/// first.
#[must_use]
pub fn contest_standing(comparison: &Comparison) -> String {
    let told = comparison
        .findings
        .iter()
        .filter(|finding| finding.verdict != MetricVerdict::Informational);
    let mut pairs = 0;
    let told = told.filter_map(|finding| {
        let verdict = match finding.verdict {
            MetricVerdict::Regression => " REGRESSION",
            MetricVerdict::Pass => " pass",
            _ => "",
        };
        let evidence = finding.evidence?;
        pairs = pairs.max(evidence.pairs);
        Some(format!(
            "{} {}{verdict}",
            short_name(finding.metric),
            change(&evidence)
        ))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() {
        return told;
    }
    format!(
        "estimate from {pairs} pair{}: {told}",
        if pairs == 1 { "" } else { "s" }
    )
}

fn severity(verdict: Overall) -> Severity {
    match verdict {
        Overall::Pass => Severity::Good,
        Overall::Inconclusive | Overall::Incomparable => Severity::Warning,
        Overall::Regression => Severity::Bad,
    }
}

impl StudyResult for Contest {
    const SCHEMA: &'static str = "crawlmark.comparison/1";

    const FILE: &'static str = FILE;

    fn conclusion(&self) -> Conclusion {
        match self.verdict {
            Overall::Pass => Conclusion::Done,
            Overall::Regression => Conclusion::Failed,
            Overall::Inconclusive | Overall::Incomparable => Conclusion::Inconclusive,
        }
    }

    fn doc(&self) -> Doc {
        let [base, candidate] = ["base", "candidate"].map(Column::words);
        let sides = vec![
            self.context.base.what.clone(),
            self.context.candidate.what.clone(),
        ];
        let row =
            |what: &str, cells: Vec<String>| iter::once(what.to_owned()).chain(cells).collect();
        let differing = |difference: &Difference| {
            row(
                &difference.what,
                vec![difference.base.clone(), difference.candidate.clone()],
            )
        };
        // Named in a row of its own.
        let is_named =
            |told: &Difference| ["target command", "program"].contains(&told.what.as_str());
        let what = (!self.context.differences.iter().any(is_named))
            .then(|| row("what", sides))
            .into_iter();
        let differences = Table {
            columns: vec![Column::words(""), base, candidate],
            rows: what
                .chain(self.context.differences.iter().map(differing))
                .collect(),
            ..Table::default()
        };
        let same = self.context.differences.is_empty().then(|| {
            (
                "differs",
                "nothing in the recorded plans and machines".to_owned(),
            )
        });
        Doc::new(format!(
            "{}: {}",
            self.context.header.name,
            self.verdict.name()
        ))
        .headline(severity(self.verdict), &contest_headline(self))
        .table(differences)
        .facts(same)
        .table(metrics(self))
        .facts(notes(self))
        .in_files()
        .plot("pairs", "Ratios of the pairs")
        .text(format!(
            "{} rounds, each in processes of its own; medians of {}. {}",
            grouped(self.rounds.len() as u64),
            if self.is_all_disturbed() {
                "all, as every pair was disturbed"
            } else {
                "the counted pairs"
            },
            self.context.header.made_by()
        ))
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::pairs(self)]
    }

    fn exports(&self) -> Vec<(&'static str, String)> {
        vec![("junit.xml", contest_junit(self))]
    }
}

/// The table of metrics: verdict, medians of both sides, and the change.
fn metrics(contest: &Contest) -> Table {
    let row = |finding: &Finding| {
        let [base, candidate] =
            [Arm::Base, Arm::Candidate].map(|arm| typical(contest, arm, finding.metric));
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        // Before the first look it only invites to stop early.
        let p = finding
            .evidence
            .and_then(|evidence| evidence.p_adjusted)
            .filter(|_| contest.comparison.look.is_some());
        let (verdict, why) = said(finding);
        vec![
            short_name(finding.metric).to_owned(),
            verdict.to_owned(),
            base,
            candidate,
            or_none(
                finding
                    .evidence
                    .map(|evidence| change(&evidence))
                    .or_else(|| only_shown(contest, finding)),
            ),
            or_none(p.map(probability)),
            why,
        ]
    };
    Table {
        columns: vec![
            Column::words("metric"),
            Column::words("verdict"),
            Column::numbers("base"),
            Column::numbers("candidate"),
            Column::numbers("change (95 %)"),
            Column::numbers("p").leaving(1),
            Column::sentences(""),
        ],
        rows: worth_a_row(contest).map(row).collect(),
        ..Table::default()
    }
}

/// All but what is only to be shown and was not read throughout.
fn worth_a_row(contest: &Contest) -> impl Iterator<Item = &Finding> {
    let is_worth = |finding: &&Finding| {
        finding.evidence.is_some() || finding.verdict != MetricVerdict::Informational
    };
    contest.comparison.findings.iter().filter(is_worth)
}

/// Describe the finding of a metric in a row.
pub(crate) fn row(contest: &Contest, finding: &Finding) -> String {
    let [base, candidate] =
        [Arm::Base, Arm::Candidate].map(|arm| typical(contest, arm, finding.metric));
    let measured = finding.evidence.map_or_else(String::new, |evidence| {
        // Before the first look it only invites to stop early.
        let p = evidence
            .p_adjusted
            .filter(|_| contest.comparison.look.is_some());
        let p = p.map_or_else(String::new, |p| format!(", p {}", probability(p)));
        format!(
            ": {} of the base, {} of the candidate, {}{p}",
            base,
            candidate,
            change(&evidence)
        )
    });
    let shown = only_shown(contest, finding).map_or_else(String::new, |changed| {
        let disturbed = if contest.is_all_disturbed() {
            ", disturbed"
        } else {
            ""
        };
        format!(": {base} of the base, {candidate} of the candidate, {changed}{disturbed}")
    });
    let (verdict, why) = said(finding);
    let why = if why.is_empty() {
        why
    } else {
        format!(" ({why})")
    };
    format!("{verdict}{why}{measured}{shown}")
}

/// Change of the medians where every pair was disturbed, so that nothing was estimated, and of a
/// candidate that lost all; none elsewhere.
fn only_shown(contest: &Contest, finding: &Finding) -> Option<String> {
    if finding.verdict == MetricVerdict::Regression && finding.evidence.is_none() {
        return Some("-100 %".to_owned());
    }
    let of = |arm| median(&mut contest.values(arm, finding.metric)).filter(|value| *value > 0.0);
    let ratio = of(Arm::Candidate)? / of(Arm::Base)?;
    (finding.evidence.is_none() && contest.is_all_disturbed())
        .then(|| format!("{} %", signed(ratio)))
}

/// The verdict on a metric, and the reason if there is none.
fn said(finding: &Finding) -> (&'static str, String) {
    match finding.verdict {
        MetricVerdict::Regression => ("REGRESSION", String::new()),
        MetricVerdict::Pass => ("pass", String::new()),
        MetricVerdict::Inconclusive {
            minimum_detectable_effect,
            because,
        } => {
            // A few pairs may be so far apart that no loss would have been.
            let found = minimum_detectable_effect
                .filter(|effect| *effect < 1.0)
                .map_or_else(String::new, |effect| {
                    format!(
                        "; a loss of {:.1} % or more would have been detected",
                        effect * 100.0
                    )
                });
            // The headline says how many are missing.
            match because {
                Undecided::TooFewPairs { .. } => ("undecided", String::new()),
                Undecided::Coarse { .. } => ("inconclusive", because.to_string()),
                Undecided::TooDisturbed { .. } | Undecided::Noise => {
                    ("inconclusive", format!("{because}{found}"))
                }
            }
        }
        MetricVerdict::Incomparable { because } => {
            ("incomparable", mismatch(finding.metric, because))
        }
        MetricVerdict::Informational => ("shown only", String::new()),
    }
}

/// The median of what an arm's rounds read, with its unit.
fn typical(contest: &Contest, arm: Arm, metric: Metric) -> String {
    let mut values = contest.values(arm, metric);
    median(&mut values).map_or_else(|| "-".to_owned(), |value| in_unit(metric, value))
}

pub(crate) fn in_unit(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{}/s", decimal(value)),
        Metric::OkShare => format!("{:.2} %", value * 100.0),
        Metric::TargetCpuPerAttempt
        | Metric::CpuPerAttempt
        | Metric::ServiceP50
        | Metric::ServiceP99 => micros(value),
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "below 0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

/// Rounds of counted pairs that are not valid by themselves, and the reason why their pairs count.
fn own_findings(contest: &Contest) -> Option<String> {
    let all = contest.is_all_disturbed();
    let counted = || {
        contest
            .rounds
            .iter()
            .filter(move |round| all || round.disturbance == Disturbance::None)
    };
    let found = counted()
        .map(|round| round.validity.name())
        .filter(|name| *name != "valid");
    let found: Vec<&str> = found.collect();
    let why = if all {
        ""
    } else {
        "; their pairs count, as a pair is only left out when its rounds differ in the speed of the CPU, in stolen CPU time or in how long \
         a shard froze"
    };
    let (count, rounds) = (found.len(), counted().count());
    (count > 0).then(|| {
        format!(
            "{count} of {rounds} rounds had findings of their own ({}){why}",
            by_kind(&found)
        )
    })
}

/// Pairs that are left out, by reason.
fn left_out(contest: &Contest) -> Option<String> {
    let pairs = contest
        .rounds
        .chunks(2)
        .filter_map(|pair| pair.iter().map(|round| round.disturbance.words()).max());
    let reasons: Vec<&str> = pairs.filter(|reason| !reason.is_empty()).collect();
    let (count, all) = (reasons.len(), contest.rounds.len() / 2);
    (count > 0).then(|| {
        format!(
            "{count} of {}: {}",
            counted(all as u64, "pair"),
            by_kind(&reasons)
        )
    })
}

/// Names with the number of times that each is there: `5 × disturbed, 2 × target_limited`.
fn by_kind(names: &[&str]) -> String {
    let mut kinds = names.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let count = |kind: &str| names.iter().filter(|name| **name == kind).count();
    kinds
        .iter()
        .map(|kind| format!("{} \u{d7} {kind}", count(kind)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Return the notes: warnings and other circumstances.
fn notes(contest: &Contest) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    if contest.rounds.len() == 2 {
        let warning = "one run of each: the machine may have caused the differences, so there is no verdict. `crawlmark ab` makes as many runs as \
                       needed";
        notes.push(("warning", warning.to_owned()));
    }
    if contest.is_all_disturbed() {
        let warning = "the machine was disturbed in every pair, so these figures decide nothing. Run both again on an idle machine; \
                       `crawlmark ab` repeats disturbed pairs by itself";
        notes.push(("disturbed", warning.to_owned()));
    }
    let failures = contest.failures;
    if failures.base > 0.0 || failures.candidate > 0.0 {
        let [base, candidate] =
            [failures.base, failures.candidate].map(|part| decimal(part * 100.0));
        notes.push((
            "failures",
            format!("{base} % of the items of the base, {candidate} % of the candidate's"),
        ));
    }
    notes.extend(own_findings(contest).map(|told| ("rounds", told)));
    notes.extend(left_out(contest).map(|told| ("left out", told)));
    if let Some(equal) = &contest.context.noise_floor {
        for finding in &equal.findings {
            if let Some(evidence) = finding.evidence {
                let noise = evidence
                    .log_ratio_sd
                    .map_or(0.0, |sd| sd / std::f64::consts::SQRT_2 * 100.0);
                let told = if finding.verdict == MetricVerdict::Regression {
                    ": equal sides differ on this machine"
                } else {
                    ""
                };
                let row = format!(
                    "{} {} between equal sides, {noise:.1} % of noise per round{told}",
                    short_name(finding.metric),
                    change(&evidence)
                );
                notes.push(("noise floor", row));
            }
        }
    }
    if contest.context.header.interrupted {
        notes.push(("note", "interrupted before all rounds were run".to_owned()));
    }
    notes
}
