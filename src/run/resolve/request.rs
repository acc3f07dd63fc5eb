//! Request of a run: method, headers, credentials and body, from flags, files and the environment.
//!
//! No error may repeat a credential, a header or a body.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::cli::RunArgs;
use crate::crawl::{Content, EventStream, Expect, GRPC, PLACE, RequestShape};
use crate::error::Error;
use crate::run::inputs::read_body;

/// Choose the request of a run.
///
/// # Errors
/// When a part of it is invalid or cannot be read.
pub(super) fn choose_request(args: &RunArgs) -> Result<RequestShape, Error> {
    let flags = &args.request;
    let body = body(args)?;
    let has_body = flags.body_file.is_some() || flags.json_body.is_some() || !args.body.is_empty();
    let is_call = args.expect.contains(&Expect::Events(EventStream::GRPC));
    // As curl does: a body is meant to be posted.
    let method = args
        .method
        .clone()
        .unwrap_or_else(|| if has_body || is_call { "POST" } else { "GET" }.to_owned());
    let mut headers = args.headers.clone();
    if is_call {
        let of_call = [
            ("content-type", GRPC.to_owned()),
            ("te", "trailers".to_owned()),
            ("grpc-timeout", grpc_timeout(args.timeout)),
        ];
        let missing = of_call
            .into_iter()
            .filter(|(name, _)| !is_typed(args, name));
        headers.extend(missing.map(|(name, value)| format!("{name}: {value}")));
    }
    if flags.json_body.is_some() && !is_call && !is_typed(args, "content-type") {
        headers.push("content-type: application/json".to_owned());
    }
    if flags.compressed && !is_typed(args, "accept-encoding") {
        headers.push(format!("accept-encoding: {}", Content::ACCEPTED));
    }
    let mut secrets = Vec::new();
    if let Some(authorization) = authorization(args, &mut secrets)? {
        if is_typed(args, "authorization") {
            return Err(Error::usage(
                "--header authorization is given as well as --auth or --bearer-env: keep one of them",
            ));
        }
        headers.push(authorization);
    }
    let request = RequestShape::new(&method, &headers, body)
        .map_err(Error::usage)?
        .with_ids(flags.id_format);
    let request = if is_call {
        request.as_message()
    } else {
        request
    };
    Ok(request.withholding(secrets.iter().map(String::as_str)))
}

/// Return the value of `grpc-timeout`: at most eight digits and a unit, as exact as that allows.
fn grpc_timeout(time: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let units = [
        (1, 'n'),
        (1_000, 'u'),
        (1_000_000, 'm'),
        (1_000_000_000, 'S'),
    ];
    let (count, unit) = units
        .map(|(ns, unit)| (time.as_nanos().div_ceil(ns), unit))
        .into_iter()
        .find(|(count, _)| *count <= MOST)
        .unwrap_or((MOST, 'S'));
    format!("{count}{unit}")
}

/// True if `--header` has a header of this name.
fn is_typed(args: &RunArgs, name: &str) -> bool {
    args.headers.iter().any(|header| {
        let typed = header.split(':').next().unwrap_or_default();
        typed.trim().eq_ignore_ascii_case(name)
    })
}

/// Return the header for the credentials, whose parts are added to `secrets`; none without any.
fn authorization(args: &RunArgs, secrets: &mut Vec<String>) -> Result<Option<String>, Error> {
    if let Some(auth) = &args.request.auth {
        let (user, password) = auth.split_once(':').filter(|_| !auth.contains(char::is_control)).ok_or_else(|| {
            Error::usage("--auth is USER:PASSWORD, without control characters: write USER: for an empty password")
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
        .filter(|token| !token.is_empty()).ok_or_else(|| {
        Error::usage(format!(
            "--bearer-env {name}: the environment variable is empty or not set: export it, or correct the name"
        ))
    })?;
    // RFC 6750, 2.1: a token is visible ASCII.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::usage(format!(
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
        return read_body(path).map_err(|why| Error::usage(format!("{name}{why}")));
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
        Some(path) => read_body(Path::new(path)).map_err(|why| match flag {
            JSON => Error::usage(format!("{flag} @FILE: the file{why}")),
            _ => Error::usage(format!(
                "{flag} @FILE: the file{why}. If the body is a text that begins with @, write @@"
            )),
        })?,
    };
    // A number may be where the ID goes.
    let text = std::str::from_utf8(&body).map(|text| text.replace(PLACE, "0"));
    if flag == JSON && !text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(&text).is_ok()) {
        return Err(Error::usage(
            "--json-body is not one JSON value ({id} is replaced by the ID): correct it, or send it with --body",
        ));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_of_calls_have_eight_digits_at_most() {
        for (time, text) in [
            (Duration::from_nanos(1), "1n"),
            (Duration::from_millis(99), "99000000n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(30), "30000000u"),
            (Duration::from_hours(1), "3600000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(grpc_timeout(time), text);
        }
    }
}
