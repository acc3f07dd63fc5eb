//! The paced clients: how each is told to send so many requests a second, and where it prints how long they took.
//!
//! Each is told to use one thread, kept-alive connections and, where it can, to count latency from when a request was due.
//! Readers are pure, and say nothing rather than something when a figure is not where it should be.

use serde::{Deserialize, Serialize};

/// Load, the same for all clients.
#[derive(Debug)]
pub(super) struct Load {
    /// With `{id}` in it.
    pub(super) template: String,
    /// One item, for the peers that ask for the same thing again and again.
    pub(super) url: String,
    pub(super) connections: u32,
    pub(super) seconds: u32,
    /// Requests a second, over all connections.
    pub(super) rate: u32,
    /// Directory in which crawlmark saves its result.
    pub(super) out: String,
}

/// Figures that a client reports.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) requests: u64,
    pub(super) times: Times,
}

/// Times that a client reports, µs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "they are keys of the JSON, where the unit has to be")]
pub(super) struct Times {
    /// Median latency, as the client reports it.
    pub(super) median_us: Option<f64>,
    /// The target's part of the median, of crawlmark alone.
    pub(super) service_median_us: Option<f64>,
    /// Send delay of the client at the median, of crawlmark alone.
    pub(super) lag_p50_us: Option<f64>,
    pub(super) lag_p99_us: Option<f64>,
}

/// Client that can send at a rate.
#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    /// As found in PATH; none for crawlmark, which cargo built.
    pub(super) program: Option<&'static str>,
    pub(super) arguments: fn(&Load) -> Vec<String>,
    pub(super) read: fn(&str) -> Option<Timed>,
}

/// Contestant that ratios are relative to.
pub(super) const OWN: &str = "crawlmark";

/// Contestants that can be compared.
pub(super) const ALL: [Contestant; 6] = [
    Contestant { name: OWN, program: None, arguments: |load| own("sleep", load), read: read_own },
    Contestant { name: "crawlmark coarse", program: None, arguments: |load| own("coarse", load), read: read_own },
    Contestant { name: "crawlmark spin", program: None, arguments: |load| own("spin", load), read: read_own },
    Contestant { name: "oha", program: Some("oha"), arguments: oha, read: read_oha },
    Contestant { name: "wrk2", program: Some("wrk2"), arguments: wrk2, read: read_wrk2 },
    Contestant { name: "hey", program: Some("hey"), arguments: hey, read: read_hey },
];

fn words(text: &str, load: &Load) -> Vec<String> {
    let fill = |word: &str| match word {
        "URL" => load.url.clone(),
        "TEMPLATE" => load.template.clone(),
        "OUT" => load.out.clone(),
        "C" => load.connections.to_string(),
        "Ss" => format!("{}s", load.seconds),
        "R" => load.rate.to_string(),
        // Of one connection.
        "R/C" => (f64::from(load.rate) / f64::from(load.connections)).to_string(),
        other => other.to_owned(),
    };
    text.split(' ').map(fill).collect()
}

fn own(pacing: &str, load: &Load) -> Vec<String> {
    let mut arguments =
        words("run TEMPLATE -s 1 --quiet --json --out OUT --arrivals constant -c C -d Ss --rate R --pacing", load);
    arguments.push(pacing.to_owned());
    arguments
}

fn oha(load: &Load) -> Vec<String> {
    // One thread comes from the one CPU that it may use.
    words("--no-tui --output-format json --latency-correction -c C -z Ss -q R URL", load)
}

fn wrk2(load: &Load) -> Vec<String> {
    words("-t 1 -c C -d Ss -R R -L URL", load)
}

fn hey(load: &Load) -> Vec<String> {
    words("-cpus 1 -c C -z Ss -q R/C URL", load)
}

/// Fields of crawlmark's report that are needed here; the rest is skipped.
#[derive(Deserialize)]
struct ReportJson {
    totals: TotalsJson,
    latency: LatencyJson,
}

#[derive(Deserialize)]
struct TotalsJson {
    attempts: u64,
}

#[derive(Deserialize)]
struct LatencyJson {
    response: Series,
    service: Series,
    sched_lag: Series,
}

#[derive(Deserialize)]
struct Series {
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

fn read_own(text: &str) -> Option<Timed> {
    let ReportJson { totals, latency: LatencyJson { response, service, sched_lag } } =
        serde_json::from_str(text).ok()?;
    let times = Times {
        median_us: response.p50_us,
        service_median_us: service.p50_us,
        lag_p50_us: sched_lag.p50_us,
        lag_p99_us: sched_lag.p99_us,
    };
    Some(Timed { requests: totals.attempts, times })
}

/// `{"latencyPercentiles":{"p50":0.00006,..},"statusCodeDistribution":{"200":29982},..}`, in seconds.
fn read_oha(text: &str) -> Option<Timed> {
    let root: serde_json::Value = serde_json::from_str(text).ok()?;
    let counts = root.get("statusCodeDistribution")?.as_object()?;
    let requests = counts.values().filter_map(serde_json::Value::as_u64).sum();
    let median = root.pointer("/latencyPercentiles/p50")?.as_f64()?;
    Some(timed(requests, median * 1e6))
}

/// `  28451 requests in 3.00s, 3.1MB read`, ` 50.000%  757.00us`.
fn read_wrk2(text: &str) -> Option<Timed> {
    let requests = text.lines().find_map(|line| line.split_once(" requests in ").map(|(count, _)| count))?;
    let median = text.lines().find_map(|line| line.trim().strip_prefix("50.000%"))?.trim();
    // The longer units first: a millisecond ends with an s, too.
    let (number, us) = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)]
        .into_iter()
        .find_map(|(unit, us)| Some((median.strip_suffix(unit)?, us)))?;
    Some(timed(requests.trim().parse().ok()?, number.parse::<f64>().ok()? * us))
}

/// `  50% in 0.0011 secs`, `  [200] 1024 responses`.
fn read_hey(text: &str) -> Option<Timed> {
    let median = text.lines().find_map(|line| line.trim().strip_prefix("50% in "))?.strip_suffix(" secs")?;
    let requests = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('[')?.split_once(']')?.1.trim().strip_suffix(" responses"))
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum();
    Some(timed(requests, median.parse::<f64>().ok()? * 1e6))
}

fn timed(requests: u64, median_us: f64) -> Timed {
    Timed { requests, times: Times { median_us: Some(median_us), ..Times::default() } }
}
