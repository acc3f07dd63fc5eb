//! Requests as HTTP/2 has them. The hot path: what requests of a template have in common is encoded
//! once, and nothing is allocated.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_LENGTH, HOST};

use super::hpack::{write_field, write_integer};
use crate::crawl::requests::{
    request::{Item, Request},
    shape::RequestShape,
    targets::Targets,
};

/// A request that is to be sent.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Its fields, encoded.
    pub(super) block: Vec<u8>,
    pub(super) body: Bytes,
    /// True if its response has no content, whatever the head of that says.
    pub(super) is_head: bool,
    /// Memory for its path.
    path: Vec<u8>,
}

/// Makes requests of one shape.
#[derive(Debug)]
pub(crate) struct Requests {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own.
    shape: RequestShape,
    /// Its fields before the path, for each host by its number, and those after it.
    starts: Vec<Vec<u8>>,
    fields: Vec<u8>,
}

impl Requests {
    pub(crate) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let mut requests = Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            starts: Vec::new(),
            fields: Vec::new(),
        };
        if targets.lines() > 0 {
            let shared = Request::shared(targets, &requests.shape);
            for host in 0..targets.hosts().len() {
                let mut start = Vec::new();
                write_start(&shared, targets, host, &mut start);
                requests.starts.push(start);
            }
            write_fields(&shared, &shared.body(), &mut requests.fields);
        }
        requests
    }

    /// Overwrite `output` with the request of an attempt.
    pub(crate) fn write(&self, item: Item<'_>, output: &mut Output) {
        let request = Request::new(&self.targets, &self.shape, item);
        let (block, path) = (&mut output.block, &mut output.path);
        block.clear();
        path.clear();
        output.body = request.body();
        output.is_head = *request.method() == Method::HEAD;
        request.write_path(path);
        let is_shared = request.is_shared() && !request.has_own();
        if is_shared {
            block.extend_from_slice(&self.starts[request.host()]);
        } else {
            write_start(&request, &self.targets, request.host(), block);
        }
        // `:path`, by the number of its name.
        block.push(4);
        write_integer(0, 7, path.len(), block);
        block.extend_from_slice(path);
        if is_shared {
            block.extend_from_slice(&self.fields);
        } else {
            write_fields(&request, &output.body, block);
        }
    }
}

/// Append what comes before the path of a request to a host.
fn write_start(request: &Request<'_>, targets: &Targets, host: usize, block: &mut Vec<u8>) {
    let of_url = &targets.hosts()[host];
    let typed = request
        .shape
        .headers
        .iter()
        .find(|(name, _)| *name == HOST)
        .filter(|_| request.sends(&HOST));
    write_field(":method", request.method().as_str().as_bytes(), block);
    let scheme = of_url.scheme.prefix().trim_end_matches("://");
    write_field(":scheme", scheme.as_bytes(), block);
    let mut authority = Vec::new();
    match typed {
        Some((_, value)) => request.write_value(value.as_bytes(), &mut authority),
        None => authority.extend_from_slice(of_url.header().as_bytes()),
    }
    write_field(":authority", &authority, block);
}

/// Append what comes after the path of a request.
fn write_fields(request: &Request<'_>, body: &Bytes, block: &mut Vec<u8>) {
    let mut text = Vec::new();
    for (name, value) in &request.shape.headers {
        if *name != HOST && request.sends(name) {
            text.clear();
            request.write_value(value.as_bytes(), &mut text);
            write_field(name.as_str(), &text, block);
        }
    }
    for (name, value) in request.own() {
        write_field(name.as_str(), value, block);
    }
    if request.sends(&CONTENT_LENGTH)
        && let Some(length) = request.shape.length_of(body)
    {
        write_field(CONTENT_LENGTH.as_str(), length.as_bytes(), block);
    }
}
