//! Arguments after `cargo bench --bench side_by_side --`.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use hyper::Uri;

use crate::clients::{Over, PEERS};

const EXAMPLES: &str = "\
Examples, each after `cargo bench --bench side_by_side --`:
  --peers wrk --rounds 9                                crawlmark against wrk, more rounds
  --connections 512 --json out.json                     more connections, every number saved
  --target-url http://127.0.0.1:8080/items/{id}         against a server of yours
  --over http2 --connections 8                          HTTP/2, ten streams on each connection
  --over tls-handshakes                                 a new TLS connection for each request
  paced                                                 how late and how dear each is that sends at a rate
  servers                                               the bundled target against nginx and WireMock

Exits with 0 whatever the numbers are, and with 1 when something could not run.";

/// Runs crawlmark and every peer found in PATH against one target, in turn, and compares what a request costs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench side_by_side --", after_help = EXAMPLES, max_term_width = 110)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) subject: Option<Subject>,
    /// Rounds; each client runs once in each, in shuffled order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Duration of each client in a round, s
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Connections of each client
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Protocol; http2 is over TLS, with ten streams on each connection, tls-handshakes with a new connection for each request
    #[arg(long, value_enum, value_name = "PROTOCOL", default_value_t = Over::Plain, conflicts_with = "target_url")]
    pub(crate) over: Over,
    /// Peers to look for [default: all of them]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = names())]
    pub(crate) peers: Vec<String>,
    /// A server to use instead of the bundled target, on a loopback or private address; {id} is where the ID goes
    #[arg(long, value_name = "URL")]
    pub(crate) target_url: Option<TargetUrl>,
    /// Save every run and every figure as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Save the table with the machine and the date, every figure, and a plot of what a request costs
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The seed of the shuffles
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Given by cargo.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

/// Subject of a comparison other than clients.
#[derive(Debug, Subcommand)]
pub(crate) enum Subject {
    /// Runs crawlmark, oha, wrk2 and hey at 1,000, 10,000 and 50,000 requests a second, in turn, and compares how late they
    /// send, the latency they report and the CPU they use
    Paced(PacedArguments),
    /// Runs the bundled target, nginx and WireMock in turn, wrk as the client of each, and compares what an answer costs
    Servers(ServerArguments),
}

/// Arguments of `paced`.
#[derive(Debug, Args)]
pub(crate) struct PacedArguments {
    /// Rounds; each client runs once at each rate in each, in shuffled order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Duration of each client at each rate in a round, s
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Connections of each client
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Save every run and every figure as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The seed of the shuffles
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Arguments of `servers`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Rounds; each server is driven once in each, in shuffled order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Duration of the load on each server in a round, s
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Save every run and every figure as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The seed of the shuffles
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(PEERS.iter().map(|peer| peer.name))
}

/// A server that may be driven as fast as it goes, as a URL with `{id}` in it.
#[derive(Debug, Clone)]
pub(crate) struct TargetUrl(pub(crate) String);

impl FromStr for TargetUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let template =
            if text.contains("{id}") { text.to_owned() } else { format!("{}/{{id}}", text.trim_end_matches('/')) };
        let url: Uri =
            template.replace("{id}", "1").parse().map_err(|error| format!("`{text}` is not a valid URL: {error}"))?;
        if url.scheme_str() != Some("http") {
            return Err(format!("`{text}` does not begin with http://"));
        }
        let host = url.host().ok_or_else(|| format!("`{text}` names no host"))?.trim_matches(['[', ']']);
        let addresses =
            (host, url.port_u16().unwrap_or(80)).to_socket_addrs().map_err(|error| format!("`{host}`: {error}"))?;
        for address in addresses {
            if !is_private(address.ip()) {
                return Err(format!(
                    "{host} is {}: clients without a rate may only be let loose on a loopback or private address",
                    address.ip()
                ));
            }
        }
        Ok(Self(template))
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(IpAddr::V4(v4)),
            None => v6.is_loopback() || v6.is_unique_local(),
        },
    }
}
