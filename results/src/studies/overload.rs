//! `Overload`: how a target fails above its capacity, and if it recovers.
//!
//! The target gets 0.7 times its capacity, 1.5 times, and 0.7 times again, from clients that time
//! out and retry. Pure: it judges the seconds of that run, and runs nothing.
//!
//! | file | holds |
//! |---|---|
//! | `chart` | rates, requests in flight and response times by second |
//!
//! # Method
//!
//! *Goodput* is the rate of good responses, of those that met the objectives if there are any. Its
//! mean in the second half of the time before the overload is the *baseline*. What a stage sent and
//! is answered after its end counts to it: of what is in flight at its end, beyond what was at its
//! start, as much as Little's law gives for the usual response time. More of it is a queue.
//!
//! 1. The goodput is **back** in the first second of the last stage from which on at most a tenth of
//!    the seconds are below [`BACK`] of the baseline, less three standard deviations of a Poisson
//!    count, while their mean is not below it.
//! 2. The target **recovers** if it is back within the limit, is **slow** if it is back later, and is
//!    **stuck** if it is not back in the run.
//! 3. There is no verdict if the run was interrupted, the baseline is below `BACK`
//!    of the offered rate, or if the target kept up with the overload: then the capacity is another
//!    one. Nor is there one if requests waited for the client's own limits, or if the last stage was
//!    shorter than the limit of the recovery.

mod chart;

use std::mem;

use serde::{Deserialize, Serialize};

use super::{
    Conclusion, Header, Picture, RoundRun, StudyFinding, StudyResult, figure, in_rounds, name_of,
    objectives_in_words, or_dash, rate, shell_line,
};
use crate::judge::Finding;
use crate::run::report::{Environment, IntervalRow, Report, Verdict};
use crate::show::doc::{Column, Doc, Figure, Table};
use crate::show::text::{decimal, micros};
use crawlmark_harness::plan::RequestObjective;
use crawlmark_harness::sample::ErrorKind;

/// Offered rates of the stages, as parts of the capacity.
pub const LOADS: [f64; 3] = [0.7, 1.5, 0.7];

/// Names of the stages.
const STAGES: [&str; 3] = ["before", "during", "after"];

/// Part of the baseline at which goodput is back.
pub const BACK: f64 = 0.9;

/// Part of the overload's requests that a target which keeps up answers in time.
const KEPT_UP: f64 = 0.95;

/// Factor by which response times or requests in flight are longer or more where a queue is.
const QUEUED: f64 = 3.0;

/// Part of the capacity that counts as all of it.
const ALL: f64 = 0.95;

/// An overload, as it is saved in `overload.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Settings.
    #[serde(flatten)]
    pub question: OverloadQuestion,
    /// The machine.
    pub environment: Environment,
    /// The run, with its findings about the client.
    pub run: RoundRun,
    /// The judgement.
    #[serde(flatten)]
    pub outcome: OverloadOutcome,
    /// Its seconds.
    pub seconds: Vec<OverloadSecond>,
}

/// Settings of an overload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverloadQuestion {
    /// Command line that repeats it, without secrets.
    pub command: Vec<String>,
    /// Requests per second that the target sustains.
    pub capacity_per_s: f64,
    /// True if the capacity was searched, false if it was given.
    pub searched: bool,
    /// Requests per second that each stage offers, without retries.
    pub offered_per_s: [f64; 3],
    /// Length of each stage, s.
    pub stages_s: [u64; 3],
    /// Time within which the goodput has to be back, s.
    pub within_s: u64,
    /// Connections that the clients may open.
    pub connections: u32,
    /// Objectives of each request (`--objective`); those that miss one are not good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<RequestObjective>,
}

/// A second of the run. Counts are of requests that ended in it, retries included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverloadSecond {
    /// Since the start.
    pub start_s: u64,
    /// Requests scheduled in it, without retries.
    pub offered: f64,
    /// Good responses before the timeout, that met the objectives.
    pub good: u64,
    /// Other responses that would have been good: they missed an objective.
    pub late: u64,
    /// Error statuses, and connections that were refused.
    pub refused: u64,
    /// Requests that the clients gave up.
    pub timed_out: u64,
    /// Requests that failed otherwise.
    pub failed: u64,
    /// Requests that were sent in it, retries included.
    pub sent: u64,
    /// Retries.
    pub retries: u64,
    /// Requests in flight at its end.
    pub in_flight: u32,
    /// Median response time of the good and late responses to what was scheduled in it, us; null
    /// without one in it.
    pub response_p50_us: Option<f64>,
}

impl OverloadSecond {
    /// Read a second of a report, at whose start so many requests were in flight.
    fn of(row: &IntervalRow, in_flight: u32, has_objectives: bool) -> Self {
        let by_kind = &row.counts.errors_by_kind;
        let [timed_out, unopened] = [
            [ErrorKind::Timeout, ErrorKind::ConnectTimeout],
            [ErrorKind::ConnectRefused, ErrorKind::Http2Refused],
        ]
        .map(|kinds| kinds.iter().filter_map(|kind| by_kind.get(kind)).sum());
        let errors: u64 = by_kind.values().sum();
        let answered = row.counts.ok + row.counts.not_found;
        let good = if has_objectives { row.met } else { answered };
        let answers = row
            .counts
            .attempts
            .saturating_sub(errors + row.counts.aborted);
        Self {
            start_s: row.start_s,
            offered: row.offered.unwrap_or(0.0),
            good,
            late: answered.saturating_sub(good),
            refused: answers.saturating_sub(answered) + unopened,
            timed_out,
            failed: errors.saturating_sub(timed_out + unopened),
            sent: (row.counts.attempts + u64::from(row.in_flight)).saturating_sub(in_flight.into()),
            retries: row.counts.retries,
            in_flight: row.in_flight,
            response_p50_us: row
                .response_p50_us
                .filter(|_| row.scheduled_good.unwrap_or(answered) > 0),
        }
    }
}

/// Judgement of an overload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverloadOutcome {
    /// Null if the load was not what it was to be, or was not watched for long enough.
    pub verdict: Option<OverloadVerdict>,
    /// Reaction to the overload; null without a verdict.
    pub failure: Option<OverloadFailure>,
    /// Seconds of the last stage until the goodput was back; null if it was not, or without a verdict.
    pub recovery_s: Option<u64>,
    /// What kept the goodput down at the end; null if nothing did.
    pub held_by: Option<HeldBy>,
    /// Means of the stages; of the last one from the second on in which the goodput was back, or of
    /// its second half.
    pub stages: [StageMeans; 3],
    /// Requests that were waiting when the overload ended, if the target served its capacity and
    /// all requests that it had received.
    pub backlog: f64,
    /// Time in which the target could serve the backlog beside what it still received, s; null if
    /// that was more than its capacity.
    pub drain_s: Option<f64>,
}

/// Verdict on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverloadVerdict {
    /// The goodput was back within the limit.
    Recovers,
    /// It was back later.
    Slow,
    /// It was not back in the run.
    Stuck,
}

/// Reaction of a target to more than its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverloadFailure {
    /// Most of what was not good was refused.
    Refuses,
    /// All was answered, but later and later.
    Queues,
    /// Most of what was not good timed out or broke.
    TimesOut,
    /// The goodput fell below half of the baseline, which was less load.
    Collapses,
}

/// What keeps goodput down after the overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// With its retries, the load is still above the capacity.
    Retries,
    /// The target still serves the requests of the overload.
    Queue,
    /// The target refuses or fails requests although the load is below its capacity.
    Failures,
}

/// Means of some seconds: requests per second, and others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageMeans {
    /// See [`OverloadSecond::offered`].
    pub offered_per_s: f64,
    /// See [`OverloadSecond::sent`].
    pub attempts_per_s: f64,
    /// Goodput; before and during the overload, that of what was sent then.
    pub good_per_s: f64,
    /// See [`OverloadSecond::late`].
    pub late_per_s: f64,
    /// See [`OverloadSecond::refused`].
    pub refused_per_s: f64,
    /// See [`OverloadSecond::timed_out`].
    pub timed_out_per_s: f64,
    /// See [`OverloadSecond::failed`].
    pub failed_per_s: f64,
    /// Requests in flight.
    pub in_flight: f64,
    /// Mean of the medians of the seconds that have one; null without one.
    pub response_p50_us: Option<f64>,
}

impl StageMeans {
    /// True if the target sustains this load.
    fn is_steady(&self) -> bool {
        self.good_per_s > 0.0 && self.good_per_s >= BACK * self.offered_per_s
    }

    /// True if it answers this load in time.
    fn is_kept_up(&self) -> bool {
        self.good_per_s >= KEPT_UP * self.offered_per_s
    }

    /// Good ones of the requests that ended, as of those that will; all if none ended.
    fn good_share(&self) -> f64 {
        let others =
            self.late_per_s + self.refused_per_s + self.timed_out_per_s + self.failed_per_s;
        if others > 0.0 {
            self.good_per_s / (self.good_per_s + others)
        } else {
            1.0
        }
    }

    fn of(seconds: &[OverloadSecond]) -> Self {
        let times: Vec<f64> = seconds.iter().filter_map(|of| of.response_p50_us).collect();
        Self {
            offered_per_s: mean(seconds, |of| of.offered),
            attempts_per_s: mean(seconds, |of| of.sent as f64),
            good_per_s: mean(seconds, |of| of.good as f64),
            late_per_s: mean(seconds, |of| of.late as f64),
            refused_per_s: mean(seconds, |of| of.refused as f64),
            timed_out_per_s: mean(seconds, |of| of.timed_out as f64),
            failed_per_s: mean(seconds, |of| of.failed as f64),
            in_flight: mean(seconds, |of| of.in_flight.into()),
            response_p50_us: (!times.is_empty()).then(|| mean(&times, |us| *us)),
        }
    }
}

/// The mean; 0 of none.
fn mean<T>(all: &[T], of: fn(&T) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
}

impl OverloadQuestion {
    /// The seconds of each stage.
    fn split<'a>(&self, seconds: &'a [OverloadSecond]) -> [&'a [OverloadSecond]; 3] {
        let [before_s, overload_s, _] = self.stages_s;
        let end_s = before_s + overload_s;
        let (rest, after) = seconds.split_at(seconds.partition_point(|of| of.start_s < end_s));
        let (before, overload) = rest.split_at(rest.partition_point(|of| of.start_s < before_s));
        [before, overload, after]
    }

    /// Rates of the requests sent before and during the overload that were answered in time, or
    /// are in flight no longer than is usual.
    fn kept(&self, seconds: &[OverloadSecond]) -> [f64; 2] {
        let [before, overload, _] = self.split(seconds);
        let (start, before) = before.split_at(before.len() / 2);
        let medians_us = start
            .iter()
            .chain(before)
            .filter_map(|of| of.response_p50_us);
        let usual_s = medians_us.reduce(f64::min).unwrap_or(0.0) / 1e6;
        let offered_per_s = StageMeans::of(before).offered_per_s;
        // The mean of a steady target, which slow responses make more than the median.
        let mean_s = in_flight(before) / offered_per_s.max(1.0);
        [
            (start, before, usual_s),
            (before, overload, usual_s.max(mean_s)),
        ]
        .map(|(earlier, stage, usual_s)| {
            let of = StageMeans::of(stage);
            let usual = in_flight(stage).min(of.offered_per_s * usual_s);
            let unanswered_per_s =
                (usual - in_flight(earlier)).max(0.0) / stage.len().max(1) as f64;
            of.good_per_s + unanswered_per_s * of.good_share()
        })
    }
}

/// Requests in flight at the end of these seconds.
fn in_flight(seconds: &[OverloadSecond]) -> f64 {
    seconds.last().map_or(0.0, |of| of.in_flight.into())
}

impl OverloadOutcome {
    /// Judge the seconds of a run, one for each of its stages' seconds, by a client with these
    /// findings.
    pub fn of(
        question: &OverloadQuestion,
        seconds: &[OverloadSecond],
        findings: &[Finding],
    ) -> Self {
        let [before, overload, after] = question.split(seconds);
        // The first half holds the start.
        let mut before = second_half(before);
        let mut during = StageMeans::of(overload);
        [before.good_per_s, during.good_per_s] = question.kept(seconds);
        let back = back_at(after, before.good_per_s);
        let last = StageMeans::of(&after[back.unwrap_or(after.len() / 2)..]);
        let is_load = before.is_steady() && !findings.iter().any(is_limit);
        let failure = failure(&before, &during, overload);
        let verdict = match back {
            _ if !is_load || failure.is_none() => None,
            Some(s) if s as u64 <= question.within_s => Some(OverloadVerdict::Recovers),
            Some(_) => Some(OverloadVerdict::Slow),
            None => (after.len() as u64 >= question.within_s).then_some(OverloadVerdict::Stuck),
        };
        let received = during.attempts_per_s - during.refused_per_s;
        let backlog = (received - question.capacity_per_s).max(0.0) * overload.len() as f64;
        let at_end = second_half(after);
        let spare = question.capacity_per_s - at_end.attempts_per_s;
        Self {
            verdict,
            failure: verdict.and(failure),
            recovery_s: verdict.and(back).map(|s| s as u64),
            held_by: (verdict == Some(OverloadVerdict::Stuck))
                .then(|| held_by(question, &before, &at_end)),
            backlog,
            drain_s: (spare > 0.0).then(|| backlog / spare),
            stages: [before, during, last],
        }
    }
}

/// The first second from which on the goodput is that of the baseline; none if there is none, or
/// only the last one.
fn back_at(after: &[OverloadSecond], baseline: f64) -> Option<usize> {
    let enough = BACK * baseline;
    let least = enough - 3.0 * baseline.sqrt();
    (0..after.len().saturating_sub(1)).find(|from| {
        let rest = &after[*from..];
        let below = rest.iter().filter(|of| (of.good as f64) < least).count();
        rest[0].good as f64 >= least
            && below * 10 <= rest.len()
            && StageMeans::of(rest).good_per_s >= enough
    })
}

fn second_half(seconds: &[OverloadSecond]) -> StageMeans {
    StageMeans::of(&seconds[seconds.len() / 2..])
}

/// True of a limit of the client that requests waited for, or were never sent because of.
fn is_limit(finding: &Finding) -> bool {
    matches!(
        finding.effect(),
        Some(Verdict::ConcurrencyLimited | Verdict::BudgetLimited)
    )
}

fn failure(
    before: &StageMeans,
    during: &StageMeans,
    overload: &[OverloadSecond],
) -> Option<OverloadFailure> {
    let last = second_half(overload);
    let grows = last.response_p50_us.unwrap_or(f64::MAX)
        > QUEUED * before.response_p50_us.unwrap_or(f64::MAX);
    let broken = during.timed_out_per_s + during.failed_per_s;
    if during.is_kept_up() && !grows {
        None
    } else if last.good_per_s < before.good_per_s / 2.0 {
        Some(OverloadFailure::Collapses)
    } else if during.refused_per_s > broken.max(during.late_per_s) {
        Some(OverloadFailure::Refuses)
    } else if broken > during.late_per_s {
        Some(OverloadFailure::TimesOut)
    } else {
        Some(OverloadFailure::Queues)
    }
}

fn held_by(question: &OverloadQuestion, before: &StageMeans, last: &StageMeans) -> HeldBy {
    if last.attempts_per_s >= ALL * question.capacity_per_s {
        HeldBy::Retries
    } else if last.in_flight >= QUEUED * before.in_flight.max(1.0) {
        HeldBy::Queue
    } else {
        HeldBy::Failures
    }
}

impl Overload {
    /// Judge the run with this report, saved in `result`.
    pub fn new(
        header: Header,
        question: OverloadQuestion,
        report: &Report,
        result: String,
    ) -> Self {
        let length: u64 = question.stages_s.iter().sum();
        // The second in which a run was stopped is not whole.
        let whole_s = if report.interrupted_by.is_some() || report.stopped_by.is_some() {
            report.totals.sent_until_s
        } else {
            length as f64
        };
        let has_objectives = !question.objectives.is_empty();
        let mut in_flight = 0;
        let seconds: Vec<OverloadSecond> = report
            .intervals
            .iter()
            .filter(|row| (row.start_s + 1) as f64 <= whole_s)
            .map(|row| {
                let before = mem::replace(&mut in_flight, row.in_flight);
                OverloadSecond::of(row, before, has_objectives)
            })
            .collect();
        let mut run = RoundRun::of(report, result);
        // That the target fails is what is measured.
        run.findings.retain(|finding| {
            matches!(
                finding.effect(),
                Some(Verdict::ClientLimited | Verdict::Disturbed | Verdict::Incomplete)
            ) || is_limit(finding)
        });
        let mut outcome = OverloadOutcome::of(&question, &seconds, &run.findings);
        if header.interrupted {
            outcome = OverloadOutcome {
                verdict: None,
                failure: None,
                recovery_s: None,
                held_by: None,
                ..outcome
            };
        }
        Self {
            outcome,
            environment: report.environment.clone(),
            header,
            question,
            run,
            seconds,
        }
    }

    fn answer(&self) -> StudyFinding {
        let [before, during, after] = &self.outcome.stages;
        match self.outcome.verdict {
            _ if self.header.interrupted => StudyFinding::Interrupted {},
            None if !before.is_steady() => StudyFinding::NotSteady {
                good_per_s: before.good_per_s,
                late_per_s: before.late_per_s,
                offered_per_s: before.offered_per_s,
            },
            None if during.is_kept_up() => StudyFinding::KeptUp {
                good_per_s: during.good_per_s,
                offered_per_s: during.offered_per_s,
            },
            None => StudyFinding::Interrupted {},
            Some(verdict) => StudyFinding::AfterOverload {
                verdict,
                recovery_s: self.outcome.recovery_s,
                within_s: self.question.within_s,
                good_per_s: [before.good_per_s, after.good_per_s],
                held_by: self.outcome.held_by,
            },
        }
    }

    /// The stages that the run reached: name, seconds and means.
    fn reached(&self) -> impl Iterator<Item = (&'static str, &StageMeans)> {
        STAGES
            .into_iter()
            .zip(&self.outcome.stages)
            .zip(self.question.split(&self.seconds))
            .filter(|(_, seconds)| !seconds.is_empty())
            .map(|(of, _)| of)
    }

    fn table(&self) -> Table {
        let has_objectives = !self.question.objectives.is_empty();
        let mut columns = vec![
            Column::words(""),
            Column::numbers("offered/s").leaving(7),
            Column::numbers("sent/s").leaving(4),
            Column::numbers("good/s"),
            Column::numbers("refused/s"),
            Column::numbers("timeouts/s"),
            Column::numbers("failed/s").leaving(2),
            Column::numbers("in flight").leaving(3),
            Column::numbers("p50").leaving(5),
        ];
        if has_objectives {
            columns.insert(LATE, Column::numbers("late/s").leaving(6));
        }
        let rows = self
            .reached()
            .map(|(name, of)| {
                let rates = [
                    of.offered_per_s,
                    of.attempts_per_s,
                    of.good_per_s,
                    of.refused_per_s,
                    of.timed_out_per_s,
                    of.failed_per_s,
                    of.in_flight,
                ];
                let mut row = vec![name.to_owned()];
                row.extend(rates.map(decimal));
                if has_objectives {
                    row.insert(LATE, decimal(of.late_per_s));
                }
                row.push(or_dash(of.response_p50_us, micros));
                row
            })
            .collect();
        Table {
            columns,
            rows,
            ..Table::default()
        }
    }
}

impl StudyResult for Overload {
    const SCHEMA: &'static str = "crawlmark.overload/1";

    const FILE: &'static str = "overload.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.environment)
    }

    fn outcome(&self) -> String {
        self.outcome
            .verdict
            .map_or_else(|| "no verdict".to_owned(), |verdict| name_of(&verdict))
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let of_client = in_rounds("", &[&self.run]);
        let answer = self.answer();
        // Responses that a slow client made late, or sent too few requests for.
        let is_late = matches!(answer, StudyFinding::NotSteady { good_per_s, late_per_s, .. } if good_per_s + late_per_s > 0.0);
        let limit = of_client.iter().find(|of| {
            matches!(of, StudyFinding::InRounds { finding, .. }
                if is_limit(finding) || is_late && finding.effect() == Some(Verdict::ClientLimited))
        });
        let mut found = vec![limit.cloned().unwrap_or(answer)];
        found.extend(self.outcome.failure.map(|failure| StudyFinding::FailsBy {
            failure,
            good_per_s: [
                self.outcome.stages[0].good_per_s,
                second_half(self.question.split(&self.seconds)[1]).good_per_s,
            ],
        }));
        if self.outcome.failure.is_some() && self.outcome.backlog >= 1.0 {
            found.push(StudyFinding::Backlog {
                requests: self.outcome.backlog,
                drain_s: self.outcome.drain_s,
            });
        }
        found.extend(of_client.iter().filter(|of| Some(*of) != limit).cloned());
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        let goodput: Vec<String> = self
            .reached()
            .map(|(_, of)| decimal(of.good_per_s))
            .collect();
        let stages: Vec<&str> = self.reached().map(|(name, _)| name).collect();
        let back = self.outcome.recovery_s.map(|s| match s {
            0 => "at once".to_owned(),
            s => format!("{s} s"),
        });
        [
            figure(
                "Goodput",
                Some(goodput.join(" \u{2192} ") + "/s"),
                stages.join(", "),
            ),
            figure(
                "Back after",
                back,
                "at 90 % of the goodput before".to_owned(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        let question = &self.question;
        let source = if question.searched {
            "searched"
        } else {
            "given"
        };
        let stages: Vec<String> = question
            .offered_per_s
            .iter()
            .zip(question.stages_s)
            .map(|(per_s, s)| format!("{} for {s} s", rate(*per_s)))
            .collect();
        let objectives = objectives_in_words(&question.objectives);
        let mut facts = vec![
            (
                "capacity",
                format!("{} ({source})", rate(question.capacity_per_s)),
            ),
            ("stages", stages.join(", ")),
            ("limit", format!("back within {} s", question.within_s)),
        ];
        facts.extend(objectives.map(|all| ("objectives", all)));
        doc.table(self.table())
            .text(LEGEND)
            .facts(facts)
            .commands("Run it again:", &[shell_line(&question.command)])
    }

    fn chart(&self) -> [&'static str; 2] {
        ["overload", "Before, during and after the overload"]
    }

    fn picture(&self) -> Option<Picture> {
        Some(Picture {
            subtitle: "requests per second that were offered, sent with retries, and answered"
                .to_owned(),
            command: "overload",
            of: vec![format!("capacity {}", rate(self.question.capacity_per_s))],
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        match self.outcome.verdict {
            None => Conclusion::Inconclusive,
            Some(OverloadVerdict::Stuck) => Conclusion::Failed,
            Some(_) => Conclusion::Done,
        }
    }
}

/// Place of the late responses in the table of a run with objectives.
const LATE: usize = 4;

/// Explanation of the table.
const LEGEND: &str = "Means by second; those of \"before\" are from its second half, those of \"after\" from the second on in which goodput was back, or of the second half. \
                      Sent requests include retries. Refused are error statuses and refused connections.";
