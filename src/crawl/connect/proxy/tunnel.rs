//! Handshakes by which a proxy connects to the target: CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC
//! 1928, RFC 1929).
//!
//! The bytes to send are prepared when the way of a connection is chosen. It must not read what the
//! target sends. Written here rather than taken from hyper-util, whose tunnels do not tell refusals
//! apart and read through hyper's own traits.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::sample::ErrorKind;
use httparse::{EMPTY_HEADER, Response, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::url::Credentials;
use crate::crawl::connect::failure::{Failure, failure_of};
use crate::crawl::requests::host::Host;

/// Longest answer to CONNECT that is read, bytes.
const MOST_BYTES: usize = 64 << 10;

/// Most fields of an answer to CONNECT.
const MOST_FIELDS: usize = 128;

/// Bytes that hold credentials.
#[derive(Clone, Default)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// Bytes to send to a proxy.
#[derive(Debug)]
pub(crate) enum Handshake {
    Connect(Secret),
    Socks {
        /// User name and password; none if the proxy is not to ask for them.
        login: Option<Secret>,
        request: Vec<u8>,
    },
}

/// Return the `Proxy-Authorization` of these credentials (RFC 7617), after the end of another line;
/// empty without any.
pub(crate) fn authorization(credentials: Option<&Credentials>) -> Vec<u8> {
    credentials.map_or_else(Vec::new, |Credentials { user, password }| {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        format!("\r\nproxy-authorization: Basic {encoded}").into_bytes()
    })
}

/// A text of at most 255 bytes after its length.
fn with_length(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    [&[length], text.as_bytes()].concat()
}

impl Handshake {
    /// Return the request to an HTTP proxy for a tunnel to `host`.
    pub(crate) fn connect(host: &Host, credentials: Option<&Credentials>) -> Self {
        let (name, port) = (host.name(), host.port);
        let name = if name.contains(':') {
            format!("[{name}]")
        } else {
            name.to_owned()
        };
        let head = format!("CONNECT {name}:{port} HTTP/1.1\r\nhost: {name}:{port}");
        let request = [head.as_bytes(), &authorization(credentials), b"\r\n\r\n"];
        Self::Connect(Secret(request.concat()))
    }

    /// Return the request to a SOCKS5 proxy for a tunnel to `address`, or to the name of `host`,
    /// which has at most 255 bytes.
    pub(crate) fn socks(
        host: &Host,
        address: Option<SocketAddr>,
        credentials: Option<&Credentials>,
    ) -> Self {
        let ip = address.map(|address| address.ip());
        let place = match ip.or_else(|| host.name().parse().ok()) {
            Some(IpAddr::V4(ip)) => [&[1][..], &ip.octets()].concat(),
            Some(IpAddr::V6(ip)) => [&[4][..], &ip.octets()].concat(),
            None => [&[3][..], &with_length(host.name())].concat(),
        };
        let port = address.map_or(host.port, |address| address.port());
        Self::Socks {
            login: credentials.map(|Credentials { user, password }| {
                Secret([vec![1], with_length(user), with_length(password)].concat())
            }),
            request: [&[5, 1, 0][..], &place, &port.to_be_bytes()].concat(),
        }
    }

    /// Have the proxy at the other end of `stream` connect to the target. The next bytes read are
    /// the target's.
    ///
    /// # Errors
    /// When it does not; the details hold no credentials.
    pub(crate) async fn open<S>(&self, stream: &mut S) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let opened = match self {
            Self::Connect(request) => connect(stream, request).await,
            Self::Socks { login, request } => socks(stream, login.as_ref(), request).await,
        };
        opened.map_err(|error| match failure_of(&error) {
            Some(failure) => failure.clone(),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Failure::new(ErrorKind::ProxyClosed, "it closed the connection")
            }
            None => Failure::new(
                ErrorKind::ProxyClosed,
                &format!("the connection to it ended: {error}"),
            ),
        })
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// The end of a handshake with a proxy that does not do as its protocol says.
fn not_spoken(details: &str) -> io::Error {
    Failure::new(ErrorKind::ProxyNotSpoken, details).into()
}

/// Send CONNECT and read the answer.
async fn connect<S>(stream: &mut S, request: &Secret) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    send(stream, &request.0).await?;
    let mut input = Vec::new();
    let (status, challenge) = loop {
        let head = answer(&input)
            .map_err(|error| not_spoken(&format!("its answer to CONNECT: {error}")))?;
        match head {
            Some(head) => {
                input.drain(..head.length);
                if head.status >= 200 {
                    break (head.status, head.challenge);
                }
            }
            None if input.len() > MOST_BYTES => {
                return Err(not_spoken("its answer to CONNECT is too long"));
            }
            None if stream.read_buf(&mut input).await? == 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            None => {}
        }
    };
    let kind = match status {
        // The target of a tunnel does not send first.
        200..300 if input.is_empty() => return Ok(()),
        200..300 => return Err(not_spoken("it sent more than its answer to CONNECT")),
        // Some proxies answer 401, which is for origin servers (RFC 9110, 15.5.2).
        401 | 407 => ErrorKind::ProxyAuth,
        // tinyproxy answers 500 where others answer 502 to 504.
        500..600 => ErrorKind::ProxyTargetUnreachable,
        _ => ErrorKind::ProxyRefused,
    };
    let asks = challenge.map_or_else(String::new, |scheme| {
        format!(" and asks for {scheme} credentials")
    });
    let details = format!("it answered CONNECT with status {status}{asks}");
    Err(Failure::new(kind, &details).into())
}

/// Head of an answer to CONNECT.
struct Answer {
    length: usize,
    status: u16,
    /// Scheme of credentials that the proxy asks for.
    challenge: Option<String>,
}

/// Read the head that `input` begins with; none if it is not complete.
fn answer(input: &[u8]) -> Result<Option<Answer>, httparse::Error> {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut head = Response::new(&mut fields);
    let Status::Complete(length) = head.parse(input)? else {
        return Ok(None);
    };
    let scheme = head
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("proxy-authenticate"))
        .and_then(|field| field.value.split(|byte| *byte == b' ').next());
    Ok(Some(Answer {
        length,
        status: head.code.unwrap_or(0),
        challenge: scheme.map(|scheme| String::from_utf8_lossy(scheme).into_owned()),
    }))
}

/// Replies of SOCKS5 from 1 on (RFC 1928, 6).
const REPLIES: [(ErrorKind, &str); 8] = [
    (ErrorKind::ProxyTargetUnreachable, "general failure"),
    (ErrorKind::ProxyRefused, "not allowed by its rules"),
    (ErrorKind::ProxyTargetUnreachable, "network unreachable"),
    (ErrorKind::ProxyTargetUnreachable, "host unreachable"),
    (
        ErrorKind::ProxyTargetUnreachable,
        "connection refused by the target",
    ),
    (ErrorKind::ProxyTargetUnreachable, "TTL expired"),
    (ErrorKind::ProxyRefused, "command not supported"),
    (ErrorKind::ProxyRefused, "address type not supported"),
];

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Log in to a SOCKS5 proxy, send the request and read its answer.
async fn socks<S>(stream: &mut S, login: Option<&Secret>, request: &[u8]) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let refused = |details: &str| io::Error::from(Failure::new(ErrorKind::ProxyAuth, details));
    let method = if login.is_some() { 2 } else { 0 };
    send(stream, &[5, 1, method]).await?;
    match read(stream).await? {
        [5, chosen] if chosen == method => {}
        [5, u8::MAX] if login.is_some() => {
            return Err(refused("it accepts no user name and password: remove them"));
        }
        [5, u8::MAX] => return Err(refused("it asks for user name and password")),
        [5, other] => {
            return Err(not_spoken(&format!(
                "it chose method {other}, which was not offered"
            )));
        }
        [version, _] => return Err(other_version(version)),
    }
    if let Some(login) = login {
        send(stream, &login.0).await?;
        let [_, status] = read(stream).await?;
        if status != 0 {
            return Err(refused(&format!(
                "it refused user name and password (status {status})"
            )));
        }
    }
    send(stream, request).await?;
    let [version, reply] = read(stream).await?;
    if version != 5 {
        return Err(other_version(version));
    }
    if reply != 0 {
        let (kind, what) = REPLIES
            .get(usize::from(reply) - 1)
            .unwrap_or(&(ErrorKind::ProxyNotSpoken, "unknown reply"));
        return Err(Failure::new(*kind, &format!("{what} (SOCKS reply {reply})")).into());
    }
    let length = match read(stream).await? {
        [_, 1] => 4,
        [_, 4] => 16,
        [_, 3] => usize::from(stream.read_u8().await?),
        [_, kind] => {
            return Err(not_spoken(&format!(
                "address type {kind} in its SOCKS reply"
            )));
        }
    };
    // The address from which the proxy connects, and its port.
    stream.read_exact(&mut vec![0; length + 2]).await.map(drop)
}

fn other_version(version: u8) -> io::Error {
    not_spoken(&format!(
        "its answer is not of SOCKS 5: it begins with byte {version}"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::spawn_local;

    use super::*;
    use crate::crawl::{Targets, Template};

    fn host(url: &str) -> Host {
        Targets::one(&url.parse::<Template>().unwrap())
            .unwrap()
            .hosts()[0]
            .clone()
    }

    fn credentials() -> Credentials {
        Credentials {
            user: "user".to_owned(),
            password: "pass".to_owned(),
        }
    }

    /// Pass `bytes` to the handshake, at most `step` at a time, and return what became of it, and
    /// the bytes that it sent. Bytes of the target follow the handshake, or the end of the
    /// connection.
    fn exchange(
        handshake: &Handshake,
        bytes: &[u8],
        step: usize,
    ) -> (Result<(), Failure>, Vec<u8>) {
        let runtime = Builder::new_current_thread()
            .build_local(LocalOptions::default())
            .unwrap();
        let bytes = bytes.to_vec();
        runtime.block_on(async {
            let (mut near, far) = duplex(step);
            let (mut from_client, mut to_client) = tokio::io::split(far);
            let sent = spawn_local(async move {
                let mut sent = Vec::new();
                from_client.read_to_end(&mut sent).await.unwrap();
                sent
            });
            let proxy = spawn_local(async move {
                // A client that has left does not care.
                let _ = to_client.write_all(&bytes).await;
                let _ = to_client.shutdown().await;
            });
            let done = handshake.open(&mut near).await;
            drop(near);
            proxy.await.unwrap();
            (done, sent.await.unwrap())
        })
    }

    /// Check the result and the bytes sent, however the bytes of the proxy are split.
    #[track_caller]
    fn assert_leads_to(handshake: &Handshake, bytes: &[u8], expected: Result<(), ErrorKind>) {
        for step in 1..=bytes.len().max(1) {
            let (done, _) = exchange(handshake, bytes, step);
            assert_eq!(
                done.map_err(|failure| failure.kind),
                expected,
                "in steps of {step}: {:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn connect_is_answered_by_status() {
        use ErrorKind::{
            ProxyAuth, ProxyClosed, ProxyNotSpoken, ProxyRefused, ProxyTargetUnreachable,
        };
        let handshake = Handshake::connect(&host("https://[::1]:8443/"), Some(&credentials()));
        let (_, sent) = exchange(&handshake, b"HTTP/1.1 200 OK\r\n\r\n", 4096);
        let request = "CONNECT [::1]:8443 HTTP/1.1\r\nhost: [::1]:8443\r\nproxy-authorization: Basic dXNlcjpwYXNz\r\n\r\n";
        assert_eq!(String::from_utf8(sent).unwrap(), request);
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Ok(())),
            (
                "HTTP/1.0 200 Connection established\r\nproxy-agent: x\r\ncontent-length: 9\r\n\r\n",
                Ok(()),
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 Fine\r\n\r\n",
                Ok(()),
            ),
            (
                "HTTP/1.1 407 No\r\nproxy-authenticate: Basic realm=\"x\"\r\ncontent-length: 2\r\n\r\n",
                Err(ProxyAuth),
            ),
            ("HTTP/1.1 403 No\r\n\r\n", Err(ProxyRefused)),
            (
                "HTTP/1.1 502 No\r\ncontent-length: 5\r\n\r\n",
                Err(ProxyTargetUnreachable),
            ),
            ("HTTP/1.1 500 No\r\n\r\n", Err(ProxyTargetUnreachable)),
            ("", Err(ProxyClosed)),
            ("HTTP/1.1 200 OK\r\n", Err(ProxyClosed)),
            ("SSH-2.0-x\r\n", Err(ProxyNotSpoken)),
        ] {
            assert_leads_to(&handshake, answer.as_bytes(), expected);
        }
        let (done, _) = exchange(&handshake, b"HTTP/1.1 200 OK\r\n\r\nhello", 4096);
        assert_eq!(done.unwrap_err().kind, ProxyNotSpoken);
    }

    #[test]
    fn socks_is_answered_by_reply() {
        use ErrorKind::{ProxyAuth, ProxyClosed, ProxyNotSpoken, ProxyTargetUnreachable};
        let address: SocketAddr = "192.0.2.7:81".parse().unwrap();
        let a_name = host("https://a.example/");
        let [open_to_all, closed] =
            [None, Some(&credentials())].map(|login| Handshake::socks(&a_name, None, login));
        let done = [5, 0, 0, 1, 127, 0, 0, 1, 1, 0];
        for (handshake, bytes, expected) in [
            (&open_to_all, [&[5, 0][..], &done].concat(), Ok(())),
            (
                &open_to_all,
                [&[5, 0, 5, 0, 0, 4][..], &[0; 18]].concat(),
                Ok(()),
            ),
            (&closed, [&[5, 2, 1, 0][..], &done].concat(), Ok(())),
            (&closed, vec![5, 2, 1, 1], Err(ProxyAuth)),
            (&closed, vec![5, 255], Err(ProxyAuth)),
            (&closed, vec![5, 0], Err(ProxyNotSpoken)),
            (&open_to_all, vec![5, 255], Err(ProxyAuth)),
            (&open_to_all, vec![5, 0, 5, 1], Err(ProxyTargetUnreachable)),
            (
                &open_to_all,
                vec![5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
                Err(ProxyTargetUnreachable),
            ),
            (&open_to_all, vec![5, 0, 5, 9], Err(ProxyNotSpoken)),
            (&open_to_all, vec![5, 0, 5, 0, 0, 2], Err(ProxyNotSpoken)),
            (
                &open_to_all,
                b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                Err(ProxyNotSpoken),
            ),
            (&open_to_all, vec![5, 0, 5, 0, 0, 1, 127], Err(ProxyClosed)),
        ] {
            assert_leads_to(handshake, &bytes, expected);
        }
        let sent = |handshake: &Handshake, bytes: &[u8]| exchange(handshake, bytes, 4096).1;
        let bytes = [&[5, 2, 1, 0][..], &done].concat();
        let name = [
            &[5, 1, 2, 1, 4][..],
            b"user",
            &[4],
            b"pass",
            &[5, 1, 0, 3, 9],
            b"a.example",
            &[1, 187],
        ]
        .concat();
        assert_eq!(sent(&closed, &bytes), name);
        let bytes = [&[5, 0][..], &done].concat();
        assert_eq!(
            sent(&Handshake::socks(&a_name, Some(address), None), &bytes),
            [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0, 81]
        );
        let literal = [&[5, 1, 0, 5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(
            sent(
                &Handshake::socks(&host("http://[::1]/"), None, None),
                &bytes
            ),
            literal
        );
    }

    proptest! {
        #[test]
        fn any_bytes_lead_to_one_result_however_they_are_split(
            bytes in prop::collection::vec(any::<u8>(), 0..40), start in 0..5_usize, step in 1..40_usize,
        ) {
            let start = [&b""[..], b"HTTP/1.1 2", &[5, 0], &[5, 0, 5, 0, 0], &[5, 2, 1, 0]][start];
            let bytes = [start, &bytes].concat();
            let target = host("https://a.example/");
            for handshake in [
                Handshake::connect(&target, None),
                Handshake::socks(&target, None, None),
                Handshake::socks(&target, None, Some(&credentials())),
            ] {
                let (whole, _) = exchange(&handshake, &bytes, 4096);
                let (split, _) = exchange(&handshake, &bytes, step);
                // What follows an answer to CONNECT shows only if it came with it.
                let is_surplus = |done: &Result<(), Failure>| {
                    done.as_ref().map_or_else(|failure| failure.details.contains("sent more"), |()| true)
                };
                prop_assert!(whole == split || is_surplus(&whole) && is_surplus(&split), "{whole:?} {split:?}");
                let shown = format!("{whole:?} {handshake:?}");
                prop_assert!(!shown.contains("user:") && !shown.contains("pass\""), "{shown}");
            }
        }
    }
}
