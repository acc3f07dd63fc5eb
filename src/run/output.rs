//! Outputs of a run beside its result: standard output, the exports, and exit codes.

use crawlmark_results::export::Format;

use crate::cli::{Destination, Export, Ground, OutputFormat, RunArgs, check_png};
use crate::error::{Error, GATE, K6_GATE};
use crate::export;

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

/// All of it.
#[derive(Debug)]
pub(super) struct OutputOptions {
    pub(super) output: Output,
    pub(super) exports: Vec<Export>,
    /// Background of the PNG plots; none when there are to be none.
    pub(super) png: Option<Ground>,
    codes: Codes,
}

/// Convention for exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codes {
    Own,
    K6,
}

impl OutputOptions {
    /// Read the output options, or refuse those that do not fit together. Touches no file except to
    /// see whether it could be written.
    pub(super) fn of(args: &RunArgs) -> Result<Self, Error> {
        let mut exports = args.exports.clone();
        if args.output_format == Some(OutputFormat::Csv) {
            exports.push(Export {
                format: Format::Csv,
                to: Destination::Output,
            });
        }
        let json = args.json || args.output_format == Some(OutputFormat::Json);
        let prints = export::prints(&exports);
        let output = match (json, prints, args.latency) {
            (true, true, _) => {
                return Err(Error::Usage(
                    "the JSON and an export to `-` cannot both be on standard output: give the export a file"
                        .to_owned(),
                ));
            }
            (true, ..) | (_, true, _) if args.latency => {
                return Err(Error::Usage(
                    "--latency adds to the summary, which is not printed when standard output has the JSON or an export: remove one of them"
                        .to_owned(),
                ));
            }
            (true, ..) => Output::Json,
            (_, true, _) => Output::Export,
            (false, false, true) => Output::SummaryWithPercentiles,
            (false, false, false) => Output::Summary,
        };
        export::check(&exports, None)?;
        check_png(args.png).map_err(Error::Usage)?;
        Ok(Self {
            output,
            exports,
            png: args.png,
            codes: if args.k6_exit_codes {
                Codes::K6
            } else {
                Codes::Own
            },
        })
    }

    /// True if a result is wanted beyond the one that every run saves.
    pub(super) fn has_result(&self) -> bool {
        self.output.is_data() || !self.exports.is_empty() || self.png.is_some()
    }

    /// The exit code as the caller knows it.
    pub(super) const fn code(&self, own: u8) -> u8 {
        match self.codes {
            Codes::K6 if own == GATE => K6_GATE,
            Codes::K6 | Codes::Own => own,
        }
    }
}

impl Output {
    /// True if it is for programs, and people are told everything else beside it.
    pub(super) const fn is_data(self) -> bool {
        matches!(self, Self::Json | Self::Export)
    }
}
