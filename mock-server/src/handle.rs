//! A target within another program, above all within its tests: started on a listener, stopped when
//! its handle is dropped.
//!
//! It must not be used by a program that forks afterwards: it serves on a thread of its own.
//! `run_process` is the way then.

use crate::config::Config;
use crate::ledger::Ledger;
use crate::server::{ServeError, run_until};
use crate::shared::Shared;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A target that serves on a thread of its own. Dropped, it is stopped, and its port is free again.
///
/// ```
/// use crawlmark_mock_server::{Config, serve};
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let target = serve(TcpListener::bind("127.0.0.1:0")?, Config { seed: 7, ..Config::default() })?;
///
/// let mut client = TcpStream::connect(target.address())?;
/// client.write_all(b"GET /items/42 HTTP/1.1\r\nhost: target\r\nconnection: close\r\n\r\n")?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"));
/// assert!(answer.contains(r#"{"id":42,"#));
///
/// let ledger = target.stop()?;
/// assert_eq!((ledger.requests, ledger.unique_ids, ledger.by_status[&200]), (1, 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    shared: Shared,
    serving: Option<Serving>,
}

/// The thread that serves, and what ends it: sent or dropped.
#[derive(Debug)]
struct Serving {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

/// Serves `listener` as `config` says, until the handle is stopped or dropped.
///
/// Connections are accepted from here on: until the thread runs, the kernel queues them.
///
/// # Errors
///
/// There is no memory for the ledger, no address of the listener, or no thread.
pub fn serve(listener: TcpListener, config: Config) -> Result<Handle, ServeError> {
    let address = listener.local_addr().map_err(ServeError::Listener)?;
    let shared = Shared::new()?;
    let (stop, stopped) = oneshot::channel();
    let of_thread = shared.clone();
    let thread = std::thread::Builder::new()
        .name("mock-target".to_owned())
        .spawn(move || {
            run_until(
                listener,
                &config,
                &of_thread,
                async move { drop(stopped.await) },
            )
        })
        .map_err(ServeError::Thread)?;
    Ok(Handle {
        address,
        shared,
        serving: Some(Serving { stop, thread }),
    })
}

impl Handle {
    /// Return the address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its ledger as they are now.
    pub fn ledger(&self) -> Ledger {
        Ledger::read(&self.shared)
    }

    /// Zeroes its ledger; see [`Ledger::reset`].
    pub fn reset_ledger(&self) {
        Ledger::reset(&self.shared);
    }

    /// Stops it as [`run_until`] describes, and returns its ledger as they are then.
    ///
    /// # Errors
    ///
    /// It could not serve at all, or ended by a panic.
    pub fn stop(mut self) -> Result<Ledger, ServeError> {
        self.end()?;
        Ok(self.ledger())
    }

    fn end(&mut self) -> Result<(), ServeError> {
        let Some(Serving { stop, thread }) = self.serving.take() else {
            return Ok(());
        };
        drop(stop);
        thread
            .join()
            .unwrap_or_else(|_| Err(ServeError::Thread(io::Error::other("it panicked"))))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // `stop` returns if it served well.
        drop(self.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn loopback() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn dropped_it_leaves_nothing_behind() {
        let target = serve(loopback(), Config::default()).unwrap();
        let address = target.address();
        let idle = TcpStream::connect(address).unwrap();
        drop(target);
        assert_eq!(
            TcpStream::connect(address).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        drop(idle);
    }
}
