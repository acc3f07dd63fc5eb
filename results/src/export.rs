//! Exports of a [`Report`] in the formats of other tools. Each shows a part of the report and adds
//! nothing to it.
//!
//! Called by the commands and by `run/result_dir`. Pure: a report goes in, a text comes out. What
//! too few samples speak for is left out, or empty where the format has a column for it; what is
//! only known to be no less than its value is never shown as the value. Whether the measurement is
//! valid goes into every format that has a place for it, and each module says which place that is.
//!
//! | room | for |
//! |---|---|
//! | `csv` | seconds, their tenths, and shards as CSV |
//! | `hgrm` | percentiles for the plotter of `HdrHistogram` |
//! | `openmetrics` | counters, gauges and histograms for Prometheus |
//! | `junit` | thresholds of a run, or metrics of a comparison, as test cases |
//! | `points`, `bencher`, `github` | figures for a history of benchmarks, in two formats |

mod bencher;
mod csv;
mod github;
mod hgrm;
mod junit;
mod openmetrics;
mod points;

use std::fmt;
use std::str::FromStr;

pub use self::junit::contest_junit;
pub use self::points::unfit;
use crate::run::report::Report;
use crate::run::words;

/// Define the formats: the name that people type, and the name of the file in a result directory.
macro_rules! formats {
    ($($(#[doc = $doc:literal])* $format:ident: $name:literal, $file:literal;)*) => {
        /// A format of another tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])* $format,)*
        }

        impl Format {
            /// All of them, in the order in which they are listed.
            pub const ALL: [Self; 10] = [$(Self::$format),*];

            /// The name that people type.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }

            /// The name of its file in a result directory.
            #[must_use]
            pub const fn file_name(self) -> &'static str {
                match self {
                    $(Self::$format => $file,)*
                }
            }
        }
    };
}

formats! {
    /// A row for each second: RFC 4180, with the units in the names of the columns.
    Csv: "csv", "intervals.csv";
    /// A row for each tenth of a second of a run under 30 s.
    CsvTenths: "csv-tenths", "tenths.csv";
    /// A row for each shard.
    CsvShards: "csv-shards", "shards.csv";
    /// The percentiles of the main series in milliseconds, as `wrk2` and `HdrHistogram` print them.
    Hgrm: "hgrm", "latency.hgrm";
    /// GitHub's Markdown for `$GITHUB_STEP_SUMMARY`, below its limit of 1 MiB.
    StepSummary: "step-summary", "step-summary.md";
    /// Figures of which more is better, for `github-action-benchmark`.
    GithubBenchmarkBigger: "github-benchmark-bigger", "github-benchmark-bigger.json";
    /// Figures of which less is better, for `github-action-benchmark`.
    GithubBenchmarkSmaller: "github-benchmark-smaller", "github-benchmark-smaller.json";
    /// The Bencher Metric Format.
    Bencher: "bencher", "bencher.json";
    /// The gates as `JUnit` XML, one test case each.
    Junit: "junit", "junit.xml";
    /// `OpenMetrics` 1.0, as Prometheus reads it.
    OpenMetrics: "openmetrics", "openmetrics.txt";
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid format: write one of {names}", names = Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// Reason why a report has no place in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// A history of benchmarks would take a part of a run for a whole one.
    #[error(
        "export {0}: the run {1}, so its figures are no data point for a history of benchmarks: export a whole run whose requests succeeded"
    )]
    Partial(Format, &'static str),
    /// There is no figure to keep.
    #[error(
        "export {0}: the run measured nothing that a history could keep; see `validity` in its result.json"
    )]
    Nothing(Format),
    /// There are no tenths of a second.
    #[error(
        "export {0}: the run has no tenths of a second, which only runs under 30 s keep: export csv"
    )]
    NoTenths(Format),
    /// There is no distribution.
    #[error("export {0}: the run has no {1} times; see `validity` in its result.json")]
    NoTimes(Format, &'static str),
}

/// The report in a format.
///
/// # Errors
/// When the format has no place for what the report says, or for how little it says.
pub fn export(report: &Report, format: Format) -> Result<String, ExportError> {
    Ok(match format {
        Format::Csv => csv::intervals(report),
        Format::CsvTenths => csv::tenths(report).ok_or(ExportError::NoTenths(format))?,
        Format::CsvShards => csv::shards(report),
        Format::Hgrm => return hgrm::hgrm(report),
        Format::StepSummary => words::doc(report, &[]).step_summary(),
        Format::GithubBenchmarkBigger | Format::GithubBenchmarkSmaller => {
            return github::benchmark(report, format);
        }
        Format::Bencher => return bencher::bencher(report),
        Format::Junit => junit::junit(report),
        Format::OpenMetrics => openmetrics::openmetrics(report),
    })
}

/// JSON as files have it. A map of this crate always is JSON.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_name_and_has_a_file_of_its_own() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            assert_eq!(format.to_string(), format.name());
        }
        let mut files = Format::ALL.map(Format::file_name);
        files.sort_unstable();
        assert!(files.windows(2).all(|pair| pair[0] != pair[1]), "{files:?}");
        let complaint = "xml".parse::<Format>().unwrap_err().to_string();
        assert!(
            complaint.starts_with(
                "`xml` is not a valid format: write one of csv, csv-tenths, csv-shards, hgrm, "
            ),
            "{complaint}"
        );
    }
}
