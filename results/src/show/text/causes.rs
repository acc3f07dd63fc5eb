//! Causes of failed requests in words, and what to do about them: one table for all places that
//! people read.

use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::FailureCause;
use crawlmark_harness::units::grouped;

/// Most causes in a sentence.
const MOST: usize = 4;

/// Remedy for a plain-text request that reached a TLS port.
const USE_HTTPS: &str = "use https://";

/// Remedy for a side that closes connections without a word.
const CLOSES: &str = "see the log of the target, or of a proxy before it; if connections are closed after some responses, pass --max-requests-per-connection";

/// Remedy for a target that asks for credentials.
const PASS_CREDENTIALS: &str = "pass credentials, or check those that were passed: --auth USER:PASSWORD, --bearer-env NAME, or a header of the target's own (-H)";

/// Remedy for redirects that are not followed.
const FOLLOW: &str = "crawl the URL that they name, or follow them with --follow 5 (to another host only if --urls has one of its URLs)";

/// Remedy for a target that is overloaded, or that limits requests without the header that would
/// make it throttling.
const LOWER_RATE: &str = "lower the rate (--rate): the target is overloaded, or it limits requests without a Retry-After, as nginx's limit_req does";

/// Remedy for a target that asks for a client certificate.
const PASS_CERTIFICATE: &str =
    "pass a client certificate that the target trusts (--cert and --key)";

/// Texts of error pages of servers, in lower case, each with its remedy. Servers answer such
/// requests with status 400 or 403.
const PAGES: [(&str, &str); 8] = [
    // nginx.
    ("plain http request was sent to https port", USE_HTTPS),
    ("no required ssl certificate was sent", PASS_CERTIFICATE),
    ("the ssl certificate error", PASS_CERTIFICATE),
    // Go, and what is written in it (Caddy, Traefik).
    ("sent an http request to an https server", USE_HTTPS),
    // Apache httpd.
    ("speaking plain http to an ssl", USE_HTTPS),
    // Tomcat.
    ("combination of host and port requires tls", USE_HTTPS),
    // IIS.
    ("403.4 - forbidden: ssl is required", USE_HTTPS),
    ("403.7 - forbidden: client certificate", PASS_CERTIFICATE),
];

/// Names of the statuses of gRPC, by their number.
const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Status of a call of a method that the target does not have.
const UNIMPLEMENTED: u16 = 12;

/// Return the name of a cause, as people read it everywhere.
pub fn cause_in_words(cause: FailureCause) -> String {
    match cause {
        FailureCause::Status(status) => match STATUSES.get(usize::from(status)) {
            Some(name) => format!("gRPC status {status} ({name})"),
            // Those of HTTP have three digits.
            None if status < 100 => format!("gRPC status {status}"),
            None => format!("status {status}"),
        },
        FailureCause::Error(kind) => row(kind).0.to_owned(),
        FailureCause::Challenge => "challenged".to_owned(),
    }
}

/// List the commonest causes: `2,519 × connection refused, 3 × status 500`; the sign keeps the number
/// of a status apart. The rest are `others`. Empty without any.
pub(crate) fn listed(causes: impl IntoIterator<Item = (String, u64)>) -> String {
    let (mut parts, mut rest) = (Vec::new(), 0_u64);
    for (cause, count) in causes {
        if parts.len() < MOST {
            parts.push(format!("{} \u{d7} {cause}", grouped(count)));
        } else {
            rest = rest.saturating_add(count);
        }
    }
    if rest > 0 {
        parts.push(format!("{} others", grouped(rest)));
    }
    parts.join(", ")
}

/// Return the remedy of a cause, as an imperative, given the start of the body of an answer; none
/// where it depends on the target.
pub fn remedy_in_words(cause: FailureCause, excerpt: Option<&str>) -> Option<&'static str> {
    match cause {
        FailureCause::Error(kind) => row(kind).1.first().copied(),
        FailureCause::Status(UNIMPLEMENTED) => {
            Some("check the path of the URL, which is /PACKAGE.SERVICE/METHOD")
        }
        FailureCause::Status(status) => {
            let of_status = match status {
                301..=303 | 307 | 308 => Some(FOLLOW),
                401 => Some(PASS_CREDENTIALS),
                403 => Some(
                    "check whom the target lets in: credentials (--auth), addresses, user agents (-H)",
                ),
                405 => Some("check the method (-X)"),
                415 => Some("check the content type (-H 'content-type: ...')"),
                503 => Some(LOWER_RATE),
                500..=599 => Some("look at the target's log"),
                _ => None,
            };
            let page = excerpt.unwrap_or_default().to_lowercase();
            let remedy = PAGES.iter().find(|(text, _)| page.contains(text));
            remedy.map(|(_, remedy)| *remedy).or(of_status)
        }
        FailureCause::Challenge => None,
    }
}

/// Define the name of each kind of error, and its remedy, if there is one that does not depend on
/// the target.
macro_rules! error_words {
    ($($kind:ident: $name:literal $(, $remedy:expr)?;)*) => {
        const fn row(kind: ErrorKind) -> (&'static str, &'static [&'static str]) {
            match kind {
                $(ErrorKind::$kind => ($name, &[$($remedy)?]),)*
            }
        }
    };
}

error_words! {
    AddressUnavailable: "address unavailable";
    BadEncoding: "content that cannot be decoded", "see the details; if the target compresses unasked, or a header of the requests asks for it, add --compressed or -H 'accept-encoding: identity'";
    BodyTooLong: "content too long", "crawl shorter resources, or remove --compressed: at most 16 MiB are decoded, or read as one message";
    Closed: "closed without a response", CLOSES;
    ConnectFailed: "connection failed";
    ConnectRefused: "connection refused", "check that the target runs, and the host and port of the URL";
    ConnectTimeout: "connection timed out";
    Http2GoAway: "closed before it began (HTTP/2 GOAWAY)", "see the target's log and its limits";
    Http2NotOffered: "HTTP/2 not offered", "pass --http 1.1 or --http auto, or turn on HTTP/2 at the target";
    Http2Protocol: "HTTP/2 protocol error", "check that the target speaks HTTP/2 on this port; `details` and its log say more";
    Http2Refused: "refused before it began (HTTP/2 REFUSED_STREAM)", "use fewer streams (--streams) or connections (-c), or a lower --rate";
    Http2Reset: "reset by the target (HTTP/2)", "see the target's log";
    Http3NotOffered: "HTTP/3 not offered", "pass --http 2 or --http 1.1, or turn on HTTP/3 at the target";
    Http3Protocol: "HTTP/3 protocol error", "see the target's log, or pass --http 2";
    Http3Refused: "refused before it began (HTTP/3)", "use fewer streams (--streams) or connections (-c), or a lower --rate";
    Http3Reset: "reset by the target (HTTP/3)", "see the target's log";
    Incomplete: "closed in the response", "see the log of the target, or of a proxy before it";
    Io: "io";
    Malformed: "malformed";
    ProxyAuth: "credentials refused by the proxy", "check the proxy's user name and password (--proxy http://USER:PASS@HOST:PORT)";
    ProxyClosed: "closed by the proxy", "see the proxy's log";
    ProxyNotSpoken: "proxy protocol not spoken", "check the scheme and port of the proxy: http://, socks5:// or socks5h://";
    ProxyRefused: "target refused by the proxy", "allow the target in the proxy's rules";
    ProxyTargetUnreachable: "target unreachable from the proxy", "check the host and port of the URL, as the proxy reaches them";
    ProxyUnreachable: "proxy unreachable", "start the proxy, or check its host and port";
    RedirectRefused: "redirect refused", "to crawl another host too, add one of its URLs to --urls";
    Reset: "reset", CLOSES;
    RobotsForbidden: "redirected to a path that robots.txt forbids", "leave these items out: such a path is not requested";
    SharedFailed: "request that is sent once failed", "mend that request: the other failures say how it failed";
    Timeout: "timed out", "raise --timeout, or look at what delays the target";
    TlsAlert: "TLS alert from the target", "if the target asks for a client certificate, pass --cert and --key";
    TlsBadCertificate: "invalid certificate", "pass an authority's own certificate (CA:TRUE) with --cacert FILE; replace any other, or pass --insecure";
    TlsClosed: "closed in the TLS handshake", "check that the target's TLS is set up for this name";
    TlsExpired: "certificate not valid now", "renew the target's certificate or set this machine's clock, or pass --insecure";
    TlsIncompatible: "no agreement in the TLS handshake", "if the target asks for a client certificate, pass --cert and --key; else let it offer TLS 1.2 or 1.3, and remove --tls-min and --tls-max";
    TlsNotSpoken: "no TLS on this port", "use http:// if the target speaks plain HTTP on this port";
    TlsRequired: "plain text to a TLS port", USE_HTTPS;
    TlsUnknownIssuer: "certificate of unknown issuer", "pass the certificate of its issuer with --cacert FILE (a new target may have a new one), or pass --insecure";
    TlsWrongName: "certificate for another name", "use a name of the certificate in the URL (--connect-to sets the address); one that has none but its CN needs a new one (subjectAltName); or pass --insecure";
    TooManyFiles: "too many files";
    ExtractFailed: "value missing in a response", "compare a response with `extract` of the request file; `details` names the value";
    TooManyRedirects: "too many redirects", "raise --follow, or crawl the last URL";
    Unreachable: "target unreachable", "check the links and routes between this machine and the target (ip route get)";
    WrongBody: "wrong body", "compare a response with --expect: `json`, `sse` and `grpc` need their content type, `json` valid JSON, and the last event a blank line behind it";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_say_so_have_a_remedy_and_others_have_none() {
        // As the servers write them; the first 256 bytes.
        for (page, remedy) in [
            (
                "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>",
                Some(USE_HTTPS),
            ),
            (
                "<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>",
                Some(PASS_CERTIFICATE),
            ),
            (
                "<html>\r\n<head><title>400 The SSL certificate error</title></head>",
                Some(PASS_CERTIFICATE),
            ),
            (
                "Client sent an HTTP request to an HTTPS server.\n",
                Some(USE_HTTPS),
            ),
            (
                "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>400 Bad Request</title>\n</head>\
                 <body>\n<h1>Bad Request</h1>\n<p>Your browser sent a request that this server could not understand.<br />\n\
                 Reason: You're speaking plain HTTP to an SSL-enab",
                Some(USE_HTTPS),
            ),
            (
                "Bad Request\r\nThis combination of host and port requires TLS.\r\n",
                Some(USE_HTTPS),
            ),
            (
                "<html>\r\n<head><title>400 Bad Request</title></head>",
                None,
            ),
        ] {
            assert_eq!(
                remedy_in_words(FailureCause::Status(400), Some(page)),
                remedy,
                "{page}"
            );
        }
        for status in [400, 304, 418] {
            assert_eq!(remedy_in_words(FailureCause::Status(status), None), None);
        }
        for status in [301, 302, 303, 307, 308, 401, 403, 405, 415, 500, 503] {
            assert!(remedy_in_words(FailureCause::Status(status), None).is_some());
        }
        assert_eq!(
            [5, 16, 17, 503].map(|status| cause_in_words(FailureCause::Status(status))),
            [
                "gRPC status 5 (NOT_FOUND)",
                "gRPC status 16 (UNAUTHENTICATED)",
                "gRPC status 17",
                "status 503",
            ]
        );
        assert_eq!(
            remedy_in_words(FailureCause::Error(ErrorKind::TlsRequired), None),
            Some(USE_HTTPS)
        );
    }
}
