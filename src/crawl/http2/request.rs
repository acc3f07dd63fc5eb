//! Requests as HTTP/2 has them: fields instead of text.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderMap, Uri, Version};

use crate::crawl::target::{
    host::Scheme,
    request::{Item, Request, TRACEPARENT},
    shape::RequestShape,
    targets::Targets,
};

/// Room for a path: more than most have.
const PATH_BYTES: usize = 64;

/// Makes requests of one shape.
#[derive(Debug)]
pub(crate) struct Requests {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own, and its headers.
    shape: RequestShape,
    headers: HeaderMap,
    /// Its `Host`, if one was typed.
    host: Option<Authority>,
    /// Scheme and authority of each host, by its number.
    origins: Vec<Option<(http::uri::Scheme, Authority)>>,
}

impl Requests {
    pub(crate) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let mut requests = Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            headers: HeaderMap::new(),
            host: None,
            origins: Vec::new(),
        };
        for of_url in targets.hosts() {
            let scheme = match of_url.scheme() {
                Scheme::Http => http::uri::Scheme::HTTP,
                Scheme::Https => http::uri::Scheme::HTTPS,
            };
            let authority = Authority::try_from(of_url.header().as_bytes()).ok();
            requests.origins.push(authority.map(|of| (scheme, of)));
        }
        if targets.lines() > 0 {
            let shared = Request::new(targets, &requests.shape, Item::first(0));
            (requests.headers, requests.host) = fields(&shared);
        }
        requests
    }

    /// Return the request of an attempt, and its body; none if its URL cannot be written.
    pub(crate) fn request(&self, item: Item<'_>) -> Option<(http::Request<()>, Bytes)> {
        let request = Request::new(&self.targets, &self.shape, item);
        let mut path = Vec::with_capacity(PATH_BYTES);
        request.write_path(&mut path);
        let (scheme, of_url) = self.origins.get(request.host())?.clone()?;
        let (mut headers, host) = if request.is_shared() {
            (self.headers.clone(), self.host.clone())
        } else {
            fields(&request)
        };
        if let Some(trace) = request.trace() {
            headers.insert(TRACEPARENT, HeaderValue::from_bytes(trace).ok()?);
        }
        let body = request.body();
        if request.sends(&CONTENT_LENGTH)
            && let Some(length) = request.shape.length_of(&body)
        {
            headers.insert(CONTENT_LENGTH, length);
        }
        let mut parts = Parts::default();
        (parts.scheme, parts.authority) = (Some(scheme), host.or(Some(of_url)));
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(path)).ok()?);
        let mut message = http::Request::new(());
        *message.method_mut() = request.method().clone();
        *message.uri_mut() = Uri::from_parts(parts).ok()?;
        *message.version_mut() = Version::HTTP_2;
        *message.headers_mut() = headers;
        Some((message, body))
    }
}

/// Return the headers of a request, and apart from them the value of a `Host` that was typed.
fn fields(request: &Request<'_>) -> (HeaderMap, Option<Authority>) {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.shape.headers {
        if request.sends(name) {
            let mut text = Vec::new();
            request.write_value(value.as_bytes(), &mut text);
            // Letters and digits are valid in every value.
            let replaced = HeaderValue::from_maybe_shared(Bytes::from(text));
            headers.append(name.clone(), replaced.unwrap_or_else(|_| value.clone()));
        }
    }
    let host = headers.remove(HOST);
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    (headers, host)
}
