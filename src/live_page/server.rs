//! The process that serves a run: HTTP/1.1 for GET alone.
//!
//! Its page is on loopback below a secret path; its metrics, which have no secret in them, are at
//! `/metrics` of the address that the user named, and nothing else is there.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::stats::ShardStats;
use crawlmark_harness::supervisor::{Interval, ShardSecond};
use crawlmark_harness::wire::{FrameDecoder, IntervalFrame};
use crawlmark_results::export::{Exposition, openmetrics, openmetrics_so_far};
use crawlmark_results::run::report::SoFar;
use crawlmark_results::run::result_dir::{self, PAGE};
use crawlmark_results::run::words;
use crawlmark_results::show::page;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue,
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

use super::{AT_END, Listening, Told};

/// Connections at most: ten readers of the page, and what they load.
const MOST_CONNECTIONS: u32 = 16;

/// The largest head of a request, bytes.
const MOST_HEAD: usize = 4 << 10;

/// Buffer of a connection, bytes: the least that hyper takes.
const BUFFER: usize = 8 << 10;

/// Time that a head may take.
const HEAD: Duration = Duration::from_secs(5);

/// Serve until the run is over, or its supervisor is gone.
pub(super) fn serve(
    pipe: OwnedFd,
    page: Option<Listening>,
    metrics: Option<Listening>,
    secret: &str,
    run: SoFar,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let address = page.as_ref().map(|page| page.address.to_string());
        let site = Rc::new(Site::new(address, secret, run));
        for (listening, part) in [(page, Served::Page), (metrics, Served::Metrics)] {
            if let Some(Listening { listener, .. }) = listening {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                spawn_local(accept(listener, part, Rc::clone(&site)));
            }
        }
        listen(pipe::Receiver::from_owned_fd(pipe)?, &site).await;
        site.end().await;
        Ok(())
    })
}

/// What a connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Page,
    Metrics,
}

/// Media type of what is a page.
const HTML: &str = "text/html; charset=utf-8";

/// What is served.
struct Site {
    /// Values of `Host` that are this page's, so that no page of another site reads it by a name
    /// of its own that leads here.
    hosts: [String; 2],
    /// Path of the page: `/secret/`.
    root: String,
    policy: HeaderValue,
    run: RefCell<SoFar>,
    /// Event of the last second, once a reader has asked for it.
    event: RefCell<Option<Bytes>>,
    /// Number of seconds so far.
    told: watch::Sender<u64>,
    /// Directory of the result, once it is there.
    saved: RefCell<Option<PathBuf>>,
    connections: [Cell<u32>; 2],
    /// Readers of events, and those of them that still want the report.
    readers: Cell<u32>,
    /// True from a scrape on until one that has the end.
    is_scraped: Cell<bool>,
}

impl Site {
    fn new(page: Option<String>, secret: &str, run: SoFar) -> Self {
        let page = page.unwrap_or_default();
        let port = page.rsplit_once(':').map_or("", |(_, port)| port);
        Self {
            hosts: [format!("localhost:{port}"), page],
            root: format!("/{secret}/"),
            policy: HeaderValue::try_from(page::live_policy())
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
            run: RefCell::new(run),
            event: RefCell::new(None),
            told: watch::Sender::new(0),
            saved: RefCell::new(None),
            connections: [Cell::new(0), Cell::new(0)],
            readers: Cell::new(0),
            is_scraped: Cell::new(false),
        }
    }

    /// Take a second.
    fn add(&self, IntervalFrame { figures, stats }: IntervalFrame, seconds: Vec<ShardSecond>) {
        let merged: ShardStats = stats.unpacked();
        self.run.borrow_mut().add(&Interval {
            figures,
            merged,
            shards: Vec::new(),
            seconds,
        });
        self.event.take();
        self.told.send_modify(|seconds| *seconds += 1);
    }

    /// Event of the last second.
    fn event(&self) -> Bytes {
        let make = || {
            let json = page::second(&mut self.run.borrow_mut());
            let number = *self.told.borrow();
            Bytes::from(format!("event: second\nid: {number}\ndata: {json}\n\n"))
        };
        self.event.borrow_mut().get_or_insert_with(make).clone()
    }

    /// Wait until readers have taken the report, and scrapers the last counts.
    async fn end(&self) {
        if self.saved.borrow().is_none() {
            return;
        }
        let taken = async {
            let is_open = || self.connections.iter().any(|open| open.get() > 0);
            while self.readers.get() > 0 || self.is_scraped.get() || is_open() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(AT_END, taken).await;
    }

    fn answer(self: &Rc<Self>, request: &Request<Incoming>, part: Served) -> Response<Answer> {
        if let Err(status) = self.check(request, part) {
            return self.respond(status, "text/plain", String::new());
        }
        let path = request.uri().path();
        let answer = match (part, path.strip_prefix(&*self.root)) {
            (Served::Metrics, _) if path == "/metrics" => Some(self.metrics(request)),
            (Served::Page, Some("")) => {
                let page = page::live(&mut self.run.borrow_mut(), words::doc);
                Some(self.respond(StatusCode::OK, HTML, page))
            }
            (Served::Page, Some("events")) => {
                let (to, from) = mpsc::channel(1);
                spawn_local(Rc::clone(self).tell(to));
                let mut response = self.respond(StatusCode::OK, "text/event-stream", String::new());
                *response.body_mut() = Either::Right(Events(from));
                Some(response)
            }
            (Served::Page, Some("report")) => self.report(),
            (Served::Metrics | Served::Page, _) => None,
        };
        answer.unwrap_or_else(|| self.respond(StatusCode::NOT_FOUND, "text/plain", String::new()))
    }

    /// The page of the report; none before the end.
    fn report(&self) -> Option<Response<Answer>> {
        let page = self.saved.borrow().as_ref()?.join(PAGE);
        let mut response = self.respond(StatusCode::OK, HTML, std::fs::read_to_string(page).ok()?);
        // It has a policy of its own.
        response.headers_mut().remove(CONTENT_SECURITY_POLICY);
        self.readers.set(self.readers.get().saturating_sub(1));
        Some(response)
    }

    /// What is known of the run so far, and of its result once that is there.
    fn metrics(&self, request: &Request<Incoming>) -> Response<Answer> {
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        let format = Exposition::accepted(accept.unwrap_or_default());
        let saved = self.saved.borrow();
        let report = saved
            .as_ref()
            .and_then(|saved| result_dir::read(saved).ok());
        self.is_scraped.set(saved.is_none());
        let text = match report {
            Some(report) => openmetrics(&report, format),
            None => openmetrics_so_far(&mut self.run.borrow_mut(), format),
        };
        self.respond(StatusCode::OK, format.content_type(), text)
    }

    /// Refuse what no reader of the page sends.
    fn check(&self, request: &Request<Incoming>, part: Served) -> Result<(), StatusCode> {
        let headers = request.headers();
        let fields = headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + 4);
        if fields.sum::<usize>() + request.uri().to_string().len() > MOST_HEAD {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let mut hosts = headers.get_all(HOST).iter();
        let is_own = |host: &HeaderValue| self.hosts.iter().any(|own| host == own.as_str());
        let is_one = hosts.next().is_some_and(is_own) && hosts.next().is_none();
        if part == Served::Page && !is_one {
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

    fn respond(&self, status: StatusCode, kind: &'static str, text: String) -> Response<Answer> {
        let body = Full::new(Bytes::from(text));
        let mut response = Response::new(Either::Left(body));
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
        self.readers.set(self.readers.get() + 1);
        if !self.tell_to_the_end(to).await {
            self.readers.set(self.readers.get().saturating_sub(1));
        }
    }

    /// Tell it of each second and of the end; false if it went away before.
    async fn tell_to_the_end(&self, to: mpsc::Sender<Bytes>) -> bool {
        let mut told = self.told.subscribe();
        if *told.borrow_and_update() > 0 && to.send(self.event()).await.is_err() {
            return false;
        }
        while told.changed().await.is_ok() {
            let is_over = self.saved.borrow().is_some();
            let event = if is_over {
                Bytes::from_static(b"event: end\ndata: {}\n\n")
            } else {
                self.event()
            };
            if to.send(event).await.is_err() {
                return false;
            }
            if is_over {
                return true;
            }
        }
        false
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

async fn accept(listener: tokio::net::TcpListener, part: Served, site: Rc<Site>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Without descriptors, until some are closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let open = &site.connections[part as usize];
        if open.get() >= MOST_CONNECTIONS {
            continue;
        }
        open.set(open.get() + 1);
        let site = Rc::clone(&site);
        spawn_local(async move {
            let own = Rc::clone(&site);
            let answer = service_fn(move |request| {
                let response = own.answer(&request, part);
                async move { Ok::<_, Infallible>(response) }
            });
            // An idle connection would take the place of a reader, and hold up the end.
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(BUFFER)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = served.await;
            let open = &site.connections[part as usize];
            open.set(open.get() - 1);
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
                Ok(Some(Told::Second(second, shards))) => site.add(*second, shards),
                Ok(Some(Told::End(saved))) => {
                    site.saved.replace(Some(saved));
                    site.told.send_modify(|seconds| *seconds += 1);
                    return;
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
