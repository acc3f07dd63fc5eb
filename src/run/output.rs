//! Outputs of a run beside its result: standard output, the exports, and exit codes.

use std::path::Path;

use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::PAGE;
use crawlmark_results::run::words;
use crawlmark_results::show::doc::{Doc, Readers};

use crate::cli::{Destination, Export, RunArgs};
use crate::error::{Error, GATE, K6_GATE};
use crate::export;
use crate::terminal::{self, Voice};

/// Value of `--out` for a result that is shown and not kept.
pub(super) const NOWHERE: &str = "-";

/// Content of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The summary.
    Summary,
    /// The summary and the whole distribution of the times.
    SummaryWithPercentiles,
    /// The report as JSON.
    Json,
    /// An export, which is printed as it is written.
    Export,
}

impl Output {
    /// True if it is for programs.
    pub(super) const fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Export)
    }

    /// Shows the report, and where it is saved.
    pub(super) fn show(self, report: &Report, saved: Option<&Path>) -> Result<(), Error> {
        match self {
            Self::Json => terminal::print(&(serde_json::to_string_pretty(report)? + "\n")),
            Self::Export => Ok(()),
            Self::Summary | Self::SummaryWithPercentiles => {
                let mut doc = words::doc(report, &[]).only(Readers::TERMINAL);
                if self == Self::SummaryWithPercentiles {
                    doc = words::percentiles(report).into_iter().fold(doc, Doc::table);
                }
                let place = saved.map(|saved| format!("Report: {}", saved.join(PAGE).display()));
                terminal::print_lines(
                    &doc.text(place.unwrap_or_default())
                        .lines(terminal::columns()),
                )
            }
        }
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct OutputOptions {
    pub(super) output: Output,
    pub(super) exports: Vec<Export>,
    pub(super) voice: Voice,
    /// True if exit codes are those of k6.
    is_k6: bool,
}

impl OutputOptions {
    /// Read the output options, or refuse those that do not fit together. Touches no file except to
    /// see whether it could be written.
    pub(super) fn of(args: &RunArgs) -> Result<Self, Error> {
        let exports = args.exports.clone();
        let output = match (args.json, args.latency) {
            (false, false) if export::prints(&exports) => Output::Export,
            _ if export::prints(&exports) => {
                return Err(Error::usage(
                    "an export to `-` is alone on standard output: give it a file, or remove --json and --latency",
                ));
            }
            (true, _) => Output::Json,
            (false, true) => Output::SummaryWithPercentiles,
            (false, false) => Output::Summary,
        };
        let is_in_result = |export: &Export| matches!(export.to, Destination::Result);
        if args.out.as_deref() == Some(Path::new(NOWHERE)) && exports.iter().any(is_in_result) {
            return Err(Error::usage(
                "--out - keeps no result, and an export without a file is part of it: give it one, as in --export csv=FILE",
            ));
        }
        export::check(&exports, None)?;
        Ok(Self {
            output,
            exports,
            voice: Voice {
                is_quiet: args.quiet,
                has_progress: !args.quiet && !args.no_progress,
            },
            is_k6: args.k6_exit_codes,
        })
    }

    /// True if a result is wanted beyond the one that every run saves.
    pub(super) fn has_result(&self) -> bool {
        self.output.is_data() || !self.exports.is_empty()
    }

    /// The exit code as the caller knows it.
    pub(super) const fn code(&self, own: u8) -> u8 {
        if self.is_k6 && own == GATE {
            K6_GATE
        } else {
            own
        }
    }
}
