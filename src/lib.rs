//! crawlmark: crawls a range of IDs from forked, single-threaded shards and tells the truth about
//! how fast that was.
//!
//! This crate is the command line, the HTTP crawl and the terminal; the engine is
//! `crawlmark-harness`, reports, studies and pages are `crawlmark-results`, the bundled target is
//! `crawlmark-mock-server`; the engine and the target do not know each other.
//!
//! A module imports only from those above it (`harness/tests/tree.rs`).
//!
//! | module | holds |
//! |---|---|
//! | `ids` | order of the IDs, and their text in a path |
//! | [`dataset`] | the saved crawl: segments, their recovery, the writer |
//! | `cluster::tolerance`, `cluster::slots` | second tries on a shared file system; shares of the budget of a crawl on several machines |
//! | `error` | errors, and the exit code of each; `run` has that of a finished run |
//! | `dataset::parts`, `dataset::verify` | saved crawls of a crawl on several machines; the audit of a saved crawl |
//! | [`crawl`] | the workload: performs an ID over HTTP/1.1, HTTP/2 or HTTP/3 |
//! | `cluster` | a crawl on several machines: attempts at its parts |
//! | [`cli`] | arguments of the command line, each checked by itself |
//! | `config` | words of a file in place of `--config` |
//! | `process_list` | this command line without secrets, as other users see it |
//! | `terminal` | the only place that prints |
//! | `export` | destinations of exports: files, or standard output; and the command `export` |
//! | `bundled_target` | the bundled target as processes of its own |
//! | `witness` | comparison of the bundled target's counts with those of the crawl |
//! | `live_page` | a run while it goes on, as a page and as metrics, served by a process of its own |
//! | `measure` | one measurement, from a plan to a report |
//! | `behaviour` | behaviour of the bundled target, from the flags of `run` and `serve` |
//! | `study` | the driver of studies, whose rounds run in fresh processes and are judged together |
//! | `run`, `subject`, `ab`, `bisect`, `scale`, `capacity`, `overload`, `arena`, `scenarios` (`ladder`, `patterns`), `compare`, `history`, `report`, `plan`, `watch`, `merge`, `verify`, `serve`, `probe`, `selftest`, `manual` | one file per command; `subject` is what the rounds of `ab` and `bisect` run, `manual` has `completions` and `man` |

mod ab;
mod arena;
mod behaviour;
mod bisect;
mod bundled_target;
mod capacity;
pub mod cli;
mod cluster;
mod compare;
mod config;
pub mod crawl;
pub mod dataset;
mod error;
mod export;
mod history;
mod ids;
mod live_page;
mod manual;
mod measure;
mod merge;
mod overload;
mod plan;
mod probe;
mod process_list;
mod report;
mod run;
mod scale;
mod scenarios;
mod selftest;
mod serve;
mod study;
mod subject;
mod terminal;
mod verify;
mod watch;
mod witness;

use std::process::ExitCode;

use crawlmark_harness::clock::Clock;
use crawlmark_results::show::text::wrapped;

use crate::cli::{Cli, Command};
#[cfg(any(test, fuzzing))]
pub use crate::run::request_file_laws;

/// Runs the program on its own command line.
pub fn main() -> ExitCode {
    // First of all: what a run takes to start counts from here.
    let clock = Clock::start();
    crawlmark_harness::process::report_large_files();
    crawlmark_harness::process::prevent_core_dumps();
    crawlmark_harness::process::prefer_small_pages();
    let line = match config::expanded(std::env::args_os()) {
        Ok(line) => line,
        Err(error) => return ended(Err(error)),
    };
    let cli = match Cli::of(&line.words) {
        Ok(read) => read,
        // Help and version are "errors" that print to stdout and succeed; the rest is usage,
        // exit 2.
        Err(error) if error.use_stderr() => {
            terminal::say_usage(&error);
            for file in line.files {
                terminal::say(&format!(
                    "The command line has the flags of --config {}",
                    file.display()
                ));
            }
            return ExitCode::from(error::USAGE);
        }
        Err(help) => return ended(terminal::print_help(&help).map(|()| error::DONE)),
    };
    // Where that is not possible, they are as visible as on any command line.
    let _ = process_list::hide_secrets();
    terminal::set_color(cli.color);
    ended(run::with_recorded_flags(cli, &line.words).and_then(|cli| execute(cli.command, clock)))
}

/// Return the exit code of what ended so, and say why it failed.
fn ended(result: Result<u8, error::Error>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal::say(
                &(wrapped(&error.message(), terminal::columns_beside()).join("\n") + "\n"),
            );
            ExitCode::from(error.exit_code())
        }
    }
}

/// Execute a command, and return the exit code.
fn execute(command: Command, clock: Clock) -> Result<u8, error::Error> {
    match command {
        Command::Run(args) => run::run(&args, clock),
        Command::Ab(args) => ab::ab(&args),
        Command::Arena(args) => arena::arena(&args),
        Command::Bisect(args) => bisect::bisect(&args),
        Command::Scale(args) => scale::scale(&args),
        Command::Capacity(args) => capacity::capacity(&args),
        Command::Overload(args) => overload::overload(&args),
        Command::Ladder(args) => scenarios::ladder(&args),
        Command::Patterns(args) => scenarios::patterns(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::History(args) => history::history(&args),
        Command::Report(args) => report::report(&args),
        Command::Plan(args) => plan::plan(*args),
        Command::Watch(args) => watch::watch(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Export(args) => export::crawl::export(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Probe(args) => probe::probe(&args),
        Command::Selftest(args) => selftest::selftest(&args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(&args),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_module_has_one_row_above() {
        let source = include_str!("lib.rs");
        let rows: Vec<&str> = source
            .lines()
            .filter_map(|line| line.strip_prefix("//! | "))
            .collect();
        let modules = source.lines().filter_map(|line| {
            line.trim_start_matches("pub ")
                .strip_prefix("mod ")?
                .strip_suffix(';')
        });
        for module in modules {
            let of_it = |row: &&&str| {
                row.split(" | ")
                    .next()
                    .unwrap()
                    .contains(&format!("`{module}`"))
            };
            assert_eq!(rows.iter().filter(of_it).count(), 1, "{module}");
        }
    }
}
