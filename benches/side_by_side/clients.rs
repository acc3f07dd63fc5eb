//! The peers: how each is told to send the same load, and where it prints how much it did.
//!
//! Each is told to use one thread, `N` kept-alive connections and no rate. Readers are pure, and say nothing
//! rather than something when a figure is not where it should be.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

/// Load, the same for all clients.
#[derive(Debug)]
pub(crate) struct Load {
    /// URL that peers request, again and again.
    pub(crate) url: String,
    /// Kept-alive connections.
    pub(crate) connections: u32,
    /// Duration, s.
    pub(crate) seconds: u32,
    /// Protocol of the connections.
    pub(crate) over: Over,
}

/// Protocol of the connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// HTTP/1.1 in plain text.
    #[default]
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS, with ten streams on each connection.
    Http2,
    /// HTTP/1.1 over TLS, with a new connection and a full handshake for each request.
    TlsHandshakes,
}

/// Streams of a connection of HTTP/2.
pub(crate) const STREAMS: &str = "10";

impl Over {
    /// The peer that ratios are taken to.
    pub(crate) const fn yardstick(self) -> &'static str {
        match self {
            Self::Plain | Self::Tls => YARDSTICK,
            Self::Http2 => "oha",
            Self::TlsHandshakes => "openssl",
        }
    }

    /// Peers that can send such a load.
    const fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["wrk", "oha", "hey", "ab", "h2load", "bombardier", "zrk", "shb", "shb-eager"],
            Self::Tls => &["wrk", "oha", "ab", "h2load"],
            Self::Http2 => &["oha", "h2load"],
            Self::TlsHandshakes => &["openssl", "oha", "ab"],
        }
    }

    /// True if `peer` can send such a load.
    pub(crate) fn is_for(self, peer: &Peer) -> bool {
        self.peers().contains(&peer.name)
    }
}

/// Counts that a client reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// Requests that ended.
    pub(crate) requests: u64,
    /// Rate of these requests per second, by the client's own clock.
    pub(crate) per_s: f64,
    /// Those of the requests that had no good response.
    pub(crate) failed: u64,
}

/// Program that is compared with crawlmark.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Name in every table: the program, as found in PATH, and perhaps a variant of its arguments after a hyphen.
    pub(crate) name: &'static str,
    /// Arguments for a load.
    pub(crate) arguments: fn(&Load) -> Vec<String>,
    /// Parser of its standard output; none if a figure is missing.
    pub(crate) read: fn(&str) -> Option<Counted>,
}

impl Peer {
    /// The program to look for.
    pub(crate) fn program(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }
}

/// Peers that can be compared with.
pub(crate) const PEERS: [Peer; 10] = [
    Peer { name: "wrk", arguments: wrk, read: read_wrk },
    Peer { name: "oha", arguments: oha, read: read_oha },
    Peer { name: "hey", arguments: hey, read: read_hey },
    Peer { name: "ab", arguments: ab, read: read_ab },
    Peer { name: "h2load", arguments: h2load, read: read_h2load },
    Peer { name: "bombardier", arguments: bombardier, read: read_bombardier },
    Peer { name: "zrk", arguments: zrk, read: read_zrk },
    Peer { name: "shb", arguments: shb, read: read_shb },
    Peer { name: "shb-eager", arguments: shb_eager, read: read_shb },
    Peer { name: "openssl", arguments: openssl, read: read_openssl },
];

/// The peer that ratios are taken to.
pub(crate) const YARDSTICK: &str = "wrk";

fn words<const N: usize>(words: [&str; N], load: &Load) -> Vec<String> {
    let fill = |word: &str| match word {
        "URL" => load.url.clone(),
        "C" => load.connections.to_string(),
        "S" => load.seconds.to_string(),
        "Ss" => format!("{}s", load.seconds),
        other => other.to_owned(),
    };
    words.into_iter().map(fill).collect()
}

fn wrk(load: &Load) -> Vec<String> {
    words(["-t", "1", "-c", "C", "-d", "Ss", "URL"], load)
}

fn oha(load: &Load) -> Vec<String> {
    // One thread comes from the one CPU that it may use.
    let more: &[&str] = match load.over {
        Over::Plain => &[],
        Over::Tls => &["--insecure"],
        Over::Http2 => &["--insecure", "--http2", "-p", STREAMS],
        Over::TlsHandshakes => &["--insecure", "--disable-keepalive"],
    };
    let own = words(["--no-tui", "-c", "C", "-z", "Ss", "URL"], load);
    more.iter().map(|&word| word.to_owned()).chain(own).collect()
}

fn hey(load: &Load) -> Vec<String> {
    words(["-cpus", "1", "-c", "C", "-z", "Ss", "URL"], load)
}

fn ab(load: &Load) -> Vec<String> {
    // -t implies -n 50000 unless -n follows. ab reserves room for every request: more than anyone sends, and no more.
    let enough = (u64::from(load.seconds) * 1_000_000).to_string();
    let keep: &[&str] = if load.over == Over::TlsHandshakes { &[] } else { &["-k"] };
    let own = words(["-q", "-c", "C", "-t", "S", "-n", &enough, "URL"], load);
    keep.iter().map(|&word| word.to_owned()).chain(own).collect()
}

fn h2load(load: &Load) -> Vec<String> {
    let protocol = if load.over == Over::Http2 { ["-m", STREAMS] } else { ["--h1", "-m1"] };
    words([protocol[0], protocol[1], "-t", "1", "-c", "C", "-D", "S", "URL"], load)
}

fn bombardier(load: &Load) -> Vec<String> {
    words(["-c", "C", "-d", "Ss", "-p", "r", "-o", "json", "URL"], load)
}

fn zrk(load: &Load) -> Vec<String> {
    words(["-t", "1", "-c", "C", "-d", "Ss", "--closed", "--format", "json", "URL"], load)
}

fn shb(load: &Load) -> Vec<String> {
    words(["-t", "1", "-c", "C", "-z", "Ss", "--json", "URL"], load)
}

/// Without its wait for a batch of answers, which is in the latency that it reports.
fn shb_eager(load: &Load) -> Vec<String> {
    words(["-t", "1", "-c", "C", "-z", "Ss", "--batch-size", "1", "--json", "URL"], load)
}

/// One connection after the other, as it cannot do otherwise.
fn openssl(load: &Load) -> Vec<String> {
    let after_scheme = load.url.split_once("://").map_or(&*load.url, |(_, rest)| rest);
    let (address, path) = after_scheme.split_once('/').unwrap_or((after_scheme, ""));
    words(["s_time", "-new", "-connect", address, "-www", &format!("/{path}"), "-time", "S"], load)
}

/// `  122251 requests in 2.00s, 25.88MB read`, `Requests/sec:  61056.81`; `Non-2xx or 3xx responses: 3` when there are.
fn read_wrk(text: &str) -> Option<Counted> {
    let requests = text.lines().find_map(|line| line.split_once(" requests in ").map(|(count, _)| count))?;
    let rejected = after(text, "Non-2xx or 3xx responses:").unwrap_or(0.0);
    // `Socket errors: connect 0, read 0, write 0, timeout 0`
    let broken: u64 = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Socket errors:"))
        .flat_map(|errors| errors.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok()))
        .sum();
    let requests = requests.trim().parse().ok()?;
    Some(Counted { requests, per_s: after(text, "Requests/sec:")?, failed: whole(rejected) + broken })
}

/// `  Requests/sec: 120000.1` and the statuses that hey prints too.
fn read_oha(text: &str) -> Option<Counted> {
    let (requests, failed) = by_status(text)?;
    Some(Counted { requests, per_s: after(text, "Requests/sec:")?, failed })
}

/// `  Total: 3.0012 secs` and the statuses. Its own rate stops counting at a million requests.
fn read_hey(text: &str) -> Option<Counted> {
    let (requests, failed) = by_status(text)?;
    let seconds = after(text, "Total:").filter(|seconds| *seconds > 0.0)?;
    Some(Counted { requests, per_s: requests as f64 / seconds, failed })
}

/// `Complete requests: 129640`, `Requests per second: 64789.06 [#/sec] (mean)`.
fn read_ab(text: &str) -> Option<Counted> {
    let failed = after(text, "Failed requests:")? + after(text, "Non-2xx responses:").unwrap_or(0.0);
    let requests = whole(after(text, "Complete requests:")?);
    Some(Counted { requests, per_s: after(text, "Requests per second:")?, failed: whole(failed) })
}

/// `finished in 2.01s, 59288.50 req/s, 12.55MB/s`,
/// `requests: 118577 total, 118641 started, 118577 done, 118577 succeeded, 0 failed, 0 errored, 0 timeout`.
fn read_h2load(text: &str) -> Option<Counted> {
    let finished = text.lines().find_map(|line| line.strip_prefix("finished in "))?;
    let per_s = finished.split(", ").find_map(|part| part.strip_suffix(" req/s"))?.trim().parse().ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let part =
        |name: &str| -> Option<u64> { line.split(", ").find_map(|part| part.strip_suffix(name))?.trim().parse().ok() };
    let (requests, good) = (part(" done")?, part(" succeeded")?);
    Some(Counted { requests, per_s, failed: requests.saturating_sub(good) })
}

/// `{"spec":..,"result":{"timeTakenSeconds":3.0,"req1xx":0,"req2xx":90000,..,"others":0,..}}`.
fn read_bombardier(text: &str) -> Option<Counted> {
    let root = object(text)?;
    let result = root.get("result")?;
    let count = |name: &str| result.get(name).and_then(Value::as_u64);
    let good = count("req2xx")?;
    let failed = ["req1xx", "req3xx", "req4xx", "req5xx", "others"].into_iter().filter_map(count).sum::<u64>();
    let seconds = result.get("timeTakenSeconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0)?;
    Some(Counted { requests: good + failed, per_s: (good + failed) as f64 / seconds, failed })
}

/// `{.., "requests": 19998, "achieved_rate": 999.80, "status_codes": {"2xx": 19998, ..}, ..}`.
fn read_zrk(text: &str) -> Option<Counted> {
    let root = object(text)?;
    let requests = root.get("requests")?.as_u64()?;
    let good = root.pointer("/status_codes/2xx")?.as_u64()?;
    Some(Counted { requests, per_s: root.get("achieved_rate")?.as_f64()?, failed: requests.saturating_sub(good) })
}

/// `{.., "requests": {"total": 722541, ..}, "requestsPerSec": 360757.1, "statusCodes": {"200": 722541}, ..}`.
fn read_shb(text: &str) -> Option<Counted> {
    let root = object(text)?;
    let requests = root.pointer("/requests/total")?.as_u64()?;
    let statuses = root.get("statusCodes")?.as_object()?;
    let good: u64 = statuses.iter().filter(|(status, _)| status.starts_with('2')).filter_map(|(_, n)| n.as_u64()).sum();
    Some(Counted { requests, per_s: root.get("requestsPerSec")?.as_f64()?, failed: requests.saturating_sub(good) })
}

/// `1302 connections in 4 real seconds, 391 bytes read per connection`. The seconds are whole ones.
fn read_openssl(text: &str) -> Option<Counted> {
    let line = text.lines().find(|line| line.contains(" real seconds"))?;
    let (requests, rest) = line.split_once(" connections in ")?;
    let (requests, seconds): (u64, f64) = (requests.parse().ok()?, rest.split(' ').next()?.parse().ok()?);
    (seconds > 0.0).then_some(Counted { requests, per_s: requests as f64 / seconds, failed: 0 })
}

/// The number that follows `label` at the beginning of a line.
fn after(text: &str, label: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Answers, and those of them that are not 2xx, from lines like `  [200] 360000 responses`.
fn by_status(text: &str) -> Option<(u64, u64)> {
    let mut all = (0, 0);
    for line in text.lines() {
        let Some((status, rest)) = line.trim().strip_prefix('[').and_then(|line| line.split_once(']')) else {
            continue;
        };
        let Some(count) = rest.trim().strip_suffix(" responses") else { continue };
        let count: u64 = count.trim().parse().ok()?;
        all.0 += count;
        all.1 += if status.starts_with('2') { 0 } else { count };
    }
    (all.0 > 0).then_some(all)
}

/// The JSON object in `text`, whatever is printed around it.
fn object(text: &str) -> Option<Value> {
    let json = text.get(text.find('{')?..=text.rfind('}')?)?;
    serde_json::from_str(json).ok()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count that was printed as a whole number"
)]
fn whole(count: f64) -> u64 {
    count as u64
}
