//! Redirects of a crawl (`--follow`): the request that a redirected item sends next.
//!
//! A redirect ends its attempt; the item is attempted again at once, under every limit. A
//! redirected item has a [`Chain`] until it ends: its attempts send what the last redirect asked
//! for, retries too. Called for redirects only. It must not leave the hosts of the plan.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use http::Method;
use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE, HOST,
    HeaderName,
};
use percent_encoding::{AsciiSet, percent_encode};
use url::{Origin, Position, Url};

use super::cookies::SharedJar;
use super::host::Host;
use super::redact;

/// Longest URL of a redirect, bytes.
const MOST_BYTES: usize = 8 << 10;

/// Headers of a body (Fetch, "request-body-header name", and its length).
const OF_BODY: [HeaderName; 5] = [
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_LOCATION,
    CONTENT_TYPE,
];

/// Request of a redirected item.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// Number of its host.
    pub(super) host: usize,
    /// Its path and query.
    pub(super) path: String,
    /// Its method.
    pub(super) method: Method,
    /// True if it has the body of the item's first request, if there was one.
    has_body: bool,
    /// True if no request of the item left the host of the first.
    is_at_home: bool,
    /// Number of redirects of the item.
    pub(super) count: u32,
    /// Cookies of the connection that was redirected, if they are for its host.
    pub(super) jar: Option<SharedJar>,
}

impl Chain {
    /// Return the chain of an item whose first request goes to this host and path.
    pub(super) const fn new(host: usize, path: String, method: Method) -> Self {
        Self {
            host,
            path,
            method,
            has_body: true,
            is_at_home: true,
            count: 0,
            jar: None,
        }
    }

    /// Return the chain after a redirect with this status, as browsers have it (Fetch,
    /// "HTTP-redirect fetch"). `jar` has the cookies of the request that was redirected.
    pub(super) fn next(
        &self,
        status: u16,
        (host, path): (usize, String),
        jar: Option<SharedJar>,
    ) -> Self {
        let becomes_get = match status {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::HEAD,
            _ => false,
        };
        Self {
            host,
            path,
            method: if becomes_get {
                Method::GET
            } else {
                self.method.clone()
            },
            has_body: self.has_body && !becomes_get,
            is_at_home: self.is_at_home && host == self.host,
            count: self.count + 1,
            jar: jar.filter(|_| host == self.host),
        }
    }

    /// True if a header of the item's first request is sent: credentials stay with their host, and
    /// what describes a body goes with it.
    pub(super) fn sends(&self, name: &HeaderName) -> bool {
        let is_of_host = *name == HOST || redact::is_secret(name.as_str());
        (self.has_body || !OF_BODY.contains(name)) && (self.is_at_home || !is_of_host)
    }
}

/// Reason not to follow a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedirectRefusal {
    /// No URL that can be read: the response is judged by its status.
    NoUrl,
    /// Its host is none of the plan's.
    OtherHost(String),
}

/// Redirected items, and the hosts that they may go to.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    /// Chains of items that have not ended. The engine bounds their number.
    chains: RefCell<HashMap<u64, Rc<Chain>>>,
    /// URL of each host; none of one that has no URL.
    urls: Vec<Option<Url>>,
    numbers: HashMap<Origin, usize>,
}

impl Redirects {
    /// Follow redirects among these hosts.
    pub(super) fn among(hosts: &[Host]) -> Self {
        let urls: Vec<_> = hosts.iter().map(url).collect();
        let numbered = urls.iter().enumerate().rev();
        let numbers = numbered
            .filter_map(|(number, url)| Some((url.as_ref()?.origin(), number)))
            .collect();
        Self {
            chains: RefCell::default(),
            urls,
            numbers,
        }
    }

    /// Return the chain of an item, if it was redirected.
    pub(super) fn of(&self, id: u64) -> Option<Rc<Chain>> {
        self.chains.borrow().get(&id).cloned()
    }

    /// Set the chain of an item.
    pub(super) fn set(&self, id: u64, chain: Chain) {
        self.chains.borrow_mut().insert(id, Rc::new(chain));
    }

    /// Forget an item that ended.
    pub(super) fn forget(&self, id: u64) {
        self.chains.borrow_mut().remove(&id);
    }

    /// Resolve a `Location` against the URL of its request, as browsers do (WHATWG URL; RFC 3986,
    /// 5.2): return the number of its host, and its path.
    pub(super) fn resolve(
        &self,
        location: &[u8],
        host: usize,
        path: &str,
    ) -> Result<(usize, String), RedirectRefusal> {
        let own = self
            .urls
            .get(host)
            .and_then(Option::as_ref)
            .ok_or(RedirectRefusal::NoUrl)?;
        // Bytes that are no ASCII are sent back as they came, whatever their encoding.
        let location = percent_encode(location, &AsciiSet::EMPTY).to_string();
        let base = Url::parse(&(own[..Position::BeforePath].to_owned() + path));
        let to = base
            .and_then(|base| base.join(&location))
            .map_err(|_| RedirectRefusal::NoUrl)?;
        let path = &to[Position::BeforePath..Position::AfterQuery];
        if path.len() > MOST_BYTES {
            return Err(RedirectRefusal::NoUrl);
        }
        let origin = to.origin();
        let number = if origin == own.origin() {
            Some(host)
        } else {
            self.numbers.get(&origin).copied()
        };
        let other = || match to.host_str() {
            Some(_) => {
                to[..Position::BeforeUsername].to_owned()
                    + &to[Position::BeforeHost..Position::AfterPort]
            }
            None => format!("{}:", to.scheme()),
        };
        Ok((
            number.ok_or_else(|| RedirectRefusal::OtherHost(other()))?,
            path.to_owned(),
        ))
    }
}

/// Return the URL of a host, whose zone is a matter of this machine alone.
fn url(host: &Host) -> Option<Url> {
    let name = host.name().split('%').next().unwrap_or_default();
    let name = if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    Url::parse(&format!("{}{name}:{}", host.scheme().prefix(), host.port())).ok()
}

/// True if a response of this status redirects.
pub(super) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}
