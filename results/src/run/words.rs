//! A run as a document, of which Markdown, the step summary and the page are layouts:
//! its outcome, a line of figures, the findings, and tables. Pure functions; printing and saving
//! happen elsewhere. Sentences are those of the findings (`judge/findings.rs`).
//!
//! | module | holds |
//! |---|---|
//! | `end` | end of a run at the terminal |
//! | `lead` | outcome, main figures, validity |
//! | `tables` | figures by name, and tables of everything that is counted |
//! | `times` | which times count, the full distribution |
//! | `sparkline` | seconds of the run |
//! | `thresholds` | thresholds before and after a run |
//! | `failures` | failed requests by cause |
//! | `reproduce` | command line and plan |
//! | `part` | a part of a run |
//! | `announcement` | lines before a run starts |

mod announcement;
mod end;
mod failures;
mod lead;
mod part;
mod reproduce;
mod sparkline;
pub(super) mod tables;
mod thresholds;
mod times;

pub use self::announcement::{announcement, plan_line};
pub use self::end::{MOST, brief_markdown, end, news};
pub use self::failures::{errors, explained};
pub use self::lead::got;
pub(super) use self::part::part;
pub(crate) use self::thresholds::seen;
pub use self::thresholds::{must_hold, thresholds_line};
use self::times::Times;
pub use self::times::percentiles;
use crate::run::report::Report;
use crate::show::doc::{Doc, Part, Readers, Table};
use crate::show::plot::Plot;
use crate::show::text::capital;

/// Hosts that the terminal shows at most.
const TERMINAL_GROUPS: usize = 10;

/// Readers of what is Markdown.
const MARKDOWN: Readers = Readers::STEP.and(Readers::SUMMARY);

/// Legend of the times.
const LEGEND: &str = "\"-\": too few samples (fewer than ten above the percentile). \">=\": a lower bound, because \
    unfinished requests count at the age that they had reached; the mean leaves them out.";

/// A run as a document; `plots` are those that are saved beside it.
pub fn doc(report: &Report, plots: &[Plot]) -> Doc {
    let [start, end] = [&report.started_at, &report.finished_at].map(|at| moment(at));
    let tags = report.tags.iter();
    let about = vec![
        vec![
            format!("{start} to {end}"),
            format!("crawlmark {}", report.crawlmark_version),
        ],
        tags.map(|(key, value)| format!("{key}: {value}")).collect(),
    ];
    let times = Times::of(report);
    let errors = failures::table(report);
    let course = Part::Tables(vec![sparkline::course(report)]);
    let mut blocks = vec![
        (Readers::TEXT, tables::summary(report, times.facts)),
        (Readers::TEXT, Part::Tables(vec![errors.clone()])),
        (Readers::TERMINAL, tables::groups(report, TERMINAL_GROUPS)),
        (MARKDOWN, tables::groups(report, usize::MAX)),
        (MARKDOWN, course),
    ];
    blocks.extend(sections(report, plots, times.table, errors));
    Doc::of(heading(report), about, lead::of(report), blocks)
}

fn sections(report: &Report, plots: &[Plot], times: Table, errors: Table) -> Vec<(Readers, Part)> {
    let shards = capital(report.shard_word()) + "s";
    let thresholds = Part::Tables(vec![thresholds::table(report)]);
    let plots = plots
        .iter()
        .map(|plot| (plot.name, plot.title, plot.caption.clone()));
    [
        (Readers::ALL, "thresholds", "Thresholds", vec![thresholds]),
        (
            Readers::ALL,
            "split",
            "Where a request's time goes",
            vec![tables::split(report)],
        ),
        (
            Readers::ALL,
            "traits",
            "What the slowest have in common",
            vec![tables::traits(report)],
        ),
        (
            Readers::SUMMARY,
            "plots",
            "Plots",
            vec![Part::Plots(plots.collect())],
        ),
        (
            Readers::FILES,
            "limits",
            "Limits",
            vec![tables::limits(report)],
        ),
        (
            Readers::FILES,
            "merge",
            "Merge",
            vec![tables::merge(report)],
        ),
        (
            Readers::PAGE,
            "counts",
            "Counts",
            vec![tables::counts(report, errors)],
        ),
        (
            Readers::PAGE,
            "times",
            "Times",
            vec![Part::Tables(vec![times]), Part::Text(LEGEND.to_owned())],
        ),
        (
            Readers::FILES,
            "slowest",
            "Slowest requests",
            vec![tables::slowest(report)],
        ),
        (
            Readers::FILES,
            "shards",
            &shards,
            vec![tables::shards(report)],
        ),
        (Readers::PAGE, "machine", "Machine", tables::machine(report)),
        (
            Readers::FILES,
            "reproduce",
            "Reproduce",
            reproduce::command_and_plan(report),
        ),
    ]
    .into_iter()
    .map(|(readers, id, heading, parts)| (readers, Part::Section(id, heading.to_owned(), parts)))
    .collect()
}

/// The name of the run, its target, and a note when it is partial.
fn heading(report: &Report) -> String {
    let name = if report.name.is_empty() {
        "crawl"
    } else {
        &report.name
    };
    let partial = if report.interrupted { " (partial)" } else { "" };
    format!("{name}: {}{partial}", report.plan.run.target).replace('\n', " ")
}

/// A calendar time of a report as people write it, to the second.
pub(crate) fn moment(rfc3339: &str) -> String {
    let whole = rfc3339.split(['.', 'Z']).next().unwrap_or_default();
    format!("{} UTC", whole.replacen('T', " ", 1))
}
