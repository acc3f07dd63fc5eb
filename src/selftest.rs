//! `crawlmark selftest`: errors of measurements on this machine. Runs the experiments of the
//! requested rows, compares their figures with known true values, saves the result and shows it.
//!
//! | room | for |
//! |---|---|
//! | `form` | durations and true values, full and quick |
//! | `experiment` | runs of each experiment, and their target |
//! | `seen` | figures of a run |
//! | `figure`, `judge`, `pairs` | figures of a row, and their tolerances; the comparison (R8) |
//! | `outcome`, `table` | `selftest.json`; the result as a document |

mod experiment;
mod figure;
mod form;
mod judge;
mod outcome;
mod pairs;
mod seen;
mod table;

use std::mem;
use std::path::Path;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_results::studies::Header;

use self::experiment::Experiment;
use self::form::Form;
use self::judge::{Attempt, ExperimentRuns, judge};
use self::outcome::{ATTEMPTS, RowOutcome, SelftestResult};
use crate::cli::{Row, SelftestArgs};
use crate::error::Error;
use crate::study::Rounds;
use crate::study::{self, Study};
use crate::terminal::Stages;

/// Measure, and return the exit code.
pub(crate) fn selftest(args: &SelftestArgs) -> Result<u8, Error> {
    let form = if args.quick { Form::Quick } else { Form::Full };
    let rows = rows(args, form)
        .into_iter()
        .map(|row| (row, Vec::new()))
        .collect();
    study::conduct(SelftestStudy { form, rows }, &args.keep, "selftest")
}

/// The rows to judge, in order, each once.
fn rows(args: &SelftestArgs, form: Form) -> Vec<Row> {
    let is_wanted = |row: &Row| match (&args.rows[..], form) {
        ([], Form::Quick) => *row != Row::R8,
        ([], Form::Full) => true,
        (named, _) => named.contains(row),
    };
    Row::ALL.into_iter().filter(is_wanted).collect()
}

/// About how long an experiment takes for these rows; nothing when it is for none of them.
fn takes(experiment: Experiment, form: Form, rows: &[Row]) -> Duration {
    let own: Vec<Row> = experiment
        .rows()
        .iter()
        .copied()
        .filter(|row| rows.contains(row))
        .collect();
    if own.is_empty() {
        Duration::ZERO
    } else {
        experiment.takes(form, &own)
    }
}

/// The rows and their attempts so far.
#[derive(Debug)]
struct SelftestStudy {
    form: Form,
    rows: Vec<(Row, Vec<Attempt>)>,
}

impl Study for SelftestStudy {
    type Result = SelftestResult;

    const NEEDS: &'static str = "an experiment was complete";

    fn announcement(&self, _: &Path) -> (String, Vec<(&'static str, String)>) {
        let rows: Vec<Row> = self.rows.iter().map(|(row, _)| *row).collect();
        let once: Duration = Experiment::ALL
            .iter()
            .map(|experiment| takes(*experiment, self.form, &rows))
            .sum();
        let most = self
            .form
            .latest_end()
            .min(once * u32::try_from(ATTEMPTS).unwrap_or(u32::MAX))
            .max(once);
        let count = rows.len();
        let what = if count == 1 {
            "1 row".to_owned()
        } else {
            format!("{count} rows")
        };
        let sentence = format!(
            "measuring targets whose figures are known: {what}, about {} s, and up to {} s if the machine is disturbed",
            once.as_secs() + 1,
            most.as_secs() + 1
        );
        (sentence, Vec::new())
    }

    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        // Connections of an open loop, and more besides. Where there are too few, the runs say so.
        let _ = raise_descriptor_limit();
        let form = self.form;
        self.measure(rounds, |experiment, rows, stages| {
            experiment.make(form, rows, stages)
        })
    }

    fn result(&mut self, header: Header) -> Result<Option<SelftestResult>, Error> {
        let rows = mem::take(&mut self.rows);
        if rows.iter().all(|(_, attempts)| attempts.is_empty()) {
            return Ok(None);
        }
        let rows = rows
            .into_iter()
            .map(|(row, attempts)| RowOutcome::of(row, attempts));
        Ok(Some(SelftestResult::new(
            header,
            self.form.name(),
            rows.collect(),
        )))
    }
}

impl SelftestStudy {
    /// Makes each experiment once, and then again those that left a row unsettled: what disturbed a
    /// machine may have passed by then. A signal that came during a run or after it stops what
    /// would follow, and keeps what that run measured.
    fn measure(
        &mut self,
        rounds: &mut Rounds<'_>,
        mut make: impl FnMut(Experiment, &[Row], &mut Stages) -> Result<ExperimentRuns, Error>,
    ) -> Result<(), Error> {
        let clock = Clock::start();
        for number in 0..ATTEMPTS {
            for experiment in Experiment::ALL {
                let rows = self.unsettled(experiment);
                let takes = takes(experiment, self.form, &rows);
                let would_end = Duration::from_nanos(clock.now().0).saturating_add(takes);
                if !rows.is_empty() && (number == 0 || would_end <= self.form.latest_end()) {
                    self.attempt(rounds.stages, experiment, &rows, &mut make)?;
                    if let Some(signal) = rounds.asks_to_stop(Duration::ZERO)? {
                        return Err(Error::Stopped(signal));
                    }
                }
            }
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        stages: &mut Stages,
        experiment: Experiment,
        rows: &[Row],
        make: &mut impl FnMut(Experiment, &[Row], &mut Stages) -> Result<ExperimentRuns, Error>,
    ) -> Result<(), Error> {
        let name = rows
            .iter()
            .map(|row| row.name())
            .collect::<Vec<_>>()
            .join(" ");
        stages.begin(&name, experiment.does(), experiment.takes(self.form, rows));
        let evidence = make(experiment, rows, stages);
        let mut came = Vec::new();
        if let Ok(evidence) = &evidence {
            for (row, attempts) in self.rows.iter_mut().filter(|(row, _)| rows.contains(row)) {
                let Some(attempt) = judge(*row, evidence) else {
                    continue;
                };
                came.push(
                    match (
                        attempt.passes(),
                        attempt.counts() || attempt.is_impossible(),
                    ) {
                        (true, _) => "passed",
                        (false, true) => "missed",
                        (false, false) => "disturbed",
                    },
                );
                attempts.push(attempt);
            }
        }
        let came = if evidence.is_ok() {
            came.join(", ")
        } else {
            "stopped".to_owned()
        };
        stages.end(&name, &came);
        evidence.map(drop)
    }

    /// The rows of an experiment that another attempt may settle.
    fn unsettled(&self, experiment: Experiment) -> Vec<Row> {
        let own = self
            .rows
            .iter()
            .filter(|(row, _)| experiment.rows().contains(row));
        let open =
            own.filter(|(row, attempts)| !RowOutcome::of(*row, attempts.clone()).is_settled());
        open.map(|(row, _)| *row).collect()
    }
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::supervisor::HeldSignals;
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[test]
    fn a_signal_between_two_runs_or_after_the_last_one_is_kept_as_what_was_measured_is() {
        for (number, signal) in [
            (1, Signal::SIGINT),
            (ATTEMPTS, Signal::SIGTERM),
            (ATTEMPTS, Signal::SIGINT),
        ] {
            let held = HeldSignals::hold().unwrap();
            let mut bench = SelftestStudy {
                form: Form::Full,
                rows: vec![(Row::R8, Vec::new())],
            };
            let (mut runs, mut stages) = (0, Stages::Silent);
            let mut rounds = Rounds::new(&held, &mut stages, Duration::ZERO, Path::new("."));
            let ended = bench.measure(&mut rounds, |_, _, _| {
                runs += 1;
                if runs == number {
                    // Pending for this thread alone: no other thread of this process receives it.
                    raise(signal).unwrap();
                }
                Ok(ExperimentRuns::Pairs {
                    pairs: Vec::new(),
                    troubles: Vec::new(),
                })
            });
            assert!(
                matches!(ended, Err(Error::Stopped(stopped)) if stopped == signal as i32),
                "{ended:?}"
            );
            assert_eq!((runs, bench.rows[0].1.len()), (number, number), "{signal}");
        }
    }
}
