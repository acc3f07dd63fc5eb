//! crawlmark and its peers on the same target, in turn: `cargo bench --bench side_by_side -- --help`.
//!
//! For anybody who wants to know what a request costs with crawlmark and what it costs with wrk, oha and the others on
//! the machine at hand. Every peer that is installed runs once per round, in shuffled order, and ratios are taken
//! within a round, so that a machine that slows down slows down everybody. With `paced`, clients that send at a rate are
//! compared: how late, and for how much CPU. With `servers`, the bundled target is compared
//! with other servers in the same way. It prints numbers and judges nothing: the exit code is 0 whatever they are, and 1
//! only when something could not run.

mod arguments;
mod clients;
mod crawlmark;
mod error;
#[path = "../machine.rs"]
mod machine;
mod paced;
mod page;
mod place;
mod process;
mod record;
mod rounds;
mod servers;
mod summary;
mod table;
mod target;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Subject};
use crate::error::Error;
use crate::place::Places;
use crate::process::Signals;
use crate::record::{Record, save};
use crate::rounds::Bench;
use crate::summary::Summary;
use crate::target::Target;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo test --benches` runs every bench without `--bench`, to see that it starts; it must not take a minute.
    if !has("--bench") || has("--test") {
        say("side_by_side measures only under `cargo bench --bench side_by_side`");
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse_from(arguments);
    let outcome = match &arguments.subject {
        None => compare_clients(&arguments),
        Some(Subject::Paced(arguments)) => paced::compare(arguments),
        Some(Subject::Servers(arguments)) => servers::compare(arguments),
    };
    match outcome {
        Ok(Coverage::Complete) => ExitCode::SUCCESS,
        Ok(Coverage::Incomplete) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Completeness of a comparison.
enum Coverage {
    Complete,
    /// Something was left out because it could not run.
    Incomplete,
}

fn compare_clients(arguments: &Arguments) -> Result<Coverage, Error> {
    let signals = Signals::watch()?;
    let mut places = Places::find();
    let target = if let Some(url) = &arguments.target_url {
        // It runs where its user wants.
        places.target_cpu = None;
        Target::given(url)
    } else {
        Target::start(&places, &signals, arguments.over)?
    };
    let mut bench = Bench::new(arguments, &places, &target, &signals);
    bench.warm_up()?;
    let runs = bench.rounds()?;
    let footprint = bench.footprint(&runs)?;
    let summary = Summary::of(&runs, arguments.over.yardstick());
    let text = table::render(&bench, &summary, &footprint);
    let record = Record::new(&bench, &runs, &summary, &footprint);
    let saved = arguments.json.as_deref().map_or(Ok(()), |path| save(&record, path));
    let page = arguments.out.as_deref().map_or(Ok(()), |out| page::save(out, (&text, &summary), &record));
    print(&text)?;
    // A file that cannot be written must not cost the minutes that were measured: the table comes first.
    saved.and(page)?;
    Ok(if bench.unusable().is_empty() { Coverage::Complete } else { Coverage::Incomplete })
}

/// The result, for people.
fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    Ok(())
}

/// Print progress; a closed output must not stop a measurement.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
