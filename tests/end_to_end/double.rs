//! The crawl against an independent double: a server that shares no code with the bundled one says
//! what it was sent, and answers with statuses that the bundled one does not know.

use std::collections::BTreeSet;

use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::report::Report;
use crate::run;

/// A double that always answers with `answer`, on a thread of its own.
async fn double(answer: ResponseTemplate) -> MockServer {
    // Not from the pool, whose servers live on with what the last test left in them.
    let server = MockServer::builder().start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
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

/// Crawl `path` on the double, with one attempt for each item.
fn crawl(server: &MockServer, path: &str, flags: &str) -> Report {
    let url = format!("http://{}{path}", server.address());
    run::crawl_once(&format!("{url} {flags}"))
}

#[tokio::test]
async fn a_status_is_the_state_that_it_means() {
    let text = "not json at all";
    for (status, header, body, state) in [
        (200, None, "", "ok"),
        (200, None, text, "ok"),
        (201, None, "{}", "ok"),
        (204, None, "", "ok"),
        (404, None, "no", "not_found"),
        (410, None, "", "not_found"),
        (429, None, "", "gave_up"),
        (503, Some(("Retry-After", "120")), "", "gave_up"),
        (503, None, "", "failed"),
        (500, None, "oops", "failed"),
        (301, Some(("location", "/elsewhere")), "", "failed"),
        (304, None, "", "failed"),
        (403, None, "", "failed"),
        (599, None, "", "failed"),
    ] {
        let mut answer = ResponseTemplate::new(status).set_body_string(body);
        if let Some((name, value)) = header {
            answer = answer.insert_header(name, value);
        }
        let server = double(answer).await;
        let report = crawl(&server, "/{id}", "--ids 0..12 --shards 2 -c 4");
        report.assert_states(&[(state, 12)]);
        assert_eq!(report.statuses(), [(status.to_string(), 12)].into());
        assert!(
            report.errors().is_empty(),
            "{status}: {:?}",
            report.errors()
        );
        let throttled = if state == "gave_up" { 12 } else { 0 };
        report.holds(&json!({"/totals/throttled": throttled}));
        // Nothing is retried and no redirect is followed.
        let mut paths: Vec<String> = received(&server)
            .await
            .iter()
            .map(|request| request.url.path().to_owned())
            .collect();
        paths.sort();
        let mut expected: Vec<String> = (0..12).map(|id| format!("/{id}")).collect();
        expected.sort();
        assert_eq!(paths, expected, "{status}");
    }
}

#[tokio::test]
async fn a_request_arrives_as_it_was_asked_for() {
    let server = double(ResponseTemplate::new(200)).await;
    let flags = "--ids 5..8 --shards 1 -c 1 -m POST --body 'a=1&b=\u{e9}' -H 'X-Token: s3cret' \
                 -H 'x-many: 1' -H 'x-many: 2' -H 'user-agent: me/2' -H accept:text/plain";
    let report = crawl(&server, "/deep/{id}/tail", flags);
    report.assert_states(&[("ok", 3)]);
    let requests = received(&server).await;
    for (request, id) in requests.iter().zip(5..8) {
        assert_eq!(request.url.path(), format!("/deep/{id}/tail"));
        assert_eq!(request.method.as_str(), "POST");
        assert_eq!(request.body, "a=1&b=\u{e9}".as_bytes());
        let address = server.address().to_string();
        for (name, values) in [
            ("content-length", &["8"][..]),
            ("x-token", &["s3cret"]),
            ("x-many", &["1", "2"]),
            ("user-agent", &["me/2"]),
            ("accept", &["text/plain"]),
            ("host", &[&address]),
        ] {
            assert_eq!(header(request, name), values, "{name}");
        }
    }
    // The value of a header may be a secret.
    assert!(!report.json().to_string().contains("s3cret"));
    let place = tempfile::tempdir().unwrap();
    let body = place.path().join("body");
    std::fs::write(&body, b"\0\xff\n").unwrap();
    let file = format!("@{}", body.display());
    for (text, sent) in [(file.as_str(), &b"\0\xff\n"[..]), ("@@x", b"@x")] {
        let server = double(ResponseTemplate::new(200)).await;
        crawl(&server, "/{id}", &format!("-n 2 -s 1 -c 1 --body {text}"));
        let requests = received(&server).await;
        assert!(requests.len() == 2 && requests.iter().all(|request| request.body == sent));
    }
    // Without flags, a request names the tool and carries nothing else.
    let server = double(ResponseTemplate::new(200).set_body_string("not sent")).await;
    let report = crawl(&server, "/{id}", "-n 5 --shards 1 -c 1 -m HEAD");
    report.assert_states(&[("ok", 5)]);
    report.holds(&json!({"/totals/connections_opened": 1}));
    let request = &received(&server).await[0];
    let tool = concat!("crawlmark/", env!("CARGO_PKG_VERSION"));
    assert_eq!(header(request, "user-agent"), [tool]);
    let names: BTreeSet<&str> = request.headers.keys().map(AsRef::as_ref).collect();
    assert_eq!(names, ["accept", "host", "user-agent"].into());
}
