//! The exports, from reports whose every number is known: each as its format has it, and honest
//! about what is not known.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test export` writes them again when a
//! change is meant. That the formats' own readers understand real exports is tested end to end.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::export::{Format, export};
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{FailureReport, GateReport, IntervalRow, Report, Verdict};
use crawlmark_results::run::words;
use crawlmark_results::show::doc::Doc;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{golden, saved};

/// A finding with a text of somebody else.
fn unreached(reason: &str) -> Finding {
    Finding::HostUnreached {
        reason: reason.to_owned(),
    }
}

/// The same run with a verdict that is not `valid`.
fn judged(verdict: Verdict, reason: &str) -> Report {
    let mut report = saved();
    report.validity.verdict = verdict;
    report.findings = vec![unreached(reason)];
    report
}

fn seconds(report: &Report, count: u64) -> Vec<IntervalRow> {
    (0..count)
        .map(|n| IntervalRow {
            start_s: n,
            counts: SecondCounts {
                attempts: 900 + n % 7 * 100,
                throttled: n % 5,
                ..report.intervals[0].counts.clone()
            },
            ..report.intervals[0].clone()
        })
        .collect()
}

fn percentiles(report: &Report) -> String {
    let tables = words::percentiles(report).into_iter();
    tables.fold(Doc::default(), Doc::table).terminal(100)
}

#[test]
fn every_format_is_as_it_was() {
    let mut report = saved();
    report.intervals = seconds(&report, 12);
    for &format in Format::ALL {
        golden(
            &format!("export-{}", format.file_name()),
            &export(&report, format).replace('\r', "␍"),
        );
    }
    golden(
        "export-percentiles.txt",
        &percentiles(&crate::open(saved())),
    );
}

#[test]
fn a_measurement_that_is_not_valid_says_so_wherever_there_is_a_place() {
    let report = judged(Verdict::ClientLimited, "shard 0 had no CPU left");
    for (format, says) in [
        (Format::Csv, "client_limited\r\n"),
        (Format::CsvShards, "client_limited\r\n"),
        (Format::StepSummary, "> **Validity: client-limited**"),
        (
            Format::Junit,
            "<property name=\"validity\" value=\"client_limited\"/>",
        ),
        (
            Format::OpenMetrics,
            "crawlmark_validity{verdict=\"client_limited\"} 1\n",
        ),
    ] {
        let text = export(&report, format);
        assert!(text.contains(says), "{format}: {text}");
        assert!(!export(&saved(), format).contains(says), "{format}");
    }
}

#[test]
fn a_percentile_that_may_be_higher_is_never_shown_as_its_value() {
    let exact = saved();
    let mut report = saved();
    let service = report.latency.get_mut("service").unwrap();
    assert_eq!(
        (service.p90_us.is_some(), service.is_at_least("p90_us")),
        (true, false)
    );
    service.at_least.push("p90_us".to_owned());
    report.shards[0]
        .latency
        .get_mut("service")
        .unwrap()
        .at_least
        .push("p90_us".to_owned());
    assert!(export(&report, Format::StepSummary).contains("p90 \\>= "));
    let field = |report: &Report| {
        let table = export(report, Format::CsvShards);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split(',').collect())
            .collect();
        let column = rows[0]
            .iter()
            .position(|name| *name == "latency_service_p90_us")
            .unwrap();
        (rows[1][column].to_owned(), rows[2][column].to_owned())
    };
    assert_eq!(field(&report), (String::new(), field(&exact).1));
}

#[test]
fn a_run_without_a_good_answer_has_no_table_of_percentiles() {
    let mut report = saved();
    report.latency.remove("service");
    assert_eq!(percentiles(&report), "");
}

/// The tables of a summary: a row of cells each, as GitHub reads them.
fn tables(markdown: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut in_table = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Table(_)) => {
                in_table = true;
                tables.push(Vec::new());
            }
            Event::End(TagEnd::Table) => in_table = false,
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                tables.last_mut().unwrap().push(Vec::new());
            }
            Event::Start(Tag::TableCell) => tables
                .last_mut()
                .unwrap()
                .last_mut()
                .unwrap()
                .push(String::new()),
            Event::Text(text) | Event::Code(text) if in_table => {
                tables
                    .last_mut()
                    .unwrap()
                    .last_mut()
                    .unwrap()
                    .last_mut()
                    .unwrap()
                    .push_str(&text);
            }
            _ => {}
        }
    }
    tables
}

/// A gate of any words.
fn gate(expression: String, ok: Option<bool>, like: &GateReport) -> GateReport {
    GateReport {
        why: Some(expression.clone()),
        expression,
        ok,
        ..like.clone()
    }
}

/// GitHub's limit, bytes.
const MIB: usize = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_step_summary_is_a_summary_whatever_a_report_is_called(
        words in "\\PC{0,40}|[|`<>_*\\\\\\[\\]@#$&!~\n\r]{1,20}",
        times in prop_oneof![Just(1_usize), Just(40), Just(300)],
        many in prop_oneof![Just(0_u64), Just(3), Just(4_000)],
        ok in prop_oneof![Just(None), Just(Some(true)), Just(Some(false))],
    ) {
        let words = words.repeat(times);
        let mut report = judged(Verdict::Disturbed, &words);
        report.name.clone_from(&words);
        report.plan.run.target.clone_from(&words);
        report.stopped_by = Some(words.clone());
        report.crawlmark_version.clone_from(&words);
        report.environment.cpu_model = Some(words.clone());
        report.findings = vec![unreached(&words); usize::try_from(many).unwrap() + 1];
        report.tags = (0..many).map(|n| (format!("{n}{words}"), words.clone())).collect();
        report.totals.attempts_by_status = (0..many).map(|n| (u16::try_from(n).unwrap(), u64::MAX - n)).collect();
        report.totals.rejected_by_status = report.totals.attempts_by_status.clone();
        let failure = |(status, _): (&u16, _)| {
            let failure = FailureReport { first_s: 0.0, last_s: 1.0, status: Some(*status), excerpt: Some(words.clone()), details: Some(words.clone()) };
            (status.to_string(), failure)
        };
        report.failures = report.totals.rejected_by_status.iter().map(failure).collect();
        let like = report.gates[0].clone();
        report.gates = (0..many).map(|_| gate(words.clone(), ok, &like)).collect();
        report.intervals = seconds(&report, many);
        let text = export(&report, Format::StepSummary);
        prop_assert!(text.len() < MIB, "{} bytes", text.len());
        // Nothing of it is markup: the tables have the columns that they ought to have, and there
        // is no HTML but ours.
        let tables = tables(&text);
        prop_assert!(tables[0].iter().all(|row| row.len() == 3));
        prop_assert_eq!(tables.len(), if many > 0 { 5 } else { 3 });
        let html: Vec<String> = Parser::new_ext(&text, Options::ENABLE_TABLES)
            .filter_map(|event| match event {
                Event::Html(html) | Event::InlineHtml(html) => Some(html.to_string()).filter(|html| html != "<br>"),
                Event::Start(Tag::Link { .. } | Tag::Image { .. }) => Some("a link".to_owned()),
                _ => None,
            })
            .collect();
        let checks = {
            let validity = &report.validity;
            format!("<details><summary>{} checks run, {} not available</summary>\n", validity.checked.len(), validity.unavailable.len())
        };
        prop_assert_eq!(html, [&*checks, "</details>\n"]);
    }
}
