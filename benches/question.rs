//! Shared parts of benches that ask crawlmark questions whose answers are known.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// The whole of such a bench: `ask` returns whether every answer was right.
pub(crate) fn main<A: Parser>(
    name: &str,
    ask: impl FnOnce(&A) -> Result<bool, Box<dyn Error>>,
) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo test --benches` runs every bench without `--bench`, to see that it starts; it must not
    // take a minute.
    if !has("--bench") || has("--test") {
        say(&format!(
            "{name} runs only under `cargo bench --bench {name}`"
        ));
        return ExitCode::SUCCESS;
    }
    match ask(&A::parse_from(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
