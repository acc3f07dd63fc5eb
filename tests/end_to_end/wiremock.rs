//! The bundled target's stubs against WireMock itself: one directory of mapping files, one list of
//! requests, the same answers.
//!
//! What WireMock 3.13.2 answered is recorded in `wiremock/answers.json`, so that every machine
//! compares with it. `.ci/run` asks WireMock itself again, which tests the record; with
//! `RECORD_WIREMOCK=1` that test writes it again.
//!
//! Compared are the status, the headers and the body, or how the connection ended. Not compared are
//! the headers listed in [`TRANSPORT`], the reason phrase where there is a usual one (Jetty has its
//! own), and the body and type of a 404 that no stub asked for: WireMock explains there what came
//! close.

mod client;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::process::{DEADLINE, end_with_children, wait_for};
use crate::target::Target;

/// Headers about the connection and the moment, not about the stub; so are those of the target that
/// begin with `x-mock-`. `Matched-Stub-Id` is compared by its presence where the file gives no id:
/// WireMock makes one up.
const TRANSPORT: [&str; 5] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
];

/// The id in `mappings/nested/one-stub.json`.
const GIVEN_ID: &str = "6f9a3c1e-0000-4000-8000-000000000001";

/// One request of `requests.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default = "get")]
    method: String,
    target: String,
    #[serde(default = "host")]
    host: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
}

fn get() -> String {
    "GET".to_owned()
}

fn host() -> String {
    "target".to_owned()
}

/// What came back, as far as it is compared.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// An answer to its end.
    Whole(Whole),
    /// A 404 of no stub.
    Unmatched,
    /// A head, and a body that is no body.
    BrokenBody {
        /// The status of the head.
        status: u16,
    },
    /// Bytes that are not HTTP.
    NotHttp,
    /// The connection was closed without a byte.
    Empty,
    /// The connection was reset.
    Reset,
}

/// An answer to its end.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Whole {
    status: u16,
    /// Where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reason: Option<String>,
    /// Sorted, names in lower case.
    headers: Vec<String>,
    body: Body,
}

/// As text where it is one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Text(String),
    Base64(String),
}

#[test]
fn stubs_answer_as_wiremock_did() {
    let flags = format!("--processes 2 --stubs {}", fixture("").display());
    let target = Target::start(&format!("{flags} --allow-host target"));
    let requests = requests();
    let answers = ask_all(target.address(), &requests);
    assert_same("the target", &requests, &answers, &recorded());
}

#[test]
#[ignore = "needs WireMock and Java: .ci/run"]
fn wiremock_answers_as_recorded() {
    let (wiremock, requests) = (WireMock::start(&fixture("")), requests());
    let answers = ask_all(&wiremock.address, &requests);
    if std::env::var_os("RECORD_WIREMOCK").is_some() {
        let lines = answers
            .iter()
            .map(|answer| serde_json::to_string(answer).unwrap());
        let lines = lines.collect::<Vec<_>>().join(",\n");
        fs::write(fixture("answers.json"), format!("[\n{lines}\n]\n")).unwrap();
    }
    assert_same("WireMock", &requests, &answers, &recorded());
}

/// Says of every difference at once what was asked, what came and what should have come.
#[track_caller]
fn assert_same(whose: &str, requests: &[Asked], answers: &[Answer], expected: &[Answer]) {
    assert_eq!(
        requests.len(),
        expected.len(),
        "the record is of other requests: RECORD_WIREMOCK=1 makes a new one"
    );
    let all = requests.iter().zip(answers).zip(expected);
    let differences: Vec<String> = all
        .filter(|((_, answer), expected)| answer != expected)
        .map(|((asked, answer), expected)| {
            format!("{asked:?}\n  answered {answer:?}\n  recorded {expected:?}")
        })
        .collect();
    let (count, of) = (differences.len(), requests.len());
    assert!(
        differences.is_empty(),
        "{whose} differs in {count} of {of} answers:\n{}",
        differences.join("\n")
    );
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/end_to_end/wiremock")
        .join(name)
}

fn requests() -> Vec<Asked> {
    serde_json::from_str(&fs::read_to_string(fixture("requests.json")).unwrap()).unwrap()
}

fn recorded() -> Vec<Answer> {
    serde_json::from_str(&fs::read_to_string(fixture("answers.json")).unwrap()).unwrap()
}

fn ask_all(address: &str, requests: &[Asked]) -> Vec<Answer> {
    requests.iter().map(|asked| ask(address, asked)).collect()
}

/// One request on a connection of its own.
fn ask(address: &str, asked: &Asked) -> Answer {
    let Asked {
        method,
        target,
        host,
        headers,
        body,
    } = asked;
    let mut head = vec![
        format!("{method} {target} HTTP/1.1"),
        format!("Host: {host}"),
    ];
    // A fault closes the connection anyway, and WireMock's malformed chunk is one only where a
    // connection could go on.
    if !target.starts_with("/f/") {
        head.push("Connection: close".to_owned());
    }
    head.extend(
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    if !body.is_empty() {
        head.push(format!("Content-Length: {}", body.len()));
    }
    let request = head.join("\r\n") + "\r\n\r\n" + body;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(0) => Answer::Empty,
        Ok(_) => read(&answer, method),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Answer::Reset,
        Err(error) => panic!("{error} for {asked:?}"),
    }
}

fn read(answer: &[u8], method: &str) -> Answer {
    let end_of_head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let Some(end_of_head) = end_of_head else {
        return Answer::NotHttp;
    };
    let head: String = answer[..end_of_head]
        .iter()
        .copied()
        .map(char::from)
        .collect();
    let body = &answer[end_of_head + 4..];
    let (line, lines) = head.split_once("\r\n").unwrap_or((&head, ""));
    let Some((status, reason)) = line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|line| line.split_once(' '))
    else {
        return Answer::NotHttp;
    };
    let status: u16 = status.parse().unwrap();
    let fields: Vec<(String, &str)> = lines
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                value.strip_prefix(' ').unwrap_or(value),
            )
        })
        .collect();
    let field = |wanted: &str| {
        fields
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| *value)
    };
    let body = match (field("transfer-encoding"), field("content-length")) {
        _ if method == "HEAD" || status == 204 || status == 304 => Some(Vec::new()),
        (Some("chunked"), _) => dechunked(body),
        (_, Some(length)) => (length.parse() == Ok(body.len())).then(|| body.to_vec()),
        _ => Some(body.to_vec()),
    };
    let Some(body) = body else {
        return Answer::BrokenBody { status };
    };
    if status == 404 && field("matched-stub-id").is_none() {
        return Answer::Unmatched;
    }
    let mut headers: Vec<String> = fields
        .iter()
        .filter(|(name, _)| !TRANSPORT.contains(&name.as_str()) && !name.starts_with("x-mock-"))
        .map(|(name, value)| match name.as_str() {
            "matched-stub-id" if *value != GIVEN_ID => format!("{name}: some"),
            _ => format!("{name}: {value}"),
        })
        .collect();
    headers.sort();
    let is_compared = reason == "Short and stout" || reason == status.to_string();
    let reason = is_compared.then(|| reason.to_owned());
    let body = match String::from_utf8(body) {
        Ok(text) => Body::Text(text),
        Err(error) => Body::Base64(BASE64_STANDARD.encode(error.as_bytes())),
    };
    Answer::Whole(Whole {
        status,
        reason,
        headers,
        body,
    })
}

/// The content of a chunked body (RFC 9112, 7.1), if it is one.
fn dechunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|bytes| bytes == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).ok()?, 16).ok()?;
        body = &body[end + 2..];
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(body.get(..size)?);
        body = body.get(size + 2..)?;
    }
}

/// WireMock itself. Dropped, it is ended.
struct WireMock {
    child: Child,
    address: String,
    _place: TempDir,
}

impl WireMock {
    /// Start it on a free port.
    fn start(stubs: &Path) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let jar = root.join("target/wiremock/wiremock-standalone-3.13.2.jar");
        let place = tempfile::tempdir().unwrap();
        let said = place.path().join("stdout");
        let mut child = Command::new("java")
            .arg("-jar")
            .arg(jar)
            .args([
                "--port",
                "0",
                "--bind-address",
                "127.0.0.1",
                "--disable-banner",
            ])
            .arg("--root-dir")
            .arg(stubs)
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(File::create(&said).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = wait_for("WireMock's port", || {
            assert_eq!(child.try_wait().unwrap(), None, "WireMock ended");
            let said = fs::read_to_string(&said).unwrap();
            said.lines()
                .find_map(|line| Some(line.strip_prefix("port:")?.trim().to_owned()))
        });
        Self {
            child,
            address: format!("127.0.0.1:{port}"),
            _place: place,
        }
    }
}

impl Drop for WireMock {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}
