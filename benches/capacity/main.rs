//! Whether `crawlmark capacity` finds a capacity that is known: `cargo bench --bench capacity -- --help`.
//!
//! The bundled target lets 4,000 requests a second through and takes longer the more are under way. It is asked many times what it
//! bears, as a user asks, from another rate each time, so that another row of rates is probed. It writes what it saw, and its exit code
//! is 1 when an answer was off by more than 2 %.

mod ask;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use crawlmark_harness::clock::wall_time;
use crawlmark_harness::report::{Environment, Placement, rfc3339};

use crate::ask::{Answer, KNOWN, OFF, ask};

/// Runs `crawlmark capacity` on a target whose capacity is known, and saves what it says of it.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench capacity --")]
struct Arguments {
    /// Searches
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Where to save what was seen; nowhere unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo test --benches` runs every bench without `--bench`, to see that it starts; it must not take a minute.
    if !has("--bench") || has("--test") {
        say("capacity runs only under `cargo bench --bench capacity`");
        return ExitCode::SUCCESS;
    }
    match all(&Arguments::parse_from(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Asks as often as was wanted, and returns whether every answer was right.
fn all(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let mut answers: Vec<Answer> = Vec::new();
    for number in 1..=arguments.runs {
        let answer = ask(number, &place.path().join(number.to_string()))?;
        say(&format!("{number:>3} of {}: {}", arguments.runs, answer.told()));
        answers.push(answer);
    }
    let page = markdown(&answers);
    say(&page);
    if let (Some(out), Some(last)) = (&arguments.out, answers.last()) {
        fs::create_dir_all(out)?;
        fs::write(out.join("README.md"), &page)?;
        fs::write(out.join("answers.json"), serde_json::to_string_pretty(&answers)? + "\n")?;
        for (from, to) in [("plots/capacity.svg", "capacity.svg"), ("capacity.json", "capacity.json")] {
            fs::copy(last.saved().join(from), out.join(to))?;
        }
    }
    Ok(answers.iter().all(Answer::is_right))
}

/// The page.
fn markdown(answers: &[Answer]) -> String {
    let machine = Environment::read(Placement::Colocated);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("-").to_owned();
    let [cpu, kernel] = [machine.cpu_model, machine.kernel].map(|name| name.unwrap_or_else(|| "unknown".to_owned()));
    let right = answers.iter().filter(|answer| answer.is_right()).count();
    let mut out = format!(
        "# Capacity\n\nMade by `cargo bench --bench capacity -- --out results/capacity`.\n\n{}; {cpu}, {} cores, {kernel}; load when it \
         ended: {load}\n\nThe bundled target lets {KNOWN}/s through, 100 at once, and takes 20 us longer for each other request under \
         way. {right} of {} searches found that to within {} %.\n\n| from | outcome | capacity | fails at | off | probes | void | took \
         |\n|---|---|---|---|---|---|---|---|\n",
        rfc3339(wall_time()),
        machine.cores,
        answers.len(),
        OFF * 100.0
    );
    for answer in answers {
        let _ = writeln!(out, "{}", answer.row());
    }
    out.push_str("\n![Latency against rate, in the last search](capacity.svg)\n");
    out
}

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
