//! Handshakes by which a proxy connects to the target: CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC
//! 1928, RFC 1929).
//!
//! The bytes to send are prepared when the way of a connection is chosen; [`open`] sends them over
//! any stream. It must not read what the target sends. Written here rather than taken from
//! hyper-util, whose tunnels do not tell refusals apart and read through hyper's own traits.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::sample::ErrorKind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::super::codec::{Cut, Decoder, Malformed, Repetition, RequestKind, Sink};
use super::super::failure::Failure;
use super::super::header_fields::HeaderFields;
use super::super::host::Host;
use super::url::Credentials;

/// Bytes to send to a proxy.
pub(in crate::crawl) enum Handshake {
    Connect(Vec<u8>),
    Socks {
        credentials: Option<Credentials>,
        request: Vec<u8>,
    },
}

/// Without credentials.
impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect(_) => "Connect",
            Self::Socks { .. } => "Socks",
        })
    }
}

/// Return the `Proxy-Authorization` of these credentials (RFC 7617), after the end of another line;
/// empty without any.
pub(super) fn authorization(credentials: Option<&Credentials>) -> Vec<u8> {
    credentials.map_or_else(Vec::new, |Credentials { user, password }| {
        format!(
            "\r\nproxy-authorization: Basic {}",
            STANDARD.encode(format!("{user}:{password}"))
        )
        .into_bytes()
    })
}

/// Return the request to an HTTP proxy for a tunnel to `host`.
pub(super) fn connect(host: &Host, credentials: Option<&Credentials>) -> Handshake {
    let name = if host.name().contains(':') {
        format!("[{}]", host.name())
    } else {
        host.name().to_owned()
    };
    let head = format!(
        "CONNECT {name}:{port} HTTP/1.1\r\nhost: {name}:{port}",
        port = host.port()
    );
    Handshake::Connect([head.as_bytes(), &authorization(credentials), b"\r\n\r\n"].concat())
}

/// Return the request to a SOCKS5 proxy for a tunnel to `address`, or to the name of `host`, which
/// has at most 255 bytes.
pub(super) fn socks(
    host: &Host,
    address: Option<SocketAddr>,
    credentials: Option<Credentials>,
) -> Handshake {
    let literal = host
        .name()
        .parse()
        .ok()
        .map(|ip: IpAddr| SocketAddr::new(ip, host.port()));
    let address = address.or(literal);
    let mut request = vec![5, 1, 0];
    match address.map(|address| address.ip()) {
        Some(IpAddr::V4(ip)) => request.extend([&[1][..], &ip.octets()].concat()),
        Some(IpAddr::V6(ip)) => request.extend([&[4][..], &ip.octets()].concat()),
        None => request.extend([&[3][..], &with_length(host.name())].concat()),
    }
    request.extend(
        address
            .map_or(host.port(), |address| address.port())
            .to_be_bytes(),
    );
    Handshake::Socks {
        credentials,
        request,
    }
}

/// A text of at most 255 bytes after its length.
fn with_length(text: &str) -> Vec<u8> {
    [
        &[u8::try_from(text.len()).unwrap_or(u8::MAX)],
        text.as_bytes(),
    ]
    .concat()
}

/// Have the proxy at the other end of `stream` connect to the target. The next bytes read are the
/// target's.
///
/// # Errors
/// When it does not; the details hold no credentials.
pub(in crate::crawl) async fn open<S>(stream: &mut S, handshake: &Handshake) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match handshake {
        Handshake::Connect(request) => {
            send(stream, request).await?;
            connected(stream).await
        }
        Handshake::Socks {
            credentials,
            request,
        } => {
            let method = if credentials.is_some() { 2 } else { 0 };
            send(stream, &[5, 1, method]).await?;
            match (read::<2, S>(stream).await?, credentials) {
                ([5, chosen], _) if chosen != method => Err(refused_method(chosen, method)),
                ([5, _], None) => Ok(()),
                ([5, _], Some(Credentials { user, password })) => {
                    send(
                        stream,
                        &[&[1][..], &with_length(user), &with_length(password)].concat(),
                    )
                    .await?;
                    match read::<2, S>(stream).await? {
                        [_, 0] => Ok(()),
                        [_, status] => {
                            let details =
                                format!("it refused user name and password (status {status})");
                            Err(Failure::new(ErrorKind::ProxyAuth, &details))
                        }
                    }
                }
                ([version, _], _) => Err(other_version(version)),
            }?;
            send(stream, request).await?;
            answered(stream).await
        }
    }
}

/// Read the answer to CONNECT.
async fn connected(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), Failure> {
    // As after HEAD, no content follows that has to be read.
    let (mut decoder, mut answer, mut input) = (
        Decoder::new(RequestKind::Head),
        Answer::default(),
        Vec::new(),
    );
    let malformed = |rule: Malformed| {
        Failure::new(
            ErrorKind::ProxyNotSpoken,
            &format!("its answer to CONNECT: {rule}"),
        )
    };
    while !decoder.is_done() {
        if stream
            .read_buf(&mut input)
            .await
            .map_err(|error| closed(&error))?
            == 0
        {
            return Err(match decoder.end(&input, &mut answer) {
                Err(Cut::Malformed(rule)) => malformed(rule),
                _ => closed(&io::ErrorKind::UnexpectedEof.into()),
            });
        }
        let used = decoder.decode(&input, &mut answer).map_err(malformed)?;
        input.drain(..used);
    }
    let details = format!(
        "it answered CONNECT with status {}{}",
        answer.status, answer.challenge
    );
    match answer.status {
        // The target of a tunnel does not send first.
        200..300 if input.is_empty() => Ok(()),
        200..300 => Err(Failure::new(
            ErrorKind::ProxyNotSpoken,
            "it sent more than its answer to CONNECT",
        )),
        // Some proxies answer 401, which is for origin servers (RFC 9110, 15.5.2).
        401 | 407 => Err(Failure::new(ErrorKind::ProxyAuth, &details)),
        502..505 => Err(Failure::new(ErrorKind::ProxyTargetUnreachable, &details)),
        _ => Err(Failure::new(ErrorKind::ProxyRefused, &details)),
    }
}

/// Answer to CONNECT.
#[derive(Default)]
struct Answer {
    status: u16,
    /// Scheme of credentials that the proxy asks for.
    challenge: String,
}

impl Sink for Answer {
    fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> Repetition {
        self.status = status;
        let challenge = fields
            .all("proxy-authenticate")
            .next()
            .map(String::from_utf8_lossy);
        let scheme = challenge
            .as_ref()
            .and_then(|challenge| challenge.split(' ').next());
        self.challenge = scheme.map_or_else(String::new, |scheme| {
            format!(" and asks for {scheme} credentials")
        });
        Repetition::Refused
    }

    fn repeated_head(&mut self) {}

    fn content(&mut self, _: &[u8]) {}
}

/// Read the answer to a request of SOCKS5.
async fn answered(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), Failure> {
    let [version, reply] = read(stream).await?;
    if version != 5 {
        return Err(other_version(version));
    }
    if let Some((kind, what)) = refusal(reply) {
        return Err(Failure::new(kind, &format!("{what} (SOCKS reply {reply})")));
    }
    let length = match read(stream).await? {
        [_, 1] => 4,
        [_, 4] => 16,
        [_, 3] => usize::from(read::<1, _>(stream).await?[0]),
        [_, kind] => {
            return Err(Failure::new(
                ErrorKind::ProxyNotSpoken,
                &format!("address type {kind} in its SOCKS reply"),
            ));
        }
    };
    // The address from which the proxy connects, and its port.
    stream
        .read_exact(&mut vec![0; length + 2])
        .await
        .map(drop)
        .map_err(|error| closed(&error))
}

/// Classify a reply of SOCKS5 (RFC 1928, 6); none for success.
const fn refusal(reply: u8) -> Option<(ErrorKind, &'static str)> {
    use ErrorKind::{ProxyNotSpoken, ProxyRefused, ProxyTargetUnreachable};
    Some(match reply {
        0 => return None,
        1 => (ProxyTargetUnreachable, "general failure"),
        2 => (ProxyRefused, "not allowed by its rules"),
        3 => (ProxyTargetUnreachable, "network unreachable"),
        4 => (ProxyTargetUnreachable, "host unreachable"),
        5 => (ProxyTargetUnreachable, "connection refused by the target"),
        6 => (ProxyTargetUnreachable, "TTL expired"),
        7 => (ProxyRefused, "command not supported"),
        8 => (ProxyRefused, "address type not supported"),
        _ => (ProxyNotSpoken, "unknown reply"),
    })
}

fn refused_method(chosen: u8, method: u8) -> Failure {
    match (chosen, method) {
        (u8::MAX, 0) => Failure::new(ErrorKind::ProxyAuth, "it asks for user name and password"),
        (u8::MAX, _) => Failure::new(
            ErrorKind::ProxyAuth,
            "it accepts no user name and password: remove them",
        ),
        _ => Failure::new(
            ErrorKind::ProxyNotSpoken,
            &format!("it chose method {chosen}, which was not offered"),
        ),
    }
}

fn other_version(version: u8) -> Failure {
    Failure::new(
        ErrorKind::ProxyNotSpoken,
        &format!("its answer is not of SOCKS 5: it begins with byte {version}"),
    )
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), Failure> {
    stream
        .write_all(bytes)
        .await
        .map_err(|error| closed(&error))?;
    stream.flush().await.map_err(|error| closed(&error))
}

async fn read<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    stream
        .read_exact(&mut bytes)
        .await
        .map_err(|error| closed(&error))?;
    Ok(bytes)
}

fn closed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::new(ErrorKind::ProxyClosed, "it closed the connection")
        }
        _ => Failure::new(
            ErrorKind::ProxyClosed,
            &format!("the connection to it ended: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::spawn_local;

    use super::super::super::{Targets, Template};
    use super::*;

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
            let done = open(&mut near, handshake).await;
            drop(near);
            proxy.await.unwrap();
            (done, sent.await.unwrap())
        })
    }

    /// Check the result and the bytes sent, however the bytes of the proxy are split.
    #[track_caller]
    fn assert_leads_to(
        handshake: &Handshake,
        bytes: &[u8],
        expected: Result<(), (ErrorKind, &str)>,
    ) {
        for step in 1..=bytes.len().max(1) {
            let (done, _) = exchange(handshake, bytes, step);
            match (&done, expected) {
                (Ok(()), Ok(())) => {}
                (Err(failure), Err((kind, says)))
                    if failure.kind == kind && failure.details.contains(says) => {}
                _ => panic!(
                    "{done:?} in steps of {step}: {:?}",
                    String::from_utf8_lossy(bytes)
                ),
            }
        }
    }

    #[test]
    fn connect_is_answered_by_status() {
        use ErrorKind::{
            ProxyAuth, ProxyClosed, ProxyNotSpoken, ProxyRefused, ProxyTargetUnreachable,
        };
        let handshake = connect(&host("https://[::1]:8443/"), Some(&credentials()));
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
                Err((ProxyAuth, "status 407 and asks for Basic credentials")),
            ),
            ("HTTP/1.1 403 No\r\n\r\n", Err((ProxyRefused, "status 403"))),
            ("HTTP/1.1 429 No\r\n\r\n", Err((ProxyRefused, "status 429"))),
            (
                "HTTP/1.1 502 No\r\ncontent-length: 5\r\n\r\n",
                Err((ProxyTargetUnreachable, "status 502")),
            ),
            (
                "HTTP/1.1 504 No\r\n\r\n",
                Err((ProxyTargetUnreachable, "status 504")),
            ),
            ("", Err((ProxyClosed, "closed"))),
            ("HTTP/1.1 200 OK\r\n", Err((ProxyClosed, "closed"))),
            ("SSH-2.0-x\r\n", Err((ProxyNotSpoken, "cannot be read"))),
            ("\u{5}\u{0}\r\n", Err((ProxyNotSpoken, "cannot be read"))),
        ] {
            assert_leads_to(&handshake, answer.as_bytes(), expected);
        }
        let (done, _) = exchange(&handshake, b"HTTP/1.1 200 OK\r\n\r\nhello", 4096);
        assert_eq!(done.unwrap_err().kind, ProxyNotSpoken);
    }

    #[test]
    fn socks_is_answered_by_reply() {
        use ErrorKind::{
            ProxyAuth, ProxyClosed, ProxyNotSpoken, ProxyRefused, ProxyTargetUnreachable,
        };
        let address: SocketAddr = "192.0.2.7:81".parse().unwrap();
        let a_name = host("https://a.example/");
        let [open_to_all, closed] =
            [None, Some(credentials())].map(|credentials| socks(&a_name, None, credentials));
        let done = [5, 0, 0, 1, 127, 0, 0, 1, 1, 0];
        for (handshake, bytes, expected) in [
            (&open_to_all, [&[5, 0][..], &done].concat(), Ok(())),
            (
                &open_to_all,
                [&[5, 0, 5, 0, 0, 4][..], &[0; 18]].concat(),
                Ok(()),
            ),
            (
                &open_to_all,
                [&[5, 0, 5, 0, 0, 3, 2][..], b"ab", &[0; 2]].concat(),
                Ok(()),
            ),
            (&closed, [&[5, 2, 1, 0][..], &done].concat(), Ok(())),
            (
                &closed,
                vec![5, 2, 1, 1],
                Err((ProxyAuth, "refused user name and password")),
            ),
            (&closed, vec![5, 255], Err((ProxyAuth, "remove them"))),
            (&closed, vec![5, 0], Err((ProxyNotSpoken, "method 0"))),
            (
                &open_to_all,
                vec![5, 255],
                Err((ProxyAuth, "asks for user name and password")),
            ),
            (
                &open_to_all,
                vec![5, 0, 5, 1],
                Err((ProxyTargetUnreachable, "SOCKS reply 1")),
            ),
            (&open_to_all, vec![5, 0, 5, 2], Err((ProxyRefused, "rules"))),
            (
                &open_to_all,
                vec![5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
                Err((ProxyTargetUnreachable, "refused")),
            ),
            (
                &open_to_all,
                vec![5, 0, 5, 8],
                Err((ProxyRefused, "address type")),
            ),
            (
                &open_to_all,
                vec![5, 0, 5, 9],
                Err((ProxyNotSpoken, "SOCKS reply 9")),
            ),
            (
                &open_to_all,
                vec![5, 0, 4, 0],
                Err((ProxyNotSpoken, "byte 4")),
            ),
            (
                &open_to_all,
                vec![5, 0, 5, 0, 0, 2],
                Err((ProxyNotSpoken, "address type 2")),
            ),
            (
                &open_to_all,
                b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                Err((ProxyNotSpoken, "byte 72")),
            ),
            (
                &open_to_all,
                vec![5, 0, 5, 0, 0, 1, 127],
                Err((ProxyClosed, "closed")),
            ),
            (&open_to_all, vec![5], Err((ProxyClosed, "closed"))),
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
            sent(&socks(&a_name, Some(address), None), &bytes),
            [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0, 81]
        );
        let literal = [&[5, 1, 0, 5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(
            sent(&socks(&host("http://[::1]/"), None, None), &bytes),
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
            for handshake in [connect(&target, None), socks(&target, None, None), socks(&target, None, Some(credentials()))] {
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
