//! Laws of the end of a run, over drawn reports.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crawlmark_harness::stats::Series;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

static EXAMPLE: LazyLock<Report> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../example/result.json")).unwrap()
});

/// The finding with other numbers and texts than 0 and none.
fn drawn(finding: &Finding, number: u32, text: &str) -> Finding {
    fn draw(value: &mut Value, number: u32, text: &str) {
        match value {
            Value::Number(_) => *value = json!(number),
            Value::String(was) if was.is_empty() => *value = json!(text),
            Value::Array(all) if all.is_empty() => all.extend([json!(text), json!(text)]),
            Value::Array(all) => all.iter_mut().for_each(|one| draw(one, number, text)),
            Value::Object(all) => all.values_mut().for_each(|one| draw(one, number, text)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(finding).unwrap();
    draw(&mut value, number, text);
    serde_json::from_value(value).unwrap_or_else(|_| finding.clone())
}

fn any_findings() -> impl Strategy<Value = Vec<Finding>> {
    let number = (0..31_u32).prop_flat_map(|bits| 0..1_u32 << bits);
    let text = "[a-z]{1,12}( [a-z.:]{1,30}){0,40}";
    let one = (prop::sample::select(Finding::samples()), number, text);
    let one = one.prop_map(|(finding, number, text)| drawn(&finding, number, &text));
    prop::collection::vec(one, 0..9)
}

/// A report with these counts, times and findings.
fn any_report() -> impl Strategy<Value = Report> {
    let count = || (0..45_u32).prop_flat_map(|bits| 0..1_u64 << bits);
    let time = || prop::option::of(0.001..1e12_f64);
    (
        prop::array::uniform5(count()),
        prop::array::uniform3(time()),
        0.0..1e7_f64,
        any_findings(),
        prop::sample::select(Verdict::ALL.to_vec()),
        any::<bool>(),
    )
        .prop_map(|(counts, times, per_s, findings, verdict, is_open)| {
            let mut report = EXAMPLE.clone();
            let [ok, all, throttled, aborted, censored] = counts;
            report.totals.requests.attempts = all;
            (report.totals.ok_per_s, report.totals.throttled) = (per_s, throttled);
            (report.ledger.items.ok, report.ledger.items.aborted) = (ok, aborted);
            report.got.ok = ok;
            if !is_open {
                report.schedule = None;
            }
            for latency in report.latency.values_mut() {
                [latency.p50_us, latency.p99_us, latency.max_us] = times;
                latency.mean_us = times[0];
                latency.censored = censored;
            }
            (report.findings, report.validity.verdict) = (findings, verdict);
            report
        })
}

fn words(lines: &[Line]) -> BTreeSet<String> {
    let text: Vec<String> = lines.iter().map(Line::text).collect();
    let text = text.join(" ");
    let words = text.split_whitespace();
    let bare = words.map(|word| word.trim_end_matches(['.', ',', ';', ')', '\u{2026}']));
    bare.filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_end_fits_its_terminal_and_keeps_what_matters(
        report in any_report(), columns in 40..200_usize, has_unicode: bool,
        page in prop::option::of("[a-z][a-z /]{0,120}[.]html"), has_histogram: bool,
    ) {
        let display = Display { columns, has_unicode };
        let lines = end(&report, page.as_deref(), display, has_histogram);
        let text: Vec<String> = lines.iter().map(Line::text).collect();
        prop_assert!(lines.len() <= MOST, "{text:#?}");
        let (body, last) = text.split_at(text.len() - usize::from(page.is_some()));
        prop_assert_eq!(last, page.map(|page| format!("  {page}")).into_iter().collect::<Vec<_>>());
        for line in body {
            let is_one_word = line.get(2..).is_some_and(|rest| rest.trim().split(' ').count() == 1);
            prop_assert!(line.chars().count() <= columns || is_one_word, "{line}");
            prop_assert!(has_unicode || line.is_ascii(), "{line}");
        }
        let figures = body.iter().take_while(|line| !line.is_empty()).cloned().collect::<String>();
        prop_assert!(figures.contains(" good") && figures.contains(" failed"), "{figures}");
        let high = times(&report).map(|times| if times.p99_us.is_none() && times.p90_us.is_some() { "p90 " } else { "p99 " });
        prop_assert!(high.is_none_or(|high| figures.contains(high)), "{figures}");
        prop_assert!(report.totals.throttled == 0 || figures.contains(" throttled"), "{figures}");
    }

    /// Beside service times of 10 ms.
    #[test]
    fn a_time_to_connect_that_is_a_tenth_of_what_users_wait_is_said(us in 0.0..1e6_f64, columns in 40..200_usize) {
        let mut report = EXAMPLE.clone();
        report.schedule = None;
        report.findings.clear();
        let mut of = |series: Series, us| {
            let times = report.latency.entry(series.name().to_owned()).or_insert_with(|| Latency::clone(&EXAMPLE.latency["connect"]));
            (times.count, times.mean_us) = (1_000, Some(us));
        };
        of(Series::ServiceOk, 10_000.0);
        of(Series::Connect, us);
        of(Series::Tunnel, 0.0);
        of(Series::Tls, 0.0);
        let lines = end(&report, None, Display { columns, has_unicode: true }, true);
        let text: Vec<String> = lines.iter().map(Line::text).collect();
        prop_assert_eq!(text.join(" ").contains("connect:"), us >= (10_000.0 + us) / 10.0, "{:#?}", text);
    }

    #[test]
    fn no_word_is_cut(report in any_report(), columns in 40..200_usize) {
        let of = |columns| end(&report, None, Display { columns, has_unicode: true }, false);
        let mut whole = words(&of(100_000));
        whole.extend(report.findings.iter().flat_map(|one| words(&[Line::of(one.headline(), Tone::Plain)])));
        // Without its remedy, a finding ends in what else there is, and no sentence.
        let found = words(&of(columns));
        prop_assert!(found.is_subset(&whole), "{:?}", found.difference(&whole).collect::<Vec<_>>());
    }
}

#[test]
fn what_decides_the_verdict_or_a_threshold_is_said() {
    let mut report = EXAMPLE.clone();
    (report.validity, report.findings) = Default::default();
    let unsent = Finding::NeverSent {
        share: 0.02,
        count: 20,
        limit: Limit::Pause,
        by_deadline: false,
    };
    let undecided = Finding::ThresholdUndecided {
        expression: "service_p99 < 1s".to_owned(),
        reason: "too few samples".to_owned(),
    };
    // Each of the others comes first by its severity, or by the part that it is of.
    let failed = Finding::RequestsFailed {
        share: 0.3,
        is_open_loop: false,
        causes: Vec::new(),
        events: Vec::new(),
    };
    for finding in [
        Finding::CpuFull { share: 0.99 },
        failed,
        undecided.clone(),
        unsent.clone(),
    ] {
        report.validity.add(&mut report.findings, finding);
    }
    assert_eq!(report.validity.verdict, Verdict::TargetLimited);
    let display = Display {
        columns: 100_000,
        has_unicode: true,
    };
    let lines = end(&report, None, display, false);
    let text: String = lines.iter().map(Line::text).collect();
    for decides in [unsent.headline(), undecided.text()] {
        assert!(text.contains(&decides), "{text}");
    }
}

#[test]
fn items_have_their_own_time_and_what_was_sent_had_a_connection() {
    let mut report = EXAMPLE.clone();
    report.plan.run.duration = None;
    report.got.ok = 900;
    report.got.of = 900;
    report.finished_before = Some(299);
    report.rate_ratio = Some(0.4);
    let [text, _] = population(&report);
    assert!(text.starts_with("601 items in"), "{text}");
    assert!(text.contains("299 ") && text.contains("40 %"), "{text}");
    report.plan.run.warmup = std::time::Duration::from_secs(2);
    report.totals.duration_s = 4.0;
    let [text, _] = population(&report);
    assert!(text.starts_with("601 items in 4.00 s"), "{text}");
}
