//! The process of a live page: HTTP/1.1 on loopback, for GET alone.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::stats::ShardStats;
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::wire::{FrameDecoder, IntervalFrame};
use crawlmark_results::show::page::LivePage;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::{LocalSet, spawn_local};

use super::{AT_END, Told};

/// Connections at most.
const MOST_CONNECTIONS: u32 = 8;

/// The largest head of a request, bytes.
const MOST_HEAD: usize = 4 << 10;

/// Buffer of a connection, bytes: the least that hyper takes.
const BUFFER: usize = 8 << 10;

/// Time that a head may take.
const HEAD: Duration = Duration::from_secs(5);

/// Serve until the run is over, or its supervisor is gone.
pub(super) fn serve(
    listener: TcpListener,
    pipe: OwnedFd,
    secret: &str,
    live: LivePage,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let address = listener.local_addr()?;
        let site = Rc::new(Site::new(address, secret, live));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        spawn_local(accept(listener, Rc::clone(&site)));
        listen(pipe::Receiver::from_owned_fd(pipe)?, &site).await;
        site.end().await;
        Ok(())
    })
}

/// What is served.
struct Site {
    /// Values of `Host` that are this process's, so that no page of another site reads it by a name
    /// of its own that leads here.
    hosts: [String; 2],
    /// Path of the page: `/secret/`.
    root: String,
    policy: HeaderValue,
    live: RefCell<LivePage>,
    /// Event of the last second, once a reader has asked for it.
    event: RefCell<Option<Bytes>>,
    /// Number of seconds so far.
    told: watch::Sender<u64>,
    /// The page of the report, once it is there.
    report: RefCell<Option<PathBuf>>,
    connections: Cell<u32>,
}

impl Site {
    fn new(address: SocketAddr, secret: &str, live: LivePage) -> Self {
        Self {
            hosts: [address.to_string(), format!("localhost:{}", address.port())],
            root: format!("/{secret}/"),
            policy: HeaderValue::try_from(LivePage::policy())
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
            live: RefCell::new(live),
            event: RefCell::new(None),
            told: watch::Sender::new(0),
            report: RefCell::new(None),
            connections: Cell::new(0),
        }
    }

    /// Take a second.
    fn add(&self, IntervalFrame { figures, stats }: IntervalFrame) {
        let merged: ShardStats = stats.unpacked();
        self.live.borrow_mut().add(&Interval {
            figures,
            merged,
            shards: Vec::new(),
            seconds: Vec::new(),
        });
        self.event.take();
        self.told.send_modify(|seconds| *seconds += 1);
    }

    /// Event of the last second.
    fn event(&self) -> Bytes {
        let make = || {
            let json = self.live.borrow_mut().second();
            let number = *self.told.borrow();
            Bytes::from(format!("event: second\nid: {number}\ndata: {json}\n\n"))
        };
        self.event.borrow_mut().get_or_insert_with(make).clone()
    }

    /// Wait until readers have taken the report.
    async fn end(&self) {
        let taken = async {
            while self.connections.get() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(AT_END, taken).await;
    }

    fn answer(self: &Rc<Self>, request: &Request<Incoming>) -> Response<Answer> {
        if let Err(status) = self.check(request) {
            return self.respond(status, "text/plain", Either::Left(Full::default()));
        }
        let text = |text: String| Either::Left(Full::new(Bytes::from(text)));
        match request.uri().path().strip_prefix(&*self.root) {
            Some("") => {
                let page = self.live.borrow_mut().page();
                self.respond(StatusCode::OK, "text/html; charset=utf-8", text(page))
            }
            Some("events") => {
                let (to, from) = mpsc::channel(1);
                spawn_local(Rc::clone(self).tell(to));
                self.respond(
                    StatusCode::OK,
                    "text/event-stream",
                    Either::Right(Events(from)),
                )
            }
            Some("report") => {
                let report = self.report.borrow();
                match report.as_ref().map(std::fs::read_to_string) {
                    Some(Ok(page)) => {
                        let kind = "text/html; charset=utf-8";
                        let mut response = self.respond(StatusCode::OK, kind, text(page));
                        // It has a policy of its own.
                        response.headers_mut().remove(CONTENT_SECURITY_POLICY);
                        response
                    }
                    _ => self.respond(StatusCode::NOT_FOUND, "text/plain", text(String::new())),
                }
            }
            _ => self.respond(StatusCode::NOT_FOUND, "text/plain", text(String::new())),
        }
    }

    /// Refuse what no reader of the page sends.
    fn check(&self, request: &Request<Incoming>) -> Result<(), StatusCode> {
        let headers = request.headers();
        let fields = headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + 4);
        if fields.sum::<usize>() + request.uri().to_string().len() > MOST_HEAD {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let mut hosts = headers.get_all(HOST).iter();
        let is_own = |host: &HeaderValue| self.hosts.iter().any(|own| host == own.as_str());
        if !hosts.next().is_some_and(is_own) || hosts.next().is_some() {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site")
        {
            return Err(StatusCode::FORBIDDEN);
        }
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        Ok(())
    }

    fn respond(&self, status: StatusCode, kind: &'static str, body: Answer) -> Response<Answer> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }

    /// Tell a reader of each second. One that does not read is told nothing more until it does: one
    /// event waits for it at most.
    async fn tell(self: Rc<Self>, to: mpsc::Sender<Bytes>) {
        let mut told = self.told.subscribe();
        if *told.borrow_and_update() > 0 && to.send(self.event()).await.is_err() {
            return;
        }
        while told.changed().await.is_ok() {
            let is_over = self.report.borrow().is_some();
            let event = if is_over {
                Bytes::from_static(b"event: end\ndata: {}\n\n")
            } else {
                self.event()
            };
            if to.send(event).await.is_err() || is_over {
                return;
            }
        }
    }
}

/// Body of a response.
type Answer = Either<Full<Bytes>, Events>;

/// Events, as they come.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let received = self.0.poll_recv(context);
        received.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Rc<Site>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Without descriptors, until some are closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if site.connections.get() >= MOST_CONNECTIONS {
            continue;
        }
        site.connections.set(site.connections.get() + 1);
        let site = Rc::clone(&site);
        spawn_local(async move {
            let own = Rc::clone(&site);
            let answer = service_fn(move |request| {
                let response = own.answer(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(BUFFER)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = served.await;
            site.connections.set(site.connections.get() - 1);
        });
    }
}

/// Take what the supervisor tells until the run is over, or it is gone.
async fn listen(mut pipe: pipe::Receiver, site: &Site) {
    let (mut decoder, mut chunk) = (FrameDecoder::default(), vec![0; 64 << 10]);
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => decoder.push(&chunk[..read]),
        }
        loop {
            match decoder.next_frame() {
                Ok(Some(Told::Second(second))) => site.add(*second),
                Ok(Some(Told::End(report))) => {
                    site.report.replace(Some(report));
                    site.told.send_modify(|seconds| *seconds += 1);
                    return;
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
