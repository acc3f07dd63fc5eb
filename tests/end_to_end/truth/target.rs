//! The target behind connections in memory: hyper's server, doing what a [`Script`] says.
#![expect(clippy::unwrap_used, reason = "a test without a target is over")]

use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use crawlmark::crawl::{Dial, Route};
use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::workload::Flight;
use http_body_util::Full;
use hyper::Response;
use hyper::header::RETRY_AFTER;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{DuplexStream, duplex};
use tokio::task::spawn_local;

use super::script::{Answer, Script};

/// More than a request or an answer here has.
const CONNECTION_BYTES: usize = 4 << 10;

/// Opens connections to a target that all shards share.
#[derive(Debug, Clone)]
pub(crate) struct InMemory {
    pub(crate) script: Rc<Script>,
    pub(crate) clock: Clock,
}

impl Dial for InMemory {
    type Stream = DuplexStream;

    async fn dial(&self, _: Route<'_>, _: &Flight) -> io::Result<DuplexStream> {
        if !self.script.connect.is_zero() {
            tokio::time::sleep(self.script.connect).await;
        }
        let (near, far) = duplex(CONNECTION_BYTES);
        spawn_local(self.clone().serve(far));
        Ok(near)
    }
}

impl InMemory {
    /// Answers requests until the client is gone.
    async fn serve(self, stream: DuplexStream) {
        let answer = service_fn(|_| async { Ok::<_, Infallible>(self.answer().await) });
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }

    async fn answer(&self) -> Response<Full<Bytes>> {
        let (due, answer) = self.script.answer(self.clock.now());
        // Timers of virtual time go off at the next whole millisecond. This makes it the nearest.
        let due = Nanos(due.0.saturating_sub(500_000));
        tokio::time::sleep_until(self.clock.instant(due)).await;
        let response = Response::builder();
        let response = match answer {
            Answer::Good => response.status(200),
            Answer::Refused { retry_after_s } => {
                response.status(429).header(RETRY_AFTER, retry_after_s)
            }
        };
        response.body(Full::default()).unwrap()
    }
}
