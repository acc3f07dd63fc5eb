//! Redirects of a crawl (`--follow`): where the next request of a redirected item goes.
//!
//! A redirect ends its attempt; the item is attempted again at once, under every limit. Called for redirects only. It must not leave the
//! hosts of the plan.

use std::cell::RefCell;
use std::collections::HashMap;

use http::Method;

use super::cookies::SharedJar;
use super::targets::{Host, Scheme};

/// Longest URL of a redirect, bytes.
const MOST_BYTES: usize = 8 << 10;

/// The next request of a redirected item.
#[derive(Debug)]
pub(super) struct Redirected {
    /// Number of its host.
    pub(super) host: usize,
    /// Its path and query.
    pub(super) path: String,
    /// Number of redirects of the item, this one included.
    pub(super) count: u32,
    /// Change of the request.
    pub(super) form: Form,
    /// Cookies of the connection that was redirected, if they are for its host.
    pub(super) jar: Option<SharedJar>,
}

/// Form of a redirected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Method and body of the request before it.
    Same,
    /// GET without a body.
    Get,
}

/// Reason not to follow a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedirectRefusal {
    /// No URL that can be read: the response is judged by its status.
    NoUrl,
    /// Its host is none of the plan's.
    OtherHost(String),
}

/// Redirected items that wait for their next attempt. The engine bounds their number.
#[derive(Debug, Default)]
pub(super) struct Redirects(RefCell<HashMap<u64, Redirected>>);

impl Redirects {
    /// Take the redirect of an item, if it has one.
    pub(super) fn take(&self, id: u64) -> Option<Redirected> {
        self.0.borrow_mut().remove(&id)
    }

    /// Keep the redirect of an item for its next attempt.
    pub(super) fn keep(&self, id: u64, redirected: Redirected) {
        self.0.borrow_mut().insert(id, redirected);
    }
}

/// True if a response of this status redirects.
pub(super) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Return the form of the request after a redirect of this status, as browsers have it (Fetch, "HTTP-redirect fetch").
pub(super) fn form_after(status: u16, method: &Method) -> Form {
    match status {
        303 if *method != Method::HEAD => Form::Get,
        301 | 302 if *method == Method::POST => Form::Get,
        _ => Form::Same,
    }
}

/// Resolve a `Location` against the URL of its request (RFC 3986, 5.2): return the number of its host, and its path.
pub(super) fn resolve(
    location: &[u8],
    (host, path): (usize, &str),
    hosts: &[Host],
) -> Result<(usize, String), RedirectRefusal> {
    let location =
        std::str::from_utf8(location).ok().filter(|text| text.len() <= MOST_BYTES).ok_or(RedirectRefusal::NoUrl)?;
    let location = encoded(location.split('#').next().unwrap_or_default());
    let own = &hosts[host];
    let scheme = [Scheme::Http, Scheme::Https].into_iter().find(|scheme| starts_with(&location, scheme.prefix()));
    let (scheme, rest) = match scheme {
        Some(scheme) => (scheme, Some(&location[scheme.prefix().len()..])),
        // Another scheme, such as `mailto:`.
        None if has_scheme(&location) => {
            return Err(RedirectRefusal::OtherHost(location.split('?').next().unwrap_or_default().to_owned()));
        }
        None => (own.scheme(), location.strip_prefix("//")),
    };
    let Some(rest) = rest else {
        return Ok((host, joined(path, &location)));
    };
    let (authority, reference) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (name, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((name, "")) => (name, Some(scheme.port())),
        Some((name, port)) => (name, port.parse().ok()),
        None => (authority, Some(scheme.port())),
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_it = |other: &Host| {
        other.scheme() == scheme && Some(other.port()) == port && other.name().eq_ignore_ascii_case(bare)
    };
    let number = hosts.iter().position(is_it);
    let number = number.ok_or_else(|| RedirectRefusal::OtherHost(format!("{}{authority}", scheme.prefix())))?;
    Ok((number, joined("/", reference)))
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn has_scheme(location: &str) -> bool {
    let scheme = location.split(['/', '?']).next().unwrap_or_default().split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Encode what no request line may hold.
fn encoded(text: &str) -> String {
    text.trim().bytes().fold(String::new(), |all, byte| {
        if byte.is_ascii_graphic() {
            all + char::from(byte).encode_utf8(&mut [0; 4])
        } else {
            format!("{all}%{byte:02X}")
        }
    })
}

/// Join a path and a relative reference.
fn joined(base: &str, reference: &str) -> String {
    let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let base = base.split('?').next().unwrap_or_default();
    match path.as_bytes() {
        [] if query.is_empty() => base.to_owned(),
        [] => format!("{base}{query}"),
        [b'/', ..] => without_dots(path) + query,
        _ => without_dots(&format!("{}/{path}", base.rsplit_once('/').map_or("", |(directory, _)| directory))) + query,
    }
}

/// Remove the segments `.` and `..` of an absolute path.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            ".." => drop(kept.pop()),
            "." => {}
            _ => kept.push(segment),
        }
        if is_last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::targets::Targets;
    use super::super::template::Template;
    use super::*;

    fn hosts() -> Vec<Host> {
        let urls = ["http://a.test/", "https://a.test/", "http://[::1]:81/"];
        Targets::collect(urls.iter().map(|url| Template::as_written(url))).unwrap().hosts().to_vec()
    }

    #[test]
    fn locations_are_resolved_as_the_standard_says() {
        let hosts = hosts();
        for (location, host, path) in [
            ("/x", 0, "/x"),
            ("x?y=1#z", 0, "/b/c/x?y=1"),
            ("../x/", 0, "/b/x/"),
            ("../../../x", 0, "/x"),
            ("./", 0, "/b/c/"),
            ("..", 0, "/b/"),
            ("?q", 0, "/b/c/d?q"),
            ("#f", 0, "/b/c/d"),
            ("", 0, "/b/c/d"),
            ("//A.TEST", 0, "/"),
            ("http://a.test:80?x", 0, "/?x"),
            ("https://a.test/y", 1, "/y"),
            ("HTTPS://u:p@a.test:443/y", 1, "/y"),
            ("http://[::1]:81/a b\u{e9}\"", 2, "/a%20b%C3%A9\""),
            ("/a:b", 0, "/a:b"),
        ] {
            let resolved = resolve(location.as_bytes(), (0, "/b/c/d?e=1"), &hosts);
            assert_eq!(resolved, Ok((host, path.to_owned())), "{location}");
        }
        for (location, named) in [
            ("http://b.test/x", "http://b.test"),
            ("http://a.test:81/", "http://a.test:81"),
            ("https://user:hidden@b.test:8443/x?token=1", "https://b.test:8443"),
            ("//[::1]/", "http://[::1]"),
            ("mailto:x@a.test?x", "mailto:x@a.test"),
        ] {
            assert_eq!(
                resolve(location.as_bytes(), (0, "/"), &hosts),
                Err(RedirectRefusal::OtherHost(named.to_owned()))
            );
        }
        assert_eq!(resolve(b"/\xff", (0, "/"), &hosts), Err(RedirectRefusal::NoUrl));
        assert_eq!(resolve(&[b'a'; MOST_BYTES + 1], (0, "/"), &hosts), Err(RedirectRefusal::NoUrl));
    }

    #[test]
    fn a_post_becomes_a_get_where_browsers_have_it_so() {
        for (status, post, head, put) in [
            (301, Form::Get, Form::Same, Form::Same),
            (302, Form::Get, Form::Same, Form::Same),
            (303, Form::Get, Form::Same, Form::Get),
            (307, Form::Same, Form::Same, Form::Same),
            (308, Form::Same, Form::Same, Form::Same),
        ] {
            let forms = [Method::POST, Method::HEAD, Method::PUT].map(|method| form_after(status, &method));
            assert_eq!(forms, [post, head, put], "{status}");
            assert!(is_redirect(status) && !is_redirect(status + 3));
        }
    }

    proptest! {
        #[test]
        fn any_location_is_a_path_of_a_host_or_refused(location in "\\PC{0,30}", tail in "[a-z./:@\\[\\]?#% ]{0,30}") {
            let hosts = hosts();
            for text in [location, format!("http://{tail}"), format!("//a.test{tail}"), tail] {
                if let Ok((host, path)) = resolve(text.as_bytes(), (0, "/b/c"), &hosts) {
                    prop_assert!(host < hosts.len() && path.starts_with('/'), "{}", path);
                    prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", path);
                }
            }
        }
    }
}
