//! Outputs of a run beside its result: standard output, the exports, and exit codes.

use std::path::Path;

use crawlmark_results::run::report::Report;
use crawlmark_results::run::result_dir::PAGE;
use crawlmark_results::run::words;
use crawlmark_results::show::doc::{Doc, Readers};
use crawlmark_results::show::line::{Line, Tone};

use crate::cli::{Destination, Export, RunArgs};
use crate::error::{Error, GATE, K6_GATE};
use crate::export;
use crate::terminal::{self, Voice};

/// Value of `--out` for a result that is shown and not kept.
pub(super) const NOWHERE: &str = "-";

/// Content of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The end of the run.
    End(EndOptions),
    /// The page's path alone.
    Path,
    /// The report as JSON.
    Json,
    /// An export, which is printed as it is written.
    Export,
}

/// What the end of a run holds at will.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EndOptions {
    /// True if every table of the run comes before it.
    pub(super) is_verbose: bool,
    /// True if the whole distribution of the times comes before it.
    pub(super) has_percentiles: bool,
    /// True without a histogram.
    pub(super) no_histogram: bool,
}

impl EndOptions {
    /// Tables before the end, and the end.
    fn lines(self, report: &Report, page: Option<&str>) -> Vec<Line> {
        let display = terminal::display();
        let mut doc = if self.is_verbose {
            words::doc(report, &[]).only(Readers::TERMINAL)
        } else {
            Doc::default()
        };
        if self.has_percentiles {
            doc = words::percentiles(report).into_iter().fold(doc, Doc::table);
        }
        let mut lines: Vec<Line> = doc
            .terminal(display.columns)
            .lines()
            .map(|line| Line::of(line, Tone::Plain))
            .collect();
        if self.is_verbose || self.has_percentiles {
            lines.push(Line::default());
        }
        lines.extend(words::end(report, page, display, !self.no_histogram));
        lines
    }
}

impl Output {
    /// True if it is for programs.
    pub(super) const fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Export)
    }

    /// True if people read what the run came to.
    pub(super) const fn is_end(self) -> bool {
        matches!(self, Self::End(_))
    }

    /// Shows the report, and where it is saved.
    pub(super) fn show(self, report: &Report, saved: Option<&Path>) -> Result<(), Error> {
        let page = saved.map(|saved| terminal::relative(&saved.join(PAGE)));
        match self {
            Self::Json => terminal::print(&(serde_json::to_string_pretty(report)? + "\n")),
            Self::Export => Ok(()),
            Self::Path => page.map_or(Ok(()), |page| terminal::print(&(page + "\n"))),
            Self::End(options) => terminal::print_lines(&options.lines(report, page.as_deref())),
        }
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct OutputOptions {
    pub(super) output: Output,
    pub(super) exports: Vec<Export>,
    /// True if the plots are saved as PNG files, too.
    pub(super) has_png: bool,
    pub(super) voice: Voice,
    /// True if exit codes are those of k6.
    is_k6: bool,
}

impl OutputOptions {
    /// Read the output options, or refuse those that do not fit together. Touches no file except to
    /// see whether it could be written.
    pub(super) fn of(args: &RunArgs) -> Result<Self, Error> {
        let exports = args.exports.clone();
        let end = EndOptions {
            is_verbose: args.verbose,
            has_percentiles: args.latency,
            no_histogram: args.no_histogram,
        };
        let output = match export::prints(&exports) {
            true if args.json || end != EndOptions::default() => {
                return Err(Error::usage(
                    "an export to `-` is alone on standard output: give it a file, or remove --json, --latency, --verbose and --no-histogram",
                ));
            }
            true => Output::Export,
            false if args.json => Output::Json,
            false if args.quiet => Output::Path,
            false => Output::End(end),
        };
        if args.out.as_deref() == Some(Path::new(NOWHERE))
            && exports
                .iter()
                .any(|export| matches!(export.to, Destination::Result))
        {
            return Err(Error::usage(
                "--out - keeps no result, and an export without a file is part of it: give it one, as in --export csv=FILE",
            ));
        }
        if args.out.as_deref() == Some(Path::new(NOWHERE)) && args.png {
            return Err(Error::usage(
                "--out - keeps no result, and the files of --png are part of it: remove one of them",
            ));
        }
        export::check(&exports, None)?;
        Ok(Self {
            output,
            exports,
            has_png: args.png,
            voice: Voice {
                is_quiet: args.quiet,
                has_progress: !args.quiet && !args.no_progress,
                is_verbose: args.verbose && !args.quiet,
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
