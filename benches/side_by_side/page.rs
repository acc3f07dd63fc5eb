//! A comparison of clients as a page with a picture, for `--out`.

use std::fs;
use std::path::Path;

use crawlmark_results::show::plot::{Cost, costs};

use crate::error::Error;
use crate::machine::here_and_now;
use crate::record::{Record, save as save_record};
use crate::summary::{Summary, SummaryRow};

/// Saves the table, the record and the picture in a directory.
pub(crate) fn save(out: &Path, (text, summary): (&str, &Summary), record: &Record<'_>) -> Result<(), Error> {
    let failed = |error| Error::Save { path: out.to_owned(), error };
    fs::create_dir_all(out).map_err(failed)?;
    let page = format!(
        "# What a request costs, side by side\n\nMade by `cargo bench --bench side_by_side -- --out results/side-by-side`.\n\n{}\n\n\
         ![CPU per request of each client](costs.svg)\n\n```text\n{}\n```\n",
        here_and_now(),
        text.trim()
    );
    fs::write(out.join("README.md"), page).map_err(failed)?;
    fs::write(out.join("costs.svg"), picture(summary)).map_err(failed)?;
    save_record(record, &out.join("side_by_side.json"))
}

/// The cheapest first.
fn picture(summary: &Summary) -> String {
    let cost = |line: &SummaryRow| Cost {
        name: line.who.name().to_owned(),
        cpu_us: line.cpu_us_per_request,
        user_us: line.cpu_user_us_per_request,
        per_s: line.requests_per_s,
    };
    let mut all: Vec<Cost> = summary.lines.iter().map(cost).collect();
    all.sort_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
    let caption = "CPU time of each client per request, and its requests per second: medians over rounds in shuffled order, \
                   each client alone on its CPU.";
    costs(&all, caption.to_owned()).svg
}
