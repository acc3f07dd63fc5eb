//! Requests as HTTP/3 has them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use http::uri::{Scheme, Uri};
use http::{Method, request::Parts};

use crate::crawl::requests::{
    request::{Item, Request},
    shape::RequestShape,
    targets::Targets,
};

/// Makes requests.
#[derive(Debug)]
pub(crate) struct Requests {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own.
    shape: RequestShape,
}

impl Requests {
    pub(crate) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
        }
    }

    /// Return the request of an attempt; none if its URL or a header cannot be written.
    pub(super) fn output(&self, item: Item<'_>) -> Option<Output> {
        let request = Request::new(&self.targets, &self.shape, item);
        let body = request.body();
        let head = http::Request::new(());
        let (mut parts, ()) = head.into_parts();
        write(&request, &self.targets, &body, &mut parts)?;
        let head = http::Request::from_parts(parts, ());
        Some(Output { head, body })
    }
}

/// A request that is to be sent.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) head: http::Request<()>,
    pub(super) body: Bytes,
}

impl Output {
    /// True if its response has no content, whatever the head of that says.
    pub(super) fn is_head(&self) -> bool {
        *self.head.method() == Method::HEAD
    }
}

fn write(request: &Request<'_>, targets: &Targets, body: &Bytes, parts: &mut Parts) -> Option<()> {
    parts.method = request.method().clone();
    let (mut authority, mut path, mut text) = (Vec::new(), Vec::new(), Vec::new());
    let headers: &mut HeaderMap = &mut parts.headers;
    for (name, value) in &request.shape.headers {
        if !request.sends(name) {
            continue;
        }
        text.clear();
        request.write_value(value.as_bytes(), &mut text);
        if *name == HOST {
            authority.clone_from(&text);
        } else {
            headers.append(name, HeaderValue::from_bytes(&text).ok()?);
        }
    }
    for (name, value) in request.own() {
        headers.insert(name, HeaderValue::from_bytes(value).ok()?);
    }
    if request.sends(&CONTENT_LENGTH)
        && let Some(length) = request.shape.length_of(body)
    {
        headers.insert(CONTENT_LENGTH, length);
    }
    if authority.is_empty() {
        let own = targets.hosts()[request.host()].header();
        authority.extend_from_slice(own.as_bytes());
    }
    request.write_path(&mut path);
    let url = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(authority.as_slice())
        .path_and_query(path);
    parts.uri = url.build().ok()?;
    Some(())
}
