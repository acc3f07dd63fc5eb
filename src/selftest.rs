//! `crawlmark selftest`: errors of measurements on this machine. Runs the experiments of the
//! requested rows, compares their figures with known true values, saves the result and shows it.
//!
//! | module | holds |
//! |---|---|
//! | `experiment` | runs of each experiment, full and quick, their target and their figures |
//! | `judge` | figures of a row, and their tolerances |
//! | `outcome` | `selftest.json`, and the result as a document |

mod experiment;
mod judge;
mod outcome;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use crawlmark_harness::process::raise_descriptor_limit;
use crawlmark_results::show::text::counted;
use crawlmark_results::studies::Header;

use self::experiment::{Experiment, FULL, Form, QUICK};
use self::judge::Attempt;
use self::outcome::{ATTEMPTS, RowOutcome, SelftestResult};
use crate::cli::{Row, SelftestArgs};
use crate::error::Error;
use crate::study::{self, Rounds, Study};

/// Measure, and return the exit code.
pub(crate) fn selftest(args: &SelftestArgs) -> Result<u8, Error> {
    let form = if args.quick { &QUICK } else { &FULL };
    let rows = Row::ALL.into_iter().filter(|row| match &args.rows[..] {
        [] => !args.quick || *row != Row::R8,
        named => named.contains(row),
    });
    let study = SelftestStudy {
        form,
        rows: rows.map(|row| (row, RowOutcome::new(row))).collect(),
    };
    study::conduct(study, &args.keep, "selftest")
}

/// The rows and their attempts so far.
#[derive(Debug)]
struct SelftestStudy {
    form: &'static Form,
    rows: BTreeMap<Row, RowOutcome>,
}

impl Study for SelftestStudy {
    type Result = SelftestResult;

    const NEEDS: &'static str = "an experiment was complete";

    fn announcement(&self) -> String {
        let once: Duration = self
            .form
            .experiments()
            .filter(|(one, _)| self.needs(one))
            .map(|(_, takes)| takes)
            .sum();
        let all = once.saturating_mul(ATTEMPTS);
        format!(
            "measuring targets whose figures are known: {}, about {} s, and up to {} s if the machine is disturbed",
            counted(self.rows.len() as u64, "row"),
            once.as_secs() + 1,
            self.form.latest_end.min(all).max(once).as_secs() + 1
        )
    }

    /// Makes each experiment once, and then again those that left a row unsettled: what disturbed a
    /// machine may have passed by then. A signal that came during a run or after it stops what
    /// would follow, and keeps what that run measured.
    fn run(&mut self, rounds: &mut Rounds<'_>) -> Result<(), Error> {
        // Connections of an open loop, and more besides. Where there are too few, the runs say so.
        let _ = raise_descriptor_limit();
        let clock = Clock::start();
        for number in 0..ATTEMPTS {
            for (experiment, takes) in self.form.experiments() {
                let would_end = Duration::from_nanos(clock.now().0).saturating_add(takes);
                if self.needs(experiment) && (number == 0 || would_end <= self.form.latest_end) {
                    self.attempt(rounds, experiment, takes, number)?;
                    if let Some(signal) = rounds.asks_to_stop(Duration::ZERO)? {
                        return Err(Error::Stopped(signal));
                    }
                }
            }
        }
        Ok(())
    }

    fn result(&mut self, header: Header) -> Result<Option<SelftestResult>, Error> {
        let rows: Vec<RowOutcome> = mem::take(&mut self.rows).into_values().collect();
        let is_measured = rows.iter().any(|row| !row.attempts.is_empty());
        Ok(is_measured.then(|| SelftestResult::new(header, self.form.name, rows)))
    }
}

impl SelftestStudy {
    /// True if another attempt may settle one of the rows of an experiment.
    fn needs(&self, experiment: &Experiment) -> bool {
        experiment
            .rows
            .iter()
            .filter_map(|row| self.rows.get(row))
            .any(|row| !row.is_settled())
    }

    fn attempt(
        &mut self,
        rounds: &mut Rounds<'_>,
        experiment: &Experiment,
        takes: Duration,
        number: u32,
    ) -> Result<(), Error> {
        let name = experiment
            .rows
            .iter()
            .map(Row::to_string)
            .collect::<Vec<_>>()
            .join(" ");
        rounds.step(&name, experiment.does);
        rounds.stages.begin(&name, experiment.does, takes);
        let made = (experiment.make)(self.form, rounds, number);
        let came = made.as_ref().map_or_else(
            |_| "stopped".to_owned(),
            |made| made.iter().map(word).collect::<Vec<_>>().join(", "),
        );
        rounds.stages.end(&name, &came);
        for (row, attempt) in experiment.rows.iter().zip(made?) {
            // A row that is settled stays as it is.
            if let Some(row) = self.rows.get_mut(row).filter(|row| !row.is_settled()) {
                row.add(attempt);
            }
        }
        Ok(())
    }
}

fn word(attempt: &Attempt) -> &'static str {
    if attempt.passes() {
        "passed"
    } else if attempt.counts() || attempt.is_impossible() {
        "missed"
    } else {
        "disturbed"
    }
}

#[cfg(test)]
mod tests {
    use super::experiment::EXPERIMENTS;
    use super::*;

    #[test]
    fn each_row_has_one_experiment() {
        for row in Row::ALL {
            let own = EXPERIMENTS.iter().filter(|one| one.rows.contains(&row));
            assert_eq!(own.count(), 1, "{row}");
        }
    }
}
