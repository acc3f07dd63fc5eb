//! A part of a run as a document.

use super::tables::{self, limited_by};
use super::{LEGEND, MARKDOWN, Times, heading, moment, sparkline};
use crate::run::cut::Cut;
use crate::run::report::Report;
use crate::show::doc::{Doc, Figure, Lead, Part, Readers, Severity, Status};
use crate::show::figures;
use crate::show::plot::Plot;
use crate::show::text::{counted, decimal, grouped, seconds};

/// Limits of a part.
const NOT_CUT: &str = "Only what is counted or timed by the second is of this part: items wanted, statuses, hosts, shards, \
    budgets, thresholds, findings and validity are known of the whole run alone.";

/// A part of a run, whose own report is `report`.
pub(in crate::run) fn part(cut: &Cut<'_>, report: &Report, plots: &[Plot]) -> Doc {
    let span = format!("{} s to {} s", cut.from_s, cut.to_s);
    let times = Times::of(report);
    let untimed = Some(format!(
        "{} have no time in latency.hlog (slower than it holds, or of a shard that died): figures marked >= are lower bounds.",
        counted(cut.not_timed, "good response")
    ));
    let outcome = Status {
        id: Some("outcome"),
        text: NOT_CUT.to_owned(),
        list: Vec::from_iter(untimed.filter(|_| cut.not_timed > 0)),
        ..Status::new(
            Severity::Neutral,
            format!("{span} of {}", seconds(cut.run_duration_s)),
        )
    };
    let lead = Lead {
        outcome,
        validity: Status::new(Severity::Neutral, "Validity: see the whole run"),
        figures: main_figures(cut, report),
    };
    let limits = ("limited by", Some(limited_by(report)));
    let facts = times
        .facts
        .into_iter()
        .chain([limits])
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let counts = Part::Tables(vec![tables::figures("Counts and rates", &cut.totals)]);
    let percentiles = vec![
        Part::Tables(vec![times.table]),
        Part::Text(LEGEND.to_owned()),
    ];
    let plots = plots
        .iter()
        .map(|plot| (plot.name, plot.title, plot.caption.clone()));
    let blocks = vec![
        (Readers::TEXT, Part::Facts(facts.collect())),
        (MARKDOWN, Part::Tables(vec![sparkline::course(report)])),
        (
            Readers::SUMMARY,
            Part::Section(
                "plots",
                "Plots".to_owned(),
                vec![Part::Plots(plots.collect())],
            ),
        ),
        (
            Readers::ALL,
            Part::Section("counts", "Counts".to_owned(), vec![counts]),
        ),
        (
            Readers::FILES,
            Part::Section("times", "Times".to_owned(), percentiles),
        ),
    ];
    let about = vec![vec![
        format!("run of {}", moment(&report.started_at)),
        format!("crawlmark {}", report.crawlmark_version),
    ]];
    Doc::of(format!("{}, {span}", heading(report)), about, lead, blocks)
}

fn rate(name: &'static str, per_s: f64, detail: String) -> Figure {
    Figure {
        name: name.into(),
        value: format!("{}/s", decimal(per_s)),
        detail,
    }
}

fn main_figures(cut: &Cut<'_>, report: &Report) -> Vec<Figure> {
    let (totals, counts) = (&cut.totals, &cut.totals.counts);
    let over = format!("responses, over {}", seconds(totals.duration_s));
    let good = rate("good", totals.ok_per_s, over);
    let all = format!("{} in all", grouped(counts.attempts));
    let requests = rate("requests", totals.attempts_per_s, all);
    [good]
        .into_iter()
        .chain(figures::times(report))
        .chain([requests])
        .collect()
}
