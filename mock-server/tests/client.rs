//! A target on a thread, and a client that shares no code with it.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crawlmark_mock_server::{Config, Handle, items, serve};
use hyper::rt::Executor;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Far beyond what any test waits for: it ends a test that would otherwise hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn start(config: Config) -> Handle {
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), config).unwrap()
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Everything until the end; a reset is an end, too.
pub(crate) fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// The body of an item.
pub(crate) fn body(seed: u64, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    items::write_body(seed, id, &mut body);
    body
}

/// The first line and the headers of a message; nothing if the connection has ended.
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Head {
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = || {
            let mut line = String::new();
            // A reset is an end, too: the other side may close with bytes of ours unread.
            let length = reader.read_line(&mut line).unwrap_or_default();
            (length > 0).then(|| line.trim_end().to_owned())
        };
        let first = line()?;
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = line().unwrap().split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        Some(Self {
            line: first,
            headers,
        })
    }
}

/// An answer by its `Content-Length`.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The intended and the actual hold, if it was held; an answer has both headers or neither.
    pub(crate) fn held_us(&self) -> Option<(u64, u64)> {
        let header = |name| Some(self.headers.get(name)?.parse().unwrap());
        let both = (header("x-mock-hold-us"), header("x-mock-held-us"));
        assert_eq!(both.0.is_some(), both.1.is_some());
        both.0.zip(both.1)
    }
}

/// A connection on which everything is as it comes.
pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let reader = BufReader::new(connect(address));
        Self { reader }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, path: &str) {
        self.write(&format!("{method} {path} HTTP/1.1\r\nHost: target\r\n\r\n"));
    }

    /// `None` if the connection was closed without an answer.
    pub(crate) fn request(&mut self, method: &str, path: &str) -> Option<Answer> {
        self.send(method, path);
        self.receive(method)
    }

    pub(crate) fn receive(&mut self, method: &str) -> Option<Answer> {
        let Head { line, headers } = Head::read(&mut self.reader)?;
        let length = headers
            .get("content-length")
            .filter(|_| method != "HEAD")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        Some(Answer {
            status: line.split(' ').nth(1).unwrap().parse().unwrap(),
            headers,
            body,
        })
    }

    /// Everything until the end of the connection.
    pub(crate) fn rest(&mut self) -> Result<Vec<u8>, ErrorKind> {
        let mut bytes = Vec::new();
        let read = self.reader.read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|error| error.kind())
    }
}

/// Runs the tasks of an HTTP/2 client.
#[derive(Clone)]
pub(crate) struct Local;

impl<Task: Future<Output = ()> + 'static> Executor<Task> for Local {
    fn execute(&self, task: Task) {
        tokio::task::spawn_local(task);
    }
}
