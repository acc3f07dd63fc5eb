//! Reads a saved result, as a report of your own would: rate, 99th percentile, verdict and
//! thresholds.
//!
//! ```sh
//! cargo run --example read_result -- results/example
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it read")]

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use crawlmark_results::run::result_dir;

/// Print the figures of a saved result
#[derive(Parser)]
struct Args {
    /// Directory of the result, or its result.json
    result: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Args { result } = Args::parse();
    // A result whose numbers contradict each other is refused: what is read adds up.
    let report = result_dir::read(&result)?;
    println!(
        "{}: {:.0} items/s, {}",
        report.name,
        report.totals.items_per_s,
        report.validity.verdict.name()
    );
    for reason in &report.reasons() {
        println!("  {reason}");
    }
    let p99 = report
        .latency
        .get("service")
        .and_then(|service| service.p99_us);
    println!(
        "  p99 {}",
        p99.map_or_else(
            || "unknown".to_owned(),
            |p99| format!("{:.1} ms", p99 / 1e3)
        )
    );
    for gate in &report.gates {
        let outcome = match gate.ok {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "undecided",
        };
        println!("  {} {outcome}", gate.expression);
    }
    Ok(())
}
