//! The request of an item: a fresh path per ID, everything else shared. The hot path: bytes are
//! copied into the buffer of a connection, and nothing is allocated.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderName};

use super::ids::IdFormat;
use super::proxy::Absolute;
use super::redirects::Chain;
use super::reuse::After;
use super::shape::{HostHeader, RequestShape};
use super::targets::Targets;

/// Longest body that is copied after its head: one write of a joined buffer costs less than two
/// writes.
const FLAT_BODY_BYTES: usize = 16 << 10;

/// Writes requests of one shape.
#[derive(Debug)]
pub(super) struct Writer {
    targets: Arc<Targets>,
    /// Shape of the requests of lines without one of their own.
    shape: RequestShape,
    /// Bytes after the path: the end of the request line, and the start of the `Host` header or all
    /// of it.
    after_path: Vec<u8>,
    host_value: HostValue,
    /// Headers after `Host`, the blank line, and the body if that is short.
    end: Vec<u8>,
    /// End of the last request of a connection, with a `Connection` header.
    last_end: Vec<u8>,
    /// Body that is sent from where it is; empty if it is in the ends.
    long_body: Bytes,
    /// Bytes before and after the ID, if all requests but the last of a connection share them:
    /// those of a crawl of one URL template.
    around_id: Option<[Vec<u8>; 2]>,
}

/// Place of the value of the `Host` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostValue {
    /// In the bytes that all requests share: it was typed, or there is one host.
    Shared,
    /// Value of the request's target.
    OfTarget,
}

impl Writer {
    pub(super) fn new(shape: &RequestShape, targets: &Arc<Targets>) -> Self {
        let mut headers = Vec::new();
        for (name, value) in &shape.headers {
            headers.extend([b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
        }
        let (after_path, host_value) = match (shape.host_header, targets.hosts()) {
            (HostHeader::Typed, _) => (b" HTTP/1.1".to_vec(), HostValue::Shared),
            (HostHeader::OfUrl, [host]) => (
                [b" HTTP/1.1\r\nhost: ", host.header().as_bytes()].concat(),
                HostValue::Shared,
            ),
            (HostHeader::OfUrl, _) => (b" HTTP/1.1\r\nhost: ".to_vec(), HostValue::OfTarget),
        };
        let is_long = shape.body.len() > FLAT_BODY_BYTES;
        let (body, long_body) = if is_long {
            (Bytes::new(), shape.body.clone())
        } else {
            (shape.body.clone(), Bytes::new())
        };
        let start = [shape.method.as_str().as_bytes(), b" "].concat();
        let end = [&headers, &b"\r\n\r\n"[..], &body].concat();
        let around_id = targets
            .only()
            .filter(|target| {
                host_value == HostValue::Shared && target.shape.is_none() && !shape.has_id()
            })
            .and_then(|target| {
                let after_id = target.after?.as_bytes();
                Some([
                    [&start[..], target.before.as_bytes()].concat(),
                    [after_id, &after_path, &end].concat(),
                ])
            });
        Self {
            targets: Arc::clone(targets),
            shape: shape.clone(),
            after_path,
            host_value,
            around_id,
            end,
            last_end: [&headers, &b"\r\nconnection: close\r\n\r\n"[..], &body].concat(),
            long_body,
        }
    }

    /// Overwrite `output` with the request for item `id`, or with that of its chain of redirects;
    /// with a `Connection` header if it is the last of its connection, in absolute form for a proxy
    /// that forwards it. Return the part of the body to send after it.
    pub(super) fn write(
        &self,
        id: u64,
        chain: Option<&Chain>,
        after: After,
        output: &mut Vec<u8>,
        absolute: Option<&Absolute>,
    ) -> &[u8] {
        output.clear();
        if let (Some([before, after]), None, After::Keep, None) =
            (&self.around_id, chain, after, absolute)
        {
            output.extend_from_slice(before);
            IdFormat::write_or_plain(self.shape.id_format, id, output);
            output.extend_from_slice(after);
            return &self.long_body;
        }
        let target = self.targets.of(id);
        let shape = target.shape.unwrap_or(&self.shape);
        output.extend_from_slice(
            chain
                .map_or(&shape.method, |chain| &chain.method)
                .as_str()
                .as_bytes(),
        );
        output.push(b' ');
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.origin));
        match chain {
            Some(chain) => output.extend_from_slice(chain.path.as_bytes()),
            None => target.write_path(shape, id, output),
        }
        if chain.is_some() || target.shape.is_some() || shape.has_id() {
            let host = chain.map_or(target.host, |chain| chain.host);
            let body = self.write_fields(shape, host, id, chain, output, absolute);
            output.extend_from_slice(if after == After::Close {
                b"\r\nconnection: close\r\n\r\n"
            } else {
                b"\r\n\r\n"
            });
            output.extend_from_slice(&body);
            return &[];
        }
        output.extend_from_slice(&self.after_path);
        if self.host_value == HostValue::OfTarget {
            output.extend_from_slice(self.targets.hosts()[target.host].header().as_bytes());
        }
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.header.0));
        output.extend_from_slice(if after == After::Close {
            &self.last_end
        } else {
            &self.end
        });
        &self.long_body
    }

    /// Append what follows the path of a request of its own: `Host` and the other headers of
    /// `shape`. Return its body.
    fn write_fields(
        &self,
        shape: &RequestShape,
        host: usize,
        id: u64,
        chain: Option<&Chain>,
        output: &mut Vec<u8>,
        absolute: Option<&Absolute>,
    ) -> Bytes {
        let is_sent = |name: &HeaderName| chain.is_none_or(|chain| chain.sends(name));
        output.extend_from_slice(b" HTTP/1.1");
        if shape.host_header == HostHeader::OfUrl || !is_sent(&HOST) {
            start_field(output, &HOST);
            output.extend_from_slice(self.targets.hosts()[host].header().as_bytes());
        }
        output.extend_from_slice(absolute.map_or(&[], |absolute| &absolute.header.0));
        for (name, value) in shape.headers.iter().filter(|(name, _)| is_sent(name)) {
            start_field(output, name);
            if shape.has_id_in_headers {
                shape.write_with_id(value.as_bytes(), id, output);
            } else {
                output.extend_from_slice(value.as_bytes());
            }
        }
        if !is_sent(&CONTENT_LENGTH) {
            return Bytes::new();
        }
        let body = shape.body(id);
        if let Some(length) = shape.length_of(&body) {
            start_field(output, &CONTENT_LENGTH);
            output.extend_from_slice(length.as_bytes());
        }
        body
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
    use super::super::proxy::Secret;
    use super::super::shape::ShapeError;
    use super::super::template::Template;
    use super::*;

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
        let mut output = b"the last one".to_vec();
        let rest = writer.write(id, None, after, &mut output, None);
        String::from_utf8([&output, rest].concat()).unwrap()
    }

    #[test]
    fn a_request_is_the_template_with_the_id_in_it() {
        let shape = shape(&["x-a: 1", "User-Agent: me"], "").unwrap();
        let writer = writer(&["http://h:81/a/{id}?b=1", "http://i/fixed"], &shape);
        for id in [0, 7, u64::MAX] {
            let (path, host) = if id % 2 == 0 {
                (format!("/a/{id}?b=1"), "h:81")
            } else {
                ("/fixed".to_owned(), "i")
            };
            let head = format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nx-a: 1\r\nuser-agent: me\r\n\r\n"
            );
            assert_eq!(text(&writer, id, After::Keep), head);
        }
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
        let (fields, _) = shape.fields(7, |name| name != "x-b");
        assert_eq!(
            (&fields["x-a"], fields.get("x-b")),
            (&"<007007>".parse().unwrap(), None)
        );
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
    fn an_id_has_its_format() {
        let shape = shape(&[], "").unwrap().with_ids("hex,width=4".parse().ok());
        assert!(
            text(&writer(&["http://h/a/{id}.json"], &shape), 255, After::Keep)
                .starts_with("GET /a/00ff.json HTTP")
        );
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
        let mut output = Vec::new();
        writer.write(7, None, After::Keep, &mut output, Some(&absolute));
        let sent = String::from_utf8(output).unwrap();
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
        assert_eq!(
            shape(&["Host: other", "host: two"], "").unwrap_err(),
            ShapeError::TwoHosts
        );
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
    fn the_last_request_of_a_connection_says_so() {
        let writer = writer(&["http://h/{id}"], &shape(&[], "body").unwrap());
        assert!(!text(&writer, 0, After::Keep).contains("connection"));
        assert!(
            text(&writer, 0, After::Close)
                .ends_with("content-length: 4\r\nconnection: close\r\n\r\nbody")
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
                    .write(0, None, After::Keep, &mut Vec::new(), None)
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
        assert!(error("authorization").contains("name: value"));
        assert!(error("content-length: 5").contains("crawlmark itself"));
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
