//! Argument of `--export`: a format and its destination; and arguments of the command `export`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
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

pub(super) const EXAMPLES: &str = "\
Each format has the fields that the crawl saved (--save-fields), in this order:

  id            ID in the URL
  url           URL, only where it is not the template with the ID
  status        HTTP status; absent without a response
  outcome       ok, not_found, rejected, throttled, soft_blocked, skipped
                (forbidden by robots.txt), or the
                error: timeout, reset, ...
  attempts      requests for the item
  at            time at which the last of them was sent, UTC
  latency_us    its service time in microseconds
  content_type  of the response
  digest        first 128 bits of the SHA-256 of the body, as 32 hex digits
  body          body; csv and jsonl have binary bodies as base64, and then
                say so in body_encoding
  body_bytes    whole length of a body that --max-body cut

Formats:
  jsonl    JSON lines, as the segments hold them; `body` is a string, base64
           or, if the response was JSON, the JSON itself
  csv      RFC 4180 with a header line; an empty field without quotes is absent
  parquet  id, latency_us, body_bytes: uint64; status: uint16;
           attempts: uint32; at: timestamp (µs, UTC); body: binary; the
           others: strings. zstd (builds with --features parquet)
  warc     WARC/1.1: each body as a `resource` record, gzip per record;
           records without a body are left out

Of a crawl in parts, name the directory of the parts: their records follow one
another. Records of a crawl that was stopped are exported as far as they are
committed. A damaged crawl is not exported: see `crawlmark verify`.

Examples:
  A saved crawl as Parquet, into crawl.parquet:
    crawlmark export crawl --to parquet
  As CSV to another program:
    crawlmark export crawl --to csv --out - | head
  As WARC into a named file:
    crawlmark export crawl --to warc --out archive.warc.gz";

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Directory of a saved crawl (`crawlmark run --save DIR`), or of parts
    #[arg(value_name = "DIR")]
    pub crawl: PathBuf,
    /// Format: jsonl, csv, parquet or warc
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    pub to: CrawlFormat,
    /// Write to FILE, or - for standard output [default: DIR.FORMAT]
    ///
    /// An existing file is never overwritten. The file has its name only once it is complete.
    #[arg(short, long, value_name = "FILE", value_parser = parse_destination)]
    pub out: Option<Destination>,
    /// Print only errors
    #[arg(long)]
    pub quiet: bool,
}

/// Format of an exported crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrawlFormat {
    /// JSON lines.
    Jsonl,
    /// CSV (RFC 4180).
    Csv,
    /// Apache Parquet.
    Parquet,
    /// WARC/1.1 (ISO 28500).
    Warc,
}

impl CrawlFormat {
    /// Return the extension of its files.
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Warc => "warc.gz",
        }
    }
}

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
        let (format, file) = text
            .split_once('=')
            .map_or((text, None), |(format, file)| (format, Some(file)));
        let format = format
            .parse()
            .map_err(|error: UnknownFormat| error.to_string())?;
        let to = match file {
            None => Destination::Result,
            Some("") => {
                return Err(format!(
                    "a file is missing after `{text}`: name one, or leave the `=` out"
                ));
            }
            Some(file) => parse_destination(file)?,
        };
        Ok(Self { format, to })
    }
}

/// Parse a file; `-` is standard output.
fn parse_destination(text: &str) -> Result<Destination, String> {
    match text {
        "" => Err("a file is missing: name one, or - for standard output".to_owned()),
        "-" => Ok(Destination::Output),
        file => Ok(Destination::File(PathBuf::from(file))),
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
            assert_eq!(
                text.parse(),
                Ok(Export {
                    format: Format::Csv,
                    to
                }),
                "{text}"
            );
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
            assert!(
                EXPORT.contains(file) || file == format!("{format}.json"),
                "{file}"
            );
        }
    }
}
