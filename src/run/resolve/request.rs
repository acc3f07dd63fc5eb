//! Request of a run: method, headers, credentials and body, from flags, files and the environment.
//!
//! No error may repeat a credential, a header or a body.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crawlmark_harness::units::IdRange;
use serde::de::IgnoredAny;

use super::usage;
use crate::cli::{ConnectionArgs, RunArgs};
use crate::crawl::{Content, Cookies, CrawlOptions, PLACE, ReceiveStamps, RequestShape, Shuffle};
use crate::error::Error;

/// No body is longer: each shard keeps it, and what has no end must not be read to it.
const LONGEST_BODY: u64 = 64 << 20;

/// Choose the method and the request of a run.
///
/// # Errors
/// When a part of it is invalid or cannot be read.
pub(super) fn choose(args: &RunArgs) -> Result<(String, RequestShape), Error> {
    let flags = &args.request;
    let body = body(args)?;
    let has_body = flags.body_file.is_some() || flags.json_body.is_some() || !args.body.is_empty();
    // As curl does: a body is meant to be posted.
    let method = args
        .method
        .clone()
        .unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned());
    let mut headers = args.headers.clone();
    let is_typed = |name: &str| {
        args.headers.iter().any(|header| {
            header
                .split(':')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case(name)
        })
    };
    if flags.json_body.is_some() && !is_typed("content-type") {
        headers.push("content-type: application/json".to_owned());
    }
    if flags.compressed && !is_typed("accept-encoding") {
        headers.push(format!("accept-encoding: {}", Content::ACCEPTED));
    }
    let mut secrets = Vec::new();
    if let Some(authorization) = authorization(args, &mut secrets)? {
        if is_typed("authorization") {
            return Err(usage(
                "--header authorization is given as well as --auth or --bearer-env: keep one of them",
            ));
        }
        headers.push(authorization);
    }
    let request = RequestShape::new(&method, &headers, body).map_err(usage)?;
    let request = request
        .with_ids(flags.id_format)
        .withholding(secrets.iter().map(String::as_str));
    Ok((method, request))
}

/// Return the header for the credentials, whose parts are added to `secrets`; none without any.
fn authorization(args: &RunArgs, secrets: &mut Vec<String>) -> Result<Option<String>, Error> {
    let is_bad = |text: &str| text.contains(char::is_control);
    if let Some(auth) = &args.request.auth {
        let (user, password) = auth.split_once(':').filter(|_| !is_bad(auth)).ok_or_else(|| {
            usage("--auth is USER:PASSWORD, without control characters: write USER: for an empty password")
        })?;
        secrets.extend([user.to_owned(), password.to_owned()]);
        return Ok(Some(format!(
            "authorization: Basic {}",
            STANDARD.encode(auth)
        )));
    }
    let Some(name) = &args.request.bearer_env else {
        return Ok(None);
    };
    let token = std::env::var(name)
        .ok()
        .map(|token| token.trim().to_owned())
        .filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| {
        usage(format!(
            "--bearer-env {name}: the environment variable is empty or not set: export it, or correct the name"
        ))
    })?;
    // RFC 6750, 2.1: a token is visible ASCII.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(usage(format!(
            "--bearer-env {name}: the variable's value has spaces or other characters that no token has: correct it"
        )));
    }
    let header = format!("authorization: Bearer {token}");
    secrets.push(token);
    Ok(Some(header))
}

/// Read the body of every request.
fn body(args: &RunArgs) -> Result<Bytes, Error> {
    const JSON: &str = "--json-body";
    if let Some(path) = &args.request.body_file {
        let name = format!("--body-file {}", path.display());
        return read(path).map_err(|why| usage(format!("{name} {why}")));
    }
    let (flag, text) = match &args.request.json_body {
        Some(text) => (JSON, text),
        None => ("--body", &args.body),
    };
    let body = match text.strip_prefix('@') {
        None => Bytes::copy_from_slice(text.as_bytes()),
        Some(literal) if literal.starts_with('@') && flag != JSON => {
            Bytes::copy_from_slice(literal.as_bytes())
        }
        // A text that begins with @ by mistake may be a secret, and so may a path.
        Some(path) => read(Path::new(path)).map_err(|why| match flag {
            JSON => usage(format!("{flag} @FILE: the file {why}")),
            _ => usage(format!(
                "{flag} @FILE: the file {why}. If the body is a text that begins with @, write @@"
            )),
        })?,
    };
    // A number may be where the ID goes.
    let is_json =
        |text: &str| serde_json::from_str::<IgnoredAny>(&text.replace(PLACE, "0")).is_ok();
    if flag == JSON && !std::str::from_utf8(&body).is_ok_and(is_json) {
        return Err(usage(
            "--json-body is not one JSON value ({id} is replaced by the ID): correct it, or send it with --body",
        ));
    }
    Ok(body)
}

/// Read a file, or say why it cannot be sent.
pub(in crate::run) fn read(path: &Path) -> Result<Bytes, String> {
    let unreadable = |error| format!("cannot be read: {error}. Check the path");
    let file = File::open(path).map_err(unreadable)?;
    let mut body = Vec::new();
    file.take(LONGEST_BODY + 1)
        .read_to_end(&mut body)
        .map_err(unreadable)?;
    if body.len() as u64 > LONGEST_BODY {
        return Err(format!("is longer than {} MiB", LONGEST_BODY >> 20));
    }
    Ok(body.into())
}

/// Choose the settings that most crawls leave at their defaults, and record them in `workload`.
/// `ids` are those of the run, which has so many hosts.
///
/// # Errors
/// When one would have no effect.
pub(super) fn options(
    args: &RunArgs,
    (ids, hosts): (IdRange, usize),
    workload: &mut BTreeMap<String, String>,
) -> Result<CrawlOptions, Error> {
    let flags = &args.request;
    let mut note = |name: &str, value: String| drop(workload.insert(name.to_owned(), value));
    if let Some(format) = &flags.id_format {
        if args.is_bundled() {
            return Err(usage(
                "--id-format is for a URL: the bundled target knows its items by plain numbers",
            ));
        }
        note("id_format", format.to_string());
    }
    // Of a range that is longer than the run, the run has a sample.
    let range = args.ids.unwrap_or(ids);
    let shuffle = flags.shuffle.then(|| Shuffle::new(range, args.seed));
    if shuffle.is_some() {
        note("shuffle", range.to_string());
    }
    if flags.compressed {
        note("content", "decoded".to_owned());
    }
    if flags.follow > 0 {
        let is_limited =
            args.per_host.per_host_rate.is_some() || args.per_host.per_host_connections.is_some();
        if is_limited && hosts > 1 {
            return Err(usage(
                "--follow may lead from one host to another, whose limits it would not keep: remove --follow, or --per-host-rate and \
                 --per-host-connections",
            ));
        }
        note("follow", flags.follow.to_string());
    }
    if flags.cookies {
        note("cookies", "kept".to_owned());
    }
    let ConnectionArgs {
        unix_socket,
        idle_timeout,
        connect_rate,
        dns_ttl: _,
        receive_stamps,
    } = args.connection.clone();
    if unix_socket.is_some() && args.is_bundled() {
        return Err(usage(
            "--unix-socket is for a URL, whose host requests name: add one, as in http://localhost/{id}",
        ));
    }
    if idle_timeout.is_some_and(|time| time.is_zero()) {
        return Err(usage(
            "--idle-timeout must be longer than 0; --disable-keepalive keeps no connection",
        ));
    }
    let unix = unix_socket
        .as_ref()
        .map(|path| ("unix_socket", path.display().to_string()));
    let idle = idle_timeout.map(|time| ("idle_timeout_us", time.as_micros().to_string()));
    let rate = connect_rate.map(|rate| ("connect_rate", rate.to_string()));
    let is_default = receive_stamps == ReceiveStamps::default();
    let stamps = (!is_default).then(|| ("receive_stamps", receive_stamps.to_string()));
    for (name, value) in [unix, idle, rate, stamps].into_iter().flatten() {
        note(name, value);
    }
    Ok(CrawlOptions {
        shuffle,
        content: if flags.compressed {
            Content::Decoded
        } else {
            Content::AsSent
        },
        follow: flags.follow,
        cookies: if flags.cookies {
            Cookies::Kept
        } else {
            Cookies::Ignored
        },
        unix_socket,
        idle_timeout,
        connect_rate,
        lookups: None,
        receive_stamps,
        robots: None,
        session: None,
        keeps_throttled: false,
        sent: None,
    })
}
