//! Flags of the proxies of a crawl.

use clap::Args;

use crate::crawl::proxy::{RetireAfter, Session};

/// Value of `--proxy` for no proxy at all.
pub(crate) const NO_PROXY: &str = "none";

const PROXY: &str = "\
Connect through a proxy; may be repeated to use several in turn

  http://HOST:PORT       forwards http:// requests, tunnels https:// ones
                         (CONNECT)
  socks5://HOST:PORT     tunnels; this machine looks up the target's name
  socks5h://HOST:PORT    tunnels; the proxy looks up the target's name
  none                   no proxy, whatever the environment says

USER:PASS@ before the host is sent to the proxy; write characters such as @ and
/ as %40 and %2F. {session} in either is replaced by a session label, as
rotating proxies expect: 10 characters of a-z and 0-9. {session:8:digits} sets
another length (1 to 10) and alphabet (lower, mixed, hex, digits). Labels depend
on --seed.

Each connection uses the next proxy; append ,weight=3 to give a proxy three
turns. --local-ips sets the source addresses of connections to proxies.
--connect-timeout includes the tunnel.

Without this flag, http_proxy, https_proxy and all_proxy are used, except
for localhost, loopback addresses and hosts in no_proxy. User names and
passwords in --proxy are overwritten in the process list, where the system
allows it.

  crawlmark run 'https://api.example.com/items/{id}' --rate 50 \\
      -x 'http://user-session-{session}:pass@gateway.example:8000'";

const RETIRE: &str = "\
Replace a session after uses=N, errors=N, status=LIST or block

  uses=500         after 500 requests
  errors=3         after 3 requests without a response, or with a
                   rejected one
  status=403,429   after a response with one of these statuses
  block            after a response that throttles, or a challenge page

May be repeated: a session is replaced when any rule applies. Each shard counts
by itself. The session's connections are closed when their requests have ended,
and the next ones use a new label, with new cookies. sessions_retired in the
result is the number of sessions replaced.

  crawlmark run 'http://127.0.0.1:8080/{id}' --session sticky=100 \\
      -x 'http://user-session-{session}:pass@127.0.0.1:3128' \\
      --retire-session uses=500 --retire-session status=403,429";

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
    /// For a proxy with {session} in its user name or password. per-connection, the default: each
    /// connection has a session of its own. per-request: each request has a session and a
    /// connection of its own. sticky=N: the connections of the run share N sessions, in turn; a
    /// session stays with its proxy.
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Session>,
    /// Replace a session after uses=N, errors=N, status=LIST or block
    #[arg(long, value_name = "RULE", long_help = RETIRE)]
    pub retire_session: Vec<RetireAfter>,
}
