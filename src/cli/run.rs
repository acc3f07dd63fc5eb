//! Arguments of `run`. Rates, ID ranges and durations are parsed by the harness (`units/`).

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crawlmark_harness::plan::{
    AdaptiveKind, Arrivals, Backoff, MAX_RETRIES, MOST_LINGER, OnThrottle, Pacing, PerHost,
    ThrottlingPolicy,
};
use crawlmark_harness::units::{IdRange, Rate, RateShape, ShapedRate, parse_duration};
use crawlmark_results::run::gates::Condition;

use super::saved::EXPORT;
use super::{
    Auto, BehaviourArgs, ConnectionArgs, Export, PartArgs, ProxyArgs, SaveArgs, TargetProbeArgs,
    TlsArgs, Typed, number, parse_error_rate, parse_limit_time, parse_method, parse_name,
    parse_positive_time, parse_tag, whole,
};
use crate::crawl::{ConnectTo, Expect, HttpVersion, IdFormat, LocalIps, Statuses};

impl RunArgs {
    /// Add the values as they were typed: a range of IDs with leading zeros says how they are
    /// written.
    pub(super) fn add(&mut self, typed: Typed) {
        self.request.id_format = self.request.id_format.or_else(|| typed.id_format());
        self.typed = typed;
    }

    /// True if the bundled target is crawled.
    pub const fn is_bundled(&self) -> bool {
        self.url.is_none() && self.urls.is_none() && self.requests_file.is_none()
    }

    /// Return how requests are scheduled: as typed, or by the default.
    pub fn arrivals(&self) -> Arrivals {
        let mut conditions = self.threshold.iter().chain(&self.stop_unless);
        let is_of_times = self.slo_p99.is_some()
            || conditions.any(|it| it.metric.is_corrected(Arrivals::Asap).is_some());
        let is_limit = self.burst.is_some()
            || self.throttling.adaptive.is_some()
            || self.per_host.per_host_connections.is_some()
            || self.per_host.per_host_rate.is_some()
            || self.part.plan.is_some()
            || self.save.save.is_some()
            || self.save.earlier().is_some();
        let shape = self
            .rate
            .map(|rate| rate.shape)
            .filter(|_| is_of_times && !is_limit);
        let is_schedule = shape.is_some_and(|shape| !matches!(shape, RateShape::Windows { .. }));
        self.arrivals.unwrap_or(if is_schedule {
            Arrivals::Constant
        } else {
            Arrivals::Asap
        })
    }

    /// Return the file that lists what is crawled, with its flag; none without one.
    pub fn list(&self) -> Option<(&'static str, &Path)> {
        self.urls
            .as_deref()
            .map(|file| ("--urls", file))
            .or_else(|| {
                self.requests_file
                    .as_deref()
                    .map(|file| ("--requests-file", file))
            })
    }

    /// Return the flag of a list that is read from standard input, which can be read once; none for
    /// other lists.
    pub fn list_of_input(&self) -> Option<&'static str> {
        self.list()
            .filter(|(_, file)| *file == Path::new("-"))
            .map(|(flag, _)| flag)
    }
}

fn parse_linger(text: &str) -> Result<Auto<Duration>, String> {
    if text == "auto" {
        return Ok(Auto::Auto);
    }
    let time = parse_duration(text)
        .ok()
        // The result has whole microseconds.
        .filter(|time| *time <= MOST_LINGER && time.subsec_nanos() % 1_000 == 0);
    time.map(Auto::Exactly).ok_or_else(|| {
        format!(
            "`{text}` is neither `auto` nor whole us up to {MOST_LINGER:?}: write 50us, for instance"
        )
    })
}

const RUN_EXAMPLES: &str = "\
Examples:
  Ten seconds against the bundled target:
    crawlmark run
  A range, two processes, 64 connections, the result in ./first:
    crawlmark run --ids 0..200k --shards 2 -c 64 --out first
  Your own target, at 5,000 requests a second at most:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 5000
  Open loop: 500 requests a second are due, whatever the target does:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 500 \\
        --arrivals constant -c 500 -d 30s
  A ramp from 100 to 5,000/s in a minute:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 100:5000 -d 60s
  Each URL of a list once, with at most 2 requests in flight and 5 a second per host:
    crawlmark run --urls urls.txt --per-host-connections 2 --per-host-rate 5/s \\
        --rate 100
  For CI: exit with 3 if the threshold fails, stop if most requests fail:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 500 -c 500 -d 30s \\
        --arrivals constant --threshold 'response_p99 < 250ms' \\
        --stop-unless 'error_rate[5s] < 50%' \\
        --export step-summary=- >> \"$GITHUB_STEP_SUMMARY\"
  HTTP/2 with 100 requests in flight on one connection:
    crawlmark run 'https://127.0.0.1/items/{id}' --http 2 -c 1 --streams 100
  Keep what is crawled, and go on after a stop:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --ids 0..1m --save items
    crawlmark run --resume items
  One number for a script:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' -n 10k --json \\
        | jq .latency.service.p99_us";

const ALIASES: &str = "\
Names of other programs, accepted as well:
  --items        --requests --count --iterations
  --duration     -z --time
  --method       -X
  --body         --data
  --shards       -t --threads --workers (a shard is a process)
  --connections  --clients --concurrency --parallel --users --vus
  --rate         -q --qps --rps
  --threshold    --fail-if (what must hold, under each name)
  --stop-unless  --stop-if (likewise)";

/// Return what follows the flags of `run`: other names of flags, exit codes and examples.
pub(super) fn help() -> String {
    format!("{ALIASES}\n\n{}\n\n{RUN_EXAMPLES}", super::EXIT_CODES)
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches as they are typed; resolved, they become enums"
)]
pub struct RunArgs {
    /// Target URL, with {id} for the ID [default: the bundled target]
    ///
    /// Without {id}, each item requests the same URL. Names outside ASCII are sent as xn--, and
    /// characters that a request line cannot hold percent-encoded; all else as typed.
    // As text: clap would repeat what it cannot read, and that may be a password.
    #[arg(conflicts_with = "urls")]
    pub url: Option<String>,
    /// Crawl the URLs in FILE, one per line, or - for stdin
    ///
    /// Item i uses line i modulo the number of lines. Blank lines and lines that begin
    /// with # do not count. {id} in a line is replaced by the ID. When no line has {id}
    /// and neither --ids nor -n nor -d is given, each line is requested once.
    ///
    /// A host is a name with a port. Each has its own connections, throttle pauses,
    /// --per-host-rate and --per-host-connections; while one has to wait, requests to
    /// others go first (in an open loop the order stays). Items of a host that cannot be
    /// reached fail; when none can be reached, the run is refused.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub urls: Option<PathBuf>,
    /// Send the requests in FILE: JSON lines, HAR or access log
    ///
    /// The format is found by the content; - is standard input. At most 256 MiB and
    /// 2,000,000 requests, which are held in memory.
    ///
    ///   JSON lines  {"method": "POST", "url": "http://127.0.0.1:8080/items/{id}",
    ///               "header": {"accept": "*/*"}, "body": "e30=", "weight": 3,
    ///               "at": 1.5} in one line. Only url is required. body is base64,
    ///               body_text plain text; at is seconds, or a time (RFC 3339);
    ///               extract, then, next and once send several per item.
    ///   HAR         as browsers save it, without headers such as Host and Connection
    ///   access log  common or combined. Only GET, HEAD and OPTIONS are sent. Requests
    ///               of one second are spread evenly over it.
    ///
    /// What cannot be sent again of a HAR file or an access log is left out and counted.
    /// {id} in a URL, a header or a body is replaced by the ID. --method, --header and
    /// --body fill in what a line leaves out. Paths are appended to the URL.
    ///
    /// Item i uses request i modulo their number. When no request has {id} and neither
    /// --ids nor -n nor -d is given, each is sent once. With weights, each item draws a
    /// request by --seed. --arrivals replay sends each once, at its recorded time.
    ///
    ///   crawlmark run http://127.0.0.1:8080 --requests-file access.log \
    ///       --arrivals replay --speed 2
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "urls",
        verbatim_doc_comment
    )]
    pub requests_file: Option<PathBuf>,
    /// Crawl these IDs: A..B without B, A..=B with it
    ///
    /// Leading zeros are kept: 0001..0100 is the same as --id-format width=4 (not for the
    /// bundled target).
    /// Default: 0..100m (100 million), for 10 s unless -n or -d is given.
    #[arg(long, value_name = "A..B")]
    pub ids: Option<IdRange>,
    /// Stop after N items (retries not counted)
    #[arg(short = 'n', long = "items", aliases = ["requests", "count", "iterations"], value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub requests: Option<u64>,
    /// Stop starting items after TIME
    #[arg(short = 'd', long, alias = "time", short_alias = 'z', value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// HTTP method [default: GET, or POST with a body]
    #[arg(short = 'm', long, short_alias = 'X', value_parser = parse_method)]
    pub method: Option<String>,
    /// Add a request header, `name: value`; may be repeated
    ///
    /// {id} in its value is replaced by the ID, as in --body.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Send this body: TEXT, @FILE for a file, or @@TEXT for a leading @
    ///
    /// {id} in a body is replaced by the ID.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/search' --body 'item={id}'
    #[arg(
        long,
        alias = "data",
        default_value = "",
        hide_default_value = true,
        verbatim_doc_comment
    )]
    pub body: String,
    /// Bodies, credentials, form and order of IDs
    #[command(flatten)]
    pub request: RequestArgs,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,

    /// Crawl processes, from cores and --rate
    ///
    /// A shard is a process; where other tools have threads (-t), crawlmark has shards.
    /// auto is one per core, or three for five cores if the target is on this machine, too; with a --rate it is at most one for each 200/s of it, and one below 400/s.
    #[arg(
        short = 's',
        long,
        aliases = ["threads", "workers"],
        short_alias = 't',
        value_name = "N|auto",
        default_value = "auto"
    )]
    pub shards: Auto<u32>,
    /// Total connections
    ///
    /// Each carries one request at a time, or --streams. With several hosts, up to 2N idle connections may stay open as well. With HTTP/2, up to N
    /// times --streams requests are in flight.
    #[arg(short = 'c', long, aliases = ["clients", "concurrency", "parallel", "users", "vus"], value_name = "N", default_value_t = 64, value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub connections: u32,
    /// Maximum total rate: N, N/s, N/min or N/h
    ///
    /// Over all shards; a plain N is per second. 'N per TIME' is an interval cap: at most N requests in any window
    /// of TIME (less 2 %, or 250us if more), sent at the start of each as far as connections are
    /// free. A:B is a ramp from A to B over the whole --duration. A:B:STEP@TIME goes from A to B in
    /// steps, each for TIME, and then stays at B. Write a unit once, after the last number: 0:1000,
    /// 60:600:60/min@30s.
    #[arg(
        short = 'R',
        long,
        aliases = ["qps", "rps"],
        short_alias = 'q',
        value_name = "RATE"
    )]
    pub rate: Option<ShapedRate>,
    /// Schedule requests: asap, waves, constant, poisson or replay
    ///
    ///   asap       Closed loop: the next request is sent when a connection is
    ///              free and the budget allows it. A slow target slows this
    ///              client down: times are service times, not corrected for
    ///              coordinated omission.
    ///   waves      Closed loop in batches: as many requests as -c allows are sent
    ///              at once, and the next ones when all of them have ended. Needs
    ///              one shard (-s 1, its default here).
    ///   constant   Open loop: request i is scheduled i/RATE after the start,
    ///              however slow the target is. Response times count from there,
    ///              so every wait is included, and the report names its cause.
    ///   poisson    As constant, but at random instants drawn from --seed, like
    ///              many independent users.
    ///   replay     Open loop as recorded: each request of --requests-file once, at
    ///              its recorded time. Not with --rate, --retries or --follow.
    ///
    /// In an open loop --rate is the schedule of requests: none is skipped unless
    /// --queue is full, and late ones are sent at once. While the target throttles,
    /// the schedule is delayed, and the report says by how much. --connections
    /// limits requests in flight. Set it to at least RATE x the longest response
    /// time; otherwise you measure the wait for a connection.
    ///
    /// Default: asap; constant where a --threshold, --stop-unless or --slo-p99 is about
    /// times at a --rate, because a closed loop sends less while the target stands
    /// still, and passes. It stays asap where the rate is a limit: with --burst,
    /// --adaptive, limits per host, a --rate in windows, and in parts.
    #[arg(long, value_name = "MODE", verbatim_doc_comment)]
    pub arrivals: Option<Arrivals>,
    /// Replay X times as fast as recorded, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "X", value_parser = number(0.001..=1000.0, "2 for twice as fast"))]
    pub speed: Option<f64>,
    /// Open loop: drop due requests while N wait for a connection
    ///
    /// 0 drops each one that finds no connection free. Dropped requests are counted (`dropped`) and
    /// have no response time; k6 calls them dropped iterations. Their items are left to later
    /// requests. Default: all wait, and none is dropped before the end.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=1_000_000))]
    pub queue: Option<u32>,
    /// Wait for a request's time: sleep, coarse (1 ms) or spin (a core each)
    ///
    ///   sleep   Sleep until a kernel timer wakes the shard, some tens of
    ///           microseconds late. Requests due within a twentieth of the median
    ///           service time (50 µs to 1 ms) go together, none of them early.
    ///   coarse  As sleep, within 1 ms: about half a millisecond late at high
    ///           rates, for less than half of the CPU.
    ///   spin    Stay awake for the last millisecond and read the clock
    ///           continuously: a few microseconds late. From a thousand requests a
    ///           second per shard on, each shard uses a whole core. More shards
    ///           than cores are refused, and the target needs cores of its own.
    ///
    /// sched_lag in the result is the resulting send delay.
    #[arg(long, value_name = "sleep|coarse|spin", default_value = Pacing::Sleep.name(), verbatim_doc_comment)]
    pub pacing: Pacing,
    /// Wait for more responses before sleeping: auto or TIME
    ///
    /// Before a shard sleeps until the next response, it waits up to TIME (at most
    /// 1ms) for more of them, and then handles all at once: less CPU per request,
    /// for response times that are up to TIME longer. It waits at most a twentieth
    /// of the mean time of a request, and only where fewer than four responses come
    /// per wake-up and the wait brings two more; otherwise, as with the bundled
    /// target, it does not. longest_linger_us of each shard in the result says for
    /// how long it meant to. auto is 50us with --streams and without a rate of any kind, else 0;
    /// the rounds of ab have 0 unless --linger is given.
    /// Example: --http 2 -c 8 --streams 16 --linger 0
    #[arg(long, value_name = "auto|TIME", default_value = "auto", value_parser = parse_linger, verbatim_doc_comment)]
    pub linger: Auto<Duration>,
    /// Exclude the first TIME from times and rates
    ///
    /// Its items are counted.
    #[arg(short = 'w', long, value_name = "TIME", value_parser = parse_duration)]
    pub warmup: Option<Duration>,
    /// Let open requests finish for TIME after the end [default: --timeout]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub grace: Option<Duration>,
    /// Maximum burst of the rate budget, in requests
    ///
    /// Default: 1 per shard, and up to 200/s one at a time over all of them; above that also the
    /// requests due in 25 ms, so that a shard that was delayed can catch up.
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub burst: Option<u64>,
    /// Do not pin shards to cores
    ///
    /// Default: a shard stays on a core; beside a target on this machine on a core where the target
    /// never runs, if there are enough of them.
    #[arg(long)]
    pub no_pin: bool,

    /// Throttling and retries
    #[command(flatten)]
    pub throttling: ThrottlingArgs,
    /// Retry responses with these statuses, too, as in 409,423
    ///
    /// Those that --retries names are retried anyway. A range is one of the list: 520-529. A listed
    /// status is no good response and no missing item (202, 404): an item that still gets it after its
    /// retries has failed. Requests by POST and PATCH are retried, too: list what the target sends if
    /// it did nothing.
    #[arg(long, value_name = "LIST")]
    pub retry_on: Option<Statuses>,
    /// Limits per host
    #[command(flatten)]
    pub per_host: PerHostArgs,

    /// Time limit per request, once it has a connection
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Time limit for opening a connection, tunnel and TLS handshake included
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_positive_time)]
    pub connect_timeout: Duration,
    /// Open a new connection for every request
    ///
    /// Requests have the header `connection: close`. The time to open a connection is in `connect`;
    /// in an open loop it is also part of `pool_wait`, and so of the response time. The local port
    /// of a closed connection may be unusable for a minute (`TIME_WAIT`); the validity says when
    /// that limits the run.
    #[arg(long, conflicts_with = "max_requests_per_connection")]
    pub disable_keepalive: bool,
    /// Replace a connection after N requests; 1 is --disable-keepalive
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub max_requests_per_connection: Option<u64>,
    /// Speak this version of HTTP: 1.1, 2, 3 or auto
    ///
    /// auto: over https:// the version that the target chooses in the TLS handshake (ALPN), over
    /// http:// 1.1. 2: only HTTP/2, over http:// with prior knowledge (h2c); requests fail if the
    /// target does not speak it. Each connection waits for the target's HTTP/2 settings before its
    /// first request. 3: only HTTP/3, over QUIC, to https:// URLs; in a build with the feature
    /// `http3`. Example: --http 2 --connections 4 --streams 25
    #[arg(
        long,
        value_name = "auto|1.1|2|3",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    pub http: HttpVersion,
    /// Requests at a time on each connection of HTTP/2 or HTTP/3 [default: 1]
    ///
    /// Like -m of h2load and -p of oha: up to --connections times N requests are in flight. If a
    /// target allows fewer streams, requests wait for one (`pool_wait`). A request that the target
    /// refused before it began (GOAWAY, `REFUSED_STREAM`) is sent again; it still counts as one
    /// request, and is counted in `resent`. Example: --http 2 -c 1 --streams 100
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()), conflicts_with = "disable_keepalive")]
    pub streams: Option<u32>,
    /// Connect from these local addresses: addresses, ranges or prefixes
    ///
    ///   127.0.0.9,127.0.0.11      these
    ///   127.0.1.1-127.0.1.250     from the first to the last
    ///   127.1.0.0/16, fd00::/80   the hosts of a prefix
    ///
    /// The connections of the run, over all shards, use the addresses in turn; a
    /// connection that is opened again keeps its address. With --disable-keepalive
    /// or --max-requests-per-connection each new connection uses the next one.
    /// A target that limits by address then sees each address as a client.
    ///
    /// All of 127.0.0.0/8 works without setup, to targets on this machine. Other
    /// addresses have to be this machine's (ip addr add), or routed to it (ip route
    /// add local PREFIX dev lo); the run is refused otherwise.
    ///
    ///   crawlmark run --target-profile article -c 80 \
    ///       --local-ips 127.1.0.0/16
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    pub local_ips: Option<LocalIps>,
    /// Connect to another address than the URL's; may be repeated
    ///
    /// HOST and PORT are those of the URL; leave either empty to match any. Requests and TLS still
    /// name the URL's host. Example: --connect-to www.example.com:443:127.0.0.1:8443
    #[arg(long, value_name = "HOST:PORT:ADDRESS:PORT")]
    pub connect_to: Vec<ConnectTo>,
    /// Unix sockets, idle connections, and the rate of new ones
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Proxies
    #[command(flatten)]
    pub proxy: ProxyArgs,
    /// TLS
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Accept only these responses: json, status:200-299
    ///
    /// May be repeated; then all must match. Without it any complete body with a
    /// status from 200 to 299 is good, and without a URL the bundled target's
    /// items are expected.
    ///
    ///   json               one JSON value under a JSON content type
    ///   status:200,404     these statuses and no others, as in status:200-204;
    ///                      404 and 410 count as `not found` unless they are listed
    ///   json:/data/id      a JSON body with a value there, and not null; a *
    ///                      stands for any item of a list
    ///   regex:"id":\d+     a body that has a match
    ///   len:1-1000         a body of 1 to 1,000 bytes; len:115, len:1-
    ///   sse                a stream of server-sent events, none cut off, whose
    ///                      times are measured: first_event, event_gap;
    ///                      sse:[DONE] for one whose last event has this data
    ///   ndjson             the same of a JSON value in each line
    ///   grpc               the messages of a call of gRPC that ends with status 0;
    ///                      needs --http 2, and sends the body as one message
    ///   items:SEED         exactly the body that `serve --seed SEED` sends for
    ///                      the ID
    ///   whole              any complete body
    ///   not EXPECT         a response that was read, and does not match: for GraphQL,
    ///                      'not json:/errors', which no body matches that is not
    ///                      JSON; of json, status, regex and len
    ///
    /// json, regex and a line of ndjson may have up to 16 MiB. A challenge page is never good, nor
    /// is a throttled response (429, and other limits).
    #[arg(long, value_name = "EXPECT", verbatim_doc_comment)]
    pub expect: Vec<Expect>,

    /// Saving what is crawled
    #[command(flatten)]
    pub save: SaveArgs,

    /// One part of a crawl on several machines
    #[command(flatten)]
    pub part: PartArgs,

    /// Save the result to DIR [default: results/runs/TIME-NAME]; - for none
    ///
    /// With `--out -`, a quick look: what is printed and exported is all that is left.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Result name
    #[arg(long, default_value = "crawl", value_parser = parse_name)]
    pub name: String,
    /// Save a label with the result; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = parse_tag)]
    pub tags: Vec<(String, String)>,
    /// Print the report as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// Print every table before the end, and the plan before the start
    #[arg(long, short = 'v', conflicts_with = "json")]
    pub verbose: bool,
    /// Print the full latency distribution before the end
    #[arg(long, conflicts_with = "json")]
    pub latency: bool,
    /// Leave the histogram out of the end
    #[arg(long, conflicts_with = "json")]
    pub no_histogram: bool,
    /// Export the result as csv, junit, openmetrics, ...; may be repeated
    #[arg(long = "export", value_name = "FORMAT[=FILE]", long_help = EXPORT)]
    pub exports: Vec<Export>,
    /// Save each plot as a PNG file as well, 1,440 pixels wide
    #[arg(long)]
    pub png: bool,
    /// Print only the page's path and errors (or the JSON)
    ///
    /// A threshold that fails or cannot be decided is still printed, as one line.
    #[arg(long)]
    pub quiet: bool,
    /// Do not show progress
    #[arg(long)]
    pub no_progress: bool,
    /// Serve the page of the run while it goes on, on 127.0.0.1
    ///
    /// The first line on standard error has its address, with a secret in its path: http://127.0.0.1:PORT/.../. Without PORT, a free one. The page
    /// shows each second, and becomes the report at the end. From another machine: ssh -L PORT:127.0.0.1:PORT HOST, and the same address. A
    /// browser on the machine that measures takes CPU time from the run.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<u16>,
    /// Serve the metrics of the run while it goes on at /metrics
    ///
    /// For Prometheus, with the names of `--export openmetrics`: http://ADDR:PORT/metrics, as in 127.0.0.1:9464; port 0 picks a free one, which
    /// standard error names. Whoever reaches that address reads the counts, times and target of the run without a password, and can change nothing:
    /// choose one that other machines reach (0.0.0.0:9464) only where they may. No header, body or ID of an item is in it. The last scrape, up to
    /// 2 seconds after the end, has the verdict and the thresholds.
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Fail unless this holds: `service_p99 < 250ms`
    ///
    /// May be repeated. The exit code is then 3. The expression states what is wanted, as
    /// in k6: METRIC[WINDOW] OP LIMIT, OP one of < <= > >= == !=.
    ///
    ///   times      SERIES_STAT, with a unit (us, ms, s, m, h): service_p99,
    ///              response_p(99.9) (open loop only), item_max, ttfb_mean, ...
    ///              Series: service, response (and each with _throttled and
    ///              _error), ttfb, item, connect, tls, sched_lag, budget_wait,
    ///              pool_wait, tunnel, loop_lag, receive_delay, first_event,
    ///              event_gap
    ///              Stats: p50, p99, ... min mean max
    ///   per second rate (items), attempts_rate: 9500, 9.5k, 9500/s
    ///   shares     throttled_rate, error_rate (neither good nor not found nor
    ///              throttled), retry_rate, ok_rate (of items),
    ///              budget_utilisation, rate_ratio (sent of --rate): 0.01 or 1%
    ///   counts     items, ok, not_found, failed, gave_up, aborted, lost,
    ///              unfinished, not_attempted, attempts, retries, throttled,
    ///              soft_blocked, errors, dropped, connections_opened: 100, 10k
    ///   others     cpu_us_per_attempt (of the client), target_cpu_per_request: 40us;
    ///              valid (== or != true or false)
    ///
    /// A condition with a window, as in error_rate[10s], must hold in every window of 1s
    /// to 60s after the warm-up. Windows are for service and response times, rates,
    /// shares of requests and counts.
    ///
    /// A percentile needs 100 samples beyond it: 10,000 in all for p99. A threshold that
    /// cannot be decided is reported as undecided, and the exit code is 5 unless another
    /// threshold failed; a warning before the run names each that it is too short for.
    #[arg(long, alias = "fail-if", value_name = "EXPR", verbatim_doc_comment)]
    pub threshold: Vec<Condition>,
    /// Stop unless this holds, as in `error_rate[10s] < 5%`; may be repeated
    ///
    /// Written as --threshold, and evaluated every second; without a window, over
    /// everything since the warm-up. The run stops as after Ctrl-C, with a partial report
    /// that names the threshold, and exit code 3. Shares and means need 100 requests,
    /// percentiles 100 samples beyond them; with fewer requests, a share still fails if
    /// their errors alone would break the limit among 100.
    #[arg(long, alias = "stop-if", value_name = "EXPR", verbatim_doc_comment)]
    pub stop_unless: Vec<Condition>,
    /// Fail if p99 exceeds TIME
    ///
    /// Short for --threshold `service_p99 <= TIME`, in an open loop, which it makes of a --rate
    /// (see --arrivals), `response_p99 <= TIME`.
    #[arg(long, value_name = "TIME", value_parser = parse_limit_time)]
    pub slo_p99: Option<Duration>,
    /// Fail if the error rate exceeds SHARE (1%, 0.01)
    ///
    /// Short for --threshold `error_rate <= SHARE`: requests that were neither good, nor not found,
    /// nor throttled, nor followed redirects; or items that failed, were abandoned or cut off, if
    /// their share is greater.
    #[arg(long, value_name = "SHARE", value_parser = parse_error_rate)]
    pub max_error_rate: Option<Condition>,
    /// Exit with 99 instead of 3 when a threshold fails, as k6 does
    #[arg(long)]
    pub k6_exit_codes: bool,
    /// Exit with 4 unless valid and nothing abandoned
    ///
    /// Only the exit code changes. The report has the verdict, and a reason and a remedy
    /// for each finding: errors, target_limited, budget_limited, concurrency_limited,
    /// client_limited, disturbed, nothing_measured, or incomplete (exit code 4 without
    /// --strict, too).
    #[arg(long, verbatim_doc_comment)]
    pub strict: bool,
    /// Find out what limits the target, by short experiments after the run
    ///
    /// Up to five runs of 2 s: with responses acknowledged at once, with one connection, with twice
    /// the connections, at a third of the rate, and in waves. They keep to --rate, begin
    /// after a wait that the target asked for (longer than 5 minutes: none is made), and send
    /// requests of the same IDs again, so methods that change something (POST, PATCH) are refused.
    #[arg(long, conflicts_with_all = ["save", "resume", "refresh", "plan", "node"])]
    pub diagnose: bool,
    /// End a shard that is silent for TIME; the run is then incomplete
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub shard_deadline: Duration,

    /// Probe of the target's processes.
    #[command(flatten)]
    pub probe: TargetProbeArgs,

    /// Processes of the bundled target: N, or auto (two for five cores)
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub target_processes: Auto<NonZeroUsize>,
    /// Make the bundled target speak TLS; the client trusts it
    #[arg(long)]
    pub target_tls: bool,
    /// Delays, limits and faults of the bundled target
    #[command(flatten)]
    pub target: BehaviourArgs,

    /// Values as they were typed.
    #[arg(skip)]
    pub typed: Typed,
}

/// Requests, as typed.
#[derive(Debug, Clone, Args)]
pub struct RequestArgs {
    /// Send the content of FILE as the body
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "json_body"])]
    pub body_file: Option<PathBuf>,
    /// Send this JSON as the body: TEXT or @FILE
    ///
    /// It is checked, and sent with `content-type: application/json` unless --header sets another
    /// one. {id} is replaced by the ID, as in --body.
    #[arg(long, value_name = "JSON", conflicts_with = "body")]
    pub json_body: Option<String>,
    /// Send credentials (Basic): USER:PASSWORD
    ///
    /// The user name has no colon. User name and password are in no output or file, and
    /// are overwritten in the process list, where the system allows it. --bearer-env
    /// keeps a token out of the command line.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/{id}' -a user:password
    // As text: clap would repeat what it cannot read.
    #[arg(
        short = 'a',
        long,
        value_name = "USER:PASSWORD",
        conflicts_with = "bearer_env",
        verbatim_doc_comment
    )]
    pub auth: Option<String>,
    /// Send the bearer token that the environment variable NAME holds
    ///
    /// The token is in no output or file; the recorded command names the variable.
    #[arg(long, value_name = "NAME")]
    pub bearer_env: Option<String>,
    /// Write IDs as width=N (with leading zeros), hex, base36 or hex,width=8
    ///
    ///   width=8        00000042 for ID 42; longer IDs are written whole
    ///   hex            2a; base36 is 16 for it, both in lower case
    ///   hex,width=4    002a
    ///
    /// The format is used wherever {id} stands: in URLs, headers and bodies.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/objects/{id}.json' --ids 0..64k \
    ///       --id-format hex,width=4
    #[arg(long, value_name = "FORMAT", verbatim_doc_comment)]
    pub id_format: Option<IdFormat>,
    /// Crawl the IDs in random order, by --seed; each once
    ///
    /// Shuffles the IDs of --ids; with -n alone, IDs 0 to N-1; with both, N random ones of --ids;
    /// with neither, 0..100m. The order is the same for every number of shards, and keeps caches of
    /// the target from being warmed in order.
    #[arg(long)]
    pub shuffle: bool,
    /// Accept gzip, br and zstd, and decode responses before checking them
    ///
    /// Requests say `accept-encoding: gzip, br, zstd`, unless --header sets another
    /// value. --expect checks the decoded body. A body that cannot be decoded
    /// (bad_encoding), or has more than 16 MiB (body_too_long), fails. bytes_received
    /// counts bytes before decoding, which is not part of the service time.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/{id}' --compressed \
    ///       --expect json
    #[arg(long, verbatim_doc_comment)]
    pub compressed: bool,
    /// Follow up to N redirects of an item (301, 302, 303, 307, 308)
    ///
    /// Each redirect is a request of its own, charged to --rate and counted in redirects.
    /// Method and body change as in browsers: 303 leads to a GET, and so do 301 and 302
    /// of a POST. A retry repeats the last request of the item, whose last response is
    /// judged. Redirects to a host that is not in the URLs (redirect_refused: add one to
    /// --urls) or to a path that robots.txt forbids (robots_forbidden) fail, and so do
    /// more than N (too_many_redirects). Credentials (--auth, --bearer-env, and --header with a name
    /// such as cookie or x-api-key) are not sent to another host.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/{id}' --follow 5
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=20), verbatim_doc_comment)]
    pub follow: u32,
    /// Keep the target's cookies and send them back, per connection
    ///
    /// A connection that replaces another one takes over its cookies, as a browser would. With
    /// {session} in --proxy, each session has cookies of its own. Path, Secure, Max-Age and Expires
    /// are respected; a cookie never goes to another host. At most 50 per jar, of 4 KiB each and
    /// 16 KiB together. Needs HTTP/1.1.
    #[arg(long)]
    pub cookies: bool,
}

/// Throttling options as typed.
#[derive(Debug, Clone, Copy, Args)]
pub struct ThrottlingArgs {
    /// React to throttling: honor, count or ignore
    ///
    /// A response throttles if it has status 429, status 403, 503 or 529 with Retry-After, or
    /// refuses because a quota is used up. honor: all shards wait as long as the target asks, then retry
    /// the item; a closed loop of which half is refused learns the rate that the target takes. count:
    /// count the response and abandon its item. ignore: retry the item after a backoff.
    #[arg(long, value_name = "honor|count|ignore", default_value = OnThrottle::Honor.name())]
    pub on_throttle: OnThrottle,
    /// Obey robots.txt: of public hosts (auto), of all (honor), or ignore
    ///
    /// It is fetched once before the run. Items that it forbids are skipped and counted; its
    /// largest crawl-delay limits the rate of each host. Without a robots.txt (status 4xx), all is allowed; if
    /// it cannot be fetched (no response, status 429 or 5xx), nothing is (RFC 9309), and the run
    /// exits with 1. The rules are those for the first word of the User-Agent header: crawlmark.
    #[arg(
        long,
        value_name = "auto|honor|ignore",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub robots: RobotsUse,
    /// Longest single throttle pause that a target may cause
    ///
    /// Without --duration, a run in a closed loop stops once it was only throttled for 24 times as
    /// long: go on later with --resume.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub max_pause: Duration,
    /// Adapt the load to the target: aimd or gradient [default: aimd]
    ///
    /// The number of requests in flight falls on throttling, timeouts and connections that do not
    /// open. It rises while requests succeed (aimd), or until responses slow down (gradient). The
    /// sustained rate is learned from throttling. --connections is the maximum.
    #[arg(long, value_name = "aimd|gradient", num_args = 0..=1, require_equals = true, default_missing_value = "aimd")]
    pub adaptive: Option<AdaptiveKind>,
    /// Retries per item after temporary failures, 0 to 4; 0 for none at all
    ///
    /// A throttled item is retried until the run ends, in an open loop and with --on-throttle ignore
    /// as often as one that failed. Default: 4, and 0 with --arrivals replay, which has no time for retries. Temporary failures
    /// are 408, 425, 500, 502 to 504, 520 to 524, 529, those of --retry-on, timeouts and broken
    /// connections. Methods that are not idempotent (POST, PATCH) are retried only if the target did
    /// nothing, or by --retry-on.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=MAX_RETRIES.into()))]
    pub retries: Option<u32>,
    /// Retry budget in percent of first requests, plus 100; 0% for none
    #[arg(long, value_name = "N%", default_value = "20%", value_parser = parse_percent)]
    pub retry_budget: u32,
    /// Backoff before a retry: random up to BASE, doubled each time up to CAP
    #[arg(long, value_name = "BASE[,CAP]", default_value = "100ms,20s")]
    pub backoff: Backoff,
}

/// Use of robots.txt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RobotsUse {
    /// Obey that of public hosts.
    #[default]
    Auto,
    /// Obey that of all hosts.
    Honor,
    /// Fetch none.
    Ignore,
}

/// Limits for each host, as typed.
#[derive(Debug, Clone, Copy, Args)]
pub struct PerHostArgs {
    /// Maximum requests in flight per host, over all shards
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub per_host_connections: Option<u32>,
    /// Maximum rate per host, over all shards: N, N/s, N/min or N/h
    ///
    /// --rate limits all hosts together.
    #[arg(long, value_name = "RATE")]
    pub per_host_rate: Option<Rate>,
}

impl PerHostArgs {
    /// As the plan has them, for so many hosts.
    pub const fn resolve(&self, hosts: u32) -> PerHost {
        PerHost {
            hosts,
            connections: self.per_host_connections,
            rate: self.per_host_rate,
            burst: None,
        }
    }
}

impl ThrottlingArgs {
    /// As the plan has them.
    pub fn resolve(&self, arrivals: Arrivals) -> ThrottlingPolicy {
        let retries = if arrivals == Arrivals::Replay {
            0
        } else {
            MAX_RETRIES
        };
        ThrottlingPolicy {
            on_throttle: self.on_throttle,
            max_pause: self.max_pause,
            retries: self.retries.unwrap_or(retries),
            retry_budget_percent: self.retry_budget,
            backoff: self.backoff,
            adaptive: self.adaptive,
        }
    }
}

fn parse_percent(text: &str) -> Result<u32, String> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    digits
        .parse()
        .ok()
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| format!("`{text}` is not a whole percentage: write 0% to 100%"))
}
