//! Check of the verdicts of `crawlmark ab` on the machine at hand:
//! `cargo bench --bench verdicts -- --help`.
//!
//! Three questions, each asked as a user asks them, many times with another order of rounds: two
//! targets that differ by five percent have to be told apart, two equal ones must not be, and a
//! service whose handler costs five percent more CPU has to be caught by its CPU or by its
//! throughput. It writes what it saw, the runs that went wrong included, and its exit code is 1
//! when an answer was wrong.

mod case;
#[path = "../machine.rs"]
mod machine;
#[path = "../question.rs"]
mod question;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::case::{CASES, VerdictAnswer};
use crate::machine::here_and_now;
use crate::question::say;
use crate::summary::CaseAnswers;

/// Runs `crawlmark ab` on targets whose difference is known, and saves what it says of them.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench verdicts --")]
struct VerdictArguments {
    /// Comparisons of each kind
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Ask only these: slower, equal, dearer; all unless given
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = CASES.map(|case| case.name))]
    cases: Vec<String>,
    /// Directory to save the results in [default: not saved]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    question::main("verdicts", ask)
}

/// Asks every question, and returns whether every answer was right.
fn ask(arguments: &VerdictArguments) -> Result<bool, Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(|case| {
        arguments.cases.is_empty() || arguments.cases.iter().any(|name| name == case.name)
    }) {
        let mut answers: Vec<VerdictAnswer> = Vec::new();
        for seed in 1..=arguments.runs {
            let answer = case.ask(seed, &place.path().join(format!("{}-{seed}", case.name)))?;
            say(&format!(
                "{:<10} {seed:>3} of {}: {}",
                case.name,
                arguments.runs,
                answer.told()
            ));
            answers.push(answer);
        }
        outcomes.push(CaseAnswers::new(case, answers));
        // After each question: half an hour's answers must not hang on the last one.
        if let Some(out) = &arguments.out {
            save(&outcomes, out)?;
        }
    }
    say(&summary::markdown(&outcomes, &here_and_now()));
    Ok(outcomes.iter().all(CaseAnswers::is_right))
}

fn save(outcomes: &[CaseAnswers], out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(out)?;
    fs::write(
        out.join("README.md"),
        summary::markdown(outcomes, &here_and_now()),
    )?;
    fs::write(
        out.join("verdicts.json"),
        serde_json::to_string_pretty(outcomes)? + "\n",
    )?;
    for outcome in outcomes {
        fs::copy(outcome.plot(), out.join(format!("{}.svg", outcome.case)))?;
    }
    Ok(())
}
