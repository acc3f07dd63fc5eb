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

use percent_encoding::{AsciiSet, percent_encode};
use url::{Origin, Position, Url};

use super::requests::host::Host;
use super::requests::request::Chain;
use super::response::cookies::SharedJar;

/// Longest URL of a redirect, bytes.
const MOST_BYTES: usize = 8 << 10;

/// Reason not to follow a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectRefusal {
    /// No URL that can be read: the response is judged by its status.
    NoUrl,
    /// Its host is none of the plan's.
    OtherHost(String),
}

/// A redirected item.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) chain: Chain,
    /// Cookies of the connection that was redirected, if they are for the next host.
    pub(crate) jar: Option<SharedJar>,
}

/// Redirected items, and the hosts that they may go to.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    /// Items that have not ended. The engine bounds their number.
    items: RefCell<HashMap<u64, Rc<Redirected>>>,
    /// URL of each host; none of one that has no URL.
    urls: Vec<Option<Url>>,
    numbers: HashMap<Origin, usize>,
}

impl Redirects {
    /// Follow redirects among these hosts.
    pub(crate) fn among(hosts: &[Host]) -> Self {
        let urls: Vec<_> = hosts.iter().map(url).collect();
        let numbers = urls
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(number, url)| Some((url.as_ref()?.origin(), number)))
            .collect();
        Self {
            items: RefCell::default(),
            urls,
            numbers,
        }
    }

    /// Return an item, if it was redirected.
    pub(crate) fn of(&self, id: u64) -> Option<Rc<Redirected>> {
        self.items.borrow().get(&id).cloned()
    }

    /// Note a redirect of an item.
    pub(crate) fn set(&self, id: u64, redirected: Redirected) {
        self.items.borrow_mut().insert(id, Rc::new(redirected));
    }

    /// Forget an item that ended.
    pub(crate) fn forget(&self, id: u64) {
        self.items.borrow_mut().remove(&id);
    }

    /// Resolve a `Location` against the URL of its request, as browsers do (WHATWG URL; RFC 3986,
    /// 5.2): return the number of its host, and its path.
    pub(crate) fn resolve(
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
        let number = number.ok_or_else(|| {
            RedirectRefusal::OtherHost(match to.host_str() {
                Some(_) => {
                    to[..Position::BeforeUsername].to_owned()
                        + &to[Position::BeforeHost..Position::AfterPort]
                }
                None => format!("{}:", to.scheme()),
            })
        })?;
        Ok((number, path.to_owned()))
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
    Url::parse(&format!("{}{name}:{}", host.scheme.prefix(), host.port)).ok()
}
