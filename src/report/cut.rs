//! `crawlmark report DIR --from ..`: a part of a saved result, measured again from its log of
//! times.

use std::path::Path;

use crawlmark_harness::clock::Clock;
use crawlmark_results::run::cut::doc;
use crawlmark_results::run::cut::{Ask, Cut};
use crawlmark_results::run::result_dir::{self, LogProgress};

use super::{directory, own_directory};
use crate::cli::ReportArgs;
use crate::error::{DONE, Error};
use crate::terminal::{self, Stages};

/// File names of a saved cut.
const JSON: &str = "cut.json";
const SUMMARY: &str = "summary.md";

/// Reading that takes longer is worth a word, ns.
const LONG_NS: u64 = 1_000_000_000;

/// Cuts, saves if there is a place named, prints, and returns the exit code.
pub(super) fn cut(args: &ReportArgs, ask: &Ask) -> Result<u8, Error> {
    let [result] = &*args.results else {
        return Err(Error::Usage(
            "a part can only be cut out of one result at a time: name one".to_owned(),
        ));
    };
    let report = result_dir::read(result)?;
    let cut = Cut::of(&report, ask)?;
    let own = own_directory(result);
    refuse_the_result_itself(args, result)?;
    let mut progress = ReadingProgress::new(args.quiet);
    let cut = result_dir::recut(own, &report, cut, |reading| progress.show(reading));
    progress.end();
    let cut = cut?;
    let json = serde_json::to_string_pretty(&cut)? + "\n";
    if let Some(directory) = &args.out {
        result_dir::remake(
            directory,
            &[
                (JSON.to_owned(), json.clone()),
                (SUMMARY.to_owned(), doc(&cut).markdown()),
            ],
        )?;
    }
    if args.cut.json {
        terminal::print(&json)?;
    } else if !args.quiet {
        terminal::print(&doc(&cut).terminal(terminal::columns()))?;
    }
    Ok(DONE)
}

/// The summary of a part must not take the place of that of a whole.
fn refuse_the_result_itself(args: &ReportArgs, result: &Path) -> Result<(), Error> {
    let real = |path: &Path| path.canonicalize().ok();
    let (out, own) = (directory(result, args)?, own_directory(result));
    if args.out.is_some() && real(out).is_some() && real(out) == real(own) {
        return Err(Error::Usage(format!(
            "--out {} is the result itself, whose summary.md is of the whole run: name another directory for the part",
            out.display()
        )));
    }
    Ok(())
}

/// Says how far the reading is once it has taken long.
struct ReadingProgress {
    stages: Stages,
    clock: Clock,
    begun: bool,
}

impl ReadingProgress {
    fn new(quiet: bool) -> Self {
        let stages = if quiet {
            Stages::Silent
        } else {
            Stages::fitting()
        };
        Self {
            stages,
            clock: Clock::start(),
            begun: false,
        }
    }

    fn show(&mut self, LogProgress { bytes, of }: LogProgress) {
        let so_far = self.clock.now().0;
        if so_far < LONG_NS || bytes == 0 {
            return;
        }
        if !self.begun {
            self.begun = true;
            let in_all = std::time::Duration::from_nanos(so_far)
                .mul_f64(of.max(bytes) as f64 / bytes as f64);
            self.stages.begin(
                "cut",
                "reading the log of times",
                in_all.saturating_sub(std::time::Duration::from_nanos(so_far)),
            );
        }
        self.stages.show();
    }

    fn end(&mut self) {
        if self.begun {
            self.stages.end("cut", "read the log of times");
        }
    }
}
