//! A request as stubs match it: borrowed from the server, its parts decoded only when a stub needs
//! them.
//!
//! It must not decide anything.

use hyper::Method;
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
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

    /// The values of one parameter of the query, decoded as `application/x-www-form-urlencoded` of
    /// the WHATWG URL standard.
    pub(crate) fn query_values(&self, key: &str) -> impl Iterator<Item = Cow<'r, str>> {
        values(split(self.target).1.unwrap_or_default(), key)
    }

    /// The values of one parameter of a form in the body; none when the body is no form.
    pub(crate) fn form_values(&self, key: &str) -> impl Iterator<Item = Cow<'r, str>> {
        let form = if self
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| header_text(kind).to_ascii_lowercase().contains(FORM))
        {
            self.body
        } else {
            &[]
        };
        // Whatever is not UTF-8 is not encoded, so not a form.
        values(str::from_utf8(form).unwrap_or_default(), key)
    }

    /// The values of one header, in order.
    pub(crate) fn header_values(&self, name: &HeaderName) -> impl Iterator<Item = Cow<'r, str>> {
        self.headers.get_all(name).iter().map(header_text)
    }

    /// The values of one cookie, in order. Names are case-sensitive; quotes around a value are no
    /// part of it.
    pub(crate) fn cookie_values(&self, name: &str) -> impl Iterator<Item = Cow<'r, str>> {
        self.headers
            .get_all(COOKIE)
            .iter()
            .flat_map(|header| cookies(header.as_bytes()))
            .filter(move |(key, _)| *key == name.as_bytes())
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
        self.headers
            .get("x-forwarded-for")
            .filter(|value| !value.is_empty())
            .map_or_else(|| Cow::Owned(self.client.to_string()), header_text)
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

fn cookies(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    header.split(|byte| *byte == b';').filter_map(|pair| {
        let (name, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
        let value = value.get(1..)?.trim_ascii();
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        Some((name.trim_ascii(), unquoted.unwrap_or(value)))
    })
}

/// The values that belong to `key` in `a=1&b=2`.
fn values<'r>(pairs: &'r str, key: &str) -> impl Iterator<Item = Cow<'r, str>> {
    form_urlencoded::parse(pairs.as_bytes())
        .filter_map(move |(name, value)| (name == key).then_some(value))
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
    use super::testing::Request;

    #[test]
    fn values_are_decoded() {
        for (target, key, expected) in [
            ("/?a=1&b=x&a=b+c&%61=%C3%A4&a", "a", "1|b c|ä|"),
            ("/?a=1&&", "b", ""),
        ] {
            let values: Vec<_> = Request::get(target).see(|asked| {
                let values = asked.query_values(key);
                values.map(std::borrow::Cow::into_owned).collect()
            });
            assert_eq!(values.join("|"), expected, "{target}");
        }
    }
}
