//! Requests as HTTP/2 has them: fields instead of text.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderMap, Method, Request, Uri, Version};

use crate::crawl::targets::{Scheme, Targets};
use crate::crawl::{IdFormat, RequestShape};

/// Makes requests of one shape.
#[derive(Debug)]
pub(in crate::crawl) struct Requests {
    targets: Arc<Targets>,
    method: Method,
    headers: HeaderMap,
    /// Scheme and authority of each host, by its number.
    origins: Vec<Option<(http::uri::Scheme, Authority)>>,
    body: Bytes,
    id_format: Option<IdFormat>,
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
        let (method, body, id_format) = (shape.method().clone(), shape.body(), shape.id_format());
        Self { targets: Arc::clone(targets), method, headers, origins, body, id_format }
    }

    /// Return the request for item `id`, without its body; none if its URL cannot be written.
    pub(in crate::crawl) fn request(&self, id: u64) -> Option<Request<()>> {
        let target = self.targets.of(id);
        let mut path = Vec::with_capacity(target.before.len() + target.after.map_or(0, |after| after.len() + 20));
        path.extend_from_slice(target.before.as_bytes());
        if let Some(after) = target.after {
            IdFormat::write_or_plain(self.id_format, id, &mut path);
            path.extend_from_slice(after.as_bytes());
        }
        let (scheme, authority) = self.origins.get(target.host)?.clone()?;
        let mut parts = Parts::default();
        (parts.scheme, parts.authority) = (Some(scheme), Some(authority));
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(path)).ok()?);
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        Some(request)
    }

    /// The body of every request.
    pub(in crate::crawl) const fn body(&self) -> &Bytes {
        &self.body
    }
}
