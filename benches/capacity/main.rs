//! Check that `crawlmark capacity` finds a capacity that is known:
//! `cargo bench --bench capacity -- --help`.
//!
//! The bundled target sustains 4,000 requests a second: it refuses any more, or lets them wait
//! without an end. Its capacity is searched for many times, as a user does, from another rate each
//! time, so that another row of rates is probed. The bench writes what it saw, and its exit code is
//! 1 when an answer was off by more than 2 %.

mod ask;
#[path = "../machine.rs"]
mod machine;
#[path = "../question.rs"]
mod question;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::ask::{CASES, CapacityCase, OFF, SearchAnswer};
use crate::machine::here_and_now;
use crate::question::say;

/// Runs `crawlmark capacity` on targets whose capacity is known, and saves what it says of them.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench capacity --")]
struct CapacityArguments {
    /// Searches of each kind
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Ask only about these: limit, queue; all unless given
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
    question::main("capacity", ask_all)
}

/// Asks as often as was wanted, and returns whether every answer was right.
fn ask_all(arguments: &CapacityArguments) -> Result<bool, Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let mut asked: Vec<(CapacityCase, Vec<SearchAnswer>)> = Vec::new();
    let is_wanted = |case: &CapacityCase| {
        arguments.cases.is_empty() || arguments.cases.iter().any(|name| name == case.name)
    };
    for case in CASES.into_iter().filter(is_wanted) {
        let mut answers: Vec<SearchAnswer> = Vec::new();
        for number in 1..=arguments.runs {
            let answer = case.ask(
                number,
                &place.path().join(format!("{}-{number}", case.name)),
            )?;
            say(&format!(
                "{} {number:>3} of {}: {}",
                case.name,
                arguments.runs,
                answer.told()
            ));
            answers.push(answer);
        }
        asked.push((case, answers));
        // After each question: a quarter of an hour's answers must not hang on the last one.
        if let Some(out) = &arguments.out {
            save(&asked, out)?;
        }
    }
    say(&markdown(&asked));
    Ok(asked
        .iter()
        .flat_map(|(_, answers)| answers)
        .all(SearchAnswer::is_right))
}

fn save(
    asked: &[(CapacityCase, Vec<SearchAnswer>)],
    out: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(out)?;
    fs::write(out.join("README.md"), markdown(asked))?;
    let answers: BTreeMap<&str, &[SearchAnswer]> = asked
        .iter()
        .map(|(case, answers)| (case.name, &**answers))
        .collect();
    fs::write(
        out.join("answers.json"),
        serde_json::to_string_pretty(&answers)? + "\n",
    )?;
    for (case, last) in asked
        .iter()
        .filter_map(|(case, answers)| Some((case, answers.last()?)))
    {
        fs::copy(
            last.saved().join("plots/capacity.svg"),
            out.join(format!("{}.svg", case.name)),
        )?;
    }
    Ok(())
}

/// The page.
fn markdown(asked: &[(CapacityCase, Vec<SearchAnswer>)]) -> String {
    let mut out = format!(
        "# Capacity\n\nMade by `cargo bench --bench capacity -- --out results/capacity`.\n\n{}; client and target on the same CPUs\n",
        here_and_now()
    );
    for (case, answers) in asked {
        let right = answers.iter().filter(|answer| answer.is_right()).count();
        let _ = writeln!(
            out,
            "\n## {}\n\nA target that {}. {right} of {} searches found that to within {} %.\n\n| from | outcome | capacity | fails \
             at | off | probes | void | took |\n|---|---|---|---|---|---|---|---|",
            case.name,
            case.does,
            answers.len(),
            OFF * 100.0
        );
        for answer in answers {
            let _ = writeln!(out, "{}", answer.row());
        }
        let _ = writeln!(
            out,
            "\n![Latency against rate, in the last search]({}.svg)",
            case.name
        );
    }
    out
}
