//! The metrics of a run while it goes on: those of its export, for whoever is let in, and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::foreign::Foreign;
use crate::live_page::{Page, status};
use crate::process::wait_for;
use crate::run::{crawl, start};
use crate::target::Target;

const OPEN_METRICS: &str =
    "accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";

/// Text below the head of an answer.
fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// Families and their types.
fn families(text: &str) -> BTreeSet<&str> {
    let lines = text.lines();
    lines
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect()
}

/// Values of the samples that only rise.
fn counters(text: &str) -> BTreeMap<&str, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| line.rsplit_once(' ').unwrap());
    samples
        .filter(|(name, _)| name.contains("_total") || name.contains("_bucket"))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

#[test]
fn metrics_rise_to_those_of_the_export() {
    let run = start(
        "--target-latency 5ms --target-limit 100/s --rate 200 -s 2 -d 3s --metrics 127.0.0.1:0 --export openmetrics",
    );
    let metrics = Page::told(&run, "Metrics: http://");
    assert_eq!(metrics.root, "/metrics");
    let scrape = |accept: &str| metrics.answer("GET /metrics", &metrics.host, accept);
    wait_for("a second", || {
        scrape("")
            .contains("crawlmark_attempts_total{shard=\"1\"}")
            .then_some(())
    });
    let old = scrape("");
    assert!(
        old.contains("content-type: text/plain; version=0.0.4"),
        "{old:.400}"
    );
    assert!(!old.contains("# EOF") && old.contains("# TYPE crawlmark_items_total counter"));
    is_clean(body(&old));
    // Until nobody answers any more.
    let mut seen = vec![body(&scrape(OPEN_METRICS)).to_owned()];
    wait_for("the end", || {
        let answer = scrape(OPEN_METRICS);
        if answer.is_empty() {
            return Some(());
        }
        assert_eq!(status(&answer), "200");
        assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"));
        seen.push(body(&answer).to_owned());
        None
    });
    let done = run.end();
    done.report(0);
    let export = done.file("openmetrics.txt");
    assert_eq!(seen.last().unwrap(), &export);
    let known = families(&export);
    for pair in seen.windows(2) {
        let [before, after] = [0, 1].map(|at| counters(&pair[at]));
        for (name, value) in before.into_iter().filter(|(name, _)| !name.contains("cpu")) {
            assert!(
                after[name] >= value,
                "{name}: {value}, then {}",
                after[name]
            );
        }
        let only_live: Vec<&str> = families(&pair[0]).difference(&known).copied().collect();
        assert!(pair[0].ends_with("# EOF\n"));
        assert!(
            only_live
                .iter()
                .all(|name| *name == "crawlmark_in_flight gauge"),
            "{only_live:?}"
        );
    }
}

/// Check that Prometheus's own tool has nothing to say of a text in its format.
fn is_clean(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut promtool) = promtool.spawn() else {
        println!("promtool is absent: what it says of the metrics is skipped");
        return;
    };
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
}

#[test]
fn nothing_but_the_metrics_is_at_their_address_and_no_secret_in_them() {
    let target = Target::start("");
    let run = start(&format!(
        "{}?api_key=hidden -H authorization:hidden --rate 10 -d 30s --metrics 127.0.0.1:0 --page",
        target.url()
    ));
    let metrics = Page::told(&run, "Metrics: http://");
    let page = Page::told(&run, "Live: http://");
    let long = format!("x-long: {}\r\n", "x".repeat(5_000));
    for (first, host, more, expected) in [
        // A scraper has any name for it.
        ("GET /metrics", "measuring.example:9464", "", "200"),
        (
            "GET /metrics",
            &*metrics.host,
            "sec-fetch-site: cross-site\r\n",
            "403",
        ),
        (
            "POST /metrics",
            &metrics.host,
            "content-length: 0\r\n",
            "405",
        ),
        ("GET /metrics", &metrics.host, &long, "431"),
        ("GET /", &metrics.host, "", "404"),
        ("GET /metrics/", &metrics.host, "", "404"),
        (&format!("GET {}", page.root), &metrics.host, "", "404"),
    ] {
        let answer = metrics.answer(first, host, more);
        assert_eq!(status(&answer), expected, "{first} {host} {more:.60}");
        assert!(!answer.contains("hidden"), "{answer}");
    }
    assert_eq!(status(&page.answer("GET /metrics", &page.host, "")), "404");
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.end().code, Some(143));
}

/// The address of a port that is free now.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// What Prometheus answers to a query, or to one over the last seconds.
fn asked(prometheus: &Page, expression: &str, over: &str) -> Value {
    let query: String = expression
        .bytes()
        .fold(String::new(), |query, byte| query + &format!("%{byte:02x}"));
    let kind = if over.is_empty() {
        "query"
    } else {
        "query_range"
    };
    let answer = prometheus.answer_in(
        &format!("GET /api/v1/{kind}?query={query}{over}"),
        "HTTP/1.0",
        &prometheus.host,
        "",
    );
    let mut answer: Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].take()
}

#[test]
#[ignore = "needs Prometheus: .ci/run"]
fn prometheus_has_the_counts_of_a_run_and_data_for_each_query_of_the_dashboard() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/grafana");
    let read = |name: &str| fs::read_to_string(results.join(name)).unwrap();
    let address = free();
    let Some(prometheus) = Foreign::start("prometheus", |port, place| {
        let config = place.path().join("prometheus.yml");
        // Prometheus is the target, too, and tells its own metrics.
        let text = read("prometheus.yml").replace("127.0.0.1:9464", &address);
        fs::write(&config, text.replace("9090", &port.to_string())).unwrap();
        let of = |flag: &str, value: &Path| format!("--{flag}={}", value.display());
        vec![
            of("config.file", &config),
            of("storage.tsdb.path", &place.path().join("data")),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]
    }) else {
        return;
    };
    let site = Page {
        host: prometheus.address(),
        root: String::new(),
    };
    // It begins to scrape some seconds after its start.
    wait_for("the first scrape", || {
        let ready = site.answer_in("GET /-/ready", "HTTP/1.0", &site.host, "");
        let up = (status(&ready) == "200").then(|| asked(&site, "up{job=\"target\"} == 1", ""))?;
        up.get(0).map(drop)
    });
    let run = crawl(&format!(
        "http://{}/-/healthy?id={{id}} --rate 100 --arrivals constant -d 8s --expect whole --metrics {address}",
        site.host
    ));
    let counted = asked(
        &site,
        "max_over_time(crawlmark_items_total{state=\"ok\"}[1m])",
        "",
    );
    let counted: u64 = counted[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert_eq!(counted, run.count("/ledger/ok"));
    let verdict = asked(&site, "last_over_time(crawlmark_validity[1m]) == 1", "");
    assert_eq!(
        verdict[0]["metric"]["verdict"],
        run.text("/validity/verdict")
    );
    let dashboard: Value = serde_json::from_str(&read("crawlmark.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let notes = dashboard["annotations"]["list"].as_array().unwrap();
    let now = asked(&site, "time()", "")[1].as_str().unwrap().to_owned();
    let now: f64 = now.parse().unwrap();
    let over = format!("&start={}&end={now}&step=1", now - 30.0);
    for query in targets.chain(notes) {
        let expression = query["expr"].as_str().unwrap();
        let expression = expression.replace("$__rate_interval", "4s");
        let expression = expression
            .replace("$run", "crawlmark")
            .replace("$target", "target");
        assert!(!expression.contains('$'), "{expression}");
        let data = asked(&site, &expression, &over);
        let values = data[0]["values"].as_array().into_iter().flatten();
        let known = values.filter(|value| value[1].as_str().is_some_and(|text| text != "NaN"));
        assert!(known.count() >= 2, "{expression}: {data}");
    }
}
