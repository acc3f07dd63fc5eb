//! Flags of the requests of a crawl: bodies, credentials, form and order of IDs.

use std::path::PathBuf;

use clap::Args;

use super::whole;
use crate::crawl::IdFormat;

const ID_FORMAT: &str = "\
Write IDs as width=N (with leading zeros), hex, base36 or hex,width=8

  width=8        00000042 for ID 42; longer IDs are written whole
  hex            2a; base36 is 16 for it, both in lower case
  hex,width=4    002a

The format is used wherever {id} stands: in URLs, headers and bodies.

  crawlmark run 'http://127.0.0.1:8080/objects/{id}.json' --ids 0..64k \\
      --id-format hex,width=4";

const AUTH: &str = "\
Send credentials (Basic): USER:PASSWORD

The user name has no colon. User name and password are in no output or file, and
are overwritten in the process list, where the system allows it. --bearer-env
keeps a token out of the command line.

  crawlmark run 'http://127.0.0.1:8080/{id}' -a user:password";

const COMPRESSED: &str = "\
Accept gzip, br and zstd, and decode responses before checking them

Requests say `accept-encoding: gzip, br, zstd`, unless --header sets another
value. --expect checks the decoded body. A body that cannot be decoded fails
(bad_encoding), and so does one of more than 16 MiB, compressed or decoded
(body_too_long). bytes_received counts bytes before decoding. Decoding takes CPU
of this client, but is not part of the service time.

  crawlmark run 'http://127.0.0.1:8080/{id}' --compressed \\
      --expect json";

const FOLLOW: &str = "\
Follow up to N redirects of an item (301, 302, 303, 307, 308)

Each redirect is a request of its own: it is charged to --rate, and counted in
redirects and in retries, without the retry budget. Method and body change as in
browsers: 303 leads to a GET, and so do 301 and 302 of a POST. A retry repeats
the last request of the item, not its first. The item is judged by the last
response. A redirect to a host that is not in the URLs fails (redirect_refused):
add one of its URLs to --urls. So does one to a path that robots.txt forbids.
Credentials (--auth, --bearer-env, and --header with a name such as cookie or
x-api-key) are not sent to another host. More redirects fail
(too_many_redirects). With 0, a redirect is a response like any other.

  crawlmark run 'http://127.0.0.1:8080/{id}' --follow 5";

/// Requests, as typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Requests")]
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
    // As text: clap would repeat what it cannot read.
    #[arg(short = 'a', long, value_name = "USER:PASSWORD", conflicts_with = "bearer_env", long_help = AUTH)]
    pub auth: Option<String>,
    /// Send the bearer token that the environment variable NAME holds
    ///
    /// The token is in no output or file; the recorded command names the variable.
    #[arg(long, value_name = "NAME")]
    pub bearer_env: Option<String>,
    /// Write IDs as width=N (with leading zeros), hex, base36 or hex,width=8
    #[arg(long, value_name = "FORMAT", long_help = ID_FORMAT)]
    pub id_format: Option<IdFormat>,
    /// Crawl the IDs in random order, by --seed; each once
    ///
    /// Shuffles the IDs of --ids; with -n alone, IDs 0 to N-1; with both, N random ones of --ids;
    /// with neither, 0..100m. The order is the same for every number of shards, and keeps caches of
    /// the target from being warmed in order.
    #[arg(long)]
    pub shuffle: bool,
    /// Accept gzip, br and zstd, and decode responses before checking them
    #[arg(long, long_help = COMPRESSED)]
    pub compressed: bool,
    /// Follow up to N redirects of an item (301, 302, 303, 307, 308)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u32>(0..=20), long_help = FOLLOW)]
    pub follow: u32,
    /// Keep the target's cookies and send them back, per connection
    ///
    /// A connection that replaces another one takes over its cookies, as a browser would. With
    /// {session} in --proxy, each session has cookies of its own. Path, Secure, Max-Age and Expires
    /// are respected; a cookie never goes to another host. At most 50 per jar, of 4 KiB each. Needs
    /// HTTP/1.1.
    #[arg(long)]
    pub cookies: bool,
}
