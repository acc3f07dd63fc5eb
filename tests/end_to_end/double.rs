//! The crawl against an independent double: a server that shares no code with the bundled one says
//! what it was sent, and answers with statuses that the bundled one does not know.
#![expect(clippy::unwrap_used, reason = "a test without its double is over")]

use std::collections::BTreeSet;
use std::time::Duration;

use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::report::Report;
use crate::run::{ONE_ATTEMPT, Run};

/// A double that always answers with `answer`, on a thread of its own.
async fn double(answer: ResponseTemplate) -> MockServer {
    // Not from the pool, whose servers live on with what the last test left in them.
    let server = MockServer::builder().start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

/// Crawls `path` on the double, with one attempt for each item.
fn crawl(server: &MockServer, path: &str, flags: &[&str]) -> Report {
    let url = format!("http://{}{path}", server.address());
    Run::start(
        [url.as_str()]
            .into_iter()
            .chain(ONE_ATTEMPT.split(' '))
            .chain(flags.iter().copied()),
    )
    .end()
    .report(0)
}

async fn received(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

fn header<'a>(request: &'a Request, name: &str) -> Vec<&'a str> {
    request
        .headers
        .get_all(name)
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_status_is_the_state_that_it_means() {
    let status = ResponseTemplate::new;
    for (name, answer, code, state) in [
        ("empty", status(200), "200", "ok"),
        (
            "text",
            status(200).set_body_string("not json at all"),
            "200",
            "ok",
        ),
        (
            "large",
            status(200).set_body_bytes(vec![b'x'; 1 << 20]),
            "200",
            "ok",
        ),
        ("created", status(201).set_body_string("{}"), "201", "ok"),
        ("no content", status(204), "204", "ok"),
        (
            "not found",
            status(404).set_body_string("no"),
            "404",
            "not_found",
        ),
        ("gone", status(410), "410", "not_found"),
        (
            "too many",
            status(429).insert_header("retry-after", "1"),
            "429",
            "gave_up",
        ),
        ("too many without a time", status(429), "429", "gave_up"),
        (
            "overload",
            status(503).insert_header("Retry-After", "120"),
            "503",
            "gave_up",
        ),
        ("outage", status(503), "503", "failed"),
        (
            "error",
            status(500).set_body_string("oops"),
            "500",
            "failed",
        ),
        (
            "moved",
            status(301).insert_header("location", "/elsewhere"),
            "301",
            "failed",
        ),
        (
            "found",
            status(302).insert_header("location", "http://192.0.2.1/"),
            "302",
            "failed",
        ),
        ("not modified", status(304), "304", "failed"),
        ("bad request", status(400), "400", "failed"),
        ("forbidden", status(403), "403", "failed"),
        ("odd", status(599), "599", "failed"),
    ] {
        let server = double(answer).await;
        let report = crawl(
            &server,
            "/{id}",
            &["--ids", "0..12", "--shards", "2", "-c", "4"],
        );
        report.assert_states(&[(state, 12)]);
        assert_eq!(report.statuses(), [(code.to_owned(), 12)].into(), "{name}");
        assert!(report.errors().is_empty(), "{name}: {:?}", report.errors());
        assert_eq!(
            report.count("/totals/throttled"),
            if state == "gave_up" { 12 } else { 0 },
            "{name}"
        );
        // Nothing is retried and no redirect is followed.
        let paths: BTreeSet<String> = received(&server)
            .await
            .iter()
            .map(|r| r.url.path().to_owned())
            .collect();
        assert_eq!(
            paths,
            (0..12).map(|id| format!("/{id}")).collect(),
            "{name}"
        );
        assert_eq!(received(&server).await.len(), 12, "{name}");
        // Bodies and heads.
        let (bodies, received) = (
            if name == "large" { 12 << 20 } else { 0 },
            report.count("/totals/bytes_received"),
        );
        assert!(
            (bodies + 12 * 10..bodies + 12 * 1_000).contains(&received),
            "{name}: {received}"
        );
    }
}

#[tokio::test]
async fn a_request_arrives_as_it_was_asked_for() {
    let server = double(ResponseTemplate::new(200)).await;
    let place = tempfile::tempdir().unwrap();
    let body_file = place.path().join("body");
    std::fs::write(&body_file, b"\0\xff\n").unwrap();
    let flags = [
        "--ids",
        "5..8",
        "--shards",
        "1",
        "-c",
        "1",
        "-m",
        "POST",
        "--body",
        "a=1&b=\u{e9}",
        "-H",
        "X-Token: s3cret",
        "-H",
        "x-many: 1",
        "-H",
        "x-many: 2",
        "-H",
        "user-agent: me/2",
        "-H",
        "accept:text/plain",
    ];
    let report = crawl(&server, "/deep/{id}/tail", &flags);
    report.assert_states(&[("ok", 3)]);
    let requests = received(&server).await;
    let paths: Vec<&str> = requests.iter().map(|request| request.url.path()).collect();
    assert_eq!(paths, ["/deep/5/tail", "/deep/6/tail", "/deep/7/tail"]);
    for request in &requests {
        assert_eq!(request.method.as_str(), "POST");
        assert_eq!(request.body, "a=1&b=\u{e9}".as_bytes());
        assert_eq!(header(request, "content-length"), ["8"]);
        assert_eq!(header(request, "x-token"), ["s3cret"]);
        assert_eq!(header(request, "x-many"), ["1", "2"]);
        assert_eq!(header(request, "user-agent"), ["me/2"]);
        assert_eq!(header(request, "accept"), ["text/plain"]);
        assert_eq!(header(request, "host"), [server.address().to_string()]);
    }
    assert_eq!(report.text("/plan/workload/method"), "POST");
    for (text, sent) in [
        (format!("@{}", body_file.display()), &b"\0\xff\n"[..]),
        ("@@x".to_owned(), b"@x"),
    ] {
        let server = double(ResponseTemplate::new(200)).await;
        crawl(
            &server,
            "/{id}",
            &["--ids", "0..2", "--shards", "1", "-c", "1", "--body", &text],
        );
        let requests = received(&server).await;
        assert!(
            requests
                .iter()
                .all(|request| request.body == sent && request.method.as_str() == "POST"),
            "{text}"
        );
        assert_eq!(requests.len(), 2);
    }
    // A header's value may be a secret, and a result is there to be shown around.
    assert!(!report.json().to_string().contains("s3cret"));
}

#[tokio::test]
async fn a_request_names_the_tool_and_carries_nothing_else_unless_told_to() {
    let server = double(ResponseTemplate::new(200)).await;
    crawl(&server, "/{id}", &["-n", "1", "--shards", "1", "-c", "1"]).assert_states(&[("ok", 1)]);
    let [request] = &received(&server).await[..] else {
        panic!("one request was asked for")
    };
    assert_eq!(request.method.as_str(), "GET");
    assert_eq!(
        header(request, "user-agent"),
        [concat!("crawlmark/", env!("CARGO_PKG_VERSION"))]
    );
    let names: BTreeSet<&str> = request.headers.keys().map(AsRef::as_ref).collect();
    assert_eq!(names, ["accept", "host", "user-agent"].into());
    assert!(request.body.is_empty());
}

#[tokio::test]
async fn an_id_may_stand_in_path_or_query_or_nowhere() {
    let server = double(ResponseTemplate::new(200)).await;
    for (template, expected) in [
        (
            "/find?id={id}&full=1",
            ["/find?id=3&full=1", "/find?id=4&full=1"],
        ),
        ("/items", ["/items", "/items"]),
        ("/items/?page=2", ["/items/?page=2", "/items/?page=2"]),
        ("", ["/", "/"]),
        ("/a%20b/{id}.json", ["/a%20b/3.json", "/a%20b/4.json"]),
    ] {
        server.reset().await;
        Mock::given(any())
            .respond_with(ResponseTemplate::new(200))
            .mount(&server)
            .await;
        crawl(
            &server,
            template,
            &["--ids", "3..=4", "--shards", "1", "-c", "1"],
        )
        .assert_states(&[("ok", 2)]);
        let query =
            |query: Option<&str>| query.map_or_else(String::new, |query| format!("?{query}"));
        let asked: Vec<String> = received(&server)
            .await
            .iter()
            .map(|r| r.url.path().to_owned() + &query(r.url.query()))
            .collect();
        assert_eq!(asked, expected, "{template}");
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_to_wait_for() {
    let server =
        double(ResponseTemplate::new(200).set_body_string("a body that is not sent")).await;
    let report = crawl(
        &server,
        "/{id}",
        &["-n", "5", "--shards", "1", "-c", "1", "-m", "HEAD"],
    );
    report.assert_states(&[("ok", 5)]);
    assert_eq!(report.count("/totals/connections_opened"), 1);
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_a_timeout() {
    let server = double(ResponseTemplate::new(200).set_delay(Duration::from_hours(1))).await;
    let report = crawl(
        &server,
        "/{id}",
        &["-n", "6", "--shards", "2", "-c", "4", "--timeout", "100ms"],
    );
    report.assert_states(&[("failed", 6)]);
    assert_eq!(report.errors(), [("timeout".to_owned(), 6)].into());
    assert!(report.statuses().is_empty());
    assert_eq!(report.count("/latency/service/censored"), 6);
    // A connection that still owes an answer is not used again.
    assert_eq!(report.count("/totals/connections_opened"), 6);
}
