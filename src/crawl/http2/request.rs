//! Requests as HTTP/2 has them: fields instead of text.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderMap, Request, Uri, Version};

use crate::crawl::targets::{Scheme, Targets};
use crate::crawl::{IdFormat, RequestShape};

/// Makes requests of one shape.
#[derive(Debug)]
pub(in crate::crawl) struct Requests {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own, and its headers.
    shape: RequestShape,
    headers: HeaderMap,
    /// Scheme and authority of each host, by its number.
    origins: Vec<Option<(http::uri::Scheme, Authority)>>,
}

impl Requests {
    pub(in crate::crawl) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let (headers, host) = shape.fields();
        let origin = |scheme, authority: &[u8]| Some((scheme, Authority::try_from(authority).ok()?));
        let origins = targets.hosts().iter().map(|of_url| {
            let scheme = match of_url.scheme() {
                Scheme::Http => http::uri::Scheme::HTTP,
                Scheme::Https => http::uri::Scheme::HTTPS,
            };
            origin(scheme, host.unwrap_or(of_url.header()).as_bytes())
        });
        let origins = origins.collect();
        Self { targets: Arc::clone(targets), shape: shape.clone(), headers, origins }
    }

    /// Return the request for item `id` and its body; none if its URL cannot be written.
    pub(in crate::crawl) fn request(&self, id: u64) -> Option<(Request<()>, Bytes)> {
        let target = self.targets.of(id);
        let shape = target.shape.unwrap_or(&self.shape);
        let mut path = Vec::with_capacity(target.before.len() + target.after.map_or(0, |after| after.len() + 20));
        path.extend_from_slice(target.before.as_bytes());
        if let Some(after) = target.after {
            IdFormat::write_or_plain(shape.id_format(), id, &mut path);
            path.extend_from_slice(after.as_bytes());
        }
        let (scheme, mut authority) = self.origins.get(target.host)?.clone()?;
        let headers = match target.shape {
            None => self.headers.clone(),
            Some(shape) => {
                let (headers, host) = shape.fields();
                authority = host.map_or(Some(authority), |host| Authority::try_from(host.as_bytes()).ok())?;
                headers
            }
        };
        let mut parts = Parts::default();
        (parts.scheme, parts.authority) = (Some(scheme), Some(authority));
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(path)).ok()?);
        let mut request = Request::new(());
        let body = shape.body(id);
        *request.method_mut() = shape.method().clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = headers;
        if let Some(length) = shape.length_of(&body) {
            request.headers_mut().insert(CONTENT_LENGTH, length);
        }
        Some((request, body))
    }
}
