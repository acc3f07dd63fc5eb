//! The request of an item: that of its line, or what a redirect made of it. The hot path: it
//! allocates nothing.

use bytes::Bytes;
use crawlmark_harness::trace::TraceHeader;
use http::Method;
use http::header::{
    CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE, HOST,
    HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH,
};

use super::flow::StepRequest;
use super::redact;
use super::shape::RequestShape;
use super::targets::{RequestTarget, Targets};
use crate::dataset::known::KnownItem;

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
pub(crate) struct Chain {
    /// Number of its host.
    pub(crate) host: usize,
    /// Its path and query.
    pub(crate) path: String,
    /// Its method.
    pub(crate) method: Method,
    /// True if it has the body of the item's first request, if there was one.
    has_body: bool,
    /// True if no request of the item left the host of the first.
    is_at_home: bool,
    /// Number of redirects of the item.
    pub(crate) count: u32,
}

impl Chain {
    /// Return the chain of an item whose first request goes to this host and path.
    pub(crate) const fn new(host: usize, path: String, method: Method) -> Self {
        Self {
            host,
            path,
            method,
            has_body: true,
            is_at_home: true,
            count: 0,
        }
    }

    /// Return the chain after a redirect with this status to this host and path, as browsers have
    /// it (Fetch, "HTTP-redirect fetch").
    pub(crate) fn next(&self, status: u16, host: usize, path: String) -> Self {
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
        }
    }

    /// True if a header of the item's first request is sent: credentials stay with their host, and
    /// what describes a body goes with it.
    pub(crate) fn sends(&self, name: &HeaderName) -> bool {
        let is_of_host = *name == HOST || redact::is_secret(name.as_str());
        (self.has_body || !OF_BODY.contains(name)) && (self.is_at_home || !is_of_host)
    }
}

/// Header of the trace context.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// An attempt at an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'a> {
    /// ID that is crawled.
    pub(crate) id: u64,
    /// Its chain of redirects, if it has one.
    pub(crate) chain: Option<&'a Chain>,
    /// Its request, if that is not the first of its line.
    pub(crate) step: Option<&'a StepRequest>,
    /// Trace context of the attempt, if the run sends any.
    pub(crate) trace: Option<&'a TraceHeader>,
    /// The response of an earlier crawl that may still hold.
    pub(crate) known: Option<&'a KnownItem>,
}

impl Item<'_> {
    /// Return the first attempt at an item, without a trace.
    pub(crate) const fn first(id: u64) -> Self {
        Self {
            id,
            chain: None,
            step: None,
            trace: None,
            known: None,
        }
    }
}

/// Request of an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    item: Item<'a>,
    line: RequestTarget<'a>,
    pub(crate) shape: &'a RequestShape,
}

impl<'a> Request<'a> {
    /// Return the request of an attempt; `shape` is that of lines without one of their own.
    pub(crate) fn new(targets: &'a Targets, shape: &'a RequestShape, item: Item<'a>) -> Self {
        let line = item
            .step
            .map_or_else(|| targets.of(item.id), StepRequest::target);
        Self {
            item,
            line,
            shape: line.shape.unwrap_or(shape),
        }
    }

    /// Return what the requests of lines without a shape of their own have in common.
    pub(crate) fn shared(targets: &'a Targets, shape: &'a RequestShape) -> Self {
        Self {
            shape,
            ..Self::new(targets, shape, Item::first(0))
        }
    }

    /// Return the headers that are its own.
    pub(crate) fn own(&self) -> impl Iterator<Item = (HeaderName, &'a [u8])> + use<'a> {
        let Item { trace, known, .. } = self.item;
        let trace = trace.map(|trace| (TRACEPARENT, &trace[..]));
        let text = |text: &'a Option<Box<str>>| text.as_deref().map(str::as_bytes);
        let etag = known.and_then(|known| Some((IF_NONE_MATCH, text(&known.etag)?)));
        let modified =
            known.and_then(|known| Some((IF_MODIFIED_SINCE, text(&known.last_modified)?)));
        trace.into_iter().chain(etag).chain(modified)
    }

    /// True if it has headers of its own.
    pub(crate) fn has_own(&self) -> bool {
        self.item.trace.is_some() || self.item.known.is_some()
    }

    /// Number of its host.
    pub(crate) fn host(&self) -> usize {
        self.item.chain.map_or(self.line.host, |chain| chain.host)
    }

    pub(crate) fn method(&self) -> &'a Method {
        self.item
            .chain
            .map_or(self.shape.method(), |chain| &chain.method)
    }

    /// Append its path and query.
    pub(crate) fn write_path(&self, output: &mut Vec<u8>) {
        match self.item.chain {
            Some(chain) => output.extend_from_slice(chain.path.as_bytes()),
            None => self.line.write_path(self.shape, self.item.id, output),
        }
    }

    /// Return its path and query.
    pub(crate) fn path(&self) -> String {
        let mut path = Vec::new();
        self.write_path(&mut path);
        String::from_utf8_lossy(&path).into_owned()
    }

    /// True if its headers are those of every request of lines without a shape of their own.
    pub(crate) fn is_shared(&self) -> bool {
        self.item.chain.is_none() && self.line.shape.is_none() && !self.shape.has_id()
    }

    /// True if it has a header of its shape. One of its own takes the place of a recorded one.
    pub(crate) fn sends(&self, name: &HeaderName) -> bool {
        let is_replaced = self.has_own() && self.own().any(|(own, _)| own == *name);
        !is_replaced && self.item.chain.is_none_or(|chain| chain.sends(name))
    }

    /// Return its body. Allocates only if that has a place for the ID.
    pub(crate) fn body(&self) -> Bytes {
        if self.sends(&CONTENT_LENGTH) {
            self.shape.body(self.item.id)
        } else {
            Bytes::new()
        }
    }

    /// Append the value of a header of its shape.
    pub(crate) fn write_value(&self, value: &[u8], output: &mut Vec<u8>) {
        if self.shape.has_id_in_headers {
            self.shape.write_with_id(value, self.item.id, output);
        } else {
            output.extend_from_slice(value);
        }
    }
}
