//! Flags of `run` that would have no effect, or cannot work: each is refused, with what to do.
//!
//! What a flag needs stands in the table of flags; the rules here are about values, and about more
//! than one flag.

use crawlmark_harness::plan::{Arrivals, Pacing, PlanError};
use crawlmark_harness::process::usable_cpus;
use crawlmark_harness::sample::ResponseTraits;
use crawlmark_harness::units::RateShape;

use http::header::TE;

use super::targets::Chosen;
use crate::cli::{Auto, Need, RunArgs, check_needs};
use crate::crawl::proxy::Proxies;
use crate::crawl::{
    ConnectTo, Expectations, HttpVersion, PLACE, RequestShape, Scheme, TRACEPARENT, Targets,
};
use crate::error::{Error, WITHOUT_HTTP_3};

/// Header fields of HTTP/1.1 that later versions do not have (RFC 9113, 8.2.2; RFC 9114, 4.2).
const OF_HTTP_1: [&str; 3] = ["keep-alive", "proxy-connection", "upgrade"];

/// Longest name of a host that SOCKS5 can carry, bytes.
const LONGEST_NAME: usize = 255;

/// Check flags against each other, before the targets are read.
pub(super) fn check_flags(args: &RunArgs, request: &RequestShape) -> Result<(), Error> {
    let is_replay = args.arrivals() == Arrivals::Replay;
    check_needs(&args.typed.values, |need| match need {
        Need::Url => !args.is_bundled(),
        Need::Rate => args.rate.is_some(),
        Need::Replay => is_replay,
        Need::NoReplay => !is_replay,
        Need::Saving => args.save.save.is_some() || args.save.earlier().is_some(),
        Need::Tcp => args.http != HttpVersion::Http3,
        Need::Tls | Need::Http2 | Need::Http1 | Need::Session => true,
    })
    .map_err(Error::Usage)?;
    let headers = request.header_names();
    let shape = args.rate.as_ref().map(|rate| &rate.shape);
    let refused = if args.http == HttpVersion::Http3 && !cfg!(feature = "http3") {
        WITHOUT_HTTP_3
    } else if is_replay && args.requests_file.is_none() {
        "--arrivals replay needs a --requests-file, whose requests have times"
    } else if matches!(shape, Some(RateShape::Windows { .. }))
        && args.arrivals().gaps().is_none()
        && args.burst.is_some()
    {
        "--burst does not work with a --rate in windows, which has one of its own: remove --burst"
    } else if args.connection.trace.is_some() && headers.contains(&TRACEPARENT.as_str()) {
        "--trace sends a traceparent header of its own: remove that of --header, or --trace"
    } else if args.traits.len() > ResponseTraits::MOST_HEADERS {
        "--trait works with up to 8 headers: remove some"
    } else {
        ""
    };
    if !refused.is_empty() {
        return Err(Error::usage(refused));
    }
    if let (Some(ids), Some(count)) = (args.ids, args.requests)
        && count > ids.len()
    {
        return Err(Error::usage(format!(
            "--items {count} is more than the {} IDs of --ids {ids}",
            ids.len()
        )));
    }
    let cpus = usable_cpus().len().max(1);
    if let (Pacing::Spin, Auto::Exactly(shards)) = (args.pacing, args.shards)
        && shards as usize > cpus
    {
        return Err(Error::Usage(format!(
            "--pacing spin uses a whole core for each shard: --shards {shards} is more than the {cpus} cores of this machine. Use --shards \
             {cpus}, or --pacing sleep"
        )));
    }
    if let (Some(rate), None) = (&args.rate, args.duration)
        && rate.shape.needs_end()
    {
        return Err(Error::usage(PlanError::RampTime(rate.to_string())));
    }
    Ok(())
}

/// Refuse a target that may be public without a rate, or the times of a recording.
pub(super) fn check_strangers(args: &RunArgs, strangers: &[(usize, String)]) -> Result<(), Error> {
    let has_pace = args.rate.is_some() || args.arrivals() == Arrivals::Replay;
    match strangers.first() {
        Some((_, why)) if !has_pace => Err(Error::Usage(format!(
            "{why}: say how fast you may crawl it, for example --rate 10/s"
        ))),
        _ => Ok(()),
    }
}

/// Check the conditions for a good response of requests that have these methods.
pub(super) fn check_expectations(
    args: &RunArgs,
    expected: &Expectations,
    methods: &str,
) -> Result<(), Error> {
    let is_call = expected.are_calls();
    let flaw = if args.request.compressed && expected.events().is_some() {
        "sse, ndjson and grpc read a stream as it arrives, and --compressed decodes it at its end: leave one of them out"
    } else if is_call && !matches!(args.http, HttpVersion::Http2 | HttpVersion::Http3) {
        "grpc needs HTTP/2 or HTTP/3: add --http 2"
    } else if is_call && methods != "POST" {
        "grpc needs requests of the method POST: remove the others"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("--expect {flaw}")))
}

/// Check flags against the targets and the proxies of the run.
pub(super) fn check(
    args: &RunArgs,
    request: &RequestShape,
    chosen: &Chosen,
    proxies: Option<&Proxies>,
) -> Result<(), Error> {
    let targets = &chosen.targets;
    let hosts = targets.hosts();
    let streams = hosts
        .iter()
        .any(|host| args.http.may_have_streams(host.scheme));
    check_needs(&args.typed.values, |need| match need {
        Need::Tls => hosts.iter().any(|host| host.scheme == Scheme::Https),
        Need::Http2 => streams,
        Need::Http1 => !streams,
        Need::Session => {
            proxies.is_some_and(|proxies| proxies.all.iter().any(|proxy| proxy.url.has_session()))
        }
        _ => true,
    })
    .map_err(Error::Usage)?;
    if args.request.cookies && targets.has_shared_values() {
        return Err(Error::usage(
            "--cookies keeps cookies by connection, and a request with \"once\" is sent on one of them: remove --cookies, or \"once\"",
        ));
    }
    let (methods, may_change) = (&chosen.methods, ["POST", "PATCH"]);
    if args.diagnose && may_change.iter().any(|method| methods.contains(method)) {
        return Err(Error::usage(format!(
            "--diagnose sends requests again, which may change something with {methods}: leave it out"
        )));
    }
    let is_of_none =
        |rule: &&ConnectTo| args.is_bundled() || !hosts.iter().any(|host| rule.is_for(host));
    if let Some(rule) = args.connect_to.iter().find(is_of_none) {
        return Err(Error::usage(format!(
            "--connect-to {rule} matches no host of the URLs: begin it with the host and port of one"
        )));
    }
    if args.http == HttpVersion::Http3 {
        check_http3(targets, proxies)?;
    }
    if streams {
        check_http2_headers(args, request, targets)?;
    }
    proxies.map_or(Ok(()), |proxies| check_proxies(args, targets, proxies))
}

/// Check that nothing of a run of HTTP/3 would go over TCP.
fn check_http3(targets: &Targets, proxies: Option<&Proxies>) -> Result<(), Error> {
    let mut hosts = targets.hosts().iter().enumerate();
    if let Some((_, host)) = hosts.clone().find(|(_, host)| host.scheme == Scheme::Http) {
        return Err(Error::usage(format!(
            "--http 3 is for https:// URLs, and {} is none: change it (without a URL, add --target-tls)",
            host.origin()
        )));
    }
    if let Some((_, host)) = hosts.find(|(at, _)| proxies.is_some_and(|all| all.serves(*at))) {
        return Err(Error::usage(format!(
            "--http 3 cannot go through a proxy, which {} has: remove the proxy, or pass --http 2",
            host.origin()
        )));
    }
    Ok(())
}

/// Check the headers of a run that may speak HTTP/2 or HTTP/3.
fn check_http2_headers(
    args: &RunArgs,
    request: &RequestShape,
    targets: &Targets,
) -> Result<(), Error> {
    let shapes = targets.shapes();
    for shape in shapes.chain([request]) {
        let not_trailers = shape.values(&TE).any(|value| value != "trailers");
        if let Some(name) = shape
            .header_names()
            .into_iter()
            .find(|name| OF_HTTP_1.contains(name) || *name == TE && not_trailers)
        {
            return Err(Error::usage(format!(
                "header {name} is not allowed in HTTP/2 or HTTP/3: remove it, or pass --http 1.1"
            )));
        }
    }
    for header in &args.headers {
        let (name, value) = header.split_once(':').unwrap_or((header, ""));
        let authority = value.trim().replace(PLACE, "0");
        if name.trim().eq_ignore_ascii_case("host")
            && authority.parse::<http::uri::Authority>().is_err()
        {
            return Err(Error::usage(
                "--header Host is the authority of HTTP/2 and HTTP/3 requests, which has to be a name or an address, and perhaps a port: correct it, or \
                 pass --http 1.1",
            ));
        }
    }
    Ok(())
}

/// Check flags against the proxies of the run.
fn check_proxies(args: &RunArgs, targets: &Targets, proxies: &Proxies) -> Result<(), Error> {
    if args.headers.iter().any(|header| {
        let name = header.trim_start().to_ascii_lowercase();
        name.starts_with("proxy-authorization")
    }) {
        return Err(Error::usage(
            "--header proxy-authorization would go to the target: pass USER:PASS@ in the URL of --proxy",
        ));
    }
    for (number, host) in targets.hosts().iter().enumerate() {
        if !proxies.serves(number) {
            continue;
        }
        if host.name().len() > LONGEST_NAME {
            return Err(Error::usage(
                "--proxy: the name of the URL's host is too long for a proxy",
            ));
        }
        let rule = args.connect_to.iter().find(|rule| rule.is_for(host));
        if let Some(rule) = rule.filter(|_| proxies.looks_up(number)) {
            return Err(Error::usage(format!(
                "--connect-to {rule} has no effect with a proxy that looks up the target's name: use socks5://, or remove --connect-to"
            )));
        }
        if args.http == HttpVersion::Http2
            && host.scheme == Scheme::Http
            && proxies.forwards(number)
        {
            return Err(Error::usage(format!(
                "--http 2 cannot go through an http:// proxy to {}, whose requests the proxy forwards in HTTP/1.1: use an https:// URL, a \
                 socks5:// proxy, or --http 1.1",
                host.origin()
            )));
        }
    }
    Ok(())
}
