//! Exports of a [`Report`] in the formats of other tools. Each shows a part of the report and adds
//! nothing to it.
//!
//! Called by the commands. Pure: a report goes in, a text comes out. What
//! too few samples speak for is left out, or empty where the format has a column for it; what is
//! only known to be no less than its value is never shown as the value. Whether the measurement is
//! valid goes into every format that has a place for it, and each module says which place that is.
//!
//! | room | for |
//! |---|---|
//! | `csv` | seconds and shards as CSV |
//! | `openmetrics` | counters, gauges and histograms for Prometheus |

mod csv;
mod openmetrics;

use std::fmt;
use std::str::FromStr;

pub use self::openmetrics::{Exposition, openmetrics, openmetrics_so_far};
use crate::run::report::Report;
use crate::run::{junit, words};
use crate::show::junit::FILE as JUNIT;

/// Define the formats: the name that people type, the name of the file in a result directory, and
/// what it holds, as the help says it.
macro_rules! formats {
    ($($(#[doc = $doc:literal])* $format:ident: $name:literal, $file:expr, $holds:literal;)*) => {
        /// A format of another tool.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])* $format,)*
        }

        impl Format {
            /// All of them, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$format),*];

            /// The name that people type.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }

            /// The name of its file in a result directory.
            pub const fn file_name(self) -> &'static str {
                match self {
                    $(Self::$format => $file,)*
                }
            }

            /// What it holds, in a few words.
            pub const fn holds(self) -> &'static str {
                match self {
                    $(Self::$format => $holds,)*
                }
            }
        }
    };
}

formats! {
    /// A row for each second: RFC 4180, with the units in the names of the columns.
    Csv: "csv", "intervals.csv", "a row for each second";
    /// A row for each shard.
    CsvShards: "csv-shards", "shards.csv", "a row for each shard";
    /// GitHub's Markdown for `$GITHUB_STEP_SUMMARY`, below its limit of 1 MiB.
    StepSummary: "step-summary", "step-summary.md", "GitHub's Markdown for $GITHUB_STEP_SUMMARY, at most 1 MiB";
    /// The gates as `JUnit` XML, one test case each.
    Junit: "junit", JUNIT, "a test case for each threshold";
    /// `OpenMetrics` 1.0, as Prometheus reads it.
    OpenMetrics: "openmetrics", "openmetrics.txt", "OpenMetrics 1.0, for Prometheus";
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Beginnings of the names of formats of earlier builds, and what has what they showed.
const GONE: [(&str, &str); 2] = [
    (
        "hgrm csv-tenths",
        "--latency prints the percentiles, and latency.hlog of the result has the distributions",
    ),
    (
        "k6-summary github-benchmark bencher",
        "make it of result.json by a recipe with jq (see Exports in the book)",
    ),
];

/// No format has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid format: {why}", why = remedy(.0))]
pub struct UnknownFormat(pub String);

fn remedy(name: &str) -> String {
    let gone = GONE
        .iter()
        .find(|(names, _)| names.split(' ').any(|gone| name.starts_with(gone)));
    gone.map_or_else(
        || {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("write one of {}", names.join(", "))
        },
        |(_, now)| (*now).to_owned(),
    )
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// The report in a format.
pub fn export(report: &Report, format: Format) -> String {
    match format {
        Format::Csv => csv::table(report, &report.intervals),
        Format::CsvShards => csv::table(report, &report.shards),
        Format::StepSummary => words::doc(report, &[]).step_summary(),
        Format::Junit => junit::document(report),
        Format::OpenMetrics => openmetrics(report, Exposition::OpenMetrics),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_name_and_has_a_file_of_its_own() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            assert_eq!(format.to_string(), format.name());
        }
        let mut files: Vec<&str> = Format::ALL
            .iter()
            .map(|format| format.file_name())
            .collect();
        files.sort_unstable();
        assert!(files.windows(2).all(|pair| pair[0] != pair[1]), "{files:?}");
        assert!("xml".parse::<Format>().is_err());
    }
}
