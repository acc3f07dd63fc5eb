//! The request of an item: a fresh path per ID, everything else shared. The hot path allocates nothing here but one
//! block of memory per few hundred paths.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use crawlmark_harness::sample::ErrorKind;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Uri};

use super::redact;
use super::reuse::After;
use super::targets::{RequestTarget, Targets};

/// Default `User-Agent`.
const USER_AGENT_VALUE: &str = concat!("crawlmark/", env!("CARGO_PKG_VERSION"));

/// Memory for the paths of a few hundred requests.
const BLOCK: usize = 16 << 10;

/// `Connection` header of the last request of a connection.
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Parts that every request of a crawl shares.
#[derive(Debug, Clone)]
pub struct RequestShape {
    method: Method,
    host_header: HostHeader,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// Source of the `Host` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostHeader {
    /// The host of the URL.
    OfUrl,
    /// A `Host` header that was typed; it is one of the headers.
    Typed,
}

/// Reason why a request cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Not a method.
    #[error("--method {0} is not an HTTP method: write letters, as in GET")]
    Method(String),
    /// A method that HTTP/1.1 clients may not use for items.
    #[error("--method {0} cannot be used for a crawl: use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Unsupported(String),
    /// Not `name: value`.
    #[error("--header `{0}` is not one line of the form `name: value`")]
    Header(String),
    /// A header that frames the message.
    #[error("--header {0} is set by crawlmark itself: remove it")]
    Framing(HeaderName),
}

impl RequestShape {
    /// Requests with headers as typed (`name: value`).
    ///
    /// # Errors
    /// When the method or a header is no such thing, or is not the caller's to choose.
    pub fn new(method: &str, headers: &[String], body: Bytes) -> Result<Self, ShapeError> {
        let bad_method = |_| ShapeError::Method(method.to_owned());
        let method = Method::from_bytes(method.as_bytes()).map_err(bad_method)?;
        if method == Method::CONNECT {
            return Err(ShapeError::Unsupported(method.to_string()));
        }
        let mut map = HeaderMap::new();
        map.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        map.insert(ACCEPT, HeaderValue::from_static("*/*"));
        if !body.is_empty() {
            map.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let typed: Vec<_> = headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        for (name, _) in &typed {
            map.remove(name);
        }
        for (name, value) in typed {
            map.append(name, value);
        }
        let host_header = if map.contains_key(HOST) { HostHeader::Typed } else { HostHeader::OfUrl };
        let headers: Vec<_> = map.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self { method, host_header, headers, body })
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The names of the headers. Values may be secrets.
    #[must_use]
    pub fn header_names(&self) -> Vec<&str> {
        let of_url = (self.host_header == HostHeader::OfUrl).then_some(HOST.as_str());
        of_url.into_iter().chain(self.headers.iter().map(|(name, _)| name.as_str())).collect()
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), ShapeError> {
    let bad = || ShapeError::Header(redact::header(text));
    let (name, value) = text.split_once(':').ok_or_else(bad)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad())?;
    if [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
        return Err(ShapeError::Framing(name));
    }
    Ok((name, HeaderValue::from_str(value.trim()).map_err(|_| bad())?))
}

/// Writes requests of one shape.
#[derive(Debug)]
pub(super) struct Writer {
    shape: RequestShape,
    targets: Arc<Targets>,
    block: BytesMut,
}

impl Writer {
    pub(super) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        Self { shape: shape.clone(), targets: Arc::clone(targets), block: BytesMut::with_capacity(BLOCK) }
    }

    /// The request for item `id`, in the memory of `headers`, which is empty. It says what becomes of its connection.
    pub(super) fn write(
        &mut self,
        id: u64,
        after: After,
        mut headers: HeaderMap,
    ) -> Result<Request<Full<Bytes>>, ErrorKind> {
        let asked = self.targets.of(id);
        let path = path(&mut self.block, asked, id)?;
        if self.shape.host_header == HostHeader::OfUrl {
            headers.append(HOST, self.targets.hosts()[asked.host].header().clone());
        }
        for (name, value) in &self.shape.headers {
            headers.append(name, value.clone());
        }
        if after == After::Close {
            headers.append(CONNECTION, CLOSE);
        }
        let mut request = Request::new(Full::new(self.shape.body.clone()));
        *request.method_mut() = self.shape.method.clone();
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn path(block: &mut BytesMut, asked: RequestTarget<'_>, id: u64) -> Result<PathAndQuery, ErrorKind> {
    const MOST_DIGITS: usize = 20;
    let RequestTarget { before, after, .. } = asked;
    let most = before.len() + MOST_DIGITS + after.map_or(0, str::len);
    if block.capacity() < most {
        // Takes the old block back when every path in it is gone, and gets a new one otherwise.
        block.reserve(most.max(BLOCK));
    }
    block.extend_from_slice(before.as_bytes());
    if let Some(after) = after {
        block.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
        block.extend_from_slice(after.as_bytes());
    }
    // The template was checked with an ID in place; digits make no path invalid.
    PathAndQuery::from_maybe_shared(block.split().freeze()).map_err(|_| ErrorKind::Malformed)
}

#[cfg(test)]
mod tests {
    use super::super::template::Template;
    use super::*;

    fn shape(headers: &[&str], body: &'static str) -> Result<RequestShape, ShapeError> {
        let headers: Vec<String> = headers.iter().map(|&text| text.to_owned()).collect();
        RequestShape::new("GET", &headers, Bytes::from_static(body.as_bytes()))
    }

    fn writer(urls: &[&str], shape: &RequestShape) -> Writer {
        let targets = Targets::collect(urls.iter().map(|url| Template::as_written(url))).unwrap();
        Writer::new(shape, &Arc::new(targets))
    }

    #[test]
    fn a_request_is_the_template_with_the_id_in_it() {
        let shape = shape(&["x-a: 1", "User-Agent: me"], "").unwrap();
        let mut writer = writer(&["http://h:81/a/{id}?b=1", "http://i/fixed"], &shape);
        for id in [0, 7, u64::MAX] {
            let request = writer.write(id, After::Keep, HeaderMap::new()).unwrap();
            let (path, host) = if id % 2 == 0 { (format!("/a/{id}?b=1"), "h:81") } else { ("/fixed".to_owned(), "i") };
            assert_eq!(request.uri().to_string(), path);
            let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap();
            assert_eq!((header("host"), header("user-agent"), header("x-a")), (host, "me", "1"));
        }
    }

    #[test]
    fn a_typed_host_is_the_only_one() {
        let shape = shape(&["Host: other"], "").unwrap();
        let request = writer(&["http://h/"], &shape).write(0, After::Keep, HeaderMap::new()).unwrap();
        assert_eq!(request.headers().get_all("host").iter().collect::<Vec<_>>(), ["other"]);
        assert_eq!(shape.header_names().iter().filter(|name| **name == "host").count(), 1);
    }

    #[test]
    fn the_last_request_of_a_connection_says_so() {
        let mut writer = writer(&["http://h/{id}"], &shape(&[], "body").unwrap());
        let mut connection = |after| {
            let request = writer.write(0, after, HeaderMap::new()).unwrap();
            request.headers().get(CONNECTION).cloned()
        };
        assert_eq!((connection(After::Keep), connection(After::Close)), (None, Some(CLOSE)));
    }

    #[test]
    fn what_is_no_header_says_so_without_its_value() {
        let error = |text: &str| shape(&[text], "").unwrap_err().to_string();
        assert!(error("authorization").contains("name: value"));
        assert!(error("content-length: 5").contains("crawlmark itself"));
        for text in ["bad name: secret", "secret", "Bearer\nsecret", "x-a: 1\nsecret", "x-a\n secret: 2"] {
            assert!(!error(text).contains("secret") && !error(text).contains('\n'), "{}", error(text));
        }
    }

    #[test]
    fn paths_do_not_need_a_block_each() {
        let mut writer = writer(&["http://h/{id}"], &shape(&[], "").unwrap());
        let start = writer.block.as_ptr();
        for id in 0..400 {
            drop(writer.write(id, After::Keep, HeaderMap::new()).unwrap());
        }
        assert!(writer.block.as_ptr() >= start && writer.block.as_ptr() <= start.wrapping_add(BLOCK));
    }
}
