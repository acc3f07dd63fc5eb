//! Flags of the connections of a crawl: where they go, how fast they are opened, and how long they may rest.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::{Rate, parse_duration};

const UNIX_SOCKET: &str = "\
Connect to the Unix socket PATH for every URL

Requests still name the URL's host, and no name is looked up.

  crawlmark run 'http://localhost/items/{id}' \\
      --unix-socket /run/api.sock";

/// Connections, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct ConnectionArgs {
    /// Connect to the Unix socket PATH for every URL
    #[arg(long, value_name = "PATH", long_help = UNIX_SOCKET, conflicts_with_all = ["proxy", "local_ips", "connect_to"])]
    pub unix_socket: Option<PathBuf>,
    /// Close connections that were idle for TIME
    ///
    /// Set it below the target's own limit: a request on a connection that the target is about to close may fail. Needs
    /// HTTP/1.1.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// Open at most N connections per second, over all shards
    ///
    /// Also N/min and N/h. Requests wait for their connection, which is a part of `pool_wait`. Example: --connect-rate 50
    #[arg(long, value_name = "RATE")]
    pub connect_rate: Option<Rate>,
}
