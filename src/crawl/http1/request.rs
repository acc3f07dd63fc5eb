//! Requests as bytes. The hot path: they are copied into the buffer of a connection, and nothing is
//! allocated.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderName};

use crate::crawl::connect::{pool::After, proxy::Absolute};
use crate::crawl::requests::{
    request::{Item, Request},
    shape::RequestShape,
    targets::Targets,
};
use crate::ids::IdFormat;

/// Longest body that is copied after its head: one write of a joined buffer costs less than two
/// writes.
const FLAT_BODY_BYTES: usize = 16 << 10;

/// A request as bytes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// Place of its ID, if all other requests of the crawl differ from it by that alone.
    id: Range<usize>,
}

impl Output {
    /// Return the bytes, to change them.
    pub(crate) fn edit(&mut self) -> &mut Vec<u8> {
        self.id = 0..0;
        &mut self.bytes
    }
}

/// Writes requests of HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Writer {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own.
    shape: RequestShape,
    /// Its headers, but for `Host` of the URL.
    fields: Vec<u8>,
    /// Bytes before and after the ID, if all requests but the last of a connection share them:
    /// those of a crawl of one URL template.
    around_id: Option<[Vec<u8>; 2]>,
}

impl Writer {
    pub(crate) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let mut writer = Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            fields: Vec::new(),
            around_id: None,
        };
        for (name, value) in &shape.headers {
            start_field(&mut writer.fields, name);
            writer.fields.extend_from_slice(value.as_bytes());
        }
        writer.around_id = targets.only().and_then(|line| {
            let request = Request::new(targets, shape, Item::first(0));
            let after = line.after.filter(|_| request.is_shared())?;
            let before = [shape.method.as_str(), " ", line.before].concat();
            let mut end = after.as_bytes().to_vec();
            writer.write_end(&request, After::Keep, &mut end, None);
            Some([before.into_bytes(), end])
        });
        writer
    }

    /// Overwrite `output` with the request of an attempt; with a `Connection` header if it is the
    /// last of its connection, in absolute form for a proxy that forwards it. Return the part of the
    /// body to send after it.
    #[inline]
    pub(crate) fn write(
        &self,
        item: Item<'_>,
        after: After,
        output: &mut Output,
        absolute: Option<&Absolute>,
    ) -> &[u8] {
        let is_plain = item.chain.is_none()
            && item.step.is_none()
            && item.trace.is_none()
            && item.known.is_none();
        if let (Some(around), true, After::Keep, None) =
            (&self.around_id, is_plain, after, absolute)
        {
            self.write_id(item.id, around, output);
            return self.long_body();
        }
        let output = output.edit();
        output.clear();
        let request = Request::new(&self.targets, &self.shape, item);
        output.extend_from_slice(request.method().as_str().as_bytes());
        output.push(b' ');
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.origin));
        request.write_path(output);
        self.write_end(&request, after, output, absolute);
        if request.is_shared() {
            self.long_body()
        } else {
            &[]
        }
    }

    /// Overwrite the ID in `output`, if it has a request like this with one of the same length;
    /// otherwise all of it.
    #[inline]
    fn write_id(&self, id: u64, [before, end]: &[Vec<u8>; 2], output: &mut Output) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(id).as_bytes();
        let (bytes, format) = (&mut output.bytes, self.shape.id_format);
        if format.is_none()
            && digits.len() == output.id.len()
            && let Some(place) = bytes.get_mut(output.id.clone())
        {
            place.copy_from_slice(digits);
            return;
        }
        bytes.clear();
        bytes.extend_from_slice(before);
        IdFormat::write_or_plain(format, id, bytes);
        output.id = before.len()..bytes.len();
        bytes.extend_from_slice(end);
    }

    /// Body of the shared shape, if that is too long to be copied.
    fn long_body(&self) -> &[u8] {
        if self.shape.body.len() > FLAT_BODY_BYTES {
            &self.shape.body
        } else {
            &[]
        }
    }

    /// Append what follows the path of a request.
    fn write_end(
        &self,
        request: &Request<'_>,
        after: After,
        output: &mut Vec<u8>,
        absolute: Option<&Absolute>,
    ) {
        output.extend_from_slice(b" HTTP/1.1");
        if !request.shape.has_host || !request.sends(&HOST) {
            start_field(output, &HOST);
            let host = self.targets.hosts()[request.host()].header();
            output.extend_from_slice(host.as_bytes());
        }
        for (name, value) in request.own() {
            start_field(output, &name);
            output.extend_from_slice(value);
        }
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.header.0));
        let own_body;
        let body = if request.is_shared() {
            output.extend_from_slice(&self.fields);
            if self.long_body().is_empty() {
                &self.shape.body
            } else {
                &[][..]
            }
        } else {
            own_body = request.body();
            write_fields(request, &own_body, output);
            &own_body
        };
        output.extend_from_slice(match after {
            After::Close => b"\r\nconnection: close\r\n\r\n",
            After::Keep => b"\r\n\r\n",
        });
        output.extend_from_slice(body);
    }
}

/// Append the headers of a request but for `Host` of the URL, each after the end of another line.
fn write_fields(request: &Request<'_>, body: &Bytes, output: &mut Vec<u8>) {
    for (name, value) in &request.shape.headers {
        if request.sends(name) {
            start_field(output, name);
            request.write_value(value.as_bytes(), output);
        }
    }
    if request.sends(&CONTENT_LENGTH)
        && let Some(length) = request.shape.length_of(body)
    {
        start_field(output, &CONTENT_LENGTH);
        output.extend_from_slice(length.as_bytes());
    }
}

/// Begin another header field.
fn start_field(output: &mut Vec<u8>, name: &HeaderName) {
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(name.as_str().as_bytes());
    output.extend_from_slice(b": ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::connect::proxy::Secret;
    use crate::crawl::requests::{shape::ShapeError, template::Template};

    fn shape(headers: &[&str], body: &'static str) -> Result<RequestShape, ShapeError> {
        let headers: Vec<String> = headers.iter().map(|&text| text.to_owned()).collect();
        RequestShape::new("GET", &headers, Bytes::from_static(body.as_bytes()))
    }

    fn writer(urls: &[&str], shape: &RequestShape) -> Writer {
        let targets = Targets::collect(urls.iter().map(|url| url.parse::<Template>())).unwrap();
        Writer::new(shape, &Arc::new(targets))
    }

    /// The request for item `id`, as it is sent.
    fn text(writer: &Writer, id: u64, after: After) -> String {
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"the last one");
        // Over others, with IDs of the same length and of another.
        for other in [id / 10, id ^ 1, id] {
            writer.write(Item::first(other), After::Keep, &mut output, None);
        }
        let rest = writer.write(Item::first(id ^ 1), After::Keep, &mut output, None);
        let edited = [&output.bytes, rest].concat();
        output.edit().extend_from_slice(b"cookie: a=b");
        let rest = writer.write(Item::first(id ^ 1), After::Keep, &mut output, None);
        assert_eq!([&output.bytes, rest].concat(), edited);
        let rest = writer.write(Item::first(id), after, &mut output, None);
        String::from_utf8([&output.bytes, rest].concat()).unwrap()
    }

    #[test]
    fn a_single_template_is_written_as_one_of_several_is() {
        let long = vec![b'x'; FLAT_BODY_BYTES + 1];
        for (headers, body) in [
            (&[][..], Bytes::new()),
            (&["host: other"], Bytes::from("body")),
            (&["a: b"], long.into()),
        ] {
            let headers: Vec<String> = headers.iter().map(|&text: &&str| text.to_owned()).collect();
            let shape = RequestShape::new("POST", &headers, body).unwrap();
            for url in [
                "http://h:81/{id}",
                "http://h/a/{id}/b?c=d",
                "http://h/fixed",
            ] {
                let whole = writer(&[url], &shape);
                assert_eq!(whole.around_id.is_some(), url.contains("{id}"));
                let parts = Writer {
                    around_id: None,
                    ..writer(&[url], &shape)
                };
                for (id, after) in [
                    (0, After::Keep),
                    (10, After::Close),
                    (u64::MAX, After::Keep),
                ] {
                    assert_eq!(text(&whole, id, after), text(&parts, id, after));
                }
            }
        }
    }

    #[test]
    fn an_id_in_a_body_or_a_header_is_replaced_and_counted() {
        let headers = ["x-a: <{id}{id}>", "x-b: {i"];
        let shape = shape(&headers, "{id}-{id}")
            .unwrap()
            .with_ids("width=3".parse().ok());
        for url in ["http://h/a/{id}", "http://h/a"] {
            let request = text(&writer(&[url], &shape), 7, After::Keep);
            assert!(
                request.contains("\r\ncontent-length: 7\r\n")
                    && request.ends_with("\r\n\r\n007-007"),
                "{request}"
            );
            assert!(
                request.contains("\r\nx-a: <007007>\r\nx-b: {i\r\n"),
                "{request}"
            );
        }
    }

    #[test]
    fn a_method_that_expects_a_body_says_that_there_is_none() {
        for (method, has_length) in [
            ("POST", true),
            ("PUT", true),
            ("PATCH", true),
            ("GET", false),
            ("DELETE", false),
            ("HEAD", false),
        ] {
            let shape = RequestShape::new(method, &[], Bytes::new()).unwrap();
            let recorded = self::shape(&[], "")
                .unwrap()
                .own(Some(method), &[], None)
                .unwrap();
            for shape in [shape, recorded] {
                let request = text(&writer(&["http://h/"], &shape), 0, After::Keep);
                assert_eq!(
                    request.contains("\r\ncontent-length: 0\r\n"),
                    has_length,
                    "{request}"
                );
            }
        }
    }

    #[test]
    fn a_proxy_gets_the_whole_url_and_its_credentials() {
        let writer = writer(
            &["http://h:81/a/{id}"],
            &shape(&["host: other"], "").unwrap(),
        );
        let header = b"\r\nproxy-authorization: Basic x".to_vec();
        let absolute = Absolute {
            proxy: String::new(),
            origin: b"http://h:81".to_vec(),
            header: Secret(header),
        };
        let mut output = Output::default();
        writer.write(Item::first(7), After::Keep, &mut output, Some(&absolute));
        let sent = String::from_utf8(output.bytes).unwrap();
        assert!(
            sent.starts_with("GET http://h:81/a/7 HTTP/1.1\r\n"),
            "{sent}"
        );
        assert_eq!(
            sent.matches("\r\nproxy-authorization: Basic x\r\n").count(),
            1,
            "{sent}"
        );
        assert!(
            sent.contains("\r\nhost: other\r\n") && sent.ends_with("\r\n\r\n"),
            "{sent}"
        );
    }

    #[test]
    fn a_typed_host_is_the_only_one() {
        assert!(shape(&["Host: other", "host: two"], "").is_err());
        let shape = shape(&["Host: other"], "").unwrap();
        let request = text(&writer(&["http://h/"], &shape), 0, After::Keep);
        assert_eq!(request.match_indices("host: ").count(), 1);
        assert!(
            request.starts_with("GET / HTTP/1.1\r\n") && request.contains("\r\nhost: other\r\n"),
            "{request}"
        );
        assert_eq!(
            shape
                .header_names()
                .iter()
                .filter(|name| **name == "host")
                .count(),
            1
        );
    }

    #[test]
    fn a_long_body_is_not_copied() {
        let body = Bytes::from(vec![b'x'; FLAT_BODY_BYTES + 1]);
        for (body, behind) in [(body.slice(1..), 0), (body.clone(), body.len())] {
            let shape = RequestShape::new("POST", &[], body.clone()).unwrap();
            let writer = writer(&["http://h/{id}"], &shape);
            assert_eq!(
                writer
                    .write(Item::first(0), After::Keep, &mut Output::default(), None)
                    .len(),
                behind
            );
            assert!(
                text(&writer, 0, After::Keep)
                    .as_bytes()
                    .ends_with(&[b"\r\n\r\n", &body[..]].concat())
            );
        }
    }

    #[test]
    fn what_is_no_header_says_so_without_its_value() {
        let error = |text: &str| shape(&[text], "").unwrap_err().to_string();
        assert!(shape(&["content-length: 5"], "").is_err());
        for text in [
            "bad name: secret",
            "secret",
            "Bearer\nsecret",
            "x-a: 1\nsecret",
            "x-a\n secret: 2",
        ] {
            assert!(
                !error(text).contains("secret") && !error(text).contains('\n'),
                "{}",
                error(text)
            );
        }
    }
}
