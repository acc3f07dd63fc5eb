//! Flags of the proxies of a crawl.

use clap::Args;

use crate::crawl::proxy::Session;

/// Value of `--proxy` for no proxy at all.
pub(crate) const NO_PROXY: &str = "none";

const PROXY: &str = "\
Connect through a proxy; may be repeated to use several in turn

  http://HOST:PORT       forwards http:// requests, tunnels https:// ones
                         (CONNECT)
  socks5://HOST:PORT     tunnels; this machine looks up the target's name
  socks5h://HOST:PORT    tunnels; the proxy looks up the target's name
  none                   no proxy, whatever the environment says

USER:PASS@ before the host is sent to the proxy; characters such as @ and /
are written %40 and %2F. {session} in them is replaced by a session label, as
rotating proxies expect: 10 characters of a-z and 0-9.
{session:8:digits} has another length (1 to 10) or alphabet (lower, mixed,
hex, digits). Labels depend on --seed.

Each connection uses the next proxy; append ,weight=3 to give a proxy three
turns. --local-ips sets the addresses from which proxies are connected to.
--connect-timeout includes the tunnel.

Without this flag, http_proxy, https_proxy and all_proxy are used, except
for localhost, loopback addresses and hosts in no_proxy. User names and
passwords in --proxy are overwritten in the process list, where the system
allows it.

  crawlmark run 'https://api.example.com/items/{id}' --rate 50 \\
      -x 'http://user-session-{session}:pass@gateway.example:8000'";

/// Proxies, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proxy")]
pub struct ProxyArgs {
    /// Connect through a proxy; may be repeated to use several in turn
    // As text: clap would repeat what it cannot read, and that may be a password.
    #[arg(short = 'x', long, value_name = "URL", long_help = PROXY)]
    pub proxy: Vec<String>,
    /// Share N sessions (sticky=N), or use one per connection or request
    ///
    /// For a proxy with {session} in its user name or password. per-connection, the default: each connection has a session of its own.
    /// per-request: each request has a session and a connection of its own. sticky=N: the connections of the run share N
    /// sessions, in turn; a session stays with its proxy.
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Session>,
}
