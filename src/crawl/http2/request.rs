//! Requests as HTTP/2 has them: fields instead of text.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderMap, Request, Uri, Version};

use crate::crawl::host::Scheme;
use crate::crawl::redirects::Chain;
use crate::crawl::shape::RequestShape;
use crate::crawl::targets::Targets;

/// Makes requests of one shape.
#[derive(Debug)]
pub(in crate::crawl) struct Requests {
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
    pub(in crate::crawl) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let (headers, host) = shape.fields(0, |_| true);
        let origins = targets.hosts().iter().map(|of_url| {
            let scheme = match of_url.scheme() {
                Scheme::Http => http::uri::Scheme::HTTP,
                Scheme::Https => http::uri::Scheme::HTTPS,
            };
            Some((
                scheme,
                Authority::try_from(of_url.header().as_bytes()).ok()?,
            ))
        });
        let origins = origins.collect();
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            headers,
            host,
            origins,
        }
    }

    /// Return the request for item `id`, or that of its chain of redirects, and its body; none if
    /// its URL cannot be written.
    pub(in crate::crawl) fn request(
        &self,
        id: u64,
        chain: Option<&Chain>,
    ) -> Option<(Request<()>, Bytes)> {
        let target = self.targets.of(id);
        let shape = target.shape.unwrap_or(&self.shape);
        let is_sent = |name: &HeaderName| chain.is_none_or(|chain| chain.sends(name));
        let mut path = Vec::with_capacity(
            target.before.len() + target.after.map_or(0, |after| after.len() + 20),
        );
        match chain {
            Some(chain) => path.extend_from_slice(chain.path.as_bytes()),
            None => target.write_path(shape, id, &mut path),
        }
        let (scheme, of_url) = self
            .origins
            .get(chain.map_or(target.host, |chain| chain.host))?
            .clone()?;
        let (headers, host) =
            if chain.is_some() || target.shape.is_some() || shape.has_id_in_headers() {
                let (headers, host) = shape.fields(id, is_sent);
                (
                    headers,
                    host.map(|host| Authority::try_from(host.as_bytes()))
                        .transpose()
                        .ok()?,
                )
            } else {
                (self.headers.clone(), self.host.clone())
            };
        let mut parts = Parts::default();
        (parts.scheme, parts.authority) = (Some(scheme), host.or(Some(of_url)));
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(Bytes::from(path)).ok()?);
        let mut request = Request::new(());
        let body = if is_sent(&CONTENT_LENGTH) {
            shape.body(id)
        } else {
            Bytes::new()
        };
        *request.method_mut() = chain.map_or(shape.method(), |chain| &chain.method).clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = headers;
        if let Some(length) = shape.length_of(&body).filter(|_| is_sent(&CONTENT_LENGTH)) {
            request.headers_mut().insert(CONTENT_LENGTH, length);
        }
        Some((request, body))
    }
}
