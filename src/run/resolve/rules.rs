//! Flags of `run` that contradict each other, that would have no effect, or that cannot work: each
//! is refused, with what to do.

use std::collections::BTreeSet;
use std::fmt::Display;

use crawlmark_harness::plan::{Arrivals, PlanError};
use crawlmark_harness::units::RateShape;

use crate::cli::{RobotsUse, RunArgs};
use crate::crawl::proxy::{Proxies, Session};
use crate::crawl::{HttpVersion, PLACE, RequestShape, Scheme, Targets};
use crate::error::Error;

/// Header fields of HTTP/1.1 that HTTP/2 does not have (RFC 9113, 8.2.2).
const OF_HTTP_1: [&str; 4] = ["keep-alive", "proxy-connection", "te", "upgrade"];

/// Longest name of a host that SOCKS5 can carry, bytes.
const LONGEST_NAME: usize = 255;

/// Refuse the first rule that is broken.
fn refuse(rules: impl IntoIterator<Item = (bool, &'static str)>) -> Result<(), Error> {
    let mut rules = rules.into_iter();
    rules
        .find(|(is_broken, _)| *is_broken)
        .map_or(Ok(()), |(_, why)| Err(Error::usage(why)))
}

/// Refuse with a reason, if there is one.
fn refuse_for(why: Option<impl Display>) -> Result<(), Error> {
    why.map_or(Ok(()), |why| Err(Error::usage(why)))
}

/// Find the first flag that was given.
fn first<'a>(flags: impl IntoIterator<Item = (&'a str, bool)>) -> Option<&'a str> {
    flags
        .into_iter()
        .find(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
}

/// Check flags before anything is read.
pub(super) fn check_flags(args: &RunArgs) -> Result<(), Error> {
    let mut keys = BTreeSet::new();
    let twice = args.tags.iter().find(|(key, _)| !keys.insert(key));
    refuse_for(twice.map(|(key, _)| format!("--tag {key} is given twice: keep one of them")))?;
    let is_bundled = args.is_bundled();
    let is_replay = args.arrivals == Arrivals::Replay;
    let shape = args.rate.map(|rate| rate.shape);
    let windows =
        matches!(shape, Some(RateShape::Windows { .. })) && args.arrivals.gaps().is_none();
    let lonely = args.burst.filter(|_| args.rate.is_none());
    refuse_for(lonely.map(|burst| {
        format!("--burst {burst} is for a rate budget: add --rate, or remove --burst")
    }))?;
    refuse([
        (
            args.speed.is_some() && !is_replay,
            "--speed is for --arrivals replay: add it, or remove --speed",
        ),
        (
            is_replay && args.requests_file.is_none(),
            "--arrivals replay needs a --requests-file, whose requests have times",
        ),
        (
            is_replay && args.rate.is_some(),
            "--rate does not work with --arrivals replay: the recording sets the time of each request (--speed scales it). Remove --rate",
        ),
        (
            is_replay && args.ids.is_some(),
            "--ids does not work with --arrivals replay: each recorded request is one item (-n sends the first ones). Remove --ids",
        ),
        (
            is_replay && args.request.shuffle,
            "--shuffle does not work with --arrivals replay: the recording sets the order. Remove --shuffle",
        ),
        (
            is_replay && args.throttling.retries.is_some_and(|retries| retries > 0),
            "--retries does not work with --arrivals replay: a retry has no recorded time. Remove --retries",
        ),
        (
            is_replay && args.request.follow > 0,
            "--follow does not work with --arrivals replay: redirected requests are in the recording already. Remove --follow",
        ),
        (
            windows && args.burst.is_some(),
            "--burst does not work with a --rate in windows, which has one of its own: remove --burst",
        ),
        (
            args.connect_timeout.is_zero(),
            "--connect-timeout must be longer than 0",
        ),
        (
            args.connection
                .idle_timeout
                .is_some_and(|time| time.is_zero()),
            "--idle-timeout must be longer than 0; --disable-keepalive keeps no connection",
        ),
        (
            args.connection.dns_ttl.is_some_and(|time| time.is_zero()),
            "--dns-ttl must be longer than 0: use 1s to look up names every second",
        ),
        (
            is_bundled && args.request.id_format.is_some(),
            "--id-format is for a URL: the bundled target knows its items by plain numbers",
        ),
        (
            is_bundled && args.connection.unix_socket.is_some(),
            "--unix-socket is for a URL, whose host requests name: add one, as in http://localhost/{id}",
        ),
        (
            is_bundled && args.throttling.robots == RobotsUse::Honor,
            "--robots honor: the bundled target has no robots.txt. Give the URL of the target, or remove --robots",
        ),
    ])?;
    let is_ramp = matches!(shape, Some(RateShape::Ramp { .. })) && args.duration.is_none();
    refuse_for(
        args.rate
            .filter(|_| is_ramp)
            .map(|rate| PlanError::RampTime(rate.to_string())),
    )
}

/// Check flags against the targets of the run.
pub(super) fn check_targets(args: &RunArgs, targets: &Targets) -> Result<(), Error> {
    let hosts = targets.hosts();
    let is_limited =
        args.per_host.per_host_rate.is_some() || args.per_host.per_host_connections.is_some();
    refuse([(
        args.request.follow > 0 && is_limited && hosts.len() > 1,
        "--follow may lead from one host to another, whose limits it would not keep: remove --follow, or --per-host-rate and \
         --per-host-connections",
    )])?;
    let mut rules = args.connect_to.iter();
    let unused =
        rules.find(|rule| args.is_bundled() || !hosts.iter().any(|host| rule.is_for(host)));
    refuse_for(unused.map(|rule| {
        format!("--connect-to {rule} matches no host of the URLs: begin it with the host and port of one")
    }))?;
    check_tls(args, hosts.iter().all(|host| host.scheme() == Scheme::Http))?;
    if hosts.iter().any(|host| args.http.may_be_2(host.scheme())) {
        return check_http2(args, targets);
    }
    refuse_for(args.streams.map(|streams| match args.http {
        HttpVersion::Auto => format!(
            "--streams {streams} needs HTTP/2, which --http auto uses for https:// URLs only: pass --http 2, or remove --streams"
        ),
        _ => format!(
            "--streams {streams} needs HTTP/2: pass --http 2 or --http auto, or use more connections (-c)"
        ),
    }))
}

/// Check flags of TLS, where all or not all targets are plain.
fn check_tls(args: &RunArgs, is_plain: bool) -> Result<(), Error> {
    let tls = &args.tls;
    // The bundled target's certificate is trusted, and it asks for none.
    let certificates = [
        ("--cacert", tls.cacert.is_some()),
        ("--cert", tls.cert.is_some()),
        ("--key", tls.key.is_some()),
    ];
    let others = [
        ("--insecure", tls.insecure),
        ("--tls-resume", tls.tls_resume),
        ("--tls-min", tls.tls_min.is_some()),
        ("--tls-max", tls.tls_max.is_some()),
    ];
    let any = || first(certificates.into_iter().chain(others));
    refuse_for(match (is_plain, args.is_bundled()) {
        (true, false) => any().map(|flag| format!("{flag} is for https:// URLs, and there is none: remove it")),
        (true, true) => any().map(|flag| {
            format!("{flag} needs TLS, which the bundled target does not use: add --target-tls")
        }),
        (false, true) => first(certificates).map(|flag| {
            format!("{flag} has no effect with --target-tls, whose certificate is trusted and which asks for none: remove it")
        }),
        (false, false) => None,
    })
}

/// Check flags of a run that may speak HTTP/2.
fn check_http2(args: &RunArgs, targets: &Targets) -> Result<(), Error> {
    let of_http_1 = first([
        ("--cookies", args.request.cookies),
        ("--idle-timeout", args.connection.idle_timeout.is_some()),
    ]);
    refuse_for(of_http_1.map(|flag| {
        format!("{flag} works with HTTP/1.1 only: pass --http 1.1, or remove {flag}")
    }))?;
    let one_each = first([
        ("--disable-keepalive", args.disable_keepalive),
        (
            "--max-requests-per-connection 1",
            args.max_requests_per_connection == Some(1),
        ),
    ]);
    let streams = args.streams.filter(|streams| *streams > 1);
    refuse_for(one_each.zip(streams).map(|(flag, streams)| {
        format!(
            "--streams {streams} has no effect with {flag}, which leaves one request to each connection: remove one of them"
        )
    }))?;
    let mut own = targets.shapes().iter().flat_map(RequestShape::header_names);
    refuse_for(own.find(|name| OF_HTTP_1.contains(name)).map(|name| {
        format!("header {name} of a request in the file is not allowed in HTTP/2: remove it, or pass --http 1.1")
    }))?;
    for (name, value) in args
        .headers
        .iter()
        .filter_map(|header| header.split_once(':'))
    {
        let (name, value) = (name.trim(), value.trim().replace(PLACE, "0"));
        if OF_HTTP_1.iter().any(|of_1| of_1.eq_ignore_ascii_case(name)) {
            return Err(Error::usage(format!(
                "--header {name} is not allowed in HTTP/2: remove it, or pass --http 1.1"
            )));
        }
        let is_host = name.eq_ignore_ascii_case("host");
        refuse([(
            is_host && value.parse::<http::uri::Authority>().is_err(),
            "--header Host is the authority of HTTP/2 requests, which has to be a name or an address, and perhaps a port: correct it, or \
             pass --http 1.1",
        )])?;
    }
    Ok(())
}

/// Check flags of a run without a proxy.
pub(super) fn check_direct(args: &RunArgs) -> Result<(), Error> {
    refuse([(
        args.proxy.session.is_some(),
        "--session is for a proxy: add --proxy, or remove it",
    )])
}

/// Check flags against the proxies of the run.
pub(super) fn check_proxies(
    args: &RunArgs,
    targets: &Targets,
    proxies: &Proxies,
) -> Result<(), Error> {
    let has_session = proxies.all.iter().any(|proxy| proxy.url.has_session());
    let is_per_request = proxies.session == Session::PerRequest;
    let is_header = |header: &String| {
        let name = header.trim_start().to_ascii_lowercase();
        name.starts_with("proxy-authorization")
    };
    let served = || {
        let hosts = targets.hosts().iter().enumerate();
        hosts.filter(|(number, _)| proxies.serves(*number))
    };
    refuse([
        (
            args.headers.iter().any(is_header),
            "--header proxy-authorization would go to the target: pass USER:PASS@ in the URL of --proxy",
        ),
        (
            args.proxy.session.is_some() && !has_session,
            "--session needs {session} in the user name or password of --proxy",
        ),
        (
            is_per_request
                && args
                    .max_requests_per_connection
                    .is_some_and(|most| most > 1),
            "--session per-request opens a connection for each request: remove --max-requests-per-connection",
        ),
        (
            served().any(|(_, host)| host.name().len() > LONGEST_NAME),
            "--proxy: the name of the URL's host is too long for a proxy",
        ),
    ])?;
    if let Session::Sticky(sessions) = proxies.session {
        let turns = proxies.lists.iter().map(|turns| turns_for_all(turns)).max();
        let more = turns.filter(|turns| *turns > sessions.get() as usize);
        refuse_for(more.map(|more| {
            format!(
                "--session sticky={sessions} leaves proxies unused: use {more} sessions or more"
            )
        }))?;
    }
    let looked_up = served().filter(|(number, _)| proxies.looks_up(*number));
    let mut rules =
        looked_up.flat_map(|(_, host)| args.connect_to.iter().filter(|rule| rule.is_for(host)));
    refuse_for(rules.next().map(|rule| {
        format!("--connect-to {rule} has no effect with a proxy that looks up the target's name: use socks5://, or remove --connect-to")
    }))?;
    let mut forwarded = served().filter(|(number, host)| {
        args.http == HttpVersion::Http2
            && host.scheme() == Scheme::Http
            && proxies.forwards(*number)
    });
    refuse_for(forwarded.next().map(|(_, host)| {
        format!(
            "--http 2 cannot go through an http:// proxy to {}, whose requests the proxy forwards in HTTP/1.1: use an https:// URL, a \
             socks5:// proxy, or --http 1.1",
            host.origin()
        )
    }))
}

/// Return the number of turns until each proxy has had one.
fn turns_for_all(turns: &[usize]) -> usize {
    let mut seen = BTreeSet::new();
    let mut new = turns
        .iter()
        .enumerate()
        .filter(|(_, proxy)| seen.insert(**proxy));
    new.by_ref().last().map_or(0, |(at, _)| at + 1)
}
