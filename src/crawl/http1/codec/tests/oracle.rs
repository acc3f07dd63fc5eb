//! Comparison of the decoder with hyper's client on the same bytes: it accepts nothing that hyper
//! refuses, and each response that only hyper accepts is listed.

use std::time::Duration;

use crawlmark_harness::fixtures::virtual_time;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::LocalRuntime;
use tokio::task::spawn_local;

use super::corpus::corpus;
use super::near_responses;
use crate::crawl::http1::codec::{
    MOST_FIELDS, RequestKind,
    laws::{ResponseEnd, decode},
};

/// A response that was read to its end: its status and content.
type OracleResponse = Option<(u16, Vec<u8>)>;

/// Responses that hyper accepts and the decoder refuses: a part of their bytes, and hyper's reading
/// of their content.
const STRICTER: [(&str, &str); 15] = [
    // Both lengths: the mark of a smuggled response.
    ("content-length: 2\r\ntransfer-encoding: chunked", "ok"),
    // Nothing asked for a coding, and the end is a guess.
    ("transfer-encoding: gzip\r\n\r\nok", "ok"),
    ("transfer-encoding: identity", "ok"),
    ("transfer-encoding:\r\n", "ok"),
    ("transfer-encoding: xchunked", "0\r\n\r\n"),
    ("transfer-encoding: chunked, gzip", "ok"),
    // Chunked twice, or read twice.
    ("transfer-encoding: chunked, chunked", ""),
    (
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "",
    ),
    // An empty element is no coding.
    ("transfer-encoding: , chunked", ""),
    // No coding has such a name, and the end is a guess.
    ("transfer-encoding: \u{a1} chunked", "0\r\n\r\n"),
    ("transfer-encoding: x;a=\u{a1}", "0\r\n\r\n"),
    // No coding has such a name.
    ("transfer-encoding: a b, chunked", ""),
    // No extension has control characters.
    ("2;a\0\r\n", "ok"),
    // More digits than a size has: padding without end.
    ("00000000000000002\r\n", "ok"),
    // Nothing asked for another protocol.
    ("101 Switching", ""),
];

/// Read `bytes`, after which the connection ends, with hyper's client.
fn by_hyper(runtime: &LocalRuntime, request: RequestKind, bytes: &[u8]) -> OracleResponse {
    runtime.block_on(async {
        let (near, mut far) = duplex(64 << 10);
        let bytes = bytes.to_vec();
        let server = spawn_local(async move {
            let _ = far.read(&mut [0; 1 << 10]).await;
            let _ = far.write_all(&bytes).await;
        });
        let mut builder = http1::Builder::new();
        builder
            .allow_obsolete_multiline_headers_in_responses(true)
            .max_headers(MOST_FIELDS);
        let (mut sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
        let client = spawn_local(connection);
        let method = if request == RequestKind::Head {
            Method::HEAD
        } else {
            Method::GET
        };
        let request = Request::builder()
            .method(method)
            .uri("/")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = async {
            let response = sender.send_request(request).await.ok()?;
            let status = response.status().as_u16();
            Some((
                status,
                response
                    .into_body()
                    .collect()
                    .await
                    .ok()?
                    .to_bytes()
                    .to_vec(),
            ))
        };
        let reading = tokio::time::timeout(Duration::from_secs(10), response)
            .await
            .expect("hyper waits for ever");
        drop(sender);
        let _ = (server.await, client.await);
        reading
    })
}

fn by_this(request: RequestKind, bytes: &[u8]) -> OracleResponse {
    let heard = decode(request, [bytes]);
    matches!(heard.end, ResponseEnd::Kept(_) | ResponseEnd::Last(_))
        .then(|| (heard.head.map_or(0, |(status, _)| status), heard.content))
}

#[test]
fn responses_are_read_as_hyper_reads_them_but_for_those_listed() {
    let (runtime, mut listed) = (virtual_time(), Vec::new());
    for case in &corpus() {
        let (this, hyper) = (
            by_this(case.request, case.bytes.as_bytes()),
            by_hyper(&runtime, case.request, case.bytes.as_bytes()),
        );
        if this == hyper {
            continue;
        }
        let row = STRICTER
            .iter()
            .position(|(part, _)| case.bytes.contains(part));
        let row = row.unwrap_or_else(|| panic!("{:?} is {this:?}, to hyper {hyper:?}", case.bytes));
        let content = hyper.map(|(_, content)| String::from_utf8(content).unwrap());
        assert_eq!(
            (this, content.as_deref()),
            (None, Some(STRICTER[row].1)),
            "{:?}",
            case.bytes
        );
        listed.push(row);
    }
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(
        listed,
        (0..STRICTER.len()).collect::<Vec<_>>(),
        "rows that hyper refuses, too"
    );
}

proptest! {
    #[test]
    fn nothing_that_hyper_refuses_is_taken((request, bytes) in near_responses()) {
        let this = by_this(request, &bytes);
        if this.is_some() {
            prop_assert_eq!(by_hyper(&virtual_time(), request, &bytes), this, "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
