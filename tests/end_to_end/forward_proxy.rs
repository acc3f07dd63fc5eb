//! A forward proxy that shares no code with the crawl: a second witness of what goes through it.

#![expect(clippy::disallowed_methods, reason = "the tests fork no shard")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::scripted::Peer;

/// Counts of a proxy.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProxyCounts {
    /// Requests to be forwarded.
    pub(crate) requests: u64,
    /// Requests for a tunnel.
    pub(crate) tunnels: u64,
    /// Both by session label, as in `user-session-LABEL`.
    pub(crate) sessions: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct State {
    counts: ProxyCounts,
    open: Vec<TcpStream>,
    is_over: bool,
}

/// A proxy that serves until it is dropped.
pub(crate) struct ForwardProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl ForwardProxy {
    /// Start one for user `user` with this password, or for anyone.
    pub(crate) fn start(password: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = of_thread.lock().unwrap();
                if state.is_over {
                    return;
                }
                stream.set_nodelay(true).unwrap();
                state.open.push(stream.try_clone().unwrap());
                drop(state);
                let state = Arc::clone(&of_thread);
                thread::spawn(move || serve(stream, password, &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn counts(&self) -> ProxyCounts {
        self.state.lock().unwrap().counts.clone()
    }
}

impl Drop for ForwardProxy {
    /// Close its port and all connections.
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.is_over = true;
        for stream in &state.open {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // Wakes its thread up to see that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

/// Label of the session, or why nobody is let in.
fn label(head: &str, password: Option<&str>) -> Result<String, ()> {
    let Some(password) = password else {
        return Ok(String::new());
    };
    let credentials = head
        .lines()
        .find_map(|line| line.strip_prefix("proxy-authorization: Basic "))
        .and_then(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok())
        .ok_or(())?;
    let (user, given) = credentials.split_once(':').ok_or(())?;
    let label = user.strip_prefix("user").ok_or(())?;
    let is_right = given == password && (label.is_empty() || label.starts_with("-session-"));
    is_right
        .then(|| label.trim_start_matches("-session-").to_owned())
        .ok_or(())
}

fn serve(stream: TcpStream, password: Option<&str>, state: &Mutex<State>) {
    let mut first = [0];
    if !matches!(stream.peek(&mut first), Ok(1)) {
        return;
    }
    let mut peer = Peer::of(stream.try_clone().unwrap());
    // As SOCKS begins.
    if !first[0].is_ascii_uppercase() {
        return peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    }
    while let Some(head) = peer.head() {
        let Ok(label) = label(&head, password) else {
            peer.send("HTTP/1.1 407 No\r\nproxy-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n");
            continue;
        };
        let (line, fields) = head.split_once("\r\n").unwrap();
        let url = line.split(' ').nth(1).unwrap();
        let is_tunnel = line.starts_with("CONNECT");
        let counts = &mut state.lock().unwrap().counts;
        *counts.sessions.entry(label).or_default() += 1;
        counts.requests += u64::from(!is_tunnel);
        counts.tunnels += u64::from(is_tunnel);
        let (host, path) = match url.strip_prefix("http://") {
            Some(rest) => rest.split_once('/').unwrap(),
            None => (url, ""),
        };
        let Ok(mut upstream) = TcpStream::connect(host) else {
            peer.send("HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n");
            continue;
        };
        if is_tunnel {
            upstream.set_nodelay(true).unwrap();
            peer.send("HTTP/1.1 200 Yes\r\n\r\n");
            return carry(stream, upstream);
        }
        let mut request = line.replace(url, &format!("/{path}"));
        let fields = fields.trim_end().lines();
        for field in fields.filter(|field| !field.starts_with("proxy-")) {
            request = request + "\r\n" + field;
        }
        request += "\r\nconnection: close\r\n\r\n";
        let mut response = String::new();
        let read = upstream
            .write_all(request.as_bytes())
            .and_then(|()| upstream.read_to_string(&mut response));
        if read.is_err() {
            return;
        }
        // The connection to the client goes on.
        peer.send(&response.replacen("connection: close\r\n", "", 1));
    }
}

/// Carry bytes both ways until both ends are done.
fn carry(client: TcpStream, upstream: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    let up = thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut client, mut upstream) = (client, upstream);
    let _ = io::copy(&mut upstream, &mut client);
    let _ = client.shutdown(Shutdown::Write);
    let _ = up.join();
}
