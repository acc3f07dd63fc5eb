//! Flags of the connections of a crawl: Unix sockets, idle time, rate of new connections, lookups
//! of names, receive stamps.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::{Rate, parse_duration};

use crate::crawl::ReceiveStamps;

const UNIX_SOCKET: &str = "\
Connect to the Unix socket PATH for every URL

Requests still name the URL's host, and no name is looked up.

  crawlmark run 'http://localhost/items/{id}' \\
      --unix-socket /run/api.sock";

const DNS_TTL: &str = "\
Look up names again when their addresses are older than TIME

By default, names are looked up once, before the run. A lookup never delays a
connection: the first connection after TIME starts it, and uses the addresses
that are known. Connections that are open stay open: add
--max-requests-per-connection to have them move. A lookup that fails keeps
the old addresses and is counted.

New connections use the addresses of a name in turn. If one refuses, or is
silent for 250 ms, the next is tried at the same time, first one of the other
IP version. An address that refused or was silent is tried last for 10 s.";

const RECEIVE_STAMPS: &str = "\
Measure how long responses lie unread: all, sampled (1 in 64) or off

The kernel stamps a response when its last segment arrives. The time from
then until this client reads it is this client's part of the latency: series
receive_delay. Plain HTTP/1.1 has stamps; TLS and HTTP/2 have none, and the
report says so.

  crawlmark run 'http://127.0.0.1:8080/items/{id}' \\
      --receive-stamps all --threshold 'receive_delay_p99 < 1ms'";

/// Connections, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct ConnectionArgs {
    /// Connect to the Unix socket PATH for every URL
    #[arg(long, value_name = "PATH", long_help = UNIX_SOCKET, conflicts_with_all = ["proxy", "local_ips", "connect_to"])]
    pub unix_socket: Option<PathBuf>,
    /// Close connections that were idle for TIME
    ///
    /// Set it below the target's own limit: a request on a connection that the target is about to
    /// close may fail. Needs HTTP/1.1.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// Open at most N connections per second, over all shards
    ///
    /// Also N/min and N/h. In an open loop, the wait for a connection is part of `pool_wait`.
    /// Example: --connect-rate 50
    #[arg(long, value_name = "RATE")]
    pub connect_rate: Option<Rate>,
    /// Look up names again when their addresses are older than TIME
    #[arg(long, value_name = "TIME", value_parser = parse_duration, long_help = DNS_TTL)]
    pub dns_ttl: Option<Duration>,
    /// Measure how long responses lie unread: all, sampled (1 in 64) or off
    #[arg(long, value_name = "all|sampled|off", default_value_t = ReceiveStamps::default(), long_help = RECEIVE_STAMPS)]
    pub receive_stamps: ReceiveStamps,
}
