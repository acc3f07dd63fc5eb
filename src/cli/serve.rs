//! Arguments of `serve`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Arg, Args};
use crawlmark_mock_server as target;

use super::{Auto, whole};
use crate::crawl::Template;

pub(super) const EXAMPLES: &str = "\
Examples:
  As fast as possible:
    crawlmark serve --listen 127.0.0.1:8080
  A service with a tail and a limit:
    crawlmark serve --latency lognormal:20ms,0.4 --limit 1000/s:burst=50
  A service that sometimes fails, with the delays of a distant network:
    crawlmark serve --fault error:0.01:503 --fault reset:0.005,drip:0.01:2s \\
        --latency 45ms --handshake 90ms
  Your WireMock stubs, with a journal of requests for verification:
    crawlmark serve --stubs ./wiremock --journal
  Record a service with its times, then serve the recording:
    crawlmark serve --listen 127.0.0.1:8080 \\
        --record http://10.0.0.5:9000 --stubs ./recorded
    crawlmark serve --listen 127.0.0.1:8080 --stubs ./recorded
  Over TLS, with HTTP/2 if the client asks for it:
    crawlmark serve --listen 127.0.0.1:8443 --tls --tls-cert authority.pem
    curl --cacert authority.pem https://127.0.0.1:8443/items/1
  Counts of the requests that the target received:
    curl -s http://127.0.0.1:8080/__admin/ledger";

/// Behaviour of the bundled target, as typed: `--target-latency` of `run` is `--latency` of `serve`.
#[derive(Debug, Clone, Args)]
pub struct BehaviourArgs {
    /// Imitate a kind of target [default: null, no delay and no limits]
    ///
    /// Other options replace the matching part of the profile.
    ///
    ///   null         responds immediately, no limits
    ///   datacenter   median 85ms, 200 requests in flight (a pool)
    ///   residential  median 250ms, 100 in flight (a pool)
    ///   mobile       median 315ms, 50 in flight (a pool)
    ///   static       median 85ms, 50 in flight from each address
    ///   lab          median 600ms, 40 requests a minute, 3 % errors:
    ///                an exercise of 200 items
    ///   article      median 60ms, 100ms more for a new connection, 20
    ///                requests a second from each address
    #[arg(
        long,
        value_name = "NAME",
        default_value = "null",
        hide_default_value = true,
        verbatim_doc_comment
    )]
    pub target_profile: target::Profile,
    /// Hold responses, as in 20ms; `crawlmark serve --help` lists the models
    ///
    /// The delay depends only on the seed, the ID, and how often the ID was requested
    /// before. --handshake, --stall and --latency-per-in-flight add to it. A held response
    /// has the headers x-mock-hold-us (planned delay) and x-mock-held-us (actual delay).
    ///
    ///   none                       no delay
    ///   20ms, fixed:20ms           the same for every response
    ///   uniform:LOW,HIGH           uniform from LOW to HIGH, both included
    ///   lognormal:MEDIAN,SIGMA     optional ,MAX [default: 10 medians]
    ///   pareto:MIN,ALPHA           optional ,MAX [default: 1000 minimums]
    ///   bimodal:A,B,SHARE          B for a share of the items, else A
    ///   drift:A,B,IDS              from A to B over IDS items, then from A again
    ///   quantiles:0=5ms,0.5=20ms,0.99=100ms,1=2s
    ///                              measured quantiles, interpolated linearly
    #[arg(long, value_name = "MODEL", verbatim_doc_comment)]
    pub target_latency: Option<target::Latency>,
    /// Add TIME to the delay for each further request in flight, as in 50us
    ///
    /// Requests in flight are counted over all processes.
    #[arg(long, value_name = "TIME")]
    pub target_latency_per_in_flight: Option<target::AddedDelay>,
    /// Delay the first response of each connection by TIME more, as in 100ms
    ///
    /// This simulates the cost of a handshake over a network: a round trip for TCP, one or two more
    /// for TLS. The client sees it in the time of the first response, not in the time to connect.
    /// Refusals are held as well.
    #[arg(long, value_name = "TIME")]
    pub target_handshake: Option<target::AddedDelay>,
    /// CPU cost per item, in rounds of arithmetic of about 1 ns each
    #[arg(long, value_name = "ROUNDS")]
    pub target_work: Option<target::Work>,
    /// Stall for the last LENGTH of every period EVERY, as in 10s,1s
    ///
    /// The first period begins when the target starts. During a stall, no request is
    /// accepted and no response is sent.
    ///
    ///   2s,300ms     a garbage collector
    ///   100ms,80ms   a container with 0.2 CPUs that has used up its quota
    ///   10ms,10ms    a timer: responses leave only at multiples of 10 ms
    #[arg(long, value_name = "EVERY,LENGTH", verbatim_doc_comment)]
    pub target_stall: Option<target::Stall>,
    /// Handle N requests at a time; the others queue, as in 8 or 8:100
    ///
    /// All processes share the N workers. A request occupies a worker while its response is
    /// held. If its client leaves, the work is done all the same.
    ///
    ///   8, 8:fifo   first come, first served; the queue has no bound
    ///   8:100       at most 100 requests wait; the others get 503 at once
    ///   8:lifo      the latest first, in one process
    #[arg(long, value_name = "N[:QUEUE]", verbatim_doc_comment)]
    pub target_workers: Option<target::Workers>,
    /// Close a connection after N requests, as in 100 (HTTP/1.1)
    ///
    /// The last response announces this with `Connection: close`. With N:silent, it does not.
    #[arg(long, value_name = "N[:silent]")]
    pub target_keep_alive: Option<target::KeepAlive>,
    /// Serve streams of events, as in 50@20ms: 50 events, 20 ms apart
    ///
    /// Instead of an item, each response is a stream of server-sent events (text/event-stream). The
    /// first event is sent immediately, and the last event has the data `[DONE]`. Faults apply to
    /// streams in the same way as to items. In the response to a gRPC call, each event is a
    /// message.
    #[arg(long, value_name = "N@TIME")]
    pub target_events: Option<target::Events>,
    /// Limit each connection to RATE in each direction, as in 1MB/s
    ///
    /// Bytes, including those of TLS, arrive one after the other, as over a link of this rate. At
    /// 1MB/s, a response of 10 kB takes 10 ms longer. Not over HTTP/3. Units: B/s, kB/s, MB/s,
    /// GB/s, kbit/s, Mbit/s and Gbit/s, in powers of 1000.
    #[arg(long, value_name = "RATE")]
    pub target_bandwidth: Option<target::Bandwidth>,
    /// Accept connections only while a process has fewer than N open
    ///
    /// All other connections wait in the listen queue of the process, which has room for QUEUE
    /// connections (4096 unless given). With 1, the next connection is served when the current one
    /// has ended.
    #[arg(long, value_name = "N[:QUEUE]")]
    pub target_accept: Option<target::Accept>,
    /// Limit requests, such as 1000/s:burst=50; see `crawlmark serve --help`
    ///
    /// May be repeated. Clients above a limit get 429 and Retry-After. All processes share
    /// one count. A request must pass every limit. A refused request uses up none of them.
    ///
    ///   [ALGORITHM:]RATE[:OPTION]...  with RATE as N (per second), N/s, N/min,
    ///                                 N/h or N/90s
    ///
    ///   1000/s:burst=50               evenly spaced, but 50 at once after a rest
    ///                                 (GCRA; without burst, 1 at once)
    ///   bucket:100/min:burst=20       tokens, refilled steadily (without burst,
    ///                                 those of a whole period at once)
    ///   fixed:100/min                 windows of a minute, counted from the start
    ///   sliding:100/min               the same, plus the part of the previous
    ///                                 window that is less than a minute old
    ///   leaky:10/s:burst=20:delay=5   a queue of 20, of which 5 do not wait;
    ///                                 :nodelay: none waits
    ///   concurrency:8                 requests at the same time
    ///   connections:16:over=reset     connections at the same time; those above
    ///                                 the limit get close, reset or 503
    ///
    ///   key=address                   a count for each address (the default), or
    ///                                 everyone, /64 (IPv6), /24,/48 (IPv4, IPv6),
    ///                                 header=NAME, session (x-session);
    ///                                 with +path, each path separately
    ///   status=429                    or 503, or 403
    ///   retry=seconds                 Retry-After as seconds, date or none
    ///   headers=x-ratelimit           the remaining quota, on every response; or
    ///                                 x-ratelimit-delta, ietf, draft-07,
    ///                                 draft-03; join several with +
    ///   body=problem                  refusals as application/problem+json
    ///   path=/search                  count only requests whose path begins with
    ///                                 /search
    ///   name=NAME                     name of the limit in headers and the ledger
    #[arg(long = "target-limit", value_name = "LIMIT", verbatim_doc_comment)]
    pub target_limits: Vec<target::Limit>,
    /// Inject faults, such as `error:0.01:503`; see `crawlmark serve --help`
    ///
    /// Separate several faults by commas, or repeat the flag. One random number per
    /// request decides which fault it gets, if any. This number depends on the seed, the
    /// ID, and how often the ID was requested before. So a request gets one fault at
    /// most, and the shares must sum to at most 1. The delay of a response comes before
    /// its fault. The ledger counts each fault under its name, with _ instead of -.
    ///
    ///   error:SHARE[:STATUS]       a server error, 500 unless given
    ///   drop:SHARE                 the connection is closed without a byte
    ///   reset:SHARE                the connection is reset
    ///   malformed-chunk:SHARE      valid headers, an invalid chunk, then close
    ///   garbage:SHARE              bytes that are not HTTP, then close
    ///   truncated:SHARE            half of the announced body, then close
    ///   short-length:SHARE         the body, announced as half its length
    ///   long-length:SHARE          the body, announced as twice its length;
    ///                              then silence, without closing
    ///   silence:SHARE              nothing until the client leaves
    ///   drip:SHARE[:TIME]          the body in ten pieces over 1s, or this
    ///                              time
    ///   close:SHARE                a good response, then close
    ///   redirect:SHARE             302 to the same item below /moved
    ///   challenge:SHARE[:STATUS]   an HTML challenge page with 403, or this
    ///                              status: 200, 403 or 429
    ///   huge-headers:SHARE[:SIZE]  a good response with a header of 64k, or
    ///                              this size
    ///   huge-body:SHARE[:SIZE]     a good response padded to 8m, or this
    ///                              size
    ///   nagle:SHARE                headers and body in two writes, without
    ///                              TCP_NODELAY: the body waits for the
    ///                              client's ACK of the headers
    #[arg(
        long = "target-fault",
        value_name = "KIND:SHARE[:PARAMETER]",
        verbatim_doc_comment
    )]
    pub target_faults: Vec<target::Faults>,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Listen on this address; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = parse_listen)]
    pub listen: SocketAddr,
    /// Answer requests to NAME, in addition to localhost and addresses
    ///
    /// May be repeated. On a loopback address, or with this flag, a request gets 403 if its Host or
    /// Origin has another name. Otherwise, any web page in a browser on this machine could send
    /// requests. Names that end with .localhost or .test are allowed, because nobody can own them.
    /// An address in an Origin must be a loopback address, or be given by this flag.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Processes that serve one port: a number, or auto
    ///
    /// auto is one process per core. On a loopback address, it is two processes per five cores,
    /// because clients need the other cores.
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub processes: Auto<NonZeroUsize>,
    /// Seed of bodies, delays and faults
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// Delays, limits and faults.
    #[command(flatten)]
    pub behaviour: BehaviourArgs,
    /// Respond from the WireMock mapping files in DIR/mappings
    ///
    /// Bodies are in DIR/__files. A request that matches no stub gets 404. With or without this
    /// flag, WireMock's own routes below /__admin can change stubs, read the journal and reset
    /// scenarios while the target runs. Latency, limits and faults apply to stubs, too.
    #[arg(long, value_name = "DIR")]
    pub stubs: Option<PathBuf>,
    /// Forward requests to URL, and record the responses as stubs
    ///
    /// URL is a scheme and a host, as in `http://10.0.0.5:9000`. Requests that match no stub are
    /// forwarded over HTTP/1.1. At the end, DIR/mappings/recorded.json gets a stub for each method
    /// and URL. A stub has the first successful response, and the distribution of the response
    /// times. Request headers, Set-Cookie, bodies above 1 MiB, and URLs after the first 10,000 are
    /// not recorded. If the host is public, a --limit is required.
    #[arg(
        long,
        value_name = "URL",
        requires = "stubs",
        conflicts_with_all = ["target_faults", "target_events", "target_work"]
    )]
    pub record: Option<Template>,
    /// Skip stubs that use unsupported features, and warn about each
    ///
    /// Without this, the server refuses to start.
    #[arg(long, requires = "stubs")]
    pub lenient: bool,
    /// Keep requests (up to 256 MiB) for the routes of /__admin/requests
    #[arg(long)]
    pub journal: bool,

    /// Accept HTTP/1.1, HTTP/2, both (auto), or HTTP/3 as well (3)
    ///
    /// With auto, ALPN or the first bytes of a connection decide. With 3, HTTP/3 is also served,
    /// over UDP on a port with the same number. HTTP/3 needs --tls, and a build with the feature
    /// `http3`.
    #[arg(long, value_name = "1.1|2|3|auto", default_value = "auto")]
    pub http: target::Http,
    /// Serve TLS, with a certificate generated at the start
    ///
    /// The certificate names localhost, the loopback addresses, and the address of --listen.
    #[arg(long)]
    pub tls: bool,
    /// Write the certificate for clients to FILE, as PEM; overwrite FILE
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_cert: Option<PathBuf>,
}

/// Give an argument of `serve` its place in the help.
pub(super) fn described(argument: Arg) -> Arg {
    const RARE: [&str; 11] = [
        "allow_host",
        "seed",
        "lenient",
        "journal",
        "tls_cert",
        "target_work",
        "target_workers",
        "target_keep_alive",
        "target_accept",
        "target_events",
        "target_bandwidth",
    ];
    let id = argument.get_id().as_str();
    let (is_rare, name) = (RARE.contains(&id), id.strip_prefix("target_"));
    let heading = match id {
        _ if name.is_some() => "Behaviour",
        "stubs" | "record" | "lenient" | "journal" => "Stubs",
        "http" | "tls" | "tls_cert" => "Protocols",
        _ => return argument.hide_short_help(is_rare),
    };
    let long = argument
        .get_long()
        .unwrap_or_default()
        .trim_start_matches("target-")
        .to_owned();
    argument
        .long(long)
        .help_heading(heading)
        .hide_short_help(is_rare)
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not ADDRESS:PORT: write it as in 127.0.0.1:8080 or [::1]:8080")
    })
}
