//! The comparison as text. Pure: makes a `String` and prints nothing.

use std::fmt::Write;

use crate::clients::Over;
use crate::crawlmark;
use crate::rounds::{Bench, Footprint};
use crate::summary::{Summary, SummaryRow};

/// At least this share of the yardstick's requests per second.
const GOAL_SPEED: f64 = 0.65;
/// At most this multiple of the yardstick's CPU per request.
const GOAL_CPU: f64 = 1.5;
/// At most this multiple of oha's CPU per request over HTTP/2.
const GOAL_HTTP2_CPU: f64 = 1.0;
/// A shard with 64 connections stays under this, MiB.
const GOAL_SHARD_MIB: f64 = 24.0;
/// The supervisor stays under this share of a CPU, per cent.
const GOAL_SUPERVISOR_PERCENT: f64 = 1.0;

/// A client whose rounds differ by more than this factor shared the machine with something else: on a quiet one they
/// differ by a few per cent.
const STEADY: f64 = 1.5;

/// Everything, for people.
pub(crate) fn render(bench: &Bench<'_>, summary: &Summary, footprint: &Footprint) -> String {
    let mut text = heading(bench);
    rows(&mut text, ("client", bench.arguments.over.yardstick()), summary);
    doubts(&mut text, summary);
    notes(&mut text, bench);
    if bench.arguments.over == Over::TlsHandshakes {
        handshakes(&mut text, summary);
    }
    own(&mut text, bench, footprint);
    text.push_str(&verdict(summary, bench.arguments.over));
    text.push('\n');
    text
}

fn heading(bench: &Bench<'_>) -> String {
    let arguments = bench.arguments;
    let target = bench.target.description(bench.places);
    let clients = match bench.places.client_cpu {
        Some(cpu) => format!("each client alone on CPU {cpu}"),
        None => "clients and target share the CPUs (no taskset, or a single CPU): the ratios are rough".to_owned(),
    };
    format!(
        "\ntarget {target}\n{clients}\ncrawlmark requests another item each time, its peers the same one\nrounds: \
         {} of {} s, {} connections, order shuffled with seed {}\n\n",
        arguments.rounds, arguments.seconds, arguments.connections, arguments.seed
    )
}

/// One line for each of what `kind` names, with the ratios to `yardstick`.
pub(crate) fn rows(text: &mut String, (kind, yardstick): (&str, &str), summary: &Summary) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{:<11} {:>10} {:>19} {:>7} {:>7}   against {yardstick}",
        "", "requests/s", "", "CPU us/", "of it"
    );
    let _ = writeln!(
        text,
        "{:<11} {:>10} {:>19} {:>7} {:>7} {:>11} {:>7}",
        kind, "median", "min .. max", "request", "user", "requests/s", "CPU"
    );
    for line in &summary.lines {
        let SummaryRow { who, requests_per_s, requests_per_s_range: [slowest, fastest], .. } = line;
        let spread = format!("{slowest:.0} .. {fastest:.0}");
        let (speed, cpu) = match line.ratio {
            Some(ratio) => (format!("{:.2} x", ratio.requests_per_s), format!("{:.2} x", ratio.cpu_per_request)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let _ = writeln!(
            text,
            "{:<11} {requests_per_s:>10.0} {spread:>19} {:>7.2} {:>7.2} {speed:>11} {cpu:>7}",
            who.name(),
            line.cpu_us_per_request,
            line.cpu_user_us_per_request,
        );
    }
    text.push('\n');
}

/// Add a warning if the rounds differ too much for the numbers to be trusted.
pub(crate) fn doubts(text: &mut String, summary: &Summary) {
    let busy = |line: &&SummaryRow| line.requests_per_s_range[1] > line.requests_per_s_range[0] * STEADY;
    if let Some(line) = summary.lines.iter().find(busy) {
        let [slowest, fastest] = line.requests_per_s_range;
        let _ = writeln!(
            text,
            "the machine was not quiet: {}'s rounds differ by a factor of {:.1}: run this again when nothing else runs",
            line.who.name(),
            fastest / slowest
        );
    }
    for line in summary.lines.iter().filter(|line| line.failed > 0) {
        let _ =
            writeln!(text, "{}: {} requests had no good response: do not trust its line", line.who.name(), line.failed);
    }
}

fn notes(text: &mut String, bench: &Bench<'_>) {
    for name in bench.missing() {
        let _ = writeln!(text, "{name}: not found: skipped");
    }
    for name in bench.unusable() {
        let _ = writeln!(text, "{name}: could not run: skipped");
    }
}

/// Add the full handshakes that a second of a core is enough for; each comes with a connection and a request.
fn handshakes(text: &mut String, summary: &Summary) {
    let per_core = |line: &SummaryRow| format!("{} {:.0}", line.who.name(), 1e6 / line.cpu_us_per_request);
    let all: Vec<String> = summary.lines.iter().map(per_core).collect();
    let _ = writeln!(text, "full TLS handshakes per second and core: {}", all.join(", "));
}

fn own(text: &mut String, bench: &Bench<'_>, footprint: &Footprint) {
    let mib =
        |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| format!("{:.1} MiB", bytes as f64 / 1_048_576.0));
    let _ = writeln!(
        text,
        "shard memory: {} connections: {} (goal at 64: under {GOAL_SHARD_MIB:.0} MiB); 10^3 IDs: {}, 10^9 IDs: {}",
        bench.arguments.connections,
        mib(footprint.shard_max_rss_bytes),
        mib(footprint.thousand_ids_max_rss_bytes),
        mib(footprint.billion_ids_max_rss_bytes),
    );
    let share = footprint.supervisor_cpu_share.map_or("?".to_owned(), |share| format!("{:.2} %", share * 100.0));
    let _ = writeln!(text, "supervisor: {share} of a CPU (goal: under {GOAL_SUPERVISOR_PERCENT:.0} %)");
}

fn verdict(summary: &Summary, over: Over) -> String {
    let (own, yardstick) = (crawlmark::NAME, over.yardstick());
    let Some(ratio) = summary.line(own).and_then(|line| line.ratio) else {
        return format!("{own}/{yardstick}: no ratio, since {yardstick} did not run");
    };
    let [speed_goal, cpu_goal] = match over {
        Over::Plain => [format!(" (goal: at least {GOAL_SPEED})"), format!(" (goal: at most {GOAL_CPU})")],
        Over::Tls | Over::TlsHandshakes => Default::default(),
        Over::Http2 => [String::new(), format!(" (goal: at most {GOAL_HTTP2_CPU})")],
    };
    let (of, [[slow, fast], [cheap, dear]]) = match ratio.intervals {
        Some(intervals) => ("95 % interval of the median", intervals),
        None => ("by round", [ratio.requests_per_s_range, ratio.cpu_per_request_range]),
    };
    format!(
        "{own}/{yardstick}, {of}: {slow:.2} .. {fast:.2} x the requests/s, {cheap:.2} .. {dear:.2} x the CPU per request\n\
         {own}/{yardstick}: {:.2} x the requests/s{speed_goal}, {:.2} x the CPU per request{cpu_goal}",
        ratio.requests_per_s, ratio.cpu_per_request
    )
}
