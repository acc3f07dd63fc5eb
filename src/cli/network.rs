//! Flags of the network of a crawl: connections, proxies, TLS.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::Rate;

use super::{number, parse_positive_time};
use crate::crawl::proxy::Session;
use crate::crawl::tls::{Resume, Settings, Trust, Version};
use crate::crawl::{HttpVersion, ReceiveStamps};

/// Connections, as typed.
#[derive(Debug, Clone, Args)]
pub struct ConnectionArgs {
    /// Connect to the Unix socket PATH for every URL
    ///
    /// Requests still name the URL's host, and no name is looked up.
    ///
    ///   crawlmark run 'http://localhost/items/{id}' \
    ///       --unix-socket /run/api.sock
    #[arg(long, value_name = "PATH", conflicts_with_all = ["proxy", "local_ips", "connect_to"], verbatim_doc_comment)]
    pub unix_socket: Option<PathBuf>,
    /// Close connections that were idle for TIME
    ///
    /// Set TIME below the target's own limit, because a request may fail if the target is about to
    /// close its connection. If the target announces its limit (Keep-Alive: timeout=5), this flag
    /// is not needed: connections are closed after nine tenths of that limit. Needs HTTP/1.1.
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time)]
    pub idle_timeout: Option<Duration>,
    /// Open at most N connections per second, over all shards
    ///
    /// Also N/min and N/h. In an open loop, the wait for a connection is part of `pool_wait`.
    /// Example: --connect-rate 50
    #[arg(long, value_name = "RATE")]
    pub connect_rate: Option<Rate>,
    /// Look up names again when their addresses are older than TIME
    ///
    /// By default, names are looked up once, before the run. The first connection after TIME
    /// starts a lookup, but still uses the known addresses. Open connections stay open. To
    /// move them to new addresses, add --max-requests-per-connection. If a lookup fails, the
    /// old addresses are kept, and the failure is counted.
    ///
    /// New connections use the addresses of a name in turn. If an address refuses a
    /// connection or is silent for 250 ms, the next address is tried as well. For 10 s, the
    /// failed address is then tried last.
    #[arg(long, value_name = "TIME", value_parser = parse_positive_time, verbatim_doc_comment)]
    pub dns_ttl: Option<Duration>,
    /// Measure how long responses lie unread: all, sampled (1 in 64) or off
    ///
    /// The kernel stamps a response when its last segment arrives. The time from this
    /// stamp until the client reads the response is the client's part of the latency
    /// (series receive_delay). The kernel gives these stamps only for plain HTTP/1.1.
    /// With TLS and HTTP/2, the report says that there are none.
    ///
    ///   crawlmark run 'http://127.0.0.1:8080/items/{id}' \
    ///       --receive-stamps all --threshold 'receive_delay_p99 < 1ms'
    #[arg(
        long,
        value_name = "all|sampled|off",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        verbatim_doc_comment
    )]
    pub receive_stamps: ReceiveStamps,
    /// Send a trace id with each request (traceparent, W3C Trace Context)
    ///
    /// All attempts of an item share a trace id. Each attempt is a span of its own. To find the
    /// item of a trace id, use `crawlmark report DIR --trace ID`. A SHARE of the IDs has the flag
    /// `sampled`, which asks the target to record the trace [default: 0.015625, 1 of 64].
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "0.015625", value_parser = number(0.0..=1.0, "0.1 for 10 %"))]
    pub trace: Option<f64>,
}

/// Value of `--proxy` for no proxy at all.
pub(crate) const NO_PROXY: &str = "none";

/// Proxies, as typed.
#[derive(Debug, Clone, Args)]
pub struct ProxyArgs {
    /// Connect through a proxy; may be repeated to use several in turn
    ///
    ///   http://HOST:PORT       forwards http:// requests, and opens tunnels
    ///                          (CONNECT) for https:// requests
    ///   socks5://HOST:PORT     opens tunnels; this machine looks up the target's name
    ///   socks5h://HOST:PORT    opens tunnels; the proxy looks up the target's name
    ///   none                   no proxy, whatever the environment says
    ///
    /// Put USER:PASS@ before the host to log in to the proxy. Write characters such as @
    /// and / as %40 and %2F. In user name and password, {session} is replaced by a session
    /// label, as rotating proxies expect: 10 characters of a-z and 0-9, drawn from --seed.
    /// {session:8:digits} sets another length (1 to 10) and alphabet (lower, mixed, hex,
    /// digits).
    ///
    /// Connections use the proxies in turn. To give a proxy three turns, append ,weight=3.
    /// --local-ips sets the source addresses of connections to proxies. --connect-timeout
    /// includes the time to open a tunnel.
    ///
    /// Without this flag, http_proxy, https_proxy and all_proxy are used, except for
    /// localhost, loopback addresses and hosts in no_proxy. Credentials in --proxy are
    /// overwritten in the process list, if the system allows it.
    ///
    ///   crawlmark run 'https://api.example.com/items/{id}' --rate 50 \
    ///       -x 'http://user-session-{session}:pass@gateway.example:8000'
    // As text: clap would repeat what it cannot read, and that may be a password.
    #[arg(short = 'x', long, value_name = "URL", verbatim_doc_comment)]
    pub proxy: Vec<String>,
    /// Share N sessions (sticky=N), or use one per connection or per request
    ///
    /// Use this flag with a proxy that has {session} in its user name or password. per-connection
    /// (the default): each connection has a session of its own. per-request: each request has a
    /// session and a connection of its own. sticky=N: the connections of the run share N sessions
    /// in turn, and a session stays with its proxy.
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Session>,
}

/// TLS of the client, for https:// URLs.
#[derive(Debug, Clone, Args)]
pub struct TlsArgs {
    /// Trust the authorities in FILE (PEM) instead of those of the system
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// Do not verify the certificate of the target; the report says so
    ///
    /// Even so, the target must prove that it has the private key of its certificate.
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Send the certificate chain in FILE (PEM) to targets that require one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of --cert, in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Resume TLS sessions when connections are replaced
    ///
    /// By default, every connection makes a full handshake, as a new client does. With this flag,
    /// each shard keeps up to 1,024 sessions of its own. Requests wait for the end of the
    /// handshake: 0-RTT is not used.
    #[arg(long)]
    pub tls_resume: bool,
    /// Lowest TLS version: 1.2 or 1.3 [default: 1.2]
    #[arg(long, value_name = "VERSION", value_enum, hide_possible_values = true)]
    pub tls_min: Option<Version>,
    /// Highest TLS version: 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "VERSION", value_enum, hide_possible_values = true)]
    pub tls_max: Option<Version>,
}

impl TlsArgs {
    /// Convert to the settings of the crawl; `bundled` is the certificate of a bundled target.
    pub fn resolve(&self, bundled: Option<String>) -> Settings {
        let trust = match (&self.cacert, bundled) {
            _ if self.insecure => Trust::Anyone,
            (_, Some(pem)) => Trust::Pem(pem),
            (Some(file), None) => Trust::File(file.clone()),
            (None, None) => Trust::System,
        };
        Settings {
            trust,
            identity: self.cert.clone().zip(self.key.clone()),
            min: self.tls_min,
            max: self.tls_max,
            http: HttpVersion::default(),
            resume: if self.tls_resume {
                Resume::Sessions
            } else {
                Resume::Never
            },
        }
    }
}
