//! Argument of `--export`: a format and its destination.

use std::path::PathBuf;
use std::str::FromStr;

use crawlmark_results::export::{Format, UnknownFormat};

pub(super) const EXPORT: &str = "\
Export the result as csv, junit, openmetrics, ...; may be repeated

FORMAT or FORMAT=FILE. Formats:

  csv           a row for each second (intervals.csv)
  csv-tenths    a row for each tenth of a second of a run under 30 s
                (tenths.csv)
  csv-shards    a row for each shard (shards.csv)
  hgrm          percentiles in milliseconds, as wrk2 and HdrHistogram print
                them (latency.hgrm)
  step-summary  GitHub's Markdown, for $GITHUB_STEP_SUMMARY, below its limit
                of 1 MiB (step-summary.md)
  github-benchmark-bigger, github-benchmark-smaller
                for github-action-benchmark's customBiggerIsBetter and
                customSmallerIsBetter (as named, .json)
  bencher       Bencher Metric Format (bencher.json)
  junit         the thresholds, one test case each (junit.xml)
  openmetrics   OpenMetrics 1.0, for Prometheus (openmetrics.txt)
  k6-summary    what k6 hands to handleSummary (k6-summary.json)

Without FILE it goes into the result's directory under the name in
brackets; FILE is overwritten, and - is standard output, where nothing else
is then printed. `run` saves its result as well; `report` writes only the
exports.

Unknown figures are left out, and the verdict is included wherever the
format has a place for it. A run that is incomplete, target_limited or
nothing_measured, or that was stopped early, is no data point for a history
of benchmarks: github-benchmark-* and bencher refuse it.";

/// An export that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The format.
    pub format: Format,
    /// Destination of the export.
    pub to: Destination,
}

/// Destination of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Into the result's directory, under the format's own name.
    Result,
    /// Into this file.
    File(PathBuf),
    /// To standard output.
    Output,
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, file) = text.split_once('=').map_or((text, None), |(format, file)| (format, Some(file)));
        let format = format.parse().map_err(|error: UnknownFormat| error.to_string())?;
        let to = match file {
            None => Destination::Result,
            Some("") => return Err(format!("a file is missing after `{text}`: name one, or leave the `=` out")),
            Some("-") => Destination::Output,
            Some(file) => Destination::File(PathBuf::from(file)),
        };
        Ok(Self { format, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_may_say_where_it_goes() {
        for (text, to) in [
            ("csv", Destination::Result),
            ("csv=-", Destination::Output),
            ("csv=a=b.csv", Destination::File(PathBuf::from("a=b.csv"))),
        ] {
            assert_eq!(text.parse(), Ok(Export { format: Format::Csv, to }), "{text}");
        }
        for text in ["", "=", "csv=", "xls", "CSV", "csv "] {
            assert!(text.parse::<Export>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_lists_every_format_and_its_file() {
        for format in Format::ALL {
            assert!(EXPORT.contains(format.name()), "{format}");
            let file = format.file_name();
            assert!(EXPORT.contains(file) || file == format!("{format}.json"), "{file}");
        }
    }
}
