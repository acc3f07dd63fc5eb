//! A client that shares no code with the program: one connection, one request at a time, every
//! header as it came.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
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
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

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
        Self::of(TcpStream::connect(target.address()).unwrap())
    }

    /// From another address of this machine, of the target's family: all of 127.0.0.0/8 is.
    pub(crate) fn connect_from(target: &Target, source: impl Into<IpAddr>) -> Self {
        let address: SocketAddr = target.address().parse().unwrap();
        let family = if address.is_ipv4() {
            AddressFamily::Inet
        } else {
            AddressFamily::Inet6
        };
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(
            socket.as_raw_fd(),
            &SockaddrStorage::from(SocketAddr::new(source.into(), 0)),
        )
        .unwrap();
        connect(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
        Self::of(TcpStream::from(socket))
    }

    fn of(stream: TcpStream) -> Self {
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
        self.write(&format!("GET {path} HTTP/1.1\r\nhost: t\r\n{lines}\r\n"));
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
            "{method} /__admin{path} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
        self.receive().unwrap()
    }
}
