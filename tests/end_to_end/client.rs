//! A client that shares no code with the program: one connection, one request at a time, every
//! header as it came.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::process::DEADLINE;
use crate::target::Target;

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer: its status, its header fields by their names in lower case, its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

impl Client {
    pub(crate) fn connect(target: &Target) -> Self {
        let stream = TcpStream::connect(target.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// The port at this end.
    pub(crate) fn port(&self) -> u16 {
        self.reader.get_ref().local_addr().unwrap().port()
    }

    /// Sends a request whose head has these further lines.
    pub(crate) fn send(&mut self, path: &str, lines: &str) {
        self.write(&format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n"
        ));
    }

    fn write(&mut self, request: &str) {
        // A connection that was turned away may be closed before.
        let _ = self.reader.get_mut().write_all(request.as_bytes());
    }

    /// None if the connection ends instead.
    pub(crate) fn receive(&mut self) -> Option<Answer> {
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers = BTreeMap::new();
        while let Some((name, value)) = self.line()?.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![
            0;
            headers
                .get("content-length")
                .map_or(0, |length| length.parse().unwrap())
        ];
        self.reader.read_exact(&mut body).ok()?;
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str, lines: &str) -> Answer {
        self.send(path, lines);
        self.receive().unwrap()
    }

    /// Asks an admin route, given as `POST /mappings`.
    #[track_caller]
    pub(crate) fn admin(&mut self, order: &str, body: &str) -> Answer {
        let (method, path) = order.split_once(' ').unwrap();
        let length = body.len();
        self.write(&format!(
            "{method} /__admin{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
        self.receive().unwrap()
    }
}
