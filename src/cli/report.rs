//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use crawlmark_results::show::plot;

use super::export::EXPORT;
use super::{CutArgs, Export};

pub(super) const EXAMPLES: &str = "\
Examples:
  Recreate the page and the plots of a result in its own directory:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl
  The same elsewhere:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --out public
  A table of its seconds for a spreadsheet, and its metrics for Prometheus:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --export csv \\
        --export openmetrics
  The step summary, for GitHub Actions:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl \\
        --export step-summary=- >> \"$GITHUB_STEP_SUMMARY\"
  Part of a result, measured again from its log of times (--json prints JSON, --out saves it):
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --from 10s \\
        --to 70s --shards 0-3 --outcome ok
  The steady part, and how it was found:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --steady
  Several runs overlaid on one page:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl \\
        results/runs/2026-11-22T10-05-00Z-crawl
  With each plot as PNG, too, light or dark:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --png
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --png=dark";

/// Help of `--png`.
pub(super) const PNG: &str = "Save plots as PNG, too (builds with --features png) [default: light]";

/// Background of PNG plots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ground {
    /// White
    Light,
    /// Nearly black
    Dark,
}

/// Refuse PNG plots of a program that cannot draw them.
///
/// # Errors
/// In builds without the feature `png`.
pub(crate) fn check_png(png: Option<Ground>) -> Result<(), String> {
    if png.is_none() || plot::CAN_DRAW_PNG {
        return Ok(());
    }
    Err("--png: this program was built without PNG. Plots are saved as SVG without this flag; for PNG, build crawlmark with \
         `--features png`"
        .to_owned())
}

impl From<Ground> for plot::Ground {
    fn from(ground: Ground) -> Self {
        match ground {
            Ground::Light => Self::Light,
            Ground::Dark => Self::Dark,
        }
    }
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results that `crawlmark run` saved; 2 to 8 are overlaid on one page
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
    /// Write to DIR [default: the result's own directory]
    ///
    /// Several results: results/runs/TIME-overlay unless given. A part of a result is saved only
    /// with this flag.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Export the result as csv, junit, openmetrics, ...; may be repeated
    #[arg(long = "export", value_name = "FORMAT[=FILE]", long_help = EXPORT, conflicts_with_all = ["png", "CutArgs"])]
    pub exports: Vec<Export>,
    /// PNG copies of the plots.
    #[arg(long, help = PNG, value_enum, value_name = "light|dark", num_args = 0..=1, require_equals = true, default_missing_value = "light", conflicts_with = "CutArgs")]
    pub png: Option<Ground>,
    /// Print only errors
    #[arg(long)]
    pub quiet: bool,
    /// A part of one result.
    #[command(flatten)]
    pub cut: CutArgs,
}
