//! What can be typed. Each argument is checked by itself here; what they mean together is resolved by the command.
//! Touches nothing: no file, no name, no clock.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use crawlmark_harness::units::{IdRange, Rate, UnitError, parse_count, parse_duration};
use crawlmark_mock_server as target;

use crate::crawl::Expect;

/// Crawls a range of IDs as fast as a target, a rate budget and the machine allow, and tells the truth about how fast
/// that was.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done · 1 could not start or complete · 2 usage · 4 the measurement is invalid (a shard died, or --strict)
            129 / 130 / 143 ended by SIGHUP / SIGINT / SIGTERM, partial report written";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Crawl a range of IDs and measure it; without a URL, crawl the bundled target
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Run the bundled target: seeded items, delays, limits and faults, and books of what it was asked
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
}

const RUN_EXAMPLES: &str = "\
Examples:
  Ten seconds against the bundled target:
    crawlmark run
  A range, two processes, 64 connections, the result in ./first:
    crawlmark run --ids 0..200k --shards 2 -c 64 --out first
  A target of yours, at 5,000 requests a second at most:
    crawlmark run http://127.0.0.1:8080/items/{id} --rate 5000
  One number for a script:
    crawlmark run http://127.0.0.1:8080/items/{id} -n 10k --json | jq .latency.service.p99_us";

const SERVE_EXAMPLES: &str = "\
Examples:
  As fast as it goes, one process per core:
    crawlmark serve --listen 127.0.0.1:8080
  A service with a tail and a limit:
    crawlmark serve --latency lognormal:20ms,0.4 --limit 1000/s:burst=50
  A service with a cache, a queue and a pause for breath:
    crawlmark serve --latency bimodal:300us,15ms,0.1 --latency-per-in-flight 20us --stall 10s,200ms
  A service that fails now and then:
    crawlmark serve --fault error:0.01:503 --fault reset:0.005,drip:0.01:2s
  The stubs that WireMock serves elsewhere, with requests kept for verification:
    crawlmark serve --stubs ./wiremock --journal
  Over TLS, with HTTP/2 for whoever asks for it:
    crawlmark serve --listen 127.0.0.1:8443 --tls --tls-cert authority.pem
    curl --cacert authority.pem https://127.0.0.1:8443/items/1
  A rotating gateway in front of a service that limits by address; each session goes out from an address of its own:
    crawlmark serve --listen 127.0.0.1:8080 --limit 10/s
    CRAWLMARK_PROXY_AUTH=user:pass crawlmark serve --listen 127.0.0.1:3128 --proxy
    curl -x http://user-session-a:pass@127.0.0.1:3128 http://127.0.0.1:8080/items/1
  What it was asked:
    curl -s http://127.0.0.1:8080/__admin/ledger";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches as they are typed; resolved, they become enums")]
pub struct RunArgs {
    /// The target, with {id} where the ID goes (appended as /{id} when absent)
    // As text: clap would repeat what it cannot read, and that may be a password.
    pub url: Option<String>,
    /// The IDs to crawl: A..B without B or A..=B with it; 0..100m and ten seconds when neither this nor -n nor -d is given
    #[arg(long, value_name = "A..B", help_heading = "What")]
    pub ids: Option<IdRange>,
    /// Stop after N items
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_positive, help_heading = "What")]
    pub requests: Option<u64>,
    /// Stop starting items after this time
    #[arg(short = 'd', long, short_alias = 'z', value_name = "TIME", value_parser = parse_duration, help_heading = "What")]
    pub duration: Option<Duration>,
    /// The method of every request; GET unless given, POST with a body
    #[arg(short = 'm', long, value_parser = parse_method, help_heading = "What")]
    pub method: Option<String>,
    /// A header of every request, `name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", help_heading = "What")]
    pub headers: Vec<String>,
    /// The body of every request
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "What")]
    pub body: String,
    /// The seed of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, help_heading = "What")]
    pub seed: u64,

    /// Processes that crawl, each on its core: a number, or auto for one per core
    #[arg(short = 's', long, short_alias = 't', value_name = "N|auto", default_value = "auto", help_heading = "Load")]
    pub shards: Auto<u32>,
    /// Connections in all, one request at a time on each
    #[arg(short = 'c', long, value_name = "N", default_value_t = 64, help_heading = "Load")]
    pub connections: u32,
    /// Requests in all, at most: N, N/s, N/min or N/h, over all shards
    #[arg(short = 'R', long, alias = "qps", short_alias = 'q', value_name = "RATE", help_heading = "Load")]
    pub rate: Option<Rate>,
    /// How many requests the budget may let through at once; 10 ms of the rate unless given
    #[arg(long, value_name = "N", requires = "rate", value_parser = parse_positive, help_heading = "Load")]
    pub burst: Option<u64>,
    /// Let the kernel place the shards instead of keeping each on its core
    #[arg(long, help_heading = "Load")]
    pub no_pin: bool,

    /// The longest an attempt may take once a connection is in hand
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Network")]
    pub timeout: Duration,
    /// The longest that opening a connection may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = "Network")]
    pub connect_timeout: Duration,

    /// What counts as a good body: whole, or items:SEED for a bundled target with that seed; a challenge page never
    /// does, and redirects are not followed
    #[arg(long, value_name = "EXPECT", help_heading = "Answers")]
    pub expect: Option<Expect>,

    /// Where to save the result; results/runs/TIME-NAME unless given
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// A short name for the run
    #[arg(long, default_value = "crawl", value_parser = parse_name, help_heading = "Results")]
    pub name: String,
    /// A label to save with the result; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag, help_heading = "Results")]
    pub tags: Vec<(String, String)>,
    /// Print the report as JSON to standard output, and nothing else there
    #[arg(long, help_heading = "Results")]
    pub json: bool,
    /// Print nothing but errors (and the JSON, with --json)
    #[arg(long, help_heading = "Results")]
    pub quiet: bool,
    /// Show no progress while the run goes on
    #[arg(long, help_heading = "Results")]
    pub no_progress: bool,

    /// Fail with exit code 4 unless the measurement is valid
    #[arg(long, help_heading = "Gates")]
    pub strict: bool,
    /// End a shard that says nothing for this long, and call the run incomplete
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = "Gates")]
    pub shard_deadline: Duration,

    /// Processes of the bundled target: a number, or auto for one per core
    #[arg(
        long,
        value_name = "N|auto",
        default_value = "auto",
        conflicts_with = "url",
        help_heading = "Bundled target, without a URL"
    )]
    pub target_processes: Auto<NonZeroUsize>,
    /// What kind of target the bundled one is, as in residential or lab: see `crawlmark serve --help`
    #[arg(
        long,
        value_name = "NAME",
        default_value = "null",
        conflicts_with = "url",
        help_heading = "Bundled target, without a URL"
    )]
    pub target_profile: target::Profile,
    /// How long the bundled target holds an answer: see `crawlmark serve --help`
    #[arg(long, value_name = "MODEL", conflicts_with = "url", help_heading = "Bundled target, without a URL")]
    pub target_latency: Option<target::Latency>,
    /// What every other request in flight adds to a hold of the bundled target
    #[arg(long, value_name = "TIME", conflicts_with = "url", help_heading = "Bundled target, without a URL")]
    pub target_latency_per_in_flight: Option<target::PerInFlight>,
    /// When the bundled target answers nothing: the last LENGTH of every EVERY, as in 10s,1s
    #[arg(long, value_name = "EVERY,LENGTH", conflicts_with = "url", help_heading = "Bundled target, without a URL")]
    pub target_stall: Option<target::Stall>,
    /// What the bundled target lets through: see `crawlmark serve --help`; may be repeated
    #[arg(
        long = "target-limit",
        value_name = "LIMIT",
        conflicts_with = "url",
        help_heading = "Bundled target, without a URL"
    )]
    pub target_limits: Vec<target::Limit>,
    /// What goes wrong at the bundled target: see `crawlmark serve --help`; may be repeated
    #[arg(
        long = "target-fault",
        value_name = "KIND:SHARE[:PARAMETER]",
        conflicts_with = "url",
        help_heading = "Bundled target, without a URL"
    )]
    pub target_faults: Vec<target::Faults>,
}

// Not a comment of its argument: `[:STATUS]` would be a link there.
const FAULTS: &str = "\
What goes wrong with which share of the items, as in error:0.01:503; may be repeated, or a list with commas

One draw per item and attempt decides, from the seed: faults exclude each other, and their \
shares sum to 1 at most. \
A held answer is held before its fault. The ledger counts each under its name, with _ for -.

  error:SHARE[:STATUS]       a server error, 500 unless given
  drop:SHARE                 the connection is closed without a byte
  reset:SHARE                the connection is reset
  malformed-chunk:SHARE      a good head, then what is no chunk, and the end
  garbage:SHARE              what is no HTTP, and the end
  truncated:SHARE            half of the body that was promised, and the end
  short-length:SHARE         a Content-Length of half the body, all of it, and the end
  long-length:SHARE          a Content-Length of twice the body, and then nothing
  silence:SHARE              nothing until the client leaves
  drip:SHARE[:TIME]          the body in ten pieces over this time, 1s unless given
  close:SHARE                a good answer, and the end of the connection
  redirect:SHARE             302 to the same item below /moved
  challenge:SHARE[:STATUS]   an HTML challenge page with 200, 403 or 429, 403 unless given
  huge-headers:SHARE[:SIZE]  a good answer with a header of 64k, or this size
  huge-body:SHARE[:SIZE]     a good answer filled up to 8m, or this size";

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches as they are typed; resolved, they become enums")]
pub struct ServeArgs {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Processes that serve one port: a number, or auto for one per core
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub processes: Auto<NonZeroUsize>,
    /// The seed of bodies, delays and faults
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// What kind of target it is; other options replace that part of it
    ///
    ///   null         everything at once, nothing limited
    ///   datacenter   median 85ms, 200 requests in flight at once (a rotating pool)
    ///   residential  median 250ms, 100 in flight (a rotating pool)
    ///   mobile       median 315ms, 50 in flight (a pool)
    ///   static       median 85ms, 50 in flight from each address
    ///   lab          median 600ms, 40 requests a minute, 3 % errors: an exercise of 200 URLs
    ///   article      median 60ms, 20 requests a second from each address
    #[arg(long, value_name = "NAME", default_value = "null", verbatim_doc_comment)]
    pub profile: target::Profile,
    /// How long answers are held: none, 20ms, or one of the models listed with --help
    ///
    /// Each is a pure function of the seed and the ID. A held answer carries
    /// x-mock-hold-us (intended) and x-mock-held-us (actual).
    ///
    ///   none                       at once
    ///   20ms, fixed:20ms           every answer equally long
    ///   uniform:LOW,HIGH           evenly spread, both ends included
    ///   lognormal:MEDIAN,SIGMA     or with ,MAX: ten medians unless given
    ///   pareto:MIN,ALPHA           or with ,MAX: a thousand minimums unless given
    ///   bimodal:A,B,SHARE          B for a share of the items, A for the others
    ///   quantiles:0=5ms,0.5=20ms,0.99=100ms,1=2s
    ///                              measured, straight lines in between
    #[arg(long, value_name = "MODEL", verbatim_doc_comment)]
    pub latency: Option<target::Latency>,
    /// Added to the hold for every other request in flight in all processes, as in 50us
    #[arg(long, value_name = "TIME")]
    pub latency_per_in_flight: Option<target::PerInFlight>,
    /// Answer nothing in the last LENGTH of every EVERY, as in 10s,1s, counted from the start
    #[arg(long, value_name = "EVERY,LENGTH")]
    pub stall: Option<target::Stall>,
    /// What is let through: 1000/s:burst=50, fixed:100/min:key=/64, or another of those listed with --help; may be repeated
    ///
    /// Above it clients get 429 and Retry-After. All processes share one count, and a request
    /// must be let through by every limit; one that is turned away takes from none.
    ///
    ///   [ALGORITHM:]RATE[:OPTION]...     RATE as N/s, N/min, N/h, N/90s
    ///
    ///   1000/s:burst=50                  evenly spaced, 50 at once after a rest (GCRA; 1 if not given)
    ///   bucket:100/min:burst=20          a bucket of tokens (a period's if not given), refilled steadily
    ///   fixed:100/min                    a count per window, windows counted from the start
    ///   sliding:100/min                  the same, with the share of the last window that still counts
    ///   leaky:10/s:burst=20:delay=5      20 in excess wait in a queue, all but 5 of them; or :nodelay
    ///   concurrency:8                    requests at the same time
    ///   connections:16:over=reset        connections at the same time; above it close, reset or 503
    ///
    ///   key=address                      whose are counted together: also everyone, /64 (IPv6), /24,/48
    ///                                    (IPv4, IPv6), header=NAME, session (the label in a proxy user
    ///                                    name USER-session-LABEL, or x-session); +path: each path apart
    ///   status=429                       or 503, or 403
    ///   retry=seconds                    Retry-After as seconds, date or none
    ///   headers=x-ratelimit              what is left, on every answer: x-ratelimit (reset as UTC epoch
    ///                                    seconds), x-ratelimit-delta, ietf, draft-07, draft-03, with + between
    ///   body=problem                     a refusal as application/problem+json
    ///   name=NAME                        its name in headers and books
    #[arg(long = "limit", value_name = "LIMIT", verbatim_doc_comment)]
    pub limits: Vec<target::Limit>,
    /// What goes wrong with which share of the items, as in error:0.01:503; may be repeated, or a list with commas
    #[arg(long = "fault", value_name = "KIND:SHARE[:PARAMETER]", long_help = FAULTS)]
    pub faults: Vec<target::Faults>,
    /// Answer from the WireMock mapping files in DIR/mappings, with bodies in DIR/__files; what matches none gets 404
    ///
    /// Stubs, scenarios, settings and the journal can be changed while it serves, by WireMock's own routes below
    /// /__admin. Latency, limits and faults apply to the answers of stubs, too.
    #[arg(long, value_name = "DIR")]
    pub stubs: Option<PathBuf>,
    /// Leave stubs out that ask for what is not served, with a warning each, instead of refusing to start
    #[arg(long, requires = "stubs")]
    pub lenient: bool,
    /// Keep requests (256 MiB of them at most), for /__admin/requests and its count
    #[arg(long)]
    pub journal: bool,

    /// What connections may speak: 1.1, 2, or auto for both, chosen by ALPN or by how a connection begins
    #[arg(long, value_name = "1.1|2|auto", default_value = "auto", help_heading = "Protocols")]
    pub http: target::Http,
    /// Speak TLS, with a certificate made afresh for localhost, its addresses, and the one listened on
    #[arg(long, help_heading = "Protocols")]
    pub tls: bool,
    /// Write the certificate that clients have to trust to this file, as PEM; what is there is replaced
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "Protocols")]
    pub tls_cert: Option<PathBuf>,

    /// Be a forward proxy, too: forward requests in absolute form, and open tunnels (CONNECT)
    ///
    /// It goes to loopback addresses only, and asks no name server. The user name
    /// may carry a session label: NAME-session-LABEL.
    #[arg(long, help_heading = "Forward proxy", verbatim_doc_comment)]
    pub proxy: bool,
    /// What the proxy's clients must give, implies --proxy; other users of this machine can read it in the process list:
    /// prefer --proxy-auth-file, or `CRAWLMARK_PROXY_AUTH` in the environment
    #[arg(long, value_name = "USER:PASS", conflicts_with = "proxy_auth_file", help_heading = "Forward proxy")]
    pub proxy_auth: Option<Secret>,
    /// The same, from the first line of a file; implies --proxy
    #[arg(long, value_name = "FILE", help_heading = "Forward proxy")]
    pub proxy_auth_file: Option<PathBuf>,
    /// Prefixes of the addresses to go out from: one per session label, a fresh one for each request or tunnel without;
    /// a destination whose family has no prefix is reached from the kernel's choice
    #[arg(long, value_name = "PREFIX,..", default_value = "127.1.0.0/16", help_heading = "Forward proxy")]
    pub proxy_exits: target::Exits,
    /// Go to private networks as well (RFC 1918, RFC 4193)
    #[arg(long, help_heading = "Forward proxy")]
    pub proxy_allow_private: bool,
    /// The longest that a destination may take to connect and begin its answer; above it 504
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration, help_heading = "Forward proxy")]
    pub proxy_timeout: Duration,
}

/// Text that no output repeats. It is read by the command: clap would repeat what it cannot read.
#[derive(Clone)]
pub struct Secret(pub String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A number, or one that fits the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto<T> {
    /// What fits the machine.
    Auto,
    /// This many.
    Exactly(T),
}

impl<T: FromStr> FromStr for Auto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Exactly).map_err(|_| format!("`{text}` is neither a number of at least 1 nor `auto`"))
    }
}

fn parse_positive(text: &str) -> Result<u64, UnitError> {
    match parse_count(text)? {
        0 => Err(UnitError::Count(text.to_owned())),
        count => Ok(count),
    }
}

/// Methods are case-sensitive (RFC 9110, 9.1), but nobody who writes `head` means another one than HEAD.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers may fail")]
fn parse_method(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.iter().find(|known| known.eq_ignore_ascii_case(text));
    Ok(known.map_or_else(|| text.to_owned(), |known| (*known).to_owned()))
}

/// A name becomes part of a path.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if !text.is_empty() && text.len() <= 100 && text.chars().all(fits) && !text.starts_with('.') {
        Ok(text.to_owned())
    } else {
        Err("a name is letters, digits, `-`, `_`, `+` and `.`, 100 at most, and does not begin with `.`".to_owned())
    }
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not of the form key=value")),
    }
}

impl Auto<u32> {
    /// The number, or `fitting`.
    #[must_use]
    pub fn or(self, fitting: u32) -> u32 {
        match self {
            Self::Auto => fitting,
            Self::Exactly(number) => number,
        }
    }
}

impl Auto<NonZeroUsize> {
    /// The number, or one per core.
    #[must_use]
    pub fn or_cores(self, cores: usize) -> NonZeroUsize {
        match self {
            Self::Auto => NonZeroUsize::new(cores).unwrap_or(NonZeroUsize::MIN),
            Self::Exactly(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_output_has_a_secret() {
        let cli = Cli::try_parse_from(["crawlmark", "serve", "--proxy-auth", "user:hidden"]).unwrap();
        assert!(!format!("{cli:?}").contains("hidden"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
