//! Memory of a request: once a connection is open and its buffers have grown, the crawl allocates
//! none.
//!
//! A program of its own, for the allocator that counts is the program's.
#![expect(clippy::unwrap_used, reason = "a test without a crawl is over")]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use crawlmark::crawl::{
    Crawl, CrawlOptions, CrawlSpec, Dial, HoldHeader, HttpSettings, RequestShape, Reuse, Route,
    Stream, Targets, Template,
};
use crawlmark_harness::clock::Clock;
use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome};
use crawlmark_harness::workload::{Flight, Workload};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, LocalOptions};

/// A target that answers each write with the same bytes, and allocates nothing.
#[derive(Debug, Clone)]
struct Canned {
    answer: Bytes,
    unread: Bytes,
}

impl Dial for Canned {
    type Stream = Self;

    async fn dial(&self, _: Route<'_>, _: &Flight) -> io::Result<Self> {
        Ok(self.clone())
    }
}

impl Stream for Canned {}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Poll::Pending;
        }
        let bytes = buf.remaining().min(self.unread.len());
        buf.put_slice(&self.unread.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Canned {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.unread = self.answer.clone();
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Count the allocations of `items` requests after as many others.
fn allocations(answer: Vec<u8>, expect: &str, body: &'static str, items: u64) -> u64 {
    let template: Template = "http://192.0.2.1/items/{id}?a=1".parse().unwrap();
    let spec = CrawlSpec {
        addresses: vec![vec![SocketAddr::from(([192, 0, 2, 1], 80))]],
        targets: Arc::new(Targets::one(&template).unwrap()),
        request: RequestShape::new("POST", &["x-a: 1".to_owned()], Bytes::from(body)).unwrap(),
        expect: expect.parse().unwrap(),
        timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(10),
        reuse: Reuse::default(),
        local_ips: None,
        held: HoldHeader::Read,
        tls: None,
        proxies: None,
        http: HttpSettings::default(),
        options: CrawlOptions::default(),
    };
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build_local(LocalOptions::default())
        .unwrap();
    let clock = Clock::start();
    let crawl = Crawl::over(
        Canned {
            answer: answer.into(),
            unread: Bytes::new(),
        },
        spec,
        1,
        clock,
    );
    let flight = Flight::default();
    let perform = |ids: std::ops::Range<u64>| {
        runtime.block_on(async {
            for id in ids {
                let mut attempt = Attempt::unsent(ErrorKind::Io, clock.now());
                let cleared = async || Some(clock.now());
                let performed = crawl.perform(id, &flight, &cleared, &mut attempt);
                performed.await.unwrap();
                assert_eq!(attempt.outcome, Outcome::Ok);
            }
        });
    };
    perform(0..items);
    measure(|| perform(items..2 * items)).count_total
}

#[test]
fn a_request_allocates_nothing_after_the_first_ones() {
    let chunks =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\n[1,2,\r\n2;a=b\r\n3]\r\n0\r\nx-b: 2\r\n\r\n";
    let short =
        b"HTTP/1.1 200 OK\r\nserver: x\r\ncontent-type: text/plain\r\nx-mock-held-us: 7\r\ncontent-length: 2\r\n\r\nok";
    let long = [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n"[..],
        &vec![b'x'; 300_000],
    ]
    .concat();
    for (answer, expect) in [
        (&short[..], "whole"),
        (short, "regex:^ok$"),
        (short, "len:2"),
        (chunks, "json"),
        (&long, "regex:x$"),
    ] {
        let count = allocations(answer.to_vec(), expect, "a body", 200);
        assert_eq!(count, 0, "allocations of 200 requests that expect {expect}");
    }
}
