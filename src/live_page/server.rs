//! The process that serves a run: HTTP/1.1 for GET alone.
//!
//! Its page is on loopback below a secret path; its metrics, which have no secret in them, are at
//! `/metrics` of the address that the user named, and nothing else is there.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::wire::{FrameDecoder, IntervalFrame};
use crawlmark_results::export::{Exposition, openmetrics, openmetrics_so_far};
use crawlmark_results::judge::SoFar;
use crawlmark_results::run::result_dir::{self, PAGE};
use crawlmark_results::show::page::{Live, Seen};
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
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{LocalSet, spawn_local};

use super::{AT_END, BEGINS, Listening, MOST_PART, Told};

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
    channel: OwnedFd,
    page: Option<Listening>,
    metrics: Option<Listening>,
    secret: &str,
    live: Live,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let address = page.as_ref().map(|page| page.address.to_string());
        let site = Rc::new(Site::new(address, secret, live));
        for (listening, part) in [(page, Served::Page), (metrics, Served::Metrics)] {
            if let Some(Listening { listener, .. }) = listening {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                spawn_local(accept(listener, part, Rc::clone(&site)));
            }
        }
        let heard = listen(channel, &site).await;
        site.end().await;
        heard
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
    live: RefCell<Live>,
    /// Number of messages so far.
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
    fn new(page: Option<String>, secret: &str, live: Live) -> Self {
        let page = page.unwrap_or_default();
        let port = page.rsplit_once(':').map_or("", |(_, port)| port);
        Self {
            hosts: [format!("localhost:{port}"), page],
            root: format!("/{secret}/"),
            policy: HeaderValue::try_from(Live::policy())
                .unwrap_or(HeaderValue::from_static("default-src 'none'")),
            live: RefCell::new(live),
            told: watch::Sender::new(0),
            saved: RefCell::new(None),
            connections: [Cell::new(0), Cell::new(0)],
            readers: Cell::new(0),
            is_scraped: Cell::new(false),
        }
    }

    fn take(&self, told: Told) {
        let mut live = self.live.borrow_mut();
        match told {
            Told::Begin(report) => {
                if let Some(run) = SoFar::of_json(&report) {
                    live.begin(run);
                }
            }
            Told::Step(step) => live.set_step(step),
            Told::Second(frame, seconds) => {
                if let Some(run) = live.run() {
                    let IntervalFrame { figures, stats } = *frame;
                    run.add(&Interval {
                        figures,
                        merged: stats.unpacked(),
                        shards: Vec::new(),
                        seconds,
                    });
                }
            }
            Told::Document(title, main) => live.show(title, main),
            Told::End(saved) => drop(self.saved.replace(Some(saved))),
        }
        self.told.send_modify(|told| *told += 1);
    }

    /// Wait until readers have taken the report, and scrapers the last counts.
    async fn end(&self) {
        if self.saved.borrow().is_none() {
            // What was told last is written.
            return tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let taken = async {
            while self.readers.get() > 0
                || self.is_scraped.get()
                || self.connections.iter().any(|open| open.get() > 0)
            {
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
                let page = self.live.borrow_mut().page();
                Some(self.respond(StatusCode::OK, HTML, page))
            }
            (Served::Page, Some("events")) => {
                let (to, from) = mpsc::channel(1);
                spawn_local(Rc::clone(self).tell(to, seen(request)));
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
        let accept = request
            .headers()
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok());
        let format = Exposition::accepted(accept.unwrap_or_default());
        let saved = self.saved.borrow();
        let report = saved
            .as_ref()
            .and_then(|saved| result_dir::read(saved).ok());
        self.is_scraped.set(saved.is_none());
        let mut live = self.live.borrow_mut();
        let text = report
            .map(|report| openmetrics(&report, format))
            .or_else(|| live.run().map(|run| openmetrics_so_far(run, format)));
        self.respond(
            StatusCode::OK,
            format.content_type(),
            text.unwrap_or_default(),
        )
    }

    /// Refuse what no reader of the page sends.
    fn check(&self, request: &Request<Incoming>, part: Served) -> Result<(), StatusCode> {
        let headers = request.headers();
        let fields: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        if fields + request.uri().to_string().len() > MOST_HEAD {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let hosts: Vec<&HeaderValue> = headers.get_all(HOST).iter().collect();
        let is_own =
            matches!(hosts[..], [host] if self.hosts.iter().any(|own| host == own.as_str()));
        if part == Served::Page && !is_own {
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

    /// Tell a reader of what it lacks, each second. One that does not read is told nothing more until
    /// it does, and then of all that it missed: one event waits for it at most.
    async fn tell(self: Rc<Self>, to: mpsc::Sender<Bytes>, seen: Option<Seen>) {
        self.readers.set(self.readers.get() + 1);
        if !self.tell_to_the_end(&to, seen).await {
            self.readers.set(self.readers.get().saturating_sub(1));
        }
    }

    /// False if it went away before the end.
    async fn tell_to_the_end(&self, to: &mpsc::Sender<Bytes>, mut seen: Option<Seen>) -> bool {
        let mut told = self.told.subscribe();
        told.mark_changed();
        while told.changed().await.is_ok() {
            let is_over = self.saved.borrow().is_some();
            let (mut events, now) = self.live.borrow_mut().events(seen);
            seen = Some(now);
            if is_over {
                events += "event: end\ndata: {}\n\n";
            }
            if !events.is_empty() && to.send(Bytes::from(events)).await.is_err() {
                return false;
            }
            if is_over {
                return true;
            }
        }
        false
    }
}

/// What a reader of events has: that of its last event, or of its page.
fn seen(request: &Request<Incoming>) -> Option<Seen> {
    let last = request
        .headers()
        .get("last-event-id")
        .and_then(|id| id.to_str().ok());
    let page = request
        .uri()
        .query()
        .and_then(|query| query.strip_prefix("since="));
    last.or(page)?.parse().ok()
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

/// Take what is told until the run is over, or nobody is left to tell.
async fn listen(channel: OwnedFd, site: &Site) -> io::Result<()> {
    let channel = UnixStream::from_std(channel.into())?;
    let (mut decoder, mut message) = (FrameDecoder::default(), vec![0; 1 + MOST_PART]);
    loop {
        channel.readable().await?;
        // A message each: another may be there, however short this one is.
        let read = match channel.try_read(&mut message) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        if message[0] == BEGINS {
            decoder = FrameDecoder::default();
        }
        decoder.push(&message[1..read]);
        if let Ok(Some(told)) = decoder.next_frame() {
            site.take(told);
            if site.saved.borrow().is_some() {
                return Ok(());
            }
        }
    }
}
