//! HTTP version and streams of a run: refuse combinations that would have no effect or could not
//! work.

use std::collections::BTreeMap;

use super::usage;
use crate::cli::RunArgs;
use crate::crawl::proxy::Proxies;
use crate::crawl::{Host, HttpSettings, HttpVersion, PLACE, RequestShape, Scheme, Targets};
use crate::error::Error;

/// Header fields of HTTP/1.1 that HTTP/2 does not have (RFC 9113, 8.2.2).
const OF_HTTP_1: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];

/// Flag that leaves one request to each connection.
const ONE_EACH: &str = "--max-requests-per-connection 1";

/// Choose version and streams, and record them in `workload` unless they are the defaults.
///
/// # Errors
/// When they contradict other flags.
pub(super) fn choose(
    args: &RunArgs,
    targets: &Targets,
    proxies: Option<&Proxies>,
    workload: &mut BTreeMap<String, String>,
) -> Result<HttpSettings, Error> {
    let http = HttpSettings {
        version: args.http,
        streams: args.streams.unwrap_or(1),
    };
    if let Some(why) =
        misplaced(args, targets, http).or_else(|| forwarded(targets.hosts(), proxies, http.version))
    {
        return Err(usage(why));
    }
    if http.version != HttpVersion::default() {
        workload.insert("http".to_owned(), http.version.to_string());
    }
    Ok(http)
}

/// Say which flag has no effect or cannot work, and what to do.
fn misplaced(args: &RunArgs, targets: &Targets, http: HttpSettings) -> Option<String> {
    let may_be_2 = targets
        .hosts()
        .iter()
        .any(|host| http.version.may_be_2(host.scheme()));
    if let Some(streams) = args.streams.filter(|_| !may_be_2) {
        return Some(match http.version {
            HttpVersion::Auto => format!(
                "--streams {streams} needs HTTP/2, which --http auto uses for https:// URLs only: pass --http 2, or remove --streams"
            ),
            _ => {
                format!(
                    "--streams {streams} needs HTTP/2: pass --http 2 or --http auto, or use more connections (-c)"
                )
            }
        });
    }
    let of_http_1 = [
        ("--cookies", args.request.cookies),
        ("--idle-timeout", args.connection.idle_timeout.is_some()),
    ];
    if let Some((flag, _)) = of_http_1
        .into_iter()
        .find(|(_, is_given)| may_be_2 && *is_given)
    {
        return Some(format!(
            "{flag} works with HTTP/1.1 only: pass --http 1.1, or remove {flag}"
        ));
    }
    let one_each = args.disable_keepalive.then_some("--disable-keepalive");
    let one_each = one_each.or_else(|| {
        args.max_requests_per_connection
            .filter(|most| *most == 1)
            .map(|_| ONE_EACH)
    });
    if let (Some(flag), 2..) = (one_each, http.streams) {
        return Some(format!(
            "--streams {} has no effect with {flag}, which leaves one request to each connection: remove one of them",
            http.streams
        ));
    }
    let own = targets.shapes().iter().flat_map(RequestShape::header_names);
    if let Some(name) = own
        .filter(|_| may_be_2)
        .find(|name| OF_HTTP_1.contains(name))
    {
        return Some(format!(
            "header {name} of a request in the file is not allowed in HTTP/2: remove it, or pass --http 1.1"
        ));
    }
    let mut headers = args
        .headers
        .iter()
        .filter(|_| may_be_2)
        .filter_map(|header| header.split_once(':'));
    headers.find_map(|(name, value)| match name.trim() {
        name if OF_HTTP_1.iter().any(|of_1| of_1.eq_ignore_ascii_case(name)) => {
            Some(format!("--header {name} is not allowed in HTTP/2: remove it, or pass --http 1.1"))
        }
        name if name.eq_ignore_ascii_case("host") && value.trim().replace(PLACE, "0").parse::<http::uri::Authority>().is_err() => Some(
            "--header Host is the authority of HTTP/2 requests, which has to be a name or an address, and perhaps a port: correct \
             it, or pass --http 1.1"
                .to_owned(),
        ),
        _ => None,
    })
}

/// Say that a proxy that forwards requests cannot do so in HTTP/2.
fn forwarded(hosts: &[Host], proxies: Option<&Proxies>, version: HttpVersion) -> Option<String> {
    let proxies = proxies.filter(|_| version == HttpVersion::Http2)?;
    let mut numbered = hosts.iter().enumerate();
    let (_, host) = numbered
        .find(|(number, host)| host.scheme() == Scheme::Http && proxies.forwards(*number))?;
    Some(format!(
        "--http 2 cannot go through an http:// proxy to {}{}, whose requests the proxy forwards in HTTP/1.1: use an https:// URL, a \
         socks5:// proxy, or --http 1.1",
        host.scheme().prefix(),
        host.name()
    ))
}
