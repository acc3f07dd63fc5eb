//! One connection, from accepted to ended: the TLS handshake and the choice of the version of HTTP,
//! lent to the HTTP library for as long as answers are HTTP, taken back for a fault that is not
//! HTTP, or when it becomes a tunnel.
//!
//! It must not decide what an answer is (`answer` does).

use super::Stop;
use super::answer::Answers;
use super::body::AnswerBody;
use super::spoil::Interrupted;
use super::tasks::{Spawner, Tasks};
use super::wire::{Line, Wire};
use crate::config::Config;
use crate::connections::Bandwidth;
use crate::ledger::LedgerWriter;
use crate::timer::Timer;
use crate::tls::Http;
use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::select;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Streams that one HTTP/2 connection may have open at once, which the client is told: requests
/// that are held back occupy one each, and 100 is the least that RFC 9113 (6.5.2) recommends. More
/// connections carry more.
pub(super) const MAX_STREAMS: u32 = 256;

/// Serves one connection until either side ends it, or, once serving stops, until it is idle.
pub(super) async fn serve(stream: TcpStream, answers: Answers, entrance: &Entrance, stop: &Stop) {
    let Some(Some((mut wire, protocol))) = stop.unless(entrance.admit(stream)).await else {
        return;
    };
    if protocol == Protocol::Http2 {
        return Box::pin(speak_http2(wire, answers, stop)).await;
    }
    speak_http1(&mut wire, &answers, stop).await;
    // A stop does not wait for a client that gets no response.
    if let Some(act) = answers.fate().take() {
        stop.unless(act.perform(wire)).await;
    }
}

/// Answers until the connection ends.
async fn speak_http1(wire: &mut Wire, answers: &Answers, stop: &Stop) {
    let service = service_fn(|request| answers.answer(request));
    let mut builder = http1::Builder::new();
    // Answers are small: one flat buffer is cheaper to send than two parts. Without
    // `pipeline_flush`, which gains nothing as long as clients wait for their answers, and keeps an
    // answer back for as long as there are unread bytes behind its request: for ever if they are no
    // full request (hyper 1.12).
    builder.writev(false);
    let mut connection = builder.serve_connection(TokioIo::new(wire), service);
    let mut stopped = pin!(stop.wait());
    let (mut is_waiting, mut is_told) = (false, false);
    let ended = poll_fn(|cx| {
        let mut connection = Pin::new(&mut connection);
        // Polled once to be woken by it, which its task is from then on, and then only when it has
        // something to say.
        if !is_told && (!is_waiting || stop.is_now()) {
            is_waiting = true;
            if stopped.as_mut().poll(cx).is_ready() {
                is_told = true;
                connection.as_mut().graceful_shutdown();
            }
        }
        let polled = connection.as_mut().poll(cx);
        if polled.is_pending() && !is_told && answers.is_silently_over() {
            // The head of the last answer is written: it says nothing of the end any more.
            is_told = true;
            connection.as_mut().graceful_shutdown();
            return connection.poll(cx);
        }
        polled
    });
    // An error is a client that left, bytes that are no HTTP, or an answer that was given up for a
    // fault or a tunnel: all of them end this connection and nothing else.
    drop(ended.await);
}

/// Answer over HTTP/2, where many requests are under way at once. A fault that would end the
/// connection resets its own stream: what the others would see of it was not drawn for them.
async fn speak_http2(wire: Wire, answers: Answers, stop: &Stop) {
    let answers = Rc::new(answers);
    let service = service_fn(move |request| {
        let answers = Rc::clone(&answers);
        let is_head = *request.method() == Method::HEAD;
        async move {
            let response = answers.answer(request).await?;
            Ok::<_, Interrupted>(if is_head {
                without_body(response)
            } else {
                response
            })
        }
    });
    // The requests under way end with this connection, not with the process.
    let streams = Rc::new(Tasks::default());
    let mut builder = http2::Builder::new(Spawner::of(&streams));
    builder.max_concurrent_streams(MAX_STREAMS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(wire), service));
    select! {
        biased;
        () = stop.wait() => connection.as_mut().graceful_shutdown(),
        // As above.
        ended = connection.as_mut() => return drop(ended),
    }
    drop(connection.await);
}

/// The head of an answer alone, which says how long its body would be: for HEAD the HTTP library
/// leaves the body out over HTTP/1 only (hyper 1.12).
pub(super) fn without_body(response: Response<AnswerBody>) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts
            .headers
            .entry(CONTENT_LENGTH)
            .or_insert(HeaderValue::from(length));
    }
    Response::from_parts(parts, AnswerBody::whole(Bytes::new()))
}

/// Time limit of a handshake. Two round trips fit in many times over, and a client that sends half
/// of one does not keep its connection for ever.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Handshakes and protocol detection; one for all connections of a process.
pub(super) struct Entrance {
    tls: Option<TlsAcceptor>,
    http: Http,
    has_nodelay: bool,
    bandwidth: Option<Bandwidth>,
    ledger: Rc<LedgerWriter>,
    timer: Rc<Timer>,
}

impl Entrance {
    pub(super) fn new(config: &Config, ledger: &Rc<LedgerWriter>, timer: &Rc<Timer>) -> Self {
        let tls = config
            .tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(tls.server(config.http)));
        Self {
            tls,
            http: config.http,
            has_nodelay: !config.faults.delay_writes(),
            bandwidth: config.bandwidth,
            ledger: Rc::clone(ledger),
            timer: Rc::clone(timer),
        }
    }

    /// Takes a connection in; none if its handshake came to nothing. A client that says nothing is
    /// waited for without a limit once the handshake, if there is one, is done: an idle connection
    /// is no offence.
    pub(super) async fn admit(&self, stream: TcpStream) -> Option<(Wire, Protocol)> {
        // Without it the kernel may hold small answers back; where it cannot be set, answers are
        // late but right.
        drop(stream.set_nodelay(self.has_nodelay));
        let line = Line::new(stream, self.bandwidth, &self.timer);
        let (mut wire, agreed) = match &self.tls {
            None => (Wire::plain(line), None),
            Some(acceptor) => Box::pin(self.shake_hands(acceptor, line)).await?,
        };
        let protocol = match (agreed, self.http) {
            (Some(protocol), _) => protocol,
            (None, Http::Http2) => Protocol::Http2,
            (None, Http::Auto) if wire.begins_http2().await => Protocol::Http2,
            (None, Http::Auto | Http::Http1 | Http::Http3) => Protocol::Http1,
        };
        if protocol == Protocol::Http2 {
            self.ledger.counters().http2_connections.increment();
        }
        Some((wire, protocol))
    }

    async fn shake_hands(
        &self,
        acceptor: &TlsAcceptor,
        line: Line,
    ) -> Option<(Wire, Option<Protocol>)> {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_LIMIT, acceptor.accept(line)).await else {
            self.ledger.counters().tls_handshake_failures.increment();
            return None;
        };
        self.ledger.counters().tls_connections.increment();
        let agreed = stream.get_ref().1.alpn_protocol().map(|name| match name {
            b"h2" => Protocol::Http2,
            _ => Protocol::Http1,
        });
        Some((Wire::tls(stream), agreed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::ServerState;
    use super::super::served_stubs::ServedStubs;
    use super::super::stack::Stack;
    use super::*;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::ledger::{Ledger, LedgerWriter};
    use crate::shared::Shared;
    use crate::timer::Timer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::runtime::{Builder, LocalOptions};

    /// Far beyond what the test waits for: it ends one that would otherwise hang.
    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Runs `test` with one connection that was accepted: the client's end, and what serves the
    /// other one until it is told to stop.
    fn with_connection<Test: Future<Output = ()>>(
        shared: &Shared,
        config: Config,
        test: impl FnOnce(TcpStream, Pin<Box<dyn Future<Output = ()>>>, Rc<Stop>) -> Test,
    ) {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let ledger = Rc::new(LedgerWriter::open(shared));
            let timer = Rc::new(Timer::new(ledger.shared().clock()).unwrap());
            let driven = Rc::clone(&timer);
            tokio::task::spawn_local(async move { driven.run().await });
            let stubs = ServedStubs::new(&config, &ledger);
            let entrance = Entrance::new(&config, &ledger, &timer);
            let state = Rc::new(ServerState {
                config,
                ledger,
                timer,
                stubs,
                gateway: None,
                stack: Stack::default(),
            });
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap())
                .await
                .unwrap();
            let (far, address) = listener.accept().await.unwrap();
            let stop = Rc::new(Stop::default());
            let answers = Answers::new(&state, address.ip()).ok().unwrap();
            let signal = Rc::clone(&stop);
            test(
                near,
                Box::pin(async move { serve(far, answers, &entrance, &signal).await }),
                stop,
            )
            .await;
        });
    }

    async fn ask(mut stream: TcpStream) -> TcpStream {
        stream
            .write_all(b"GET /items/1 HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\"}") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
        stream
    }

    #[test]
    fn both_directions_of_a_connection_take_the_time_of_their_bytes() {
        let shared = Shared::new().unwrap();
        let config = Config {
            bandwidth: "100kB/s".parse().ok(),
            ..Config::default()
        };
        with_connection(&shared, config, async |mut near, serving, _| {
            let served = tokio::task::spawn_local(serving);
            let clock = Clock::start();
            let padding = "p".repeat(10_000);
            let request = format!("GET /items/1 HTTP/1.1\r\nhost: a\r\nx: {padding}\r\n\r\n");
            near.write_all(request.as_bytes()).await.unwrap();
            let near = ask(near).await;
            // Two responses of about 200 bytes, and 10,100 bytes of requests.
            assert!(clock.now_ns() > 101_000_000);
            drop(near);
            timeout(TIMEOUT, served).await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_request_of_a_client_that_has_left_is_counted() {
        let shared = Shared::new().unwrap();
        with_connection(&shared, Config::default(), async |near, serving, _| {
            let served = tokio::task::spawn_local(serving);
            let near = ask(near).await;
            // Without a wait, so that the end is there when the request is read.
            let request = b"GET /items/2 HTTP/1.1\r\nhost: a\r\n\r\n";
            assert_eq!(near.try_write(request).unwrap(), request.len());
            drop(near);
            timeout(TIMEOUT, served)
                .await
                .expect("the connection has ended")
                .unwrap();
        });
        assert_eq!(Ledger::read(&shared).requests, 2);
    }
}
