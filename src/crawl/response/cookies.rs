//! Cookies of a crawl (`--cookies`): a jar for each connection slot or proxy session, after
//! RFC 6265.
//!
//! A jar belongs to one host: no cookie reaches another one, whatever its `Domain` says.
//! Called for each request and head of a crawl that keeps cookies; it must not log them.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::date;
use super::fields::HeaderFields;
use crate::crawl::requests::host::Scheme;

/// Treatment of cookies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Not read, and not sent.
    #[default]
    Ignored,
    /// Kept by each connection slot or proxy session.
    Kept,
}

/// Most cookies of a jar; RFC 6265, 6.1, asks for 50.
const MOST: usize = 50;

/// Longest cookie that is kept, name and value; RFC 6265, 6.1, asks for 4096 bytes.
const MOST_BYTES: usize = 4096;

/// Most bytes of a jar: no server takes a longer header by default (nginx 8 KiB, Node 16 KiB), and
/// each session has a jar.
const MOST_OF_JAR: usize = 16 << 10;

/// A cookie.
#[derive(Clone, PartialEq, Eq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    /// True if it may be sent over TLS only.
    is_secure: bool,
    expires: Option<SystemTime>,
}

/// Cookies of one host, those with the longest path first.
#[derive(Clone, Default)]
pub(crate) struct Jar(Vec<Cookie>);

impl fmt::Debug for Jar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jar of {} cookies", self.0.len())
    }
}

impl Jar {
    /// Keep the cookies of a head that answers `request`. Return true if there were any.
    pub(crate) fn store(
        &mut self,
        fields: HeaderFields<'_>,
        request: &[u8],
        now: SystemTime,
    ) -> bool {
        let mut has_any = false;
        for field in fields.all("set-cookie") {
            has_any = true;
            let Some(cookie) = Cookie::parse(field, request, now) else {
                continue;
            };
            self.0
                .retain(|other| (&other.name, &other.path) != (&cookie.name, &cookie.path));
            if cookie.is_current(now) {
                self.0.push(cookie);
            }
        }
        if self.is_full() {
            self.0.retain(|cookie| cookie.is_current(now));
        }
        while self.is_full() {
            // The oldest is least missed.
            self.0.remove(0);
        }
        has_any
    }

    fn is_full(&self) -> bool {
        let sizes = self.0.iter().map(Cookie::size);
        self.0.len() > MOST || sizes.sum::<usize>() > MOST_OF_JAR
    }

    /// Insert the `Cookie` header of a request after its request line, if a cookie is for its path.
    pub(crate) fn add_to(&self, request: &mut Vec<u8>, scheme: Scheme, now: SystemTime) {
        let path = path_of(request);
        let mut fitting: Vec<&Cookie> = (self.0.iter())
            .filter(|cookie| {
                cookie.is_current(now)
                    && cookie.is_for(path)
                    && (!cookie.is_secure || scheme == Scheme::Https)
            })
            .collect();
        if fitting.is_empty() {
            return;
        }
        fitting.sort_by_key(|cookie| Reverse(cookie.path.len()));
        let mut line = b"\r\ncookie: ".to_vec();
        for (at, cookie) in fitting.into_iter().enumerate() {
            line.extend_from_slice(if at == 0 { b"" } else { b"; " });
            line.extend_from_slice(&[&cookie.name, &b"="[..], &cookie.value].concat());
        }
        if let Some(end) = request.windows(2).position(|two| two == b"\r\n") {
            request.splice(end..end, line);
        }
    }
}

impl Cookie {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + self.path.len()
    }

    /// Parse a `Set-Cookie` field (RFC 6265, 5.2); none of one that is to be ignored.
    fn parse(field: &[u8], request: &[u8], now: SystemTime) -> Option<Self> {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let (name, value) = pair(parts.next()?);
        // A control character would end the header.
        let is_sendable = |text: &[u8]| !text.iter().any(u8::is_ascii_control);
        if name.is_empty()
            || name.len() + value?.len() > MOST_BYTES
            || !is_sendable(name)
            || !is_sendable(value?)
        {
            return None;
        }
        let mut cookie = Self {
            name: name.to_vec(),
            value: value?.to_vec(),
            path: default_path(path_of(request)).to_vec(),
            is_secure: false,
            expires: None,
        };
        let (mut max_age, mut domain) = (None, &b""[..]);
        for part in parts {
            let (name, value) = pair(part);
            let value = value.unwrap_or_default();
            match name.to_ascii_lowercase().as_slice() {
                b"path" if value.starts_with(b"/") && value.len() <= MOST_BYTES => {
                    cookie.path = value.to_vec();
                }
                b"secure" => cookie.is_secure = true,
                b"max-age" => max_age = seconds(value).or(max_age),
                b"expires" => cookie.expires = date::time(value).or(cookie.expires),
                b"domain" => domain = value.strip_prefix(b".").unwrap_or(value),
                _ => {}
            }
        }
        if !domain.is_empty() && !is_within(host_of(request), domain) {
            return None;
        }
        if let Some(seconds) = max_age {
            let lifetime = u64::try_from(seconds)
                .ok()
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs);
            cookie.expires = match lifetime {
                None => Some(SystemTime::UNIX_EPOCH),
                // Beyond the end of time: it stays.
                Some(lifetime) => now.checked_add(lifetime),
            };
        }
        Some(cookie)
    }

    fn is_current(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }

    /// True if it is for a request path (RFC 6265, 5.1.4).
    fn is_for(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&*self.path);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(b"/") || self.path.ends_with(b"/")
        })
    }
}

/// Split `name=value`; there is no value without a `=`.
fn pair(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (text[..at].trim_ascii(), Some(text[at + 1..].trim_ascii())),
        None => (text, None),
    }
}

fn seconds(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| {
        text.parse().unwrap_or(if text.starts_with('-') {
            i64::MIN
        } else {
            i64::MAX
        })
    })
}

/// Return the path of a request, without its query.
fn path_of(request: &[u8]) -> &[u8] {
    let target = request
        .split(|byte| *byte == b' ')
        .nth(1)
        .unwrap_or_default();
    // In absolute form, for a proxy that forwards it, it begins behind the host.
    let host = target.windows(3).position(|part| part == b"://");
    let target = match host.filter(|_| !target.starts_with(b"/")) {
        Some(at) => {
            let rest = &target[at + 3..];
            let path = rest.iter().position(|byte| *byte == b'/');
            path.map_or(&b"/"[..], |at| &rest[at..])
        }
        None => target,
    };
    target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default()
}

/// Return the host of a request's `Host` field, without its port.
fn host_of(request: &[u8]) -> &[u8] {
    let host = request
        .split(|byte| *byte == b'\n')
        .find(|line| line.len() > 5 && line[..5].eq_ignore_ascii_case(b"host:"))
        .map_or(&b""[..], |line| line[5..].trim_ascii());
    match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !host.ends_with(b"]") => &host[..colon],
        _ => host,
    }
}

/// True if `host` is `domain` or a name below it (RFC 6265, 5.1.3). An address has nothing below
/// it.
fn is_within(host: &[u8], domain: &[u8]) -> bool {
    let Some(above) = host.len().checked_sub(domain.len()) else {
        return false;
    };
    let is_address = host
        .last()
        .is_none_or(|byte| byte.is_ascii_digit() || *byte == b']');
    host[above..].eq_ignore_ascii_case(domain)
        && (above == 0 || host[above - 1] == b'.' && !is_address)
}

/// The directory of a request path (RFC 6265, 5.1.4).
fn default_path(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// A jar that several connections may use.
pub(crate) type SharedJar = Rc<RefCell<Jar>>;

/// Jars of a shard: those of connections at rest, and those of sessions.
#[derive(Debug, Default)]
pub(crate) struct Jars {
    /// Jars that no connection uses, by host. There are never more than connections were open at
    /// once.
    free: RefCell<HashMap<usize, Vec<SharedJar>>>,
    /// Jars of sessions that several connections share, by host and session.
    shared: RefCell<HashMap<(usize, u64), SharedJar>>,
}

/// Owner of a jar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The connection slot: the next connection of the slot has it.
    Slot,
    /// A proxy session of this connection alone.
    Connection,
    /// A proxy session that several connections share.
    Session(u64),
}

/// The jar of a connection, given back with it.
#[derive(Debug)]
pub(crate) struct LentJar {
    pub(crate) jar: SharedJar,
    home: Option<(Rc<Jars>, usize)>,
}

impl Jars {
    /// Lend the jar of a connection that is opened to a host.
    pub(crate) fn lend(self: &Rc<Self>, host: usize, owner: Owner) -> LentJar {
        let (jar, home) = match owner {
            Owner::Slot => {
                let free = self.free.borrow_mut().get_mut(&host).and_then(Vec::pop);
                (free.unwrap_or_default(), Some((Rc::clone(self), host)))
            }
            Owner::Connection => (Rc::default(), None),
            Owner::Session(session) => {
                let mut shared = self.shared.borrow_mut();
                (Rc::clone(shared.entry((host, session)).or_default()), None)
            }
        };
        LentJar { jar, home }
    }
}

impl Drop for LentJar {
    fn drop(&mut self) {
        if let Some((home, host)) = &self.home {
            home.free
                .borrow_mut()
                .entry(*host)
                .or_default()
                .push(Rc::clone(&self.jar));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn later(seconds: u64) -> SystemTime {
        NOW + Duration::from_secs(1_700_000_000 + seconds)
    }

    fn store(jar: &mut Jar, request: &str, fields: &[&str]) -> bool {
        let fields: Vec<_> = fields
            .iter()
            .map(|value| httparse::Header {
                name: "Set-Cookie",
                value: value.as_bytes(),
            })
            .collect();
        jar.store(HeaderFields::new(&fields), request.as_bytes(), later(0))
    }

    /// The `Cookie` header of a request for `path`.
    fn sent(jar: &Jar, path: &str, scheme: Scheme, now: SystemTime) -> String {
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").into_bytes();
        jar.add_to(&mut request, scheme, now);
        let text = String::from_utf8(request).unwrap();
        let (line, rest) = text.split_once("\r\n").unwrap();
        assert!(
            line.ends_with(" HTTP/1.1") && rest.ends_with("host: h\r\n\r\n"),
            "{text}"
        );
        rest.strip_prefix("cookie: ")
            .map_or_else(String::new, |rest| {
                rest.split("\r\n").next().unwrap().to_owned()
            })
    }

    #[test]
    fn cookies_are_sent_where_and_as_long_as_they_are_for() {
        let mut jar = Jar::default();
        assert!(!store(&mut jar, "GET /a/b HTTP/1.1\r\n\r\n", &[]));
        assert!(store(
            &mut jar,
            "GET /a/b?x=/c/ HTTP/1.1\r\n\r\n",
            &[
                "one=1; HttpOnly",
                "two=\"2\"; Path=/; Secure",
                "three=3; path=/a/b; Max-Age=10; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
                "four=; Expires=Wed, 21-Oct-2099 07:28:00 GMT",
                "past=5; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
                "gone=6; Max-Age=0",
                "no value; Path=/",
                "=7",
            ],
        ));
        for (path, scheme, expected) in [
            ("/a/b", Scheme::Http, "three=3; one=1; four="),
            ("/a/bc", Scheme::Http, "one=1; four="),
            ("/a/c?y", Scheme::Https, "one=1; four=; two=\"2\""),
            ("/ab", Scheme::Http, ""),
            ("http://h:1/a", Scheme::Http, "one=1; four="),
            ("http://h:1", Scheme::Https, "two=\"2\""),
        ] {
            assert_eq!(sent(&jar, path, scheme, later(9)), expected, "{path}");
        }
        assert_eq!(sent(&jar, "/a/b", Scheme::Http, later(10)), "one=1; four=");
        // The same name and path is the same cookie.
        store(
            &mut jar,
            "GET /a/d HTTP/1.1\r\n\r\n",
            &["one=new", "four=x; Max-Age=-1"],
        );
        assert_eq!(sent(&jar, "/a/b", Scheme::Http, later(10)), "one=new");
    }

    #[test]
    fn a_cookie_of_another_domain_is_ignored() {
        for (host, domain, is_kept) in [
            ("a.example", "", true),
            ("a.example", "a.example", true),
            ("A.example:80", ".a.Example", true),
            ("b.a.example", "a.example", true),
            ("a.example", "b.a.example", false),
            ("ba.example", "a.example", false),
            ("a.example", "other.example", false),
            ("127.0.0.1:8080", "127.0.0.1", true),
            ("127.0.0.1:8080", "0.0.1", false),
            ("[::1]:8080", "[::1]", true),
            ("[::1]", "[::1]", true),
        ] {
            let mut jar = Jar::default();
            let request = format!("GET / HTTP/1.1\r\naccept: */*\r\nHost: {host}\r\n\r\n");
            store(&mut jar, &request, &[&format!("a=1; Domain={domain}")]);
            assert_eq!(
                sent(&jar, "/", Scheme::Http, later(0)) == "a=1",
                is_kept,
                "{host} {domain}"
            );
        }
    }

    #[test]
    fn a_jar_goes_from_connection_to_connection_of_a_slot_or_session() {
        let jars = Rc::new(Jars::default());
        for (owner, kept) in [
            (Owner::Slot, "a=1"),
            (Owner::Connection, ""),
            (Owner::Session(7), "a=1"),
        ] {
            let lent = jars.lend(1, owner);
            store(
                &mut lent.jar.borrow_mut(),
                "GET / HTTP/1.1\r\n\r\n",
                &["a=1"],
            );
            let beside = jars.lend(1, owner);
            assert_eq!(
                sent(&beside.jar.borrow(), "/", Scheme::Http, NOW) == "a=1",
                owner == Owner::Session(7)
            );
            drop((lent, jars.lend(2, owner)));
            assert_eq!(
                sent(&jars.lend(1, owner).jar.borrow(), "/", Scheme::Http, NOW),
                kept,
                "{owner:?}"
            );
            assert_eq!(
                sent(&jars.lend(3, owner).jar.borrow(), "/", Scheme::Http, NOW),
                ""
            );
        }
    }

    proptest! {
        #[test]
        fn a_jar_is_bounded_and_any_field_keeps_the_request_whole(
            fields in prop::collection::vec("[ -~\\x00]{0,6}=[ -~]{0,60}(; (path|max-age|expires|secure)=[ -~]{0,12})?", 0..120),
            path in "/[a-z/]{0,6}",
        ) {
            let mut jar = Jar::default();
            for field in &fields {
                store(&mut jar, &format!("GET {path} HTTP/1.1\r\n\r\n"), &[field]);
            }
            prop_assert!(jar.0.len() <= MOST && jar.0.iter().map(Cookie::size).sum::<usize>() <= MOST_OF_JAR);
            prop_assert!(!sent(&jar, &path, Scheme::Https, later(0)).contains(char::is_control));
        }
    }
}
