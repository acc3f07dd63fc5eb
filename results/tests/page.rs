//! The page of a run: how it is built, that no text of a report can get out of its place, and that
//! it needs nothing else.
//!
//! The golden file is `tests/golden/page.txt.snap`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test page` writes it again when a change
//! is meant. Pages are well-formed XML, which is how they are read here.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::LazyLock;

use crawlmark_harness::supervisor::ShardFault;
use crawlmark_results::judge::{Finding, Limit, Missing};
use crawlmark_results::run::report::{CommandLine, GateReport, Report, Verdict, Witness};
use crawlmark_results::run::words;
use crawlmark_results::show::{self, plot, visible};
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};

use crate::saved;

fn gate(expression: &str, ok: Option<bool>) -> GateReport {
    GateReport {
        expression: expression.to_owned(),
        kind: "threshold".to_owned(),
        metric: "rate".to_owned(),
        group: None,
        window_s: None,
        unit: "per_s".to_owned(),
        limit: 1_500.0,
        value: ok.map(|_| 2_000.0),
        at_least: false,
        corrected: None,
        margin: ok.map(|_| 0.333),
        ok,
        why: ok
            .is_none()
            .then(|| "not enough data: 5 samples, 100 needed".to_owned()),
        windows: None,
        until_s: None,
    }
}

/// A run with something to say in each part of its page.
fn full() -> Report {
    let mut report = saved();
    report.validity.verdict = Verdict::Disturbed;
    report.findings = vec![
        Finding::CpuSteal { share: 0.1 },
        Finding::HostUnreached {
            reason: "the CPU was slow; use --shards 2".to_owned(),
        },
    ];
    report.validity.checked.retain(|check| check != "CPU steal");
    report.validity.unavailable = [("CPU steal".to_owned(), Missing::NotGiven)].into();
    report.gates = vec![
        gate("rate > 1500", Some(true)),
        gate("rate < 9", Some(false)),
        gate("rate > 9", None),
    ];
    report.command = Some(CommandLine {
        arguments: ["crawlmark", "run", "http://h/{id}", "--rate", "5k"]
            .map(str::to_owned)
            .to_vec(),
        withheld: vec!["--body ...".to_owned()],
    });
    let ledger = serde_json::json!({ "requests": 5 });
    report.witness = Some(Witness {
        agrees: Some(true),
        cut_off: 0,
        differences: Vec::new(),
        ledger,
    });
    report
}

fn page(report: &Report) -> String {
    let plots = plot::all(report);
    show::page::run(report, &words::doc(report, &plots), &plots)
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter(Node::is_text)
        .filter_map(|node| node.text())
        .collect()
}

/// Whether it belongs to a picture, or only says where a line ends or does not.
fn is_beside_structure(node: &Node<'_, '_>) -> bool {
    node.has_tag_name("br") || node.ancestors().any(|node| node.tag_name().name() == "svg")
}

/// Every element of a page, with the names of its attributes.
fn structure(page: &str) -> Vec<String> {
    let document = parsed(page);
    let elements = document
        .descendants()
        .filter(Node::is_element)
        .filter(|node| !is_beside_structure(node));
    let attributes = |node: &Node<'_, '_>| {
        node.attributes()
            .map(|a| a.name().to_owned())
            .collect::<Vec<_>>()
    };
    elements
        .map(|node| format!("{} {:?}", node.tag_name().name(), attributes(&node)))
        .collect()
}

#[test]
fn a_page_is_built_as_it_was() {
    let page = page(&full());
    let document = parsed(&page);
    let mut out = String::new();
    for node in document.descendants().filter(Node::is_element) {
        let text = text_of(node);
        let _ = match node.tag_name().name() {
            tag @ ("title" | "h1" | "h2" | "h3" | "summary") if !text.is_empty() => {
                writeln!(out, "{tag}: {text}")
            }
            "figure" => writeln!(out, "figure {}", node.attribute("id").unwrap()),
            "caption" => writeln!(out, "table: {text}"),
            "thead" => {
                let headings = node.descendants().filter(|node| node.has_tag_name("th"));
                writeln!(
                    out,
                    "  {}",
                    headings.map(text_of).collect::<Vec<_>>().join(" | ")
                )
            }
            "dt" => writeln!(
                out,
                "  {text}: {}",
                node.next_sibling_element().map(text_of).unwrap()
            ),
            "pre" => writeln!(out, "pre: {}", text.lines().next().unwrap()),
            "p" | "li" if !node.descendants().any(|node| node.has_tag_name("span")) => {
                writeln!(out, "  {}", text.trim())
            }
            _ => Ok(()),
        };
    }
    crate::golden("page.txt", &out);
}

#[test]
fn a_page_needs_nothing_else_and_lets_nothing_in() {
    let page = page(&full());
    let document = parsed(&page);
    for node in document.descendants().filter(Node::is_element) {
        for attribute in node.attributes() {
            let name = attribute.name();
            let starts = ["#", "data:image/svg+xml,"];
            let is_inside =
                name == "href" && starts.iter().any(|it| attribute.value().starts_with(it));
            let loads = !is_inside
                && ["src", "href", "srcset", "action", "data", "poster"].contains(&name)
                || name.starts_with("on");
            assert!(!loads, "{} has {name}", node.tag_name().name());
        }
    }
    let style = text_of(
        document
            .descendants()
            .find(|node| node.has_tag_name("style"))
            .unwrap(),
    );
    assert!(!style.contains("url(") && !style.contains("@import"));
    let policy = document
        .descendants()
        .find(|node| node.attribute("http-equiv").is_some())
        .unwrap();
    assert!(
        policy
            .attribute("content")
            .unwrap()
            .starts_with("default-src 'none';")
    );
    let is_data = |node: &Node<'_, '_>| node.attribute("type") == Some("application/json");
    let scripts: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("script"))
        .collect();
    // uPlot, and ours.
    assert_eq!(scripts.iter().filter(|node| !is_data(node)).count(), 2);
    for data in scripts.iter().filter(|node| is_data(node)) {
        serde_json::from_str::<serde_json::Value>(data.text().unwrap()).unwrap();
    }
    let mut ids = BTreeSet::new();
    for id in document
        .descendants()
        .filter_map(|node| node.attribute("id"))
    {
        assert!(ids.insert(id), "{id} twice");
    }
}

#[test]
fn a_picture_is_told_by_text_of_the_page_which_it_does_not_repeat() {
    let report = full();
    let page = page(&report);
    let document = parsed(&page);
    let by_id = |id: &str| {
        let found: Vec<_> = document
            .descendants()
            .filter(|node| node.attribute("id") == Some(id))
            .collect();
        assert_eq!(found.len(), 1, "{id}");
        text_of(found[0])
    };
    let pictures = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("crawlmark-plot"));
    let (pictures, mut plots) = (pictures.collect::<Vec<_>>(), plot::all(&report));
    // For readers without scripts.
    plots.retain(|plot| ["throughput", "latency"].contains(&plot.name));
    assert_eq!(pictures.len(), plots.len());
    for (picture, plot) in pictures.into_iter().zip(&plots) {
        assert_eq!(picture.attribute("role"), Some("img"));
        let labels = ["aria-labelledby", "aria-describedby"];
        let labels = labels.map(|name| by_id(picture.attribute(name).unwrap()));
        assert_eq!(labels, [plot.title, &plot.caption]);
        let texts = picture
            .descendants()
            .filter(|node| node.tag_name().name() == "text");
        for text in texts.map(text_of) {
            assert!(text != plot.title && text != plot.caption);
        }
    }
}

#[test]
fn what_the_slowest_have_in_common_is_not_nothing_unusual() {
    let mut report = saved();
    report.findings = vec![Finding::LimitedBy {
        limit: Limit::Rate,
        share: 1.0,
    }];
    let text = |report: &Report| {
        let page = page(report);
        text_of(parsed(&page).root_element())
    };
    assert!(text(&report).contains("Nothing unusual"));
    report.findings.push(Finding::SlowestInCommon {
        what: "x-cache: MISS".to_owned(),
        slowest: 0.01,
        slow_share: 0.94,
        others_share: 0.03,
    });
    let said = text(&report);
    assert!(said.contains("Good to know") && !said.contains("Nothing unusual"));
}

#[test]
fn what_a_run_did_not_have_is_left_out() {
    let mut report = saved();
    (report.gates, report.witness, report.command) = (Vec::new(), None, None);
    let page = page(&report);
    assert!(
        !page.contains("id=\"thresholds\"")
            && !page.contains("data-copies=")
            && !page.contains("own counts")
    );
    assert!(page.contains("No command line started this run"));
    for words in [
        &["rm", "-rf", "~"][..],
        &["crawlmark"],
        &["crawlmark", "rm"],
        &["./crawlmark", "run"],
        &[],
    ] {
        let arguments = words.iter().map(|word| (*word).to_owned()).collect();
        report.command = Some(CommandLine {
            arguments,
            withheld: vec!["rm -rf ~".to_owned()],
        });
        let page = self::page(&report);
        assert!(
            page.contains("No command can be shown for this result") && !page.contains("rm -rf"),
            "{words:?}"
        );
    }
}

/// The report with this text wherever somebody else's can be.
fn spoilt(text: &str) -> Report {
    let mut report = full();
    let text = || text.to_owned();
    report.name = text();
    report.tags = BTreeMap::from([(text(), text())]);
    (
        report.started_at,
        report.finished_at,
        report.crawlmark_version,
    ) = (text(), text(), text());
    report.plan.run.target = text();
    report.plan.run.workload.as_typed = BTreeMap::from([(text(), text())]);
    report.plan.config_hash = text();
    (report.interrupted, report.stopped_by) = (true, Some(text()));
    report.findings = vec![Finding::HostUnreached { reason: text() }; 2];
    report.validity.checked = vec![text()];
    report.validity.unavailable = [(text(), Missing::NotGiven)].into();
    for gate in &mut report.gates {
        (gate.expression, gate.unit, gate.why) = (text(), text(), Some(text()));
    }
    report.shards[0].fault = Some(ShardFault::Junk(text()));
    report
        .latency
        .insert(text(), report.latency["service"].clone());
    report.environment.cpu_model = Some(text());
    report.environment.git_revision = Some(text());
    report.command = Some(CommandLine {
        arguments: vec!["crawlmark".to_owned(), "run".to_owned(), text()],
        withheld: vec![text()],
    });
    report.budget.as_mut().unwrap().rate = text();
    let ledger = serde_json::json!({ text(): text() });
    report.witness = Some(Witness {
        agrees: Some(false),
        cut_off: 0,
        differences: vec![text()],
        ledger,
    });
    report
}

#[track_caller]
fn assert_stays_text(text: &str) {
    static PLAIN: LazyLock<Vec<String>> = LazyLock::new(|| structure(&self::page(&spoilt("x"))));
    let page = page(&spoilt(text));
    assert_eq!(structure(&page), *PLAIN, "{text:?}");
    let document = parsed(&page);
    let name = document
        .descendants()
        .find(|node| node.attribute("class") == Some("run"))
        .map(text_of)
        .unwrap();
    let partial = format!("{text}: {text} (partial)");
    assert_eq!(name, visible(&partial).replace('\n', " "));
    let data = document
        .descendants()
        .find(|node| node.attribute("id") == Some("data"))
        .unwrap();
    let data: serde_json::Value = serde_json::from_str(data.text().unwrap()).unwrap();
    let events = data["events"].as_array().unwrap();
    let label = format!("stopped by {text}");
    assert!(
        events.iter().any(|event| event["label"] == *label),
        "{events:?}"
    );
    let tags = ["svg", "g", "rect", "path", "text"];
    for node in document
        .descendants()
        .filter(|node| node.is_element() && is_beside_structure(node))
    {
        let tag = node.tag_name().name();
        assert!(
            tags.contains(&tag) || ["br", "circle", "span"].contains(&tag),
            "{tag}"
        );
    }
}

#[test]
fn hostile_words_stay_words() {
    for text in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</style></pre></code></svg><b>",
        "]]><!-- --> &lt;b&gt; &#60;",
        "--flag<b> --x=\"y\"",
        "\u{202e}\u{0}\u{b}\u{7f}x",
    ] {
        assert_stays_text(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_opens_a_tag(text in "x[<>&\"'/=!a-c \n\t\u{0}-\u{1f}\u{e9}\u{202e};#-]{0,24}") {
        assert_stays_text(&text);
    }
}
