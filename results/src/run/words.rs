//! A run in words: one document, of which the terminal, Markdown, the step summary and the page are
//! layouts.
//!
//! The outcome comes first, then the finding, the figures, and how far they can be relied on;
//! everything else explains them. The words of an error kind or a status, and its remedy, are in
//! `report/causes.rs`, which the validity needs, too. Pure functions; printing and saving happen
//! elsewhere.
//!
//! | room | for |
//! |---|---|
//! | `outcome`, `finding`, `stalls` | first lines: how the run ended, and why |
//! | `figures`, `times`, `percentiles` | main figures, latencies, the full distribution |
//! | `validity`, `gates` | verdict of the checks; thresholds |
//! | `rows`, `counts`, `failures` | summary of a run; items and requests by state; errors by kind |
//! | `groups`, `shards`, `seconds`, `sparkline` | tables by host, URL template, shard and second |
//! | `saved` | saved crawl and its sessions |
//! | `merged` | parts of a crawl on several machines |
//! | `machine`, `reproduce` | machine and counters; command line and plan |
//! | `announcement` | lines before a run starts |

mod announcement;
mod counts;
mod failures;
mod figures;
mod finding;
mod gates;
mod groups;
pub(super) mod machine;
mod merged;
mod outcome;
mod percentiles;
mod reproduce;
mod rows;
mod saved;
mod seconds;
mod shards;
mod sparkline;
mod stalls;
mod times;
pub(super) mod validity;

pub use self::announcement::{OfWhole, announcement};
pub(crate) use self::failures::error_share;
pub use self::failures::{errors, explained, nothing_good};
pub use self::figures::got;
pub use self::gates::must_hold;
pub(crate) use self::gates::seen;
pub use self::outcome::thresholds_line;
pub use self::percentiles::percentiles;
pub(crate) use self::rows::{cpu_us_per_attempt, limited_by};
pub(crate) use self::stalls::Stalls;
pub(crate) use self::times::{figure, spectrum};
use crate::run::report::Report;
use crate::show::doc::{Column, Doc, Lead, Readers, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::capital;

/// Rows that have a place of their own on the page.
const ELSEWHERE: [&str; 7] = [
    "got",
    "target",
    "items",
    "response",
    "service",
    "first byte",
    "statuses",
];

/// Hosts that the terminal shows at most.
const TERMINAL_GROUPS: usize = 10;

/// A run as a document; `plots` are those that are saved beside it.
#[must_use]
pub fn doc(report: &Report, plots: &[Plot]) -> Doc {
    let rows = rows::rows(report);
    let lead = Lead {
        outcome: outcome::status(report),
        figures: figures::figures(report),
        validity: validity::status(report),
    };
    let course = format!(
        "{} to {}",
        moment(&report.started_at),
        moment(&report.finished_at)
    );
    let about = vec![course, format!("crawlmark {}", report.crawlmark_version)];
    Doc::new(heading(report))
        .about(about)
        .about(
            report
                .tags
                .iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect(),
        )
        .lead(lead)
        .only(Readers::TERMINAL)
        .facts(rows.clone())
        .table(failures::table(report))
        .table(groups::hosts(report, TERMINAL_GROUPS))
        .table(groups::templates(report, TERMINAL_GROUPS))
        .table(groups::sources(report, TERMINAL_GROUPS))
        .table(saved::sessions(report))
        .table(merged::others(report))
        .only(Readers::ALL)
        .section(
            "thresholds",
            "Thresholds",
            Doc::default().table(gates::table(report)),
        )
        .only(Readers::STEP.and(Readers::SUMMARY))
        .facts(rows.clone())
        .table(failures::table(report))
        .table(groups::hosts(report, usize::MAX))
        .table(groups::templates(report, usize::MAX))
        .table(groups::sources(report, usize::MAX))
        .table(saved::sessions(report))
        .table(merged::others(report))
        .table(seconds::course(report))
        .only(Readers::FILES)
        .section(
            "plots",
            "Plots",
            Doc::default().plots(plots).list("", plot::left_out(plots)),
        )
        .only(Readers::PAGE)
        .section("counts", "Counts", counts::tables(report))
        .section("times", "Times", times::tables(report))
        .only(Readers::FILES)
        .section(
            "shards",
            capital(report.shard_word()) + "s",
            Doc::default().table(shards::table(report)),
        )
        .only(Readers::PAGE)
        .section("notes", "Notes", Doc::default().table(notes(&rows)))
        .section("seconds", "Second by second", seconds::table(report))
        .section("machine", "Machine", machine::tables(report))
        .only(Readers::FILES)
        .section("reproduce", "Reproduce", reproduce::parts(report))
}

/// Return the name of the run, its target, and a note when it is partial.
fn heading(report: &Report) -> String {
    let name = if report.name.is_empty() {
        "crawl"
    } else {
        &report.name
    };
    let partial = if report.interrupted { " (partial)" } else { "" };
    format!("{name}: {}{partial}", report.plan.run.target).replace('\n', " ")
}

/// The rows that have no other place on the page.
fn notes(rows: &[(&'static str, String)]) -> Table {
    let explained = rows
        .iter()
        .filter(|(name, _)| ["response", "service"].contains(name));
    // The percentiles themselves are in the table of times.
    let explained =
        explained.filter_map(|(_, value)| Some(("times", value.split_once('\n')?.1.to_owned())));
    let others = rows
        .iter()
        .filter(|(name, _)| !ELSEWHERE.contains(name))
        .cloned();
    Table {
        columns: vec![Column::words("topic"), Column::sentences("detail")],
        rows: explained
            .chain(others)
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect(),
        ..Table::default()
    }
}

/// A calendar time of a report as people write it, to the second.
pub(crate) fn moment(rfc3339: &str) -> String {
    let whole = rfc3339.split(['.', 'Z']).next().unwrap_or_default();
    format!("{} UTC", whole.replacen('T', " ", 1))
}
