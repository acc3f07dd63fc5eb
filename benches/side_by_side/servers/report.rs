//! The comparison of servers as text and as JSON. Pure.

use std::fmt::Write;

use serde::Serialize;

use super::Note;
use super::contest::CONNECTIONS;
use super::contestant::{NGINX, WIREMOCK};
use super::holds::{self, HoldResults};
use super::stage::STUBS;
use crate::arguments::ServerArguments;
use crate::crawlmark;
use crate::place::Places;
use crate::rounds::Run;
use crate::summary::{Ratio, Summary, SummaryRow};
use crate::table::{doubts, rows};

/// The name of the format.
const SCHEMA: &str = "crawlmark.side_by_side.servers/1";

/// At least this share of nginx's requests per second.
const GOAL_SPEED: f64 = 0.95;
/// At most this multiple of nginx's CPU per request.
const GOAL_CPU: f64 = 1.15;
/// At least this multiple of `WireMock`'s requests per second.
const GOAL_TIMES_WIREMOCK: f64 = 20.0;
/// At least so many held answers per second.
const GOAL_HELD_PER_S: f64 = 45_000.0;
/// In less memory than this, MiB.
const GOAL_HELD_MIB: f64 = 200.0;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct ServersRecord<'a> {
    schema: &'static str,
    crawlmark_version: &'static str,
    rounds: u32,
    seconds: u32,
    connections: u32,
    stubs: u32,
    seed: u64,
    #[serde(flatten)]
    places: &'a Places,
    notes: &'a [Note],
    /// Ratios are to nginx.
    servers: Vec<SummaryRow>,
    times_wiremock: Option<Ratio>,
    holds: Option<&'a HoldResults>,
    runs: &'a [Run],
}

impl<'a> ServersRecord<'a> {
    /// Create the record of a comparison that is over.
    pub(super) fn new(
        arguments: &ServerArguments,
        places: &'a Places,
        runs: &'a [Run],
        (holds, notes): (Option<&'a HoldResults>, &'a [Note]),
    ) -> Self {
        Self {
            schema: SCHEMA,
            crawlmark_version: env!("CARGO_PKG_VERSION"),
            rounds: arguments.rounds,
            seconds: arguments.seconds,
            connections: CONNECTIONS,
            stubs: STUBS,
            seed: arguments.seed,
            places,
            notes,
            servers: Summary::of(runs, NGINX).lines,
            times_wiremock: Summary::of(runs, WIREMOCK).line(crawlmark::NAME).and_then(|line| line.ratio),
            holds,
            runs,
        }
    }
}

/// Everything, for people.
pub(super) fn render(record: &ServersRecord<'_>) -> String {
    let mut text = heading(record);
    let summary = Summary { lines: record.servers.clone() };
    rows(&mut text, ("server", NGINX), &summary);
    doubts(&mut text, &summary);
    for note in record.notes {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{note}");
    }
    against_nginx(&mut text, summary.line(crawlmark::NAME).and_then(|line| line.ratio));
    against_wiremock(&mut text, record.times_wiremock);
    held(&mut text, record.holds);
    text
}

fn heading(record: &ServersRecord<'_>) -> String {
    let apart = match (record.places.target_cpu, record.places.client_cpu) {
        (Some(target), Some(client)) => format!("each server alone on CPU {target}, wrk on CPU {client}"),
        _ => "servers and wrk share the CPUs (no taskset, or a single CPU): the ratios are rough".to_owned(),
    };
    format!(
        "\n{apart}\none of {STUBS} stubs is asked for; nginx has one `return 200` with the same body\nrounds: {} of {} s, \
         {CONNECTIONS} connections, order shuffled with seed {}\n\n",
        record.rounds, record.seconds, record.seed
    )
}

fn against_nginx(text: &mut String, ratio: Option<Ratio>) {
    let name = crawlmark::NAME;
    let Some(ratio) = ratio else {
        let _ = writeln!(text, "{name}/{NGINX}: no ratio, since {NGINX} did not run");
        return;
    };
    let ([slow, fast], [cheap, dear]) = (ratio.requests_per_s_range, ratio.cpu_per_request_range);
    let (speed, cpu) = (ratio.requests_per_s, ratio.cpu_per_request);
    let _ = writeln!(
        text,
        "{name}/{NGINX}: {speed:.3} x the requests/s ({slow:.3} .. {fast:.3} by round; goal: at least {GOAL_SPEED}: {})",
        reached(speed >= GOAL_SPEED)
    );
    let _ = writeln!(
        text,
        "{name}/{NGINX}: {cpu:.3} x the CPU per request ({cheap:.3} .. {dear:.3} by round; goal: at most {GOAL_CPU}: {})",
        reached(cpu <= GOAL_CPU)
    );
}

fn against_wiremock(text: &mut String, ratio: Option<Ratio>) {
    let name = crawlmark::NAME;
    let _ = match ratio {
        None => writeln!(text, "{name}/{WIREMOCK}: no ratio, since {WIREMOCK} did not run"),
        Some(Ratio { requests_per_s: speed, requests_per_s_range: [slow, fast], .. }) => writeln!(
            text,
            "{name}/{WIREMOCK}: {speed:.1} x the requests/s ({slow:.1} .. {fast:.1} by round; goal: at least \
             {GOAL_TIMES_WIREMOCK:.0}: {})",
            reached(speed >= GOAL_TIMES_WIREMOCK)
        ),
    };
}

fn held(text: &mut String, held: Option<&HoldResults>) {
    let Some(held) = held else { return };
    let (connections, hold_ms) = (holds::CONNECTIONS, holds::HOLD_MS);
    let per_s = held.requests_per_s;
    let mib = held.max_rss_bytes as f64 / 1_048_576.0;
    let low = held.runs_requests_per_s.iter().copied().fold(f64::INFINITY, f64::min);
    let high = held.runs_requests_per_s.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "{connections} requests held for {hold_ms} ms: {per_s:.0} answers/s ({low:.0} .. {high:.0} by run; goal: at least \
         {GOAL_HELD_PER_S:.0}: {}), {:.2} us of CPU each, {} without a good response",
        reached(per_s >= GOAL_HELD_PER_S),
        held.cpu_us_per_request,
        held.failed
    );
    let _ = writeln!(
        text,
        "{connections} requests held for {hold_ms} ms: {mib:.1} MiB (goal: under {GOAL_HELD_MIB:.0} MiB: {})",
        reached(mib < GOAL_HELD_MIB)
    );
}

const fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}
