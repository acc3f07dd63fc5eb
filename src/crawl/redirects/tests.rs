//! Laws of redirects: what a crawl sends over connections in memory is what a browser would send
//! (Fetch), and retries repeat it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::clock::Clock;
use crawlmark_harness::fixtures::{permit_at, virtual_time};
use crawlmark_harness::sample::{ErrorKind, Fate, Outcome, Permit, Repeat, Sample};
use crawlmark_harness::workload::{Flight, Workload};
use http::header::{LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::uri::Authority;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use robotxt::{AccessResult, Agent, Robots};
use tokio::io::{DuplexStream, duplex};
use tokio::task::spawn_local;

use super::*;
use crate::crawl::{
    Crawl, CrawlOptions, CrawlSpec, Dial, Expectations, HoldHeader, HttpSettings, HttpVersion,
    RequestShape, Reuse, Route, Targets, Template,
};

/// The lines of the crawl, each with the path of its item. Item `6 + n` asks line `n`.
const LINES: [(&str, &str); 3] = [
    ("http://a.test/i/{id}/view?v=1", "/i/6/view?v=1"),
    ("http://b.test:81/{id}", "/7"),
    ("http://[::1]:82/x{id}?", "/x8?"),
];
const AUTHORITIES: [&str; 3] = ["a.test", "b.test:81", "[::1]:82"];
const CREDENTIALS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
];
const FOLLOW: u32 = 4;

/// A request as the target receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    host: usize,
    method: String,
    path: String,
    body: Vec<u8>,
    /// Number of credentials, and of headers that describe a body.
    credentials: usize,
    descriptions: usize,
    /// Value of a header with a place for the ID.
    id: String,
}

impl Received {
    fn new(host: usize, head: &Parts, body: &[u8]) -> Self {
        let value = |name: &str| Some(head.headers.get(name)?.to_str().unwrap());
        let number = |names: &[&str]| names.iter().filter(|name| value(name).is_some()).count();
        let authority = head.uri.authority().map(Authority::as_str);
        assert_eq!(authority.or(value("host")), Some(AUTHORITIES[host]));
        let length = value("content-length");
        assert!(length.is_none_or(|length| length == body.len().to_string()));
        Self {
            host,
            method: head.method.to_string(),
            path: head.uri.path_and_query().unwrap().to_string(),
            body: body.to_vec(),
            credentials: number(&CREDENTIALS),
            descriptions: number(&["content-type", "content-language"]),
            id: value("x-id").unwrap().to_owned(),
        }
    }
}

/// Form of a `Location`.
#[derive(Debug, Clone, Copy)]
enum Form {
    Absolute(usize),
    Mixed(usize),
    Network(usize),
    Path,
    Relative,
    Up,
    Here,
    Query,
    Fragment,
    Empty,
    Bytes,
    Space,
    /// Of another host than those of the plan, or forbidden by robots.txt.
    Elsewhere,
    Forbidden,
    /// Of no use.
    Unreadable,
    Missing,
}

/// Answer of the target.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Redirect(u16, Form),
    Status(u16),
    Cut,
}

/// State of a browser: the request that it sends next.
#[derive(Debug, Clone)]
struct Browser {
    host: usize,
    path: String,
    method: &'static str,
    has_body: bool,
    has_credentials: bool,
    redirects: u32,
}

impl Browser {
    fn request(&self, (id, body): (u64, &str)) -> Received {
        Received {
            host: self.host,
            method: self.method.to_owned(),
            path: self.path.clone(),
            body: if self.has_body {
                body.as_bytes().to_vec()
            } else {
                Vec::new()
            },
            credentials: if self.has_credentials {
                CREDENTIALS.len()
            } else {
                0
            },
            descriptions: if self.has_body { 2 } else { 0 },
            id: format!("<{id}>"),
        }
    }

    /// The `Location` of this form, and its host and path; none of one that is not followed.
    fn location(&self, form: Form) -> (Option<Vec<u8>>, Option<(usize, String)>) {
        let (path, _) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let directory = &path[..=path.rfind('/').unwrap()];
        let parent = &directory[..=directory.trim_end_matches('/').rfind('/').unwrap_or(0)];
        let here =
            |location: &[u8], path: String| (Some(location.to_vec()), Some((self.host, path)));
        let at = |host: usize, location: String, path: &str| {
            (Some(location.into_bytes()), Some((host, path.to_owned())))
        };
        match form {
            Form::Absolute(to) => at(
                to,
                format!("http://{}/abs?x=1#f", AUTHORITIES[to]),
                "/abs?x=1",
            ),
            Form::Mixed(to) => at(
                to,
                format!("HTTP://u:p@{}", AUTHORITIES[to].to_uppercase()),
                "/",
            ),
            Form::Network(to) => at(
                to,
                format!("//{}/n/{{id}}/", AUTHORITIES[to]),
                "/n/%7Bid%7D/",
            ),
            Form::Path => here(b"/p/q/r", "/p/q/r".to_owned()),
            Form::Relative => here(b"rel/", format!("{directory}rel/")),
            Form::Up => here(b"../up?a", format!("{parent}up?a")),
            Form::Here => here(b"./", directory.to_owned()),
            Form::Query => here(b"?q=1", format!("{path}?q=1")),
            Form::Fragment => here(b"#f", self.path.clone()),
            Form::Empty => here(b"", self.path.clone()),
            Form::Bytes => here(b"/\xff\xc3\xa9?\xfe", "/%FF%C3%A9?%FE".to_owned()),
            Form::Space => here(b"a b?c d", format!("{directory}a%20b?c%20d")),
            Form::Elsewhere => (Some(b"http://a.test:81/x".to_vec()), None),
            Form::Forbidden => (Some(b"/no/x".to_vec()), None),
            Form::Unreadable => (Some(b"http://[/".to_vec()), None),
            Form::Missing => (None, None),
        }
    }

    /// Receive an answer. Return true if there is another request.
    fn receive(&mut self, answer: Answer) -> bool {
        let is_idempotent = !matches!(self.method, "POST" | "PATCH");
        match answer {
            // Nothing was done: the next attempt repeats the request.
            Answer::Status(429 | 503) => true,
            Answer::Status(_) => false,
            Answer::Cut => is_idempotent,
            Answer::Redirect(status, form) => {
                let Some((host, path)) = self.location(form).1 else {
                    return false;
                };
                if self.redirects == FOLLOW {
                    return false;
                }
                let becomes_get = (status <= 302 && self.method == "POST")
                    || (status == 303 && self.method != "HEAD");
                if becomes_get {
                    (self.method, self.has_body) = ("GET", false);
                }
                self.has_credentials &= host == self.host;
                (self.host, self.path, self.redirects) = (host, path, self.redirects + 1);
                true
            }
        }
    }
}

/// State of a target.
#[derive(Debug)]
struct State {
    answers: VecDeque<Answer>,
    browser: Browser,
    received: Vec<Received>,
}

/// A target that answers requests one by one. It opens the connections, too.
#[derive(Debug, Clone)]
struct Target {
    state: Rc<RefCell<State>>,
    version: HttpVersion,
}

impl Dial for Target {
    type Stream = DuplexStream;

    async fn dial(&self, route: Route<'_>, _: &Flight) -> io::Result<DuplexStream> {
        let (near, far) = duplex(4 << 10);
        let (target, host) = (self.clone(), route.host);
        spawn_local(async move {
            match target.version {
                HttpVersion::Http2 => target.serve_2(far, host).await,
                _ => target.serve(far, host).await,
            }
        });
        Ok(near)
    }
}

impl Target {
    /// Return the answer to a request; none if the connection is cut.
    fn answer(&self, request: Received) -> Option<Response<Empty<Bytes>>> {
        let State {
            answers,
            browser,
            received,
        } = &mut *self.state.borrow_mut();
        received.push(request);
        let answer = answers.pop_front().unwrap_or(Answer::Status(200));
        let response = Response::builder();
        let response = match answer {
            Answer::Redirect(status, form) => {
                let location = browser.location(form).0;
                let response = response.status(status);
                location
                    .into_iter()
                    .fold(response, |response, value| response.header(LOCATION, value))
            }
            Answer::Status(status @ (429 | 503)) => response.status(status).header(RETRY_AFTER, 1),
            Answer::Status(status) => response.status(status),
            Answer::Cut => response.status(0),
        };
        browser.receive(answer);
        response.body(Empty::new()).ok()
    }

    async fn serve(self, stream: DuplexStream, host: usize) {
        let answer = service_fn(|request: Request<Incoming>| async {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let answer = self.answer(Received::new(host, &head, &body));
            answer.ok_or(io::Error::from(io::ErrorKind::BrokenPipe))
        });
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }

    async fn serve_2(self, stream: DuplexStream, host: usize) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let target = self.clone();
            spawn_local(async move {
                let (head, mut content) = request.into_parts();
                let mut body = Vec::new();
                while let Some(part) = content.data().await {
                    body.extend(part.unwrap());
                }
                match target.answer(Received::new(host, &head, &body)) {
                    None => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                    Some(response) => {
                        let response = response.map(|_| ());
                        respond.send_response(response, true).unwrap();
                    }
                }
            });
        }
    }
}

/// Crawl the item of a line, whose requests are answered so. Return its outcome, the requests that
/// the target received, and those of a browser.
fn crawl(
    (line, method, has_body): (usize, &'static str, bool),
    answers: &[Answer],
    version: HttpVersion,
) -> (Outcome, Vec<Received>, Vec<Received>) {
    let id = 6 + line as u64;
    let mut headers = vec!["x-id: <{id}>".to_owned()];
    headers.extend(CREDENTIALS.map(|name| format!("{name}: hidden")));
    headers.extend([
        "content-type: text/plain".to_owned(),
        "content-language: en".to_owned(),
    ]);
    let body = if has_body { "item={id}" } else { "" };
    let rules = AccessResult::Successful(b"user-agent: *\ndisallow: /no/");
    let rules = vec![Some(Robots::from_access(rules, Agent::Exact("x"))); LINES.len()];
    let spec = CrawlSpec {
        addresses: vec![vec![SocketAddr::from(([192, 0, 2, 1], 80))]; LINES.len()],
        targets: Arc::new(Targets::collect(LINES.map(|(url, _)| url.parse::<Template>())).unwrap()),
        request: RequestShape::new(method, &headers, Bytes::from(body)).unwrap(),
        expect: Expectations::default(),
        timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(10),
        reuse: Reuse::default(),
        local_ips: None,
        held: HoldHeader::Ignored,
        tls: None,
        proxies: None,
        http: HttpSettings {
            version,
            streams: 1,
        },
        options: CrawlOptions {
            follow: FOLLOW,
            robots: Some(Arc::new(rules)),
            ..CrawlOptions::default()
        },
    };
    let path = LINES[line].1.to_owned();
    let first = Browser {
        host: line,
        path,
        method,
        has_body: true,
        has_credentials: true,
        redirects: 0,
    };
    let (mut browser, mut expected, sent_body) = (
        first.clone(),
        Vec::new(),
        body.replace("{id}", &id.to_string()),
    );
    for answer in answers.iter().copied().chain([Answer::Status(200)]) {
        expected.push(browser.request((id, &sent_body)));
        if !browser.receive(answer) {
            break;
        }
    }
    let state = State {
        answers: answers.iter().copied().collect(),
        browser: first,
        received: Vec::new(),
    };
    let target = Target {
        state: Rc::new(RefCell::new(state)),
        version,
    };
    let outcome = virtual_time().block_on(async {
        let clock = Clock::start();
        let (crawl, flight) = (
            Crawl::over(target.clone(), spec, 1, clock),
            Flight::default(),
        );
        let now = clock.now();
        let permit = Permit {
            id,
            ..permit_at(now)
        };
        for _ in 0..=answers.len() {
            let mut attempt = crawl.unsent(ErrorKind::Io);
            let cleared = async || Some(clock.now());
            let performed = crawl.perform(id, &flight, &cleared, &mut attempt);
            performed.await.unwrap();
            let (outcome, is_again) = (attempt.outcome, attempt.advice.repeat != Repeat::Never);
            let fate = if is_again { Fate::Again } else { Fate::Ended };
            crawl.booked(&Sample {
                permit,
                attempt,
                fate,
            });
            if !is_again {
                assert!(
                    crawl.redirects.of(id).is_none(),
                    "an item that ended is forgotten"
                );
                return outcome;
            }
        }
        unreachable!("more attempts than answers")
    });
    let received = target.state.borrow().received.clone();
    (outcome, received, expected)
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

fn any_form() -> impl Strategy<Value = Form> {
    use Form::*;
    let within = [
        Path, Relative, Up, Here, Query, Fragment, Empty, Bytes, Space,
    ];
    let last = [Elsewhere, Forbidden, Unreadable, Missing];
    prop_oneof![
        10 => prop::sample::select(within.to_vec()),
        6 => (prop::sample::select(vec![Absolute, Mixed, Network]), 0..LINES.len()).prop_map(|(form, host)| form(host)),
        1 => prop::sample::select(last.to_vec()),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => (prop::sample::select(STATUSES.to_vec()), any_form()).prop_map(|(status, form)| Answer::Redirect(status, form)),
        2 => prop::sample::select(vec![429, 503]).prop_map(Answer::Status),
        1 => Just(Answer::Cut),
        1 => prop::sample::select(vec![200, 404]).prop_map(Answer::Status),
    ]
}

proptest! {
    #[test]
    fn a_crawl_sends_what_a_browser_would_and_retries_repeat_it(
        line in 0..LINES.len(), method in prop::sample::select(METHODS.to_vec()), has_body: bool, is_2: bool,
        answers in prop::collection::vec(any_answer(), 0..8),
    ) {
        let version = if is_2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
        let (_, received, expected) = crawl((line, method, has_body), &answers, version);
        prop_assert_eq!(received, expected);
    }

    #[test]
    fn any_location_is_a_path_of_a_host_or_refused(location in "\\PC{0,30}", tail in "[a-z./:@\\[\\]?#% ]{0,30}") {
        let hosts = Targets::collect(LINES.map(|(url, _)| url.parse::<Template>())).unwrap();
        let redirects = Redirects::among(hosts.hosts());
        for text in [location, format!("http://{tail}"), format!("//a.test{tail}"), tail] {
            if let Ok((host, path)) = redirects.resolve(text.as_bytes(), 0, "/b/c") {
                prop_assert!(host < LINES.len() && path.starts_with('/'), "{}", path);
                prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", path);
            }
        }
    }
}

#[test]
fn a_redirect_that_is_not_followed_has_a_reason() {
    for (form, outcome) in [
        (Form::Elsewhere, Outcome::Error(ErrorKind::RedirectRefused)),
        (Form::Forbidden, Outcome::Error(ErrorKind::RobotsForbidden)),
        (Form::Unreadable, Outcome::Rejected),
        (Form::Missing, Outcome::Rejected),
    ] {
        let (found, received, _) = crawl(
            (0, "GET", false),
            &[Answer::Redirect(302, form)],
            HttpVersion::Http1,
        );
        assert_eq!((found, received.len()), (outcome, 1), "{form:?}");
    }
    let chain = [Answer::Redirect(307, Form::Path); FOLLOW as usize + 1];
    let (found, received, _) = crawl((0, "GET", false), &chain, HttpVersion::Http2);
    assert_eq!(
        (found, received.len()),
        (Outcome::Error(ErrorKind::TooManyRedirects), chain.len())
    );
}

#[test]
fn a_host_that_is_refused_is_named_without_secrets_and_one_of_the_plan_is_found_however_it_is_written()
 {
    let urls = ["http://a.test/", "https://127.1/", "http://[0:0::1]:81/"];
    let targets = Targets::collect(urls.map(str::parse::<Template>)).unwrap();
    let redirects = Redirects::among(targets.hosts());
    let refused = |name: &str| Err(RedirectRefusal::OtherHost(name.to_owned()));
    for (location, resolved) in [
        (
            "https://user:hidden@b.test:8443/x?token=1",
            refused("https://b.test:8443"),
        ),
        ("//[::1]/", refused("http://[::1]")),
        ("mailto:x@a.test?x", refused("mailto:")),
        ("HTTP://A.TEST:80", Ok((0, "/".to_owned()))),
        ("https://127.0.0.1:443/y", Ok((1, "/y".to_owned()))),
        ("http://[::1]:81?z", Ok((2, "/?z".to_owned()))),
        (&"a".repeat(MOST_BYTES), Err(RedirectRefusal::NoUrl)),
    ] {
        assert_eq!(
            redirects.resolve(location.as_bytes(), 0, "/"),
            resolved,
            "{location}"
        );
    }
}
