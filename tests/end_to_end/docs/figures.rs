//! Figures of README and book, from the committed results and the constants that they speak of.

use std::fs;
use std::path::Path;

use crawlmark_harness::stats::Series;
use crawlmark_results::run::gates::Quantity;
use crawlmark_results::studies::compare::LOOKS;
use serde_json::Value;

/// A page, and a phrase that it has to contain.
pub(super) type Claim = (&'static str, String);

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

fn json(root: &Path, path: &str) -> Value {
    serde_json::from_str(&read(root, path)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Number of answers of a study of known answers, and of those that are right.
fn right(answers: &Value) -> (usize, usize) {
    let answers = answers.as_array().unwrap();
    let right = answers.iter().filter(|answer| answer["right"] == true);
    (right.count(), answers.len())
}

/// All that is tied.
pub(super) fn claims(root: &Path) -> Vec<Claim> {
    let mut claims = side_by_side(root);
    let verdicts = json(root, "results/verdicts/answers.json");
    let (found, of) = right(&verdicts["slower"]);
    let (dearer, of_dearer) = right(&verdicts["dearer"]);
    let checked = "docs/src/compare/statistics-checked.md";
    claims.extend([
        (
            "README.md",
            format!("[{found} of {of} comparisons](results/verdicts/README.md)"),
        ),
        (
            checked,
            format!("{found} of {of} comparisons of 20 ms with 21 ms were regressions"),
        ),
        (
            checked,
            format!("{dearer} of {of_dearer} comparisons gave the right verdict: regression"),
        ),
    ]);

    let diagnoses = read(root, "results/diagnoses/README.md");
    let line = diagnoses
        .lines()
        .find(|line| line.contains("runs with a fault"))
        .unwrap();
    let count = |words: &str| {
        let before = line.split(words).next().unwrap();
        before
            .split_whitespace()
            .last()
            .unwrap()
            .trim_end_matches(',')
            .to_owned()
    };
    let (runs, named, healthy) = (count(" runs with"), count(" right"), count(" of healthy"));
    claims.extend([
        ("README.md", format!("[{named} of {runs} runs](results/diagnoses/README.md)")),
        (
            "docs/src/understand/find-the-limit.md",
            format!("Of {runs} runs against targets with a known fault, {named} named the fault. Of {healthy} runs against healthy"),
        ),
    ]);

    let example = json(root, "results/example/result.json");
    let times = &example["latency"]["response"];
    claims.push((
        "README.md",
        format!(
            "{:.0} good responses a second, p50 {:.1} ms, p99 {:.0} ms",
            number(&example["totals"]["ok_per_s"]),
            number(&times["p50_us"]) / 1e3,
            number(&times["p99_us"]) / 1e3
        ),
    ));

    let summary = read(root, "results/ab/summary.md");
    let verdict = summary
        .split("> **")
        .nth(1)
        .unwrap()
        .split("**")
        .next()
        .unwrap();
    claims.push(("README.md", verdict.to_owned()));

    let scale = json(root, "results/scale/scale.json");
    let last = scale["curves"][0]["points"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    claims.push((
        "docs/src/measure/scale.md",
        format!(
            "{} shards are {:.1}x as fast as 1",
            last["shards"],
            number(&last["speedup"]["median"])
        ),
    ));

    let looks = LOOKS.map(|look| look.pairs.to_string());
    let [first, second, third] = &looks;
    claims.extend([
        (
            "README.md",
            format!("at the latest after {third} undisturbed pairs"),
        ),
        (
            "docs/src/compare/statistics.md",
            format!("after {first}, {second} and {third} undisturbed pairs"),
        ),
    ]);
    for page in ["README.md", "docs/src/start/cookbook.md"] {
        claims.push((
            page,
            format!("{:.1} hours at 50 requests a second", 1e6 / 50.0 / 3600.0),
        ));
    }

    let schema = json(root, "results/schema/result-1.schema.json");
    let series = Series::ALL
        .into_iter()
        .filter(|series| *series != Series::Overhead);
    for name in series.map(Series::name) {
        let field = &schema["properties"]["latency"]["properties"][name];
        assert!(
            field.is_object(),
            "the schema of result.json lacks latency.{name}"
        );
        claims.push(("docs/src/reference/figures.md", format!("`{name}`")));
    }
    let metrics = Quantity::ALL
        .iter()
        .map(|metric| format!("`{}`", metric.name()));
    claims.extend(metrics.map(|metric| ("docs/src/reference/thresholds.md", metric)));
    for file in fs::read_dir(root.join("results/schema")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let (name, _) = file.split_once("-1.").unwrap();
        claims.push(("docs/src/reference/json.md", format!("(json/{name}.md)")));
        let schema = json(root, &format!("results/schema/{file}"));
        let key = ["schema", "format"]
            .into_iter()
            .find(|key| schema["properties"][*key].is_object());
        assert_eq!(key == Some("format"), name == "plan", "{name}");
    }
    claims
}

/// What a request costs, of `results/side-by-side`.
fn side_by_side(root: &Path) -> Vec<Claim> {
    let result = json(root, "results/side-by-side/side_by_side.json");
    let rows = result["rows"].as_array().unwrap();
    let of = |client: &str| rows.iter().find(|row| row["client"] == client).unwrap();
    let cpu = |client: &str| format!("{:.1} µs", number(&of(client)["cpu_us"]));
    let ours = of("crawlmark");
    let ratio = |key: &str| {
        let interval = &ours[format!("{key}_interval")];
        [&ours[format!("{key}_ratio")], &interval[0], &interval[1]]
            .map(|value| format!("{:.2}", number(value)))
    };
    let [cpu_ratio, cpu_low, cpu_high] = ratio("cpu_us");
    let [rate_ratio, rate_low, rate_high] = ratio("requests_per_s");
    let page = "docs/src/understand/speed.md";
    let numbers = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    ];
    vec![
        (
            page,
            format!("CPU per request of {} clients", numbers[rows.len()]),
        ),
        (
            page,
            format!(
                "costs crawlmark {} of CPU at {:.0},000/s, wrk {}, shb {} and oha {}",
                cpu("crawlmark"),
                number(&ours["requests_per_s"]) / 1e3,
                cpu("wrk"),
                cpu("shb"),
                cpu("oha")
            ),
        ),
        (
            page,
            format!("{cpu_ratio} times the CPU of wrk (95 % interval: {cpu_low} to {cpu_high})"),
        ),
        (
            page,
            format!("{rate_ratio} times as many requests as wrk ({rate_low} to {rate_high})"),
        ),
    ]
}
