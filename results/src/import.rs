//! Results of other tools, read as series of values: the rounds of one side.
//!
//! | format | written by | values |
//! |---|---|---|
//! | hyperfine | `hyperfine --export-json FILE`, of versions 1 and 2 | each run's wall time and peak memory, and CPU time; of version 1 its mean |
//! | criterion | `cargo bench`: the directory `target/criterion` | each sample's time per iteration |
//! | go | `go test -bench . -count N > FILE` | each line's values, by unit |
//! | vegeta | `vegeta report -type=json` | one of each: throughput, success, latencies |
//! | k6 | `--summary-export FILE`, or `data` of `handleSummary`, both also with `--new-machine-readable-summary` | one of each: rates, shares, times |
//!
//! A directory is criterion's, or holds files of one format, whose values are joined. Sources: the
//! documentation of each tool, and for Go the [benchmark data format](https://go.dev/design/14313-benchmark-format).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::metrics::Worse::{self, Less, More};
use crate::metrics::{BYTES, MICROSECONDS, Metric, PER_SECOND, SHARE, command_metrics};
use crate::run::result_dir::foreign::{GREATEST_NUMBER, one_line, read_text, short};

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

/// A format of one JSON object: its tool, its key, the test of the key's value that tells it from
/// other formats with such a key, and its reader.
type JsonFormat = (
    &'static str,
    &'static str,
    fn(&Value) -> bool,
    fn(&Value) -> Result<Vec<Measured>, String>,
);

const CRITERION: &str = "criterion";

const JSON_FORMATS: [JsonFormat; 6] = [
    ("hyperfine", "results", Value::is_array, hyperfine),
    ("k6", "results", Value::is_object, k6_summary),
    (CRITERION, "iters", Value::is_array, criterion_sample),
    (
        CRITERION,
        "median_abs_dev",
        Value::is_object,
        criterion_estimates,
    ),
    ("vegeta", "latencies", Value::is_object, vegeta),
    ("k6", "metrics", Value::is_object, k6),
];

/// Explain a file of any other format, such as one of JMH, wrk, pytest-benchmark or `cargo bench`
/// without criterion.
const UNKNOWN: &str = "is of no format that is read: write it with `hyperfine --export-json`, criterion (name the directory target/criterion), \
     `go test -bench` (its lines are also a form for numbers of any tool: `BenchmarkNAME 1 VALUE UNIT`), `vegeta report -type=json` or \
     `k6 run --summary-export`";

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
    series
        .iter()
        .enumerate()
        .find_map(|(at, one)| series[..at].iter().find(|known| known.is_like(one)))
}

fn parsed(text: &str) -> Result<(&'static str, Vec<Measured>), Wrong> {
    if !text.trim_start().starts_with('{') {
        return Ok(("go", go(text)?));
    }
    let file: Value =
        serde_json::from_str(text).map_err(|error| (error.line(), one_line(&error)))?;
    let format = JSON_FORMATS
        .iter()
        .find(|(_, key, has, _)| file.get(key).is_some_and(has));
    let Some((tool, _, _, read)) = format else {
        return Err((1, UNKNOWN.to_owned()));
    };
    let series = read(&file).map_err(|why| (1, format!("{why}, for a result of {tool}")))?;
    Ok((tool, series))
}

/// Read a file, and name its benchmark where the file does not.
fn import_file(path: &Path) -> Result<Imported, ImportError> {
    let text = read_text(path).map_err(|error| ImportError::new(path, 0, error.to_string()))?;
    let mut imported = parse(path, &text)?;
    if imported.tool == CRITERION {
        let text = fs::read_to_string(path.with_file_name("benchmark.json")).unwrap_or_default();
        let benchmark: Value = serde_json::from_str(&text).unwrap_or_default();
        let name = benchmark["full_id"]
            .as_str()
            .map_or_else(|| path.display().to_string(), str::to_owned);
        for one in &mut imported.series {
            one.benchmark.clone_from(&name);
        }
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
        !self.values.is_empty()
            && self
                .values
                .iter()
                .all(|value| value.abs() <= GREATEST_NUMBER)
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

/// The number at a place of a file.
fn number(of: &Value, pointer: &str) -> Result<f64, String> {
    of.pointer(pointer)
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("expected a number at `{pointer}`"))
}

/// The list of numbers at a place of a file.
fn numbers(of: &Value, pointer: &str) -> Result<Vec<f64>, String> {
    let list = of.pointer(pointer).and_then(Value::as_array);
    list.and_then(|list| list.iter().map(Value::as_f64).collect())
        .ok_or_else(|| format!("expected a list of numbers at `{pointer}`"))
}

fn in_us(seconds: Vec<f64>) -> Vec<f64> {
    seconds.into_iter().map(|seconds| seconds * 1e6).collect()
}

/// The measurements of a quantity of hyperfine 2, in its unit: `{"value": 1.5, "unit": "second"}`.
/// None if one has no value, or another unit.
fn measurements(of: &Value, key: &str, unit: &str) -> Option<Vec<f64>> {
    let all = of["measurements"].as_array()?;
    all.iter()
        .map(|one| &one[key])
        .map(|of| of["value"].as_f64().filter(|_| of["unit"] == unit))
        .collect()
}

/// Commands of hyperfine; times in seconds. Runs of a scan may share one name (`-n`). Version 2 has
/// a list of measurements, version 1 one of times.
fn hyperfine(file: &Value) -> Result<Vec<Measured>, String> {
    let [wall_time, cpu_time, peak_memory] = command_metrics();
    let results = file["results"]
        .as_array()
        .ok_or("expected a list at `/results`")?;
    let mut all = Vec::new();
    for of in results {
        let mut benchmark = of["command"].as_str().unwrap_or_default().to_owned();
        let named_so = results.iter().filter(|one| one["command"] == of["command"]);
        if named_so.count() > 1 {
            for (name, value) in of["parameters"].as_object().into_iter().flatten() {
                benchmark.extend([" ", name, "=", value.as_str().unwrap_or_default()]);
            }
        }
        if of["measurements"].is_array() {
            let wall = measurements(of, "time_wall_clock", "second").ok_or(
                "expected `time_wall_clock` with a value in the unit `second` in each of `/results/measurements`",
            )?;
            all.push(measured(&benchmark, wall_time.clone(), in_us(wall)));
            let [user, system] =
                ["time_user", "time_system"].map(|key| measurements(of, key, "second"));
            if let Some((user, system)) = user.zip(system) {
                let cpu = user.iter().zip(system).map(|(user, system)| user + system);
                all.push(measured(&benchmark, cpu_time.clone(), in_us(cpu.collect())));
            }
            // Named `peak_memory_usage` before version 2 was released.
            let memory = ["memory_peak_resident", "peak_memory_usage"];
            let memory = memory.iter().find_map(|key| measurements(of, key, "byte"));
            all.extend(memory.map(|bytes| measured(&benchmark, peak_memory.clone(), bytes)));
            continue;
        }
        let times = in_us(numbers(of, "/times")?);
        all.push(measured(&benchmark, wall_time.clone(), times));
        if let (Ok(user), Ok(system)) = (number(of, "/user"), number(of, "/system")) {
            let cpu = vec![(user + system) * 1e6];
            all.push(measured(&benchmark, cpu_time.clone(), cpu));
        }
        if let Some(bytes @ [_, ..]) = numbers(of, "/memory_usage_byte").ok().as_deref() {
            all.push(measured(&benchmark, peak_memory.clone(), bytes.to_vec()));
        }
    }
    Ok(all)
}

fn criterion(ns: Vec<f64>) -> Vec<Measured> {
    vec![measured("", Metric::named("time", NANOSECONDS, More), ns)]
}

/// Samples of criterion: iterations, and the time that they took together, ns.
fn criterion_sample(file: &Value) -> Result<Vec<Measured>, String> {
    let (iterations, times) = (numbers(file, "/iters")?, numbers(file, "/times")?);
    let each = times.iter().zip(iterations).map(|(ns, n)| ns / n);
    Ok(criterion(each.collect()))
}

fn criterion_estimates(file: &Value) -> Result<Vec<Measured>, String> {
    Ok(criterion(vec![number(file, "/median/point_estimate")?]))
}

/// The figures of vegeta: place, name, unit, direction, and what they are divided by. Its times are
/// in nanoseconds.
const VEGETA: [(&str, &str, &str, Worse, f64); 6] = [
    ("/throughput", "throughput", PER_SECOND, Less, 1.0),
    ("/success", "success", SHARE, Less, 1.0),
    ("/latencies/mean", "latency mean", MICROSECONDS, More, 1e3),
    ("/latencies/50th", "latency 50th", MICROSECONDS, More, 1e3),
    ("/latencies/95th", "latency 95th", MICROSECONDS, More, 1e3),
    ("/latencies/99th", "latency 99th", MICROSECONDS, More, 1e3),
];

fn vegeta(file: &Value) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for (pointer, name, unit, worse, scale) in VEGETA {
        let value = number(file, pointer)? / scale;
        all.push(measured("", Metric::named(name, unit, worse), vec![value]));
    }
    Ok(all)
}

/// The rates and shares of k6 with a direction that is known: name, keys, unit and direction.
const K6_RATES: [(&str, [&str; 2], &str, Worse); 5] = [
    ("http_reqs", ["rate", "rate"], PER_SECOND, Less),
    ("iterations", ["rate", "rate"], PER_SECOND, Less),
    ("checks", ["rate", "value"], SHARE, Less),
    // Of the new summary.
    ("checks_succeeded", ["rate", "value"], SHARE, Less),
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

/// Metrics of k6: their values are inside of each with `--summary-export`, and in `values` with
/// `handleSummary`.
fn k6(file: &Value) -> Result<Vec<Measured>, String> {
    let metrics = file["metrics"].as_object();
    let metrics = metrics.ok_or("expected an object at `/metrics`")?;
    Ok(k6_metrics(
        metrics.iter().map(|(name, of)| (&**name, of.clone())),
    ))
}

/// Metrics of k6's new summary: a list, in which a counter has no rate. It is that over the time of
/// the test.
fn k6_summary(file: &Value) -> Result<Vec<Measured>, String> {
    let [metrics, checks] = ["/results/metrics", "/results/checks/metrics"]
        .map(|pointer| file.pointer(pointer).and_then(Value::as_array));
    let metrics = metrics.ok_or("expected a list at `/results/metrics`")?;
    let duration_s = number(file, "/config/duration")?;
    let checks = checks.into_iter().flatten();
    let named = metrics.iter().chain(checks).filter_map(|of| {
        let (name, mut of) = (of["name"].as_str()?, of.clone());
        if let Some(count) = of["values"]["count"]
            .as_f64()
            .filter(|_| of["type"] == "counter")
            && of["values"]["rate"].is_null()
        {
            of["values"]["rate"] = (count / duration_s).into();
        }
        Some((name, of))
    });
    Ok(k6_metrics(named))
}

fn k6_metrics<'a>(metrics: impl Iterator<Item = (&'a str, Value)>) -> Vec<Measured> {
    let mut all = Vec::new();
    for (name, of) in metrics {
        let values = of.get("values").unwrap_or(&of);
        let mut add = |key: &str, name: &str, unit, worse, scale: f64| {
            let value = values.get(key).and_then(Value::as_f64);
            let metric = Metric::named(name, unit, worse);
            all.extend(value.map(|value| measured("", metric, vec![value * scale])));
            value.is_some()
        };
        if let Some((_, [key, other], unit, worse)) = K6_RATES.iter().find(|row| row.0 == name) {
            let _ = add(key, name, *unit, *worse, 1.0) || add(other, name, *unit, *worse, 1.0);
        } else if !name.starts_with("http_req_") || name.starts_with("http_req_duration") {
            let is_time =
                of["contains"] == "time" || K6_TIMES.iter().any(|it| name.starts_with(it));
            let (unit, scale) = if is_time {
                (MICROSECONDS, 1e3)
            } else {
                ("", 1.0)
            };
            for key in values.as_object().into_iter().flatten().map(|(key, _)| key) {
                if ["avg", "med"].contains(&&**key) || key.starts_with("p(") {
                    add(key, &format!("{name} {key}"), unit, More, scale);
                }
            }
        }
    }
    all
}

/// The lines of `go test -bench`: a name, iterations, then pairs of value and unit.
fn go(text: &str) -> Result<Vec<Measured>, Wrong> {
    let mut all = Imported {
        tool: "go",
        series: Vec::new(),
    };
    let mut package = "";
    let directions = go_directions(text);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim();
        }
        let mut words = line.split_whitespace();
        let name = words
            .next()
            .and_then(|word| word.strip_prefix(GO_BENCHMARK))
            // The word alone heads the tables of JMH.
            .filter(|name| !name.is_empty());
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
            let known = directions.get(unit).copied();
            all.add(vec![go_value(benchmark.trim_start(), unit, known, value)]);
        }
    }
    if all.series.is_empty() {
        return Err((1, UNKNOWN.to_owned()));
    }
    Ok(all.series)
}

fn no_benchmark(line: usize, found: &str) -> (usize, String) {
    let why = "expected a benchmark's name, iterations, and values with units";
    (line, format!("{why}, found `{}`", short(found)))
}

/// Directions that the file itself gives to units: `Unit ops/sec better=higher`.
fn go_directions(text: &str) -> BTreeMap<&str, Worse> {
    text.lines().filter_map(go_direction).collect()
}

fn go_direction(line: &str) -> Option<(&str, Worse)> {
    let mut words = line.strip_prefix("Unit ")?.split_whitespace();
    let unit = words.next()?;
    let worse = words.find_map(|word| match word.strip_prefix("better=")? {
        "higher" => Some(Less),
        "lower" => Some(More),
        _ => None,
    });
    Some((unit, worse?))
}

/// A value of Go with its unit. Where the file gives no direction, what is done per second is better
/// when it is more, and anything else when it is less.
fn go_value(benchmark: &str, unit: &str, known: Option<Worse>, value: f64) -> Measured {
    let is_rate = unit.ends_with("/s") || unit.ends_with("/sec");
    let worse = known.unwrap_or(if is_rate { Less } else { More });
    let metric = match unit {
        "ns/op" => Metric::named("time/op", NANOSECONDS, worse),
        "B/op" => Metric::named(unit, BYTES, worse),
        _ => Metric::named(unit, "", worse),
    };
    measured(benchmark, metric, vec![value])
}
