//! A server that does as the test says, byte by byte: what no decent server would do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A whole answer, after which the connection may go on.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A connection as the server sees it.
pub(crate) struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    /// The client at the other end of `stream`.
    pub(crate) fn of(stream: TcpStream) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// Reads a request without a body, and returns its target. None when the client has left.
    pub(crate) fn request(&mut self) -> Option<String> {
        Some(self.head()?.split(' ').nth(1)?.to_owned())
    }

    /// Reads a request without a body, and returns its head. None when the client has left.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        Some(head)
    }

    /// Reads a request, its head and its body. None when the client has left.
    pub(crate) fn request_with_body(&mut self) -> Option<String> {
        let head = self.head()?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let body = self.bytes(length.unwrap_or(0))?;
        Some(head + &String::from_utf8(body).unwrap())
    }

    /// Reads a line of a protocol that is not HTTP, with its end. None when the client has left.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.reader.read_line(&mut line).ok()? > 0).then_some(line)
    }

    /// Reads so many bytes. None when the client has left.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Sends `text`. A client that has left does not care.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.try_send(text);
    }

    /// Sends `text`. False when the client has left.
    pub(crate) fn try_send(&mut self, text: &str) -> bool {
        self.send_bytes(text.as_bytes())
    }

    /// Sends `bytes`. False when the client has left.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// Read what comes on a thread of its own, so many bytes each millisecond at most, until the client has left.
    #[expect(clippy::disallowed_methods, reason = "the test forks nothing")]
    pub(crate) fn read_slowly(&self, bytes: usize) {
        let mut stream = self.reader.get_ref().try_clone().unwrap();
        let mut part = vec![0; bytes];
        std::thread::spawn(move || {
            while stream.read(&mut part).is_ok_and(|read| read > 0) {
                // The slowness is the fault under test, not a wait for anything.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    /// Has the target leave a connection on which nothing comes for so long.
    pub(crate) fn leave_when_idle(&mut self, after: Duration) {
        self.reader.get_ref().set_read_timeout(Some(after)).unwrap();
    }

    /// Sends nothing more, and says so.
    pub(crate) fn hang_up(&mut self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Write);
    }

    /// Reads whatever comes, until the client has left.
    pub(crate) fn drain(&mut self) {
        let _ = std::io::copy(&mut self.reader, &mut std::io::sink());
    }

    /// Waits until the client has left.
    pub(crate) fn wait_for_the_end(&mut self) {
        while self.request().is_some() {}
    }
}

/// Serves each connection with `serve`, on a thread of its own, while `test` lasts.
pub(crate) fn with_server<T>(serve: impl Fn(Peer) + Sync, test: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let over = AtomicBool::new(false);
    let (serve, over) = (&serve, &over);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let peer = Peer::of(stream.unwrap());
                scope.spawn(move || serve(peer));
            }
        });
        // Also when the test fails: the scope waits for its threads.
        let _closing = Closing { over, address };
        test(address)
    })
}

/// Ends a server when dropped.
pub(crate) struct Closing<'a> {
    pub(crate) over: &'a AtomicBool,
    pub(crate) address: SocketAddr,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes it up to see that it is over.
        let _ = TcpStream::connect(self.address);
    }
}
