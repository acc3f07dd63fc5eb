//! Results of other tools, read as series of values: the rounds of one side.
//!
//! | format | written by | values |
//! |---|---|---|
//! | hyperfine | `hyperfine --export-json FILE` | each run's wall time and peak memory; the mean CPU time |
//! | criterion | `cargo bench`: the directory `target/criterion` | each sample's time per iteration |
//! | go | `go test -bench . -count N > FILE` | each line's values, by unit |
//! | vegeta | `vegeta report -type=json` | one of each: throughput, success, latencies |
//! | k6 | `--summary-export FILE`, or `data` of `handleSummary` | one of each: rates, shares, times |
//!
//! A directory is criterion's, or holds files of one format, whose values are joined. Sources: the
//! documentation of each tool, and for Go the [benchmark data format](https://go.dev/design/14313-benchmark-format).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::run::result_dir::foreign::{one_line, read_text, short};
use crate::studies::compare::Worse::{self, Less, More};
use crate::studies::compare::{BYTES, MICROSECONDS, Metric, PER_SECOND, SHARE, command_metrics};

/// Unit of short times.
const NANOSECONDS: &str = "ns";

/// Folders within folders that are searched for results of criterion.
const DEEPEST: usize = 8;

/// Directory of criterion's latest samples, within that of a benchmark.
const NEW: &str = "new";

/// Results of another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Tool that wrote them.
    pub tool: &'static str,
    /// Their series, in the order of the files.
    pub series: Vec<Measured>,
}

/// A series of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was measured; empty where a file is of one thing.
    pub benchmark: String,
    /// Quantity.
    pub metric: Metric,
    /// Values, at least one, all finite.
    pub values: Vec<f64>,
}

/// Reason why a file is refused.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ImportError {
    /// The file, and its line where one is wrong.
    place: String,
    why: String,
}

impl ImportError {
    /// The refusal of a line, counted from 1; 0 of a whole file.
    pub(crate) fn new(path: &Path, line: usize, why: String) -> Self {
        let file = path.display();
        let place = match line {
            0 => file.to_string(),
            _ => format!("{file}:{line}"),
        };
        Self { place, why }
    }
}

/// The line of a file that is wrong, and what was expected.
type Wrong = (usize, String);

/// Format of one JSON object.
struct JsonFormat {
    tool: &'static str,
    /// A key that no other format has.
    key: &'static str,
    read: fn(&str) -> serde_json::Result<Vec<Measured>>,
}

const JSON_FORMATS: [JsonFormat; 5] = [
    JsonFormat {
        tool: "hyperfine",
        key: "results",
        read: hyperfine,
    },
    JsonFormat {
        tool: "criterion",
        key: "iters",
        read: criterion_sample,
    },
    JsonFormat {
        tool: "criterion",
        key: "median_abs_dev",
        read: criterion_estimates,
    },
    JsonFormat {
        tool: "vegeta",
        key: "latencies",
        read: vegeta,
    },
    JsonFormat {
        tool: "k6",
        key: "metrics",
        read: k6,
    },
];

/// Start of a line of `go test -bench`.
const GO_BENCHMARK: &str = "Benchmark";

/// Read what another tool wrote: a file, or a directory.
///
/// # Errors
/// Names the file and the line that is wrong, and says what was expected.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    let mut files = Vec::new();
    if path.is_dir() {
        criterion_files(path, DEEPEST, &mut files);
        if files.is_empty() {
            files = entries(path)?
                .into_iter()
                .filter(|entry| entry.is_file())
                .collect();
        }
    } else {
        files.push(path.to_owned());
    }
    let mut joined: Option<Imported> = None;
    for file in &files {
        let imported = import_file(file)?;
        match &mut joined {
            None => joined = Some(imported),
            Some(joined) if joined.tool == imported.tool => joined.add(imported.series),
            Some(joined) => {
                let why = format!(
                    "is of {}, and the files before it are of {}: put one format in a directory",
                    imported.tool, joined.tool
                );
                return Err(ImportError::new(file, 1, why));
            }
        }
    }
    joined.ok_or_else(|| ImportError::new(path, 0, "holds no file to read".to_owned()))
}

/// Parse the text of a file; `path` is for errors.
///
/// # Errors
/// As [`import`].
pub fn parse(path: &Path, text: &str) -> Result<Imported, ImportError> {
    let (tool, series) = parsed(text).map_err(|(line, why)| ImportError::new(path, line, why))?;
    let why = if let Some(bad) = series.iter().find(|one| !one.is_good()) {
        format!(
            "`{}` has no value, or one that is no finite number",
            short(&bad.metric.name)
        )
    } else if let Some(twice) = named_twice(&series) {
        format!(
            "has two results named `{}`: give each a name of its own",
            short(&twice.benchmark)
        )
    } else if series.is_empty() {
        format!("holds no measurement of {tool}")
    } else {
        return Ok(Imported { tool, series });
    };
    Err(ImportError::new(path, 1, why))
}

/// The first quantity that is there twice.
fn named_twice(series: &[Measured]) -> Option<&Measured> {
    let mut later = series.iter().enumerate();
    later.find_map(|(at, one)| series[..at].iter().find(|known| known.is_like(one)))
}

/// The line of an error, and its message.
fn in_line(error: &serde_json::Error) -> Wrong {
    (error.line(), one_line(error))
}

fn parsed(text: &str) -> Result<(&'static str, Vec<Measured>), Wrong> {
    if !text.trim_start().starts_with('{') {
        return Ok(("go", go(text)?));
    }
    let keys: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|error| in_line(&error))?;
    let format = JSON_FORMATS
        .iter()
        .find(|format| keys.contains_key(format.key))
        .ok_or_else(|| {
            let keys: Vec<String> = JSON_FORMATS
                .iter()
                .map(|format| format!("`{}` ({})", format.key, format.tool))
                .collect();
            (
                1,
                format!(
                    "is of no known format: expected one of the keys {}",
                    keys.join(", ")
                ),
            )
        })?;
    let read = (format.read)(text).map_err(|error| {
        let (line, why) = in_line(&error);
        (line, format!("{why}, for a result of {}", format.tool))
    })?;
    Ok((format.tool, read))
}

/// Read a file, and name its benchmark where the file does not.
fn import_file(path: &Path) -> Result<Imported, ImportError> {
    let text = read_text(path).map_err(|error| ImportError::new(path, 0, error.to_string()))?;
    let mut imported = parse(path, &text)?;
    if imported.tool == "criterion" {
        let beside = fs::read_to_string(path.with_file_name("benchmark.json")).ok();
        let named = beside.and_then(|text| serde_json::from_str::<CriterionBenchmark>(&text).ok());
        let name = named.map_or_else(|| path.display().to_string(), |named| named.full_id);
        imported
            .series
            .iter_mut()
            .for_each(|one| one.benchmark.clone_from(&name));
    }
    Ok(imported)
}

impl Imported {
    /// True if all is of one benchmark.
    pub(crate) fn is_of_one(&self) -> bool {
        self.series
            .windows(2)
            .all(|two| two[0].benchmark == two[1].benchmark)
    }

    /// Add the values of another file.
    fn add(&mut self, series: Vec<Measured>) {
        for one in series {
            match self.series.iter_mut().find(|known| known.is_like(&one)) {
                Some(known) => known.values.extend(one.values),
                None => self.series.push(one),
            }
        }
    }
}

impl Measured {
    /// True if there are values, and all are numbers.
    fn is_good(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| value.is_finite())
    }

    /// True if both are of one quantity of one benchmark.
    pub fn is_like(&self, other: &Self) -> bool {
        self.benchmark == other.benchmark && self.metric.name == other.metric.name
    }
}

/// The entries of a directory, by name.
fn entries(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let entries =
        fs::read_dir(path).map_err(|error| ImportError::new(path, 0, error.to_string()))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort_unstable();
    Ok(entries)
}

/// The latest samples of each benchmark in a directory of criterion, or its estimates.
fn criterion_files(directory: &Path, deepest: usize, found: &mut Vec<PathBuf>) {
    let latest = ["sample.json", "estimates.json"].map(|name| directory.join(NEW).join(name));
    found.extend(latest.into_iter().find(|file| file.is_file()));
    if deepest > 0 {
        for inner in entries(directory).unwrap_or_default() {
            if inner.is_dir() {
                criterion_files(&inner, deepest - 1, found);
            }
        }
    }
}

/// Values of a benchmark.
fn measured(benchmark: &str, metric: Metric, values: Vec<f64>) -> Measured {
    Measured {
        benchmark: benchmark.to_owned(),
        metric,
        values,
    }
}

#[derive(Deserialize)]
struct Hyperfine {
    results: Vec<HyperfineCommand>,
}

/// A command of hyperfine; times in seconds.
#[derive(Deserialize)]
struct HyperfineCommand {
    command: String,
    times: Vec<f64>,
    user: Option<f64>,
    system: Option<f64>,
    memory_usage_byte: Option<Vec<f64>>,
    /// Values of a scan, by name. Its runs may share one name (`-n`).
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

fn hyperfine(text: &str) -> serde_json::Result<Vec<Measured>> {
    let Hyperfine { results } = serde_json::from_str(text)?;
    let [wall_time, cpu_time, peak_memory] = command_metrics();
    let mut all = Vec::new();
    for of in &results {
        let mut benchmark = of.command.clone();
        let named_so = results.iter().filter(|one| one.command == of.command);
        if named_so.count() > 1 {
            for (name, value) in &of.parameters {
                benchmark.extend([" ", name, "=", value]);
            }
        }
        let times = of.times.iter().map(|seconds| seconds * 1e6).collect();
        all.push(measured(&benchmark, wall_time.clone(), times));
        if let Some((user, system)) = of.user.zip(of.system) {
            all.push(measured(
                &benchmark,
                cpu_time.clone(),
                vec![(user + system) * 1e6],
            ));
        }
        if let Some(bytes) = of
            .memory_usage_byte
            .as_ref()
            .filter(|bytes| !bytes.is_empty())
        {
            all.push(measured(&benchmark, peak_memory.clone(), bytes.clone()));
        }
    }
    Ok(all)
}

#[derive(Deserialize)]
struct CriterionBenchmark {
    full_id: String,
}

/// Samples of criterion: iterations, and the time that they took together, ns.
#[derive(Deserialize)]
struct CriterionSample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

fn criterion_sample(text: &str) -> serde_json::Result<Vec<Measured>> {
    let CriterionSample { iters, times } = serde_json::from_str(text)?;
    let each = times
        .iter()
        .zip(iters)
        .map(|(ns, iterations)| ns / iterations);
    Ok(vec![measured(
        "",
        Metric::named("time", NANOSECONDS, More),
        each.collect(),
    )])
}

#[derive(Deserialize)]
struct CriterionEstimates {
    median: CriterionEstimate,
}

#[derive(Deserialize)]
struct CriterionEstimate {
    point_estimate: f64,
}

fn criterion_estimates(text: &str) -> serde_json::Result<Vec<Measured>> {
    let CriterionEstimates { median } = serde_json::from_str(text)?;
    Ok(vec![measured(
        "",
        Metric::named("time", NANOSECONDS, More),
        vec![median.point_estimate],
    )])
}

/// A report of vegeta; times in nanoseconds.
#[derive(Deserialize)]
struct Vegeta {
    latencies: VegetaLatencies,
    throughput: f64,
    success: f64,
}

#[derive(Deserialize)]
struct VegetaLatencies {
    mean: f64,
    #[serde(rename = "50th")]
    p50: f64,
    #[serde(rename = "95th")]
    p95: f64,
    #[serde(rename = "99th")]
    p99: f64,
}

fn vegeta(text: &str) -> serde_json::Result<Vec<Measured>> {
    let Vegeta {
        latencies,
        throughput,
        success,
    } = serde_json::from_str(text)?;
    let rows = [
        ("throughput", PER_SECOND, Less, throughput),
        ("success", SHARE, Less, success),
        ("latency mean", MICROSECONDS, More, latencies.mean / 1e3),
        ("latency 50th", MICROSECONDS, More, latencies.p50 / 1e3),
        ("latency 95th", MICROSECONDS, More, latencies.p95 / 1e3),
        ("latency 99th", MICROSECONDS, More, latencies.p99 / 1e3),
    ];
    Ok(rows
        .into_iter()
        .map(|(name, unit, worse, value)| {
            measured("", Metric::named(name, unit, worse), vec![value])
        })
        .collect())
}

#[derive(Deserialize)]
struct K6 {
    metrics: BTreeMap<String, K6Metric>,
}

/// A metric of k6: its values are inside it with `--summary-export`, and in `values` with
/// `handleSummary`.
#[derive(Deserialize)]
struct K6Metric {
    values: Option<BTreeMap<String, Value>>,
    #[serde(flatten)]
    inside: BTreeMap<String, Value>,
}

/// The rates and shares of k6 with a direction that is known: name, keys, unit and direction.
const K6_RATES: [(&str, [&str; 2], &str, Worse); 4] = [
    ("http_reqs", ["rate", "rate"], PER_SECOND, Less),
    ("iterations", ["rate", "rate"], PER_SECOND, Less),
    ("checks", ["rate", "value"], SHARE, Less),
    ("http_req_failed", ["rate", "value"], SHARE, More),
];

/// Starts of the names of k6's own times, in milliseconds.
const K6_TIMES: [&str; 5] = [
    "http_req_",
    "iteration_duration",
    "group_duration",
    "grpc_req_",
    "ws_",
];

fn k6(text: &str) -> serde_json::Result<Vec<Measured>> {
    let K6 { metrics } = serde_json::from_str(text)?;
    let mut all = Vec::new();
    for (name, of) in metrics {
        let values = of.values.as_ref().unwrap_or(&of.inside);
        let number = |key: &str| values.get(key).and_then(Value::as_f64);
        if let Some((_, [key, other], unit, worse)) = K6_RATES.iter().find(|row| row.0 == name) {
            let value = number(key).or_else(|| number(other));
            all.extend(
                value.map(|value| measured("", Metric::named(&name, unit, *worse), vec![value])),
            );
        } else if !name.starts_with("http_req_") || name.starts_with("http_req_duration") {
            let is_time = of.inside.get("contains").is_some_and(|what| what == "time")
                || K6_TIMES.iter().any(|start| name.starts_with(start));
            let (unit, scale) = if is_time {
                (MICROSECONDS, 1e3)
            } else {
                ("", 1.0)
            };
            for key in values
                .keys()
                .filter(|key| ["avg", "med"].contains(&&***key) || key.starts_with("p("))
            {
                let value = number(key).map(|value| value * scale);
                all.extend(value.map(|value| {
                    measured(
                        "",
                        Metric::named(&format!("{name} {key}"), unit, More),
                        vec![value],
                    )
                }));
            }
        }
    }
    Ok(all)
}

/// The lines of `go test -bench`: a name, iterations, then pairs of value and unit.
fn go(text: &str) -> Result<Vec<Measured>, Wrong> {
    let mut all = Imported {
        tool: "go",
        series: Vec::new(),
    };
    let mut package = "";
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim();
        }
        let mut words = line.split_whitespace();
        let name = words
            .next()
            .and_then(|word| word.strip_prefix(GO_BENCHMARK));
        let (Some(name), Some(iterations)) = (name, words.next()) else {
            // A name alone is that of a benchmark that prints.
            continue;
        };
        let _: u64 = iterations
            .parse()
            .map_err(|_| no_benchmark(number, iterations))?;
        let benchmark = format!("{package} {name}");
        while let Some(word) = words.next() {
            let value: f64 = word.parse().map_err(|_| no_benchmark(number, word))?;
            let unit = words.next().ok_or_else(|| no_benchmark(number, word))?;
            all.add(vec![go_value(benchmark.trim_start(), unit, value)]);
        }
    }
    if all.series.is_empty() {
        return Err((
            1,
            "is of no known format: expected lines of `go test -bench`, or a JSON object"
                .to_owned(),
        ));
    }
    Ok(all.series)
}

fn no_benchmark(line: usize, found: &str) -> (usize, String) {
    let why = "expected a benchmark's name, iterations, and values with units";
    (line, format!("{why}, found `{}`", short(found)))
}

/// A value of Go with its unit. What is done per second is better when it is more, anything else
/// when it is less.
fn go_value(benchmark: &str, unit: &str, value: f64) -> Measured {
    let metric = match unit {
        "ns/op" => Metric::named("time/op", NANOSECONDS, More),
        "B/op" => Metric::named(unit, BYTES, More),
        _ if unit.ends_with("/s") => Metric::named(unit, "", Less),
        _ => Metric::named(unit, "", More),
    };
    measured(benchmark, metric, vec![value])
}
