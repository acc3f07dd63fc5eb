//! Arguments of the commands that read what was saved: `compare`, `history`, `report`, `export`,
//! `verify`; and
//! of `--export`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use crawlmark_harness::trace::TraceContext;
use crawlmark_harness::units::parse_duration;
use crawlmark_results::export::{Format, UnknownFormat};

use super::FormArgs;

pub(super) const COMPARE_EXAMPLES: &str = "\
Two directories of results get a verdict if their runs took turns (base, candidate,
candidate, base, ...). The directory of an `ab` gets a verdict, too. Runs that did not
take turns are refused. Two single results get a table of their figures and no
verdict, because single runs prove nothing. More than two single results, or two with
--overlay, are drawn over each other, even if their plans differ.

Results of other tools get a table of changes with intervals. They get no verdict,
because one side ran after the other. These results can be read: the JSON of
`hyperfine --export-json`, `vegeta report -type=json` and k6 (--summary-export or
handleSummary), the text of `go test -bench . -count 10`, criterion's directory, or a
directory of such files.

Exit codes: 0 pass · 3 regression · 5 inconclusive, single results, other tools
            2 the results differ in rate, arrivals, warm-up, --expect or
              machine, or their runs did not take turns

Examples:
  Two runs side by side:
    crawlmark compare results/runs/before results/runs/after
  Three runs drawn over each other, as a page and a plot:
    crawlmark compare monday tuesday friday --out week
  The verdict of a saved `ab` as Markdown, for a comment on a pull request:
    crawlmark compare results/runs/2026-11-22T10-00-00Z-ab --markdown
  Two hyperfine results:
    crawlmark compare before.json after.json";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A result, a directory of results, or what `ab` saved
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// A result, or a directory of results
    #[arg(value_name = "CAND")]
    pub candidate: Option<PathBuf>,
    /// Further single results; all results are drawn over each other
    #[arg(value_name = "MORE")]
    pub more: Vec<PathBuf>,
    /// Draw single results over each other, even if there are only two
    #[arg(long)]
    pub overlay: bool,
    /// Save the comparison, with page and plot, to DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Format of the comparison.
    #[command(flatten)]
    pub form: FormArgs,
}

pub(super) const HISTORY_EXAMPLES: &str = "\
A history is a file with a JSON line for each result, which you can keep on a branch.
It can also be a directory of results. Each benchmark or plan on each machine is a
history of its own.

False changes are rare: by chance alone, about 1 of 100 unchanged histories shows a
change, over all metrics. A change has at least five results on each side. It is at
least as large as the changes that `ab` counts (2 %, or 1 % for commands). Changes are
shown with their intervals. They are only hints, because the machine may have changed,
too.

Results may come from `run`, from `ab` (its candidate), or from another tool (see
`crawlmark compare --help`).

Exit codes: 0 with or without a change, and with --add
            5 too few results to find a change

Examples:
  Add a run to the history on a branch, and look for changes:
    crawlmark history bench.jsonl --add results/runs/2026-11-22T10-00-00Z-crawl
  Add a hyperfine result of an older commit:
    crawlmark history bench.jsonl --add old.json --commit 1f2e3d4
  Find out when a result changed, with a page and a plot:
    crawlmark history results/runs --out history";

/// Arguments of `history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// File of a history, or a directory of results
    #[arg(value_name = "FILE|DIR")]
    pub history: PathBuf,
    /// Add a result to the file, which is created if missing; repeatable
    #[arg(long, value_name = "RESULT")]
    pub add: Vec<PathBuf>,
    /// Commit of the added results
    ///
    /// [default: the commit that the CI system names (`GITHUB_SHA`, `CI_COMMIT_SHA`), else the
    /// commit of the run, else the commit of the working directory]
    #[arg(long, value_name = "SHA", requires = "add")]
    pub commit: Option<String>,
    /// Name of the machine of the added results [default: CPU and cores]
    #[arg(long, value_name = "NAME", requires = "add")]
    pub machine: Option<String>,
    /// Name of the added results [default: name of the run or benchmark]
    #[arg(long, requires = "add")]
    pub name: Option<String>,
    /// Save the history, with page and plot, to DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Format of the history.
    #[command(flatten)]
    pub form: FormArgs,
}

pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  Recreate the page and the plots of a result in its own directory:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl
  The ten seconds around a stall, in addition to the whole run:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --from 10s --to 20s
  A table of the seconds for a spreadsheet, and the metrics for Prometheus:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --export csv \\
        --export openmetrics
  The item and the attempt of a request that a tracing system shows:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl \\
        --trace 00-9f86d081884c7d659a2feaa0c55ad015-a3bf4f1b2b0b822c-01";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results that `crawlmark run` or a study (ab, scale, ...) saved
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
    /// Write to DIR [default: the result's own directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Report on a part that begins at TIME (whole seconds since the start)
    ///
    /// The part from --from to --to gets its own summary, page, plots and cut.json. They are saved
    /// in the directory part-10s-20s of the result, or in --out. This needs latency.hlog.
    #[arg(long, value_name = "TIME", value_parser = parse_second, conflicts_with_all = ["exports", "trace"])]
    pub from: Option<u64>,
    /// Report on a part that ends at TIME since the start [default: the end]
    #[arg(long, value_name = "TIME", value_parser = parse_second, conflicts_with_all = ["exports", "trace"])]
    pub to: Option<u64>,
    /// Export the result as csv, junit, openmetrics, ...; may be repeated
    #[arg(long = "export", value_name = "FORMAT[=FILE]", long_help = export_help())]
    pub exports: Vec<Export>,
    /// Save each plot as a PNG file as well, 1,440 pixels wide
    #[arg(long, conflicts_with_all = ["exports", "trace", "from", "to"])]
    pub png: bool,
    /// Print the item that a trace id belongs to (see `run --trace`)
    ///
    /// ID is a trace id, or a whole traceparent, which also identifies the attempt.
    #[arg(long, value_name = "ID", conflicts_with_all = ["out", "exports", "quiet"])]
    pub trace: Option<TraceContext>,
    /// Print only errors
    #[arg(long)]
    pub quiet: bool,
}

/// A time in whole seconds, as intervals are.
fn parse_second(text: &str) -> Result<u64, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    Some(time.as_secs())
        .filter(|_| time.subsec_nanos() == 0)
        .ok_or_else(|| format!("`{text}` is not whole seconds: write {}s", time.as_secs()))
}

/// Columns of a help text.
const COLUMNS: usize = 80;

/// The long help of `--export`, with a row for each format.
pub(super) fn export_help() -> String {
    let mut rows = String::new();
    for format in Format::ALL {
        let row = format!("  {:12}  {}", format.name(), format.holds());
        let file = format!("({})", format.file_name());
        let is_wide = row.len() + 1 + file.len() > COLUMNS;
        let between = if is_wide { "\n                " } else { " " };
        rows.extend([&row, between, &file, "\n"]);
    }
    format!(
        "Export the result as csv, junit, openmetrics, ...; may be repeated

Write FORMAT or FORMAT=FILE. Formats:

{rows}
Without FILE, the export is saved in the result's directory, under the name in
brackets. FILE is overwritten. If FILE is -, the export is printed to standard
output, and nothing else is printed there. `run` also saves its result, but
`report` writes only the exports.

Unknown figures are left out. The verdict is included if the format has a place
for it."
    )
}

pub(super) const EXPORT_EXAMPLES: &str = "\
The command prints a JSON line for each item: its last record that is good or not
found. If an item has no such record, its last record is printed. If an item has several
requests, each saved request has a line. Lines have the fields that the crawl saved
(--save-fields in `crawlmark run --help`). Binary bodies are base64.

To export a crawl in parts, pass the directory of the parts. If a crawl was stopped,
all committed records are exported. If a crawl is damaged, it is not exported: see
`crawlmark verify`.

Examples:
  Into a file:
    crawlmark export crawl > crawl.jsonl
  As Parquet, by DuckDB:
    crawlmark export crawl > crawl.jsonl
    duckdb -c \"COPY (FROM 'crawl.jsonl') TO 'crawl.parquet'\"";

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Directory of a saved crawl (`crawlmark run --save DIR`), or of parts
    #[arg(value_name = "DIR")]
    pub crawl: PathBuf,
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
            Some("-") => Destination::Output,
            Some(file) => Destination::File(PathBuf::from(file)),
        };
        Ok(Self { format, to })
    }
}

pub(super) const VERIFY_EXAMPLES: &str = "\
The command checks that no ID is finished twice or ends twice in a session, that no
page of an ID is missing or saved twice, and that every ID is in the range of the
crawl. It also checks the indexes of frames, the digests of bodies and the checksums
of files. It changes nothing.

IDs are finished if they are good, not found or forbidden by robots.txt. --resume
requests the other IDs. Unfinished IDs are not violations: the output has their
number, and the exit code is 0 unless --complete is given.

To check a crawl in parts (`crawlmark plan`), pass the directory of the parts. Each
saved crawl must belong to its part, with as many items as the part's result counts.

Exit codes: 0 no violation · 4 violations (the first ten are listed), or
            with --complete an ID that is not finished

Examples:
  Audit a saved crawl:
    crawlmark verify crawl
  For a script:
    crawlmark verify crawl --complete --json | jq .violations";

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Directory of a saved crawl (`crawlmark run --save DIR`), or of parts
    #[arg(value_name = "DIR")]
    pub crawl: PathBuf,
    /// Exit with 4 if an item is not finished
    #[arg(long)]
    pub complete: bool,
    /// Print the audit as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// Print only errors (and the output of --json)
    #[arg(long)]
    pub quiet: bool,
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
}
