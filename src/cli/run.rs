//! Arguments of `run`. Rates, ID ranges and durations are parsed by the harness (`units/`).

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crawlmark_harness::plan::{
    AdaptiveKind, Arrivals, Backoff, MAX_RETRIES, MOST_LINGER, OnThrottle, Pacing, PerHost,
    RequestObjective, ThrottlingPolicy,
};
use crawlmark_harness::units::{IdRange, Rate, RateShape, ShapedRate, parse_duration};
use crawlmark_results::run::gates::Condition;

use super::saved::export_help;
use super::{
    Auto, BehaviourArgs, ConnectionArgs, Export, PartArgs, ProxyArgs, SaveArgs, TargetProbeArgs,
    TlsArgs, Typed, number, parse_error_rate, parse_header_name, parse_limit_time, parse_method,
    parse_name, parse_positive_time, parse_tag, whole,
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
            || !self.objective.is_empty()
            || conditions.any(|it| it.metric.is_corrected(Arrivals::Asap).is_some());
        let is_limit = self.burst.is_some()
            || self.throttling.adaptive.is_some()
            || self.per_host.per_host_connections.is_some()
            || self.per_host.per_host_rate.is_some()
            || self.part.plan.is_some()
            || self.save.save.is_some()
            || self.save.earlier().is_some();
        let is_schedule = (self.rate.as_ref())
            .is_some_and(|rate| !matches!(rate.shape, RateShape::Windows { .. }));
        self.arrivals
            .unwrap_or(if is_schedule && is_of_times && !is_limit {
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
  A range of IDs with two processes and 64 connections, saved in ./first:
    crawlmark run --ids 0..200k --shards 2 -c 64 --out first
  Your own target, with at most 5,000 requests a second:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 5000
  Open loop: 500 requests a second are due, whatever the target does:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 500 \\
        --arrivals constant -c 500 -d 30s
  A ramp from 100 to 5,000/s in a minute:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' --rate 100:5000 -d 60s
  A spike, and then the rate before it:
    crawlmark run 'http://127.0.0.1:8080/items/{id}' -c 500 --arrivals constant \\
        --rate '200/s@30s, 200/s..2000/s@10s, 2000/s@20s, 200/s@60s'
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
  Save what is crawled, and continue after a stop:
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
  --threshold    --fail-if (states what must hold, too)
  --stop-unless  --stop-if (states what must hold, too)";

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
    /// Without {id}, each item requests the same URL. Host names outside ASCII are sent in their
    /// xn-- form. Characters that a request line cannot contain are percent-encoded. Everything
    /// else is sent as typed.
    // As text: clap would repeat what it cannot read, and that may be a password.
    #[arg(conflicts_with = "urls")]
    pub url: Option<String>,
    /// Crawl the URLs in FILE, one per line, or - for stdin
    ///
    /// Items use the lines in turn: item i uses line i modulo the number of lines. Blank
    /// lines and lines that begin with # do not count. {id} in a line is replaced by the
    /// ID. If no line has {id}, and none of --ids, -n and -d is given, each line is
    /// requested once.
    ///
    /// A host is a name with a port. Each host has its own connections, throttle pauses,
    /// --per-host-rate and --per-host-connections. While one host has to wait, requests to
    /// other hosts go first. (An open loop keeps the order.) If a host cannot be reached,
    /// its items fail. If no host can be reached, the run is refused.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub urls: Option<PathBuf>,
    /// Send the requests in FILE: JSON lines, HAR or access log
    ///
    /// The format is detected from the content; - is standard input. FILE has at most
    /// 256 MiB and 2,000,000 requests, which are held in memory.
    ///
    ///   JSON lines  {"method": "POST", "url": "http://127.0.0.1:8080/items/{id}",
    ///               "header": {"accept": "*/*"}, "body": "e30=", "weight": 3,
    ///               "at": 1.5} in one line. Only url is required. body is base64,
    ///               and body_text is plain text. at is seconds, or a time (RFC
    ///               3339). extract, then, next and once send several requests
    ///               per item.
    ///   HAR         as browsers save it, without headers such as Host and Connection
    ///   access log  common or combined format. Only GET, HEAD and OPTIONS are sent.
    ///               Requests of one second are spread evenly over that second.
    ///
    /// If a request of a HAR file or an access log cannot be sent again, it is left out and
    /// counted. {id} in a URL, a header or a body is replaced by the ID. If a line lacks a
    /// method, a header or a body, those of --method, --header and --body are used. If a
    /// line has only a path, it is appended to the URL of the command line.
    ///
    /// Items use the requests in turn: item i uses request i modulo the number of requests.
    /// If no request has {id}, and none of --ids, -n and -d is given, each request is sent
    /// once. With weights, each item draws a request at random (--seed). With --arrivals
    /// replay, each request is sent once, at its recorded time.
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
    /// Crawl the IDs from A to B-1, or to B with A..=B
    ///
    /// Leading zeros are kept: 0001..0100 has the same effect as --id-format width=4. (The bundled
    /// target does not support this.) The default is 0..100m (100 million IDs). With this default,
    /// the run ends after 10 s unless -n or -d is given.
    #[arg(long, value_name = "A..B")]
    pub ids: Option<IdRange>,
    /// Stop after N items (retries not counted)
    #[arg(short = 'n', long = "items", aliases = ["requests", "count", "iterations"], value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub requests: Option<u64>,
    /// Start no more items after TIME
    #[arg(short = 'd', long, alias = "time", short_alias = 'z', value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// HTTP method [default: GET, or POST with a body]
    #[arg(short = 'm', long, short_alias = 'X', value_parser = parse_method)]
    pub method: Option<String>,
    /// Add a request header, `name: value`; may be repeated
    ///
    /// {id} in the value is replaced by the ID, as in --body.
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

    /// Number of crawl processes (shards)
    ///
    /// A shard is a process. Other tools use threads (-t) instead. auto is one shard per core, or
    /// three shards for five cores if the target is on this machine. With a --rate, auto is at most
    /// one shard for each 200/s, and a single shard below 400/s.
    #[arg(
        short = 's',
        long,
        aliases = ["threads", "workers"],
        short_alias = 't',
        value_name = "N|auto",
        default_value = "auto"
    )]
    pub shards: Auto<u32>,
    /// Total number of connections
    ///
    /// Each connection carries one request at a time. With HTTP/2, it carries up to --streams
    /// requests, so up to N times --streams requests are in flight. With several hosts, up to 2N
    /// idle connections may stay open as well.
    #[arg(short = 'c', long, aliases = ["clients", "concurrency", "parallel", "users", "vus"], value_name = "N", default_value_t = 64, value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub connections: u32,
    /// Maximum total rate: N, N/s, N/min or N/h; or stages
    ///
    /// The rate is the total of all shards. A plain N is per second. 'N per TIME' allows at most N
    /// requests in any window. (A window is shorter than TIME by 2 %, or by 250us if that is more.)
    /// The requests are sent at the start of each TIME, if connections are free.
    ///
    /// Stages follow each other, with commas between them: RATE@TIME is a steady rate, A..B@TIME a
    /// ramp from A to B. The last stage may do without a time; it then lasts until the end. If all
    /// stages have a time, it is also the --duration. A spike, and its end: '200/s@30s,
    /// 200/s..2000/s@10s, 2000/s@20s, 200/s@60s'. The report has counts and times by stage.
    ///
    /// Short forms: A:B is a ramp from A to B over the whole --duration. A:B:STEP@TIME goes from A
    /// to B in steps of TIME each, and then stays at B. Write their unit once, after the last
    /// number: 0:1000, 60:600:60/min@30s.
    #[arg(
        short = 'R',
        long,
        aliases = ["qps", "rps"],
        short_alias = 'q',
        value_name = "RATE"
    )]
    pub rate: Option<ShapedRate>,
    /// Schedule: asap, waves, constant, poisson or replay
    ///
    ///   asap       Closed loop: the next request is sent when a connection is
    ///              free and the budget allows it. A slow target slows this
    ///              client down. Times are service times, and are not corrected
    ///              for coordinated omission.
    ///   waves      Closed loop in batches: as many requests as -c allows are sent
    ///              together, and the next batch when all of them have ended. Needs
    ///              one shard (-s 1, the default here).
    ///   constant   Open loop: request i is scheduled i/RATE after the start,
    ///              however slow the target is. Response times start at the
    ///              scheduled time, so they include every wait, and the report
    ///              names its cause.
    ///   poisson    Like constant, but at random times drawn from --seed, like
    ///              many independent users.
    ///   replay     Open loop as recorded: each request of --requests-file is sent
    ///              once, at its recorded time. Not with --rate, --retries or
    ///              --follow.
    ///
    /// In an open loop, --rate is the schedule of requests. No request is skipped unless
    /// --queue is full, and late requests are sent immediately. While the target
    /// throttles, the schedule is delayed, and the report says by how much. --connections
    /// limits requests in flight. Set it to at least RATE x the longest response time.
    /// Otherwise, you measure the wait for a connection.
    ///
    /// If --rate is given, and a --threshold, --stop-unless or --slo-p99 is about times,
    /// the default is constant. A closed loop would pass such a threshold too easily,
    /// because it sends less while the target is stalled. In all other cases, the default
    /// is asap. It is also asap if the rate is only a limit, that is, with --burst,
    /// --adaptive, --save, limits per host, or a --rate in windows, and for crawls in
    /// parts.
    #[arg(long, value_name = "MODE", verbatim_doc_comment)]
    pub arrivals: Option<Arrivals>,
    /// Replay X times as fast as recorded, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "X", value_parser = number(0.001..=1000.0, "2 for twice as fast"))]
    pub speed: Option<f64>,
    /// Open loop: drop a due request if N already wait for a connection
    ///
    /// With 0, a due request is dropped if no connection is free. Dropped requests are counted
    /// (`dropped`), and slower than all others in response times. k6 calls them dropped iterations.
    /// Later requests take over the items of dropped requests. By default, all due requests wait,
    /// and none is dropped before the end.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=1_000_000))]
    pub queue: Option<u32>,
    /// Open loop: drop a due request that waits for longer than TIME
    ///
    /// For requests that nobody waits for any longer. The wait is for a free connection, or for
    /// another limit. The time to open a new connection is not part of it, so a request may be
    /// sent later than TIME. Dropped requests are counted as with --queue, and `drop_age` has
    /// their ages. Later requests take over their items.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
    /// Objective of each request, as in 'response < 200ms'
    ///
    /// May be repeated; a request meets the objectives if it has a good or not-found response
    /// within all of them. Times are response (open loops only), service and ttfb. The rate of
    /// such requests is the goodput: see goodput in the result, in the charts, and in --threshold
    /// (goodput, goodput_share). Requests that were due and never sent miss the objectives.
    #[arg(long, value_name = "EXPR")]
    pub objective: Vec<RequestObjective>,
    /// Way to wait for send times: sleep, coarse (1 ms) or spin (busy wait)
    ///
    ///   sleep   Sleep until a kernel timer wakes the shard, some tens of
    ///           microseconds late. Requests that are due within a twentieth of
    ///           the median service time (50 µs to 1 ms) are sent together, none
    ///           of them early.
    ///   coarse  As sleep, but within 1 ms: about half a millisecond late at high
    ///           rates, with less than half of the CPU.
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
    /// Before a shard sleeps until the next response, it waits up to TIME (at most 1ms)
    /// for more responses, and then handles all of them together. This needs less CPU per
    /// request, but makes response times up to TIME longer. The wait is at most a
    /// twentieth of the mean time of a request. A shard waits only if fewer than four
    /// responses come per wake-up, and if two more arrive during the wait. With the
    /// bundled target, auto usually does not wait, because its responses arrive in
    /// groups. longest_linger_us of each shard in the result is the longest intended
    /// wait. auto is 50us without a rate of any kind and with at least 40 requests in
    /// flight per shard, else 0. The rounds of ab use 0 unless --linger is given.
    /// Example: -s 1 -c 64 --linger 0
    #[arg(long, value_name = "auto|TIME", default_value = "auto", value_parser = parse_linger, verbatim_doc_comment)]
    pub linger: Auto<Duration>,
    /// Exclude the first TIME from times and rates
    ///
    /// Items requested in the warm-up are included in the counts of items.
    #[arg(short = 'w', long, value_name = "TIME", value_parser = parse_duration)]
    pub warmup: Option<Duration>,
    /// Let open requests finish for TIME after the end [default: --timeout]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub grace: Option<Duration>,
    /// Maximum burst of the rate budget, in requests
    ///
    /// Up to 200/s, the default is 1 per shard, and requests of all shards are sent one at a time.
    /// Above 200/s, the default also includes the requests that are due in 25 ms, so that a delayed
    /// shard can catch up.
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub burst: Option<u64>,
    /// Do not pin shards to cores
    ///
    /// By default, a shard stays on one core. If the target is on this machine and there are enough
    /// cores, shards use cores on which the target never runs.
    #[arg(long)]
    pub no_pin: bool,

    /// Throttling and retries
    #[command(flatten)]
    pub throttling: ThrottlingArgs,
    /// Retry responses with these statuses, too, as in 409,423
    ///
    /// The statuses listed under --retries (408, 425, 500 and so on) are always retried. The list
    /// may contain ranges, such as 520-529. A response with a listed status is neither good nor not
    /// found. (By default, 202 is good, and 404 is not found.) If an item still gets such a status
    /// after its retries, it has failed. POST and PATCH requests are retried, too, so list only
    /// statuses that mean that the target did nothing.
    #[arg(long, value_name = "LIST")]
    pub retry_on: Option<Statuses>,
    /// Limits per host
    #[command(flatten)]
    pub per_host: PerHostArgs,

    /// Time limit per request, once it has a connection
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Time limit to open a connection, including tunnel and TLS handshake
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_positive_time)]
    pub connect_timeout: Duration,
    /// Open a new connection for every request
    ///
    /// Requests have the header `connection: close`. The time to open a connection is in `connect`.
    /// In an open loop, it is also part of `pool_wait`, and therefore of the response time. The
    /// local port of a closed connection may be unusable for a minute (`TIME_WAIT`). If that limits
    /// the run, the validity section of the report says so.
    #[arg(long, conflicts_with = "max_requests_per_connection")]
    pub disable_keepalive: bool,
    /// Replace a connection after N requests; 1 is --disable-keepalive
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub max_requests_per_connection: Option<u64>,
    /// Speak this version of HTTP: 1.1, 2, 3 or auto
    ///
    /// With auto, the target chooses the version over https:// (ALPN), and 1.1 is used over
    /// http://. With 2, only HTTP/2 is used; over http:// it is used without negotiation (prior
    /// knowledge, h2c). If the target does not speak HTTP/2, requests fail. Each connection waits
    /// for the target's HTTP/2 settings before its first request. With 3, only HTTP/3 over QUIC is
    /// used, for https:// URLs, in a build with the feature `http3`. Example: --http 2
    /// --connections 4 --streams 25
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
    /// target allows fewer streams, requests wait for a free stream (`pool_wait`). If the target
    /// refuses a request before it begins to process it (GOAWAY, `REFUSED_STREAM`), the request is
    /// sent again. It still counts as one request, and `resent` counts the repeats. Example: --http
    /// 2 -c 1 --streams 100
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()), conflicts_with = "disable_keepalive")]
    pub streams: Option<u32>,
    /// Connect from these local addresses: addresses, ranges or prefixes
    ///
    ///   127.0.0.9,127.0.0.11      these
    ///   127.0.1.1-127.0.1.250     from the first to the last
    ///   127.1.0.0/16, fd00::/80   the hosts of a prefix
    ///
    /// The connections of all shards use the addresses in turn. If a connection is opened
    /// again, it keeps its address. With --disable-keepalive or
    /// --max-requests-per-connection, each new connection uses the next address. A target
    /// that limits clients by address then treats each address as a client.
    ///
    /// All of 127.0.0.0/8 works without setup for targets on this machine. Other addresses
    /// have to belong to this machine (ip addr add), or be routed to it (ip route add local
    /// PREFIX dev lo). Otherwise, the run is refused.
    ///
    ///   crawlmark run --target-profile article -c 80 \
    ///       --local-ips 127.1.0.0/16
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    pub local_ips: Option<LocalIps>,
    /// Connect to another address than the URL's; may be repeated
    ///
    /// HOST and PORT are those of the URL. An empty HOST or PORT matches any. Requests and TLS
    /// still name the URL's host. Example: --connect-to www.example.com:443:127.0.0.1:8443
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
    /// If the flag is repeated, all must match. Without the flag, any complete body with a
    /// status from 200 to 299 is good. Without a URL, the items of the bundled target are
    /// expected.
    ///
    ///   json               one JSON value under a JSON content type
    ///   status:200,404     these statuses and no others, as in status:200-204;
    ///                      404 and 410 count as `not found` unless they are listed
    ///   json:/data/id      a JSON body with a value other than null at this
    ///                      pointer; a * stands for any item of a list
    ///   regex:"id":\d+     a body in which this regular expression matches
    ///   len:1-1000         a body of 1 to 1,000 bytes; len:115, len:1-
    ///   sse                a complete stream of server-sent events. Their times
    ///                      are measured: first_event, event_gap. With
    ///                      sse:[DONE], the last event must have this data
    ///   ndjson             a complete stream of lines, each a JSON value. Their
    ///                      times are measured, as with sse
    ///   grpc               the messages of a gRPC call that ends with status 0;
    ///                      needs --http 2 or 3, and sends the body as one message
    ///   items:SEED         exactly the body that `serve --seed SEED` sends for
    ///                      the ID
    ///   whole              any complete body
    ///   not EXPECT         a complete response that does not match EXPECT, which
    ///                      is json, status, regex or len. For GraphQL, use
    ///                      'not json:/errors'. It accepts JSON bodies without
    ///                      errors, and no other bodies
    ///
    /// With json and regex, a body may have up to 16 MiB. With ndjson, a line may have up
    /// to 16 MiB. Challenge pages and throttled responses (such as 429) are never good,
    /// even if their status is listed.
    #[arg(long, value_name = "EXPECT", verbatim_doc_comment)]
    pub expect: Vec<Expect>,

    /// Saving what is crawled
    #[command(flatten)]
    pub save: SaveArgs,

    /// One part of a crawl on several machines
    #[command(flatten)]
    pub part: PartArgs,

    /// Result directory, or - to save none [default: results/runs/TIME-NAME]
    ///
    /// With `--out -`, no result is saved. Only the printed output and exports remain.
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
    /// Print the plan first, and every table before the closing summary
    #[arg(long, short = 'v', conflicts_with = "json")]
    pub verbose: bool,
    /// Print the full latency distribution before the closing summary
    #[arg(long, conflicts_with = "json")]
    pub latency: bool,
    /// Leave the histogram out of the closing summary
    #[arg(long, conflicts_with = "json")]
    pub no_histogram: bool,
    /// Export the result as csv, junit, openmetrics, ...; may be repeated
    #[arg(long = "export", value_name = "FORMAT[=FILE]", long_help = export_help())]
    pub exports: Vec<Export>,
    /// Save each plot as a PNG file as well, 1,440 pixels wide
    #[arg(long)]
    pub png: bool,
    /// Compare a response header among the slowest; may be repeated
    ///
    /// The report says what the slowest responses have in common: URL template, host, source
    /// address, shard, place on the connection, size, status, retransmission, second of the
    /// minute. With this flag, the values of up to 8 response headers are compared as well. The
    /// report contains these values. Example: --trait x-cache --trait x-served-by
    #[arg(long = "trait", value_name = "HEADER", value_parser = parse_header_name)]
    pub traits: Vec<String>,
    /// Print errors and the page's path only; with --json, the JSON
    ///
    /// If a threshold fails or cannot be decided, one line about it is still printed.
    #[arg(long)]
    pub quiet: bool,
    /// Do not show progress
    #[arg(long)]
    pub no_progress: bool,
    /// Serve a live page of the run on 127.0.0.1
    ///
    /// The first line on standard error is the address of the page, which contains a secret path:
    /// http://127.0.0.1:PORT/.../. Without PORT, a free port is used. The page shows each second,
    /// and becomes the report at the end. To see it from another machine, run ssh -L
    /// PORT:127.0.0.1:PORT HOST there, and open the same address. If the browser runs on the
    /// machine that measures, it takes CPU time from the run.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<u16>,
    /// Serve live metrics of the run for Prometheus, at /metrics
    ///
    /// The names are those of `--export openmetrics`, and the address is http://ADDR:PORT/metrics.
    /// Example: --metrics 127.0.0.1:9464. Port 0 picks a free port and prints it on standard error.
    /// Anyone who can reach the address can read the counts, times and target of the run without a
    /// password, but can change nothing. Use an address that other machines can reach
    /// (0.0.0.0:9464) only if all of them may read this data. The metrics contain no header, body
    /// or ID of an item. The last scrape, up to 2 seconds after the end, has the verdict and the
    /// thresholds.
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Fail unless this holds: `service_p99 < 250ms`
    ///
    /// May be repeated. If a threshold fails, the exit code is 3. The expression states
    /// what must hold, as in k6: METRIC[WINDOW] OP LIMIT. OP is one of < <= > >= == !=.
    ///
    ///   times      SERIES_STAT, with a unit (us, ms, s, m, h): service_p99,
    ///              response_p(99.9) (open loop only), item_max, ttfb_mean, ...
    ///              Series: service, response (and each with _throttled and
    ///              _error), ttfb, item, connect, tls, sched_lag, budget_wait,
    ///              pool_wait, tunnel, loop_lag, receive_delay, first_event,
    ///              event_gap
    ///              Stats: p50, p99, ... min mean max
    ///   per second rate (items), attempts_rate, goodput: 9500, 9.5k, 9500/s
    ///   shares     throttled_rate, error_rate (see --max-error-rate), retry_rate,
    ///              ok_rate (of items), goodput_share (see --objective),
    ///              budget_utilisation, rate_ratio (rate sent divided by --rate):
    ///              0.01 or 1%
    ///   counts     items, ok, not_found, failed, gave_up, aborted, lost,
    ///              unfinished, not_attempted, attempts, retries, throttled,
    ///              soft_blocked, errors, dropped, connections_opened: 100, 10k
    ///   others     cpu_us_per_attempt (of the client), target_cpu_per_request: 40us;
    ///              valid (== or != true or false)
    ///
    /// A condition with a window, as in error_rate[10s], must hold in every window of that
    /// length (1s to 60s) after the warm-up. Windows work with service and response times,
    /// rates, shares of requests and counts.
    ///
    /// With a name in braces, as in service_p99{GET /checkout} < 2s, only the requests of that
    /// URL template or host count. Names are those of by_template and by_host in the result;
    /// {stage=2} is the second stage of the --rate. Without a window and --warmup, this works
    /// with service_p50, service_p99, in an open loop response_p50, response_p99, error_rate,
    /// throttled_rate, goodput_share, attempts, ok, not_found, throttled, errors; with a stage,
    /// goodput too.
    ///
    /// A percentile needs 100 samples above it. So p99 needs 10,000 samples in all. If a
    /// threshold cannot be decided, it is reported as undecided, and the exit code is 5
    /// unless another threshold failed. If a run is too short for a threshold, a warning
    /// before the run says so.
    #[arg(long, alias = "fail-if", value_name = "EXPR", verbatim_doc_comment)]
    pub threshold: Vec<Condition>,
    /// Stop unless this holds, as in `error_rate[10s] < 5%`; may be repeated
    ///
    /// EXPR is written as for --threshold, and is evaluated every second. Without a window,
    /// it covers everything since the warm-up. If it no longer holds, the run stops as
    /// after Ctrl-C, with exit code 3 and a partial report that names the threshold. Shares
    /// and means need 100 requests, and percentiles need 100 samples above them. With fewer
    /// requests, a share fails only if the errors alone would break the limit among 100
    /// requests.
    #[arg(long, alias = "stop-if", value_name = "EXPR", verbatim_doc_comment)]
    pub stop_unless: Vec<Condition>,
    /// Fail if p99 exceeds TIME
    ///
    /// Short for --threshold `service_p99 <= TIME`, or in an open loop for `response_p99 <= TIME`.
    /// With a --rate, this flag makes the loop open (see --arrivals).
    #[arg(long, value_name = "TIME", value_parser = parse_limit_time)]
    pub slo_p99: Option<Duration>,
    /// Fail if the error rate exceeds SHARE (1%, 0.01)
    ///
    /// Short for --threshold `error_rate <= SHARE`. The error rate is the greater of two shares:
    /// the share of requests that were errors, and the share of items that failed, were abandoned,
    /// were cut off or waited for a retry at the end. Good, not-found and throttled requests and
    /// followed redirects are not errors.
    #[arg(long, value_name = "SHARE", value_parser = parse_error_rate)]
    pub max_error_rate: Option<Condition>,
    /// Exit with 99 instead of 3 when a threshold fails, as k6 does
    #[arg(long)]
    pub k6_exit_codes: bool,
    /// Exit with 4 if the run is not valid or items were abandoned
    ///
    /// Only the exit code changes. The report has the verdict, and a reason and a remedy
    /// for each finding. These verdicts lead to exit code 4: errors, target_limited,
    /// budget_limited, concurrency_limited, client_limited, disturbed, nothing_measured
    /// and incomplete. incomplete leads to it even without --strict.
    #[arg(long, verbatim_doc_comment)]
    pub strict: bool,
    /// Find out what limits the target, by short experiments after the run
    ///
    /// The experiments are up to five runs of 2 s: with responses acknowledged immediately, with
    /// one connection, with twice the connections, at a third of the rate, and in waves. They do
    /// not exceed --rate. If the target asked for a wait, they begin when it is over. If the wait
    /// is longer than 5 minutes, no experiment is made. The same IDs are requested again, so
    /// methods that change something (POST, PATCH) are refused.
    #[arg(long, conflicts_with_all = ["save", "resume", "refresh", "plan", "node"])]
    pub diagnose: bool,
    /// End a shard that is silent for TIME; the run is then incomplete
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub shard_deadline: Duration,

    /// Probe of the target's processes.
    #[command(flatten)]
    pub probe: TargetProbeArgs,

    /// Processes of the bundled target: N, or auto (two per five cores)
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
    /// The JSON is checked, and sent with `content-type: application/json` unless --header sets
    /// another type. {id} is replaced by the ID, as in --body.
    #[arg(long, value_name = "JSON", conflicts_with = "body")]
    pub json_body: Option<String>,
    /// Send credentials (Basic): USER:PASSWORD
    ///
    /// The user name must not contain a colon. User name and password are in no output or
    /// file. They are overwritten in the process list, if the system allows it. To keep a
    /// token out of the command line, use --bearer-env.
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
    /// The token is in no output or file. The recorded command has only the name of the variable.
    #[arg(long, value_name = "NAME")]
    pub bearer_env: Option<String>,
    /// Write IDs as width=N (with leading zeros), hex, base36 or hex,width=8
    ///
    ///   width=8        00000042 for ID 42; longer IDs are written whole
    ///   hex            2a for ID 42; base36: 16; both in lower case
    ///   hex,width=4    002a for ID 42
    ///
    /// The format is used wherever {id} is replaced: in URLs, headers and bodies.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/objects/{id}.json' --ids 0..64k \
    ///       --id-format hex,width=4
    #[arg(long, value_name = "FORMAT", verbatim_doc_comment)]
    pub id_format: Option<IdFormat>,
    /// Crawl the IDs in random order (--seed), each once
    ///
    /// With --ids, these IDs are shuffled. With -n alone, IDs 0 to N-1 are shuffled. With both, N
    /// random IDs of --ids are crawled. With neither, 0..100m is shuffled. The order is the same
    /// for every number of shards. In random order, a request does not warm the target's caches for
    /// the next one.
    #[arg(long)]
    pub shuffle: bool,
    /// Accept gzip, br and zstd, and decode responses before checking them
    ///
    /// Requests have the header `accept-encoding: gzip, br, zstd`, unless --header sets
    /// another value. --expect checks the decoded body. If a body cannot be decoded
    /// (bad_encoding), or has more than 16 MiB (body_too_long), the request fails.
    /// bytes_received counts bytes before decoding. The service time does not include
    /// decoding.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/{id}' --compressed \
    ///       --expect json
    #[arg(long, verbatim_doc_comment)]
    pub compressed: bool,
    /// Follow up to N redirects of an item (301, 302, 303, 307, 308)
    ///
    /// Each redirect is a request of its own: --rate limits it, and `redirects` in the
    /// result counts it. Method and body change as in browsers: 303 leads to a GET, and so
    /// do 301 and 302 after a POST. A retry repeats the last request of the item. The last
    /// response decides the outcome of the item. These redirects fail:
    ///
    ///   redirect_refused    to a host that is not in the URLs: add a URL of it to --urls
    ///   robots_forbidden    to a path that robots.txt forbids
    ///   too_many_redirects  more than N redirects
    ///
    /// Credentials (--auth, --bearer-env, and --header with a name such as cookie or
    /// x-api-key) are not sent to another host.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/{id}' --follow 5
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=20), verbatim_doc_comment)]
    pub follow: u32,
    /// Keep the target's cookies and send them back, per connection
    ///
    /// If a connection replaces another one, it takes over its cookies, as in a browser. With
    /// {session} in --proxy, each session has cookies of its own. Path, Secure, Max-Age and Expires
    /// are respected. A cookie is never sent to another host. A connection (or session) keeps at
    /// most 50 cookies, of 4 KiB each and 16 KiB in total. Needs HTTP/1.1.
    #[arg(long)]
    pub cookies: bool,
}

/// Throttling options as typed.
#[derive(Debug, Clone, Copy, Args)]
pub struct ThrottlingArgs {
    /// React to throttling: honor, count or ignore
    ///
    /// A response is throttled if it has status 429, if it has status 403, 503 or 529 with
    /// Retry-After, or if it says that a quota is used up. With honor, all shards wait as long as
    /// the target asks, then retry the item. If half of the requests are refused, a closed loop
    /// learns the rate that the target accepts. With count, the response is counted, and its item
    /// is abandoned. With ignore, the item is retried after a backoff.
    #[arg(long, value_name = "honor|count|ignore", default_value = OnThrottle::Honor.name())]
    pub on_throttle: OnThrottle,
    /// Obey robots.txt: auto (public hosts only), honor (all hosts), ignore
    ///
    /// robots.txt is fetched once before the run. Forbidden items are skipped and counted. The
    /// largest crawl-delay limits the rate of each host. If there is no robots.txt (status 4xx),
    /// everything is allowed. If it cannot be fetched (no response, status 429 or 5xx), nothing is
    /// allowed (RFC 9309). If this happens at every host (with --save: at one host), the run exits
    /// with 1. crawlmark obeys the rules for the first word of the User-Agent header (by default
    /// `crawlmark`).
    #[arg(
        long,
        value_name = "auto|honor|ignore",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub robots: RobotsUse,
    /// Longest throttle pause that a target may cause
    ///
    /// Without --duration, a closed loop stops if every response was throttled for 24 times this
    /// long. To continue later, use --resume.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub max_pause: Duration,
    /// Adapt the load to the target: aimd or gradient [default: aimd]
    ///
    /// Throttling, timeouts, and connections that do not open reduce the number of requests in
    /// flight. With aimd, this number rises while requests succeed. With gradient, it rises until
    /// responses slow down. From throttled responses, crawlmark learns the rate that the target
    /// sustains. --connections is the maximum.
    #[arg(long, value_name = "aimd|gradient", num_args = 0..=1, require_equals = true, default_missing_value = "aimd")]
    pub adaptive: Option<AdaptiveKind>,
    /// Retries per item after temporary failures, 0 to 4 (0: never retry)
    ///
    /// The default is 4. With --arrivals replay it is 0, because a replay has no time for retries.
    /// Temporary failures are timeouts, broken connections, and the statuses 408, 425, 500, 502 to
    /// 504, 520 to 524, 529 and those of --retry-on. Methods that are not idempotent (POST, PATCH)
    /// are retried only if the target did nothing, or if --retry-on lists the status. With
    /// --on-throttle honor, a closed loop retries a throttled item until the run ends. In an open
    /// loop, and with --on-throttle ignore, a throttled item is retried only as often as a failed
    /// one.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=MAX_RETRIES.into()))]
    pub retries: Option<u32>,
    /// Allow at most 100 retries, plus N% of the number of items requested
    ///
    /// The limit applies to all retries of the run together. 0% allows no retries.
    #[arg(long, value_name = "N%", default_value = "20%", value_parser = parse_percent)]
    pub retry_budget: u32,
    /// Open loop: send retries in addition to --rate, as independent users do
    ///
    /// By default, a retry takes a turn of the schedule, so the target never gets more than --rate.
    /// With this flag, retries add to the load of a target that fails, and may keep it overloaded
    /// (see `crawlmark overload`).
    #[arg(long)]
    pub retries_on_top: bool,
    /// Random wait before a retry: up to BASE, doubled per retry up to CAP
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
            retries_on_top: self.retries_on_top,
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
