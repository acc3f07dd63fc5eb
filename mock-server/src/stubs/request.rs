//! A request as stubs match it: borrowed from the server, its parts decoded only when a stub needs
//! them.
//!
//! It must not decide anything.

use hyper::Method;
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::net::IpAddr;

/// Request of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestView<'r> {
    /// The method, case-sensitive.
    pub(crate) method: &'r Method,
    /// Path and query as they were sent, not decoded: `/a%20b?x=1`.
    pub(crate) target: &'r str,
    /// All headers; names are case-insensitive.
    pub(crate) headers: &'r HeaderMap,
    /// The body.
    pub(crate) body: &'r [u8],
    /// Address of the client.
    pub(crate) client: IpAddr,
}

impl<'r> RequestView<'r> {
    /// The path as it was sent, without the query.
    pub(crate) fn path(&self) -> &'r str {
        split(self.target).0
    }

    /// Path and query as WireMock sees them: a `?` with nothing behind it is not there
    /// (`servlet/WireMockHttpServletRequestAdapter.java`, `withQueryStringIfPresent`).
    pub(crate) fn url(&self) -> &'r str {
        self.url_and_path().0
    }

    /// [`Self::url`] and [`Self::path`] together.
    pub(crate) fn url_and_path(&self) -> (&'r str, &'r str) {
        match split(self.target) {
            (path, Some("")) => (path, path),
            (path, _) => (self.target, path),
        }
    }

    /// The values of one parameter of the query, decoded as WireMock does it for matching
    /// (`common/Urls.java`): as `application/x-www-form-urlencoded` of the WHATWG URL standard, but
    /// a text that is a time with an offset is left as it was sent, `+` and all.
    pub(crate) fn query_values(&self, key: &str) -> impl Iterator<Item = Cow<'r, str>> {
        let query = split(self.target).1.unwrap_or_default();
        values(query, key, query_text)
    }

    /// The values of one parameter of a form in the body; none when the body is no form.
    pub(crate) fn form_values(&self, key: &str) -> impl Iterator<Item = Cow<'r, str>> {
        let is_form = |kind: &HeaderValue| header_text(kind).to_ascii_lowercase().contains(FORM);
        let form = if self.headers.get(CONTENT_TYPE).is_some_and(is_form) {
            self.body
        } else {
            &[]
        };
        // Whatever is not UTF-8 is not encoded, so not a form.
        values(str::from_utf8(form).unwrap_or_default(), key, form_text)
    }

    /// The values of one header, in order.
    pub(crate) fn header_values(&self, name: &HeaderName) -> impl Iterator<Item = Cow<'r, str>> {
        self.headers.get_all(name).iter().map(header_text)
    }

    /// The values of one cookie, in order, of those that [`cookies`] finds. Names are
    /// case-sensitive; quotes around a value are no part of it.
    pub(crate) fn cookie_values(&self, name: &str) -> impl Iterator<Item = Cow<'r, str>> {
        let all = self
            .headers
            .get_all(COOKIE)
            .iter()
            .flat_map(|header| cookies(header.as_bytes()));
        all.filter(move |(key, _)| *key == name.as_bytes())
            .map(|(_, value)| text_of(value))
    }

    /// The host that was asked for, without the port; none without a `Host` header.
    pub(crate) fn host(&self) -> Option<Cow<'r, str>> {
        let host = self.headers.get(HOST).map(header_text)?;
        let ends = if host.starts_with('[') {
            host.find(']').map(|end| end + 1)
        } else {
            host.find(':')
        };
        Some(match (host, ends) {
            (Cow::Borrowed(host), Some(end)) => Cow::Borrowed(host.get(..end).unwrap_or(host)),
            (host, Some(end)) => Cow::Owned(host.chars().take(end).collect()),
            (host, None) => host,
        })
    }

    /// Return the client's address by WireMock's rule: what the first `X-Forwarded-For` says, or
    /// the address of the connection.
    pub(crate) fn client_text(&self) -> Cow<'r, str> {
        let forwarded = self
            .headers
            .get("x-forwarded-for")
            .filter(|value| !value.is_empty());
        forwarded.map_or_else(|| Cow::Owned(self.client.to_string()), header_text)
    }
}

/// Path and query. Byte by byte: most targets are too short for anything cleverer to pay.
fn split(target: &str) -> (&str, Option<&str>) {
    match target.bytes().position(|byte| byte == b'?') {
        Some(end) => (&target[..end], Some(&target[end + 1..])),
        None => (target, None),
    }
}

/// Part of the type of a body that is a form, in any case.
const FORM: &str = "application/x-www-form-urlencoded";

/// The text of a header's value: one character a byte (ISO 8859-1), as Jetty reads it.
fn header_text(value: &HeaderValue) -> Cow<'_, str> {
    text_of(value.as_bytes())
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().copied().map(char::from).collect()),
    }
}

/// The cookies of one header, as Jetty's strict reading of RFC 6265 takes them apart: one whose
/// name begins with `$`, or whose value has a quote, a comma, a semicolon, a backslash, a tab or
/// what is not ASCII, is not there. Within quotes a semicolon ends nothing; quotes that are not
/// closed take the rest of the header with them.
fn cookies(mut header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let one = move || {
        let pair = header
            .split_at_checked(end_of_cookie(header))
            .filter(|_| !header.is_empty());
        let (pair, rest) = pair?;
        header = rest.get(1..).unwrap_or_default();
        Some(pair)
    };
    std::iter::from_fn(one).filter_map(|pair| {
        let (name, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
        let (name, value) = (name.trim_ascii(), value.get(1..)?.trim_ascii());
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""))
            .unwrap_or(value);
        let is_odd =
            |byte: &u8| matches!(byte, b'"' | b',' | b';' | b'\\' | b'\t') || !byte.is_ascii();
        let is_one = !name.starts_with(b"$") && !unquoted.iter().any(is_odd);
        is_one.then_some((name, unquoted))
    })
}

/// Return the end of the first cookie of a header: a semicolon that is not within a quoted value,
/// or the end.
fn end_of_cookie(header: &[u8]) -> usize {
    let mut is_quoted = false;
    let mut before = 0;
    for (index, byte) in header.iter().enumerate() {
        match byte {
            b'"' if is_quoted || before == b'=' => is_quoted = !is_quoted,
            b';' if !is_quoted => return index,
            b' ' | b'\t' => continue,
            _ => {}
        }
        before = *byte;
    }
    header.len()
}

/// The values that belong to `key` in `a=1&b=2`.
fn values<'r>(
    pairs: &'r str,
    key: &str,
    decode: fn(&'r str) -> Cow<'r, str>,
) -> impl Iterator<Item = Cow<'r, str>> {
    pairs
        .split('&')
        .filter(|pair| !pair.is_empty())
        .filter_map(move |pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name) == key).then(|| decode(value))
        })
}

fn form_text(encoded: &str) -> Cow<'_, str> {
    if encoded.contains('+') {
        return Cow::Owned(
            percent_decode_str(&encoded.replace('+', " "))
                .decode_utf8_lossy()
                .into_owned(),
        );
    }
    percent_decode_str(encoded).decode_utf8_lossy()
}

fn query_text(encoded: &str) -> Cow<'_, str> {
    if is_time_with_plus(encoded) {
        Cow::Borrowed(encoded)
    } else {
        form_text(encoded)
    }
}

/// True if this is a time as `2026-01-31T12:00:00.5+01:00`. With any other offset there is nothing
/// to decode.
fn is_time_with_plus(text: &str) -> bool {
    let shape = |text: &str| text.replace(|digit: char| digit.is_ascii_digit(), "0");
    let Some((time, offset)) = text.split_once('+') else {
        return false;
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    matches!(&*shape(time), "0000-00-00T00:00" | "0000-00-00T00:00:00")
        && (1..=9).contains(&fraction.len())
        && fraction.bytes().all(|digit| digit.is_ascii_digit())
        && matches!(&*shape(offset), "00:00" | "00:00:00")
}

/// Requests for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::RequestView;
    use hyper::Method;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};
    use std::net::{IpAddr, Ipv4Addr};

    /// Request with `GET` from this machine, or otherwise where a field says so.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Request {
        pub(crate) method: Method,
        pub(crate) target: &'static str,
        pub(crate) headers: Vec<(&'static str, &'static str)>,
        pub(crate) body: &'static str,
    }

    impl Request {
        pub(crate) fn get(target: &'static str) -> Self {
            Self {
                target,
                ..Self::default()
            }
        }

        pub(crate) fn see<T>(&self, see: impl FnOnce(&RequestView<'_>) -> T) -> T {
            let mut headers = HeaderMap::new();
            for (name, value) in &self.headers {
                headers.append(
                    HeaderName::from_static(name),
                    HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
            see(&RequestView {
                method: &self.method,
                target: self.target,
                headers: &headers,
                body: self.body.as_bytes(),
                client,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn path_and_query_are_taken_apart() {
        let headers = HeaderMap::new();
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asked = |target| RequestView {
            method: &Method::GET,
            target,
            headers: &headers,
            body: &[],
            client,
        };
        let request = asked("/a%20b?x=1&y=a+b&x=%C3%A4&z");
        assert_eq!(request.path(), "/a%20b");
        assert_eq!(asked("/plain").path(), "/plain");
    }

    fn with<T>(
        target: &str,
        headers: &[(&'static str, &[u8])],
        body: &[u8],
        see: impl Fn(&RequestView<'_>) -> T,
    ) -> T {
        let pair = |(name, value): &(&'static str, &[u8])| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value).unwrap(),
            )
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(pair) {
            map.append(name, value);
        }
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        see(&RequestView {
            method: &Method::GET,
            target,
            headers: &map,
            body,
            client,
        })
    }

    #[test]
    fn a_question_mark_alone_is_no_query() {
        for (target, url) in [
            ("/a?", "/a"),
            ("/a", "/a"),
            ("/a?b", "/a?b"),
            ("/a??", "/a??"),
        ] {
            assert_eq!(with(target, &[], b"", |asked| asked.url().to_owned()), url);
        }
    }

    #[test]
    fn values_are_decoded_but_times_are_not() {
        let query = |target: &str, key: &str| {
            with(target, &[], b"", |asked| {
                asked.query_values(key).collect::<Vec<_>>().join("|")
            })
        };
        assert_eq!(query("/?a=1&b=x&a=b+c&%61=%C3%A4&a", "a"), "1|b c|ä|");
        assert_eq!(query("/?a=1", "b"), "");
        assert_eq!(
            query("/?since=2026-01-31T12:00:00+01:00", "since"),
            "2026-01-31T12:00:00+01:00"
        );
        assert_eq!(
            query("/?since=2026-01-31T12:00:00.123+01:00", "since"),
            "2026-01-31T12:00:00.123+01:00"
        );
        assert_eq!(
            query("/?since=2026-01-31+01:00", "since"),
            "2026-01-31 01:00"
        );
    }

    /// Recorded values of `{{request.cookies.s}}|{{request.cookies.a}}` for WireMock 3.13.2.
    #[test]
    fn cookies_are_read_as_strictly_as_jetty_reads_them() {
        for (header, s, a) in [
            (&b"s=1; a=2"[..], "1", "2"),
            (b"a=1;s=\"a b\"", "a b", "1"),
            (b"s = 1 ;a=", "1", ""),
            (b"s=a b", "a b", ""),
            (b"s=a=b; a", "a=b", ""),
            (b"s==2", "=2", ""),
            (b"s=$x; $a=1", "$x", ""),
            (b"s={a}(b)[c]<d>:/?@'", "{a}(b)[c]<d>:/?@'", ""),
            (b"s=a,b; a=1", "", "1"),
            (b"s=\"a,b\"; a=1", "", "1"),
            (b"s=a\"b; a=1", "", "1"),
            (b"s=a\\b", "", ""),
            (b"s=\"a b\"x", "", ""),
            (b"s=\"x; a=1", "", ""),
            (b"s=\"a;b\"; a=1", "", "1"),
            (b"s=\xe4; a=1", "", "1"),
            (b"s=\"\"; =3;;a=1", "", "1"),
        ] {
            let value = |name: &str| {
                with("/", &[("cookie", header)], b"", |asked| {
                    asked.cookie_values(name).collect::<Vec<_>>().join("|")
                })
            };
            assert_eq!(
                (value("s").as_str(), value("a").as_str()),
                (s, a),
                "{}",
                header.escape_ascii()
            );
        }
    }

    #[test]
    fn headers_cookies_forms_host_and_client() {
        type See = fn(&RequestView<'_>) -> Vec<String>;
        let headers: &[(&'static str, &[u8])] = &[
            ("host", b"example.org:8080"),
            ("cookie", b"a=1; b=\"two\";a=3"),
            ("cookie", b"a=4; c"),
            ("x-name", b"\xe4"),
            ("x-name", b"b"),
            (
                "content-type",
                b"application/x-www-form-urlencoded; charset=utf-8",
            ),
        ];
        let table: [(&str, See); 7] = [
            ("example.org", |asked| {
                asked.host().into_iter().map(Cow::into_owned).collect()
            }),
            ("1|3|4", |asked| {
                asked.cookie_values("a").map(Cow::into_owned).collect()
            }),
            ("two", |asked| {
                asked.cookie_values("b").map(Cow::into_owned).collect()
            }),
            ("", |asked| {
                asked.cookie_values("c").map(Cow::into_owned).collect()
            }),
            ("ä|b", |asked| {
                asked
                    .header_values(&HeaderName::from_static("x-name"))
                    .map(Cow::into_owned)
                    .collect()
            }),
            ("1 2|3", |asked| {
                asked.form_values("x").map(Cow::into_owned).collect()
            }),
            ("127.0.0.1", |asked| vec![asked.client_text().into_owned()]),
        ];
        for (expected, see) in table {
            assert_eq!(
                with("/", headers, b"x=1+2&y=0&x=3", see).join("|"),
                expected
            );
        }
        assert_eq!(
            with("/", &[], b"x=1", |asked| asked.form_values("x").count()),
            0,
            "a body that is no form"
        );
        let loud: &[(&'static str, &[u8])] =
            &[("content-type", b"APPLICATION/X-WWW-FORM-URLENCODED")];
        assert_eq!(
            with("/", loud, b"x=1", |asked| asked.form_values("x").count()),
            1
        );
        assert_eq!(
            with("/", &[("host", b"[::1]:80")], b"", |asked| asked
                .host()
                .unwrap()
                .into_owned()),
            "[::1]"
        );
        assert_eq!(
            with("/", &[("x-forwarded-for", b"1.2.3.4")], b"", |asked| asked
                .client_text()
                .into_owned()),
            "1.2.3.4"
        );
    }
}
