//! The target within the tests of a client: a client of your own, and tests that say what the
//! target does and check what it counted.
//!
//! ```sh
//! cargo test -p crawlmark-mock-server --example in_a_test
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Fetch an item, and again up to `retries` times while the server fails; return the last status.
fn fetch(server: SocketAddr, id: u64, retries: u32) -> Result<u16, Box<dyn Error>> {
    let mut left = retries;
    loop {
        let mut connection = TcpStream::connect(server)?;
        write!(
            connection,
            "GET /items/{id} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n"
        )?;
        let mut response = String::new();
        connection.read_to_string(&mut response)?;
        let status = response.split(' ').nth(1).ok_or("no status")?.parse()?;
        if status < 500 || left == 0 {
            return Ok(status);
        }
        left -= 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args()
        .nth(1)
        .ok_or("give the address of a server, as in 127.0.0.1:8080")?
        .parse()?;
    writeln!(std::io::stdout(), "{}", fetch(server, 1, 3)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use crawlmark_mock_server::{Config, serve};

    use super::fetch;

    #[test]
    fn a_failure_is_retried_and_no_more_often_than_allowed() {
        // Every response fails: the ledger shows each retry.
        let config = Config {
            seed: 7,
            faults: "error:1:503".parse().unwrap(),
            ..Config::default()
        };
        let target = serve(TcpListener::bind("127.0.0.1:0").unwrap(), config).unwrap();
        assert_eq!(fetch(target.address(), 42, 3).unwrap(), 503);
        let ledger = target.stop().unwrap();
        assert_eq!(
            (ledger.requests, ledger.unique_ids, ledger.by_status[&503]),
            (4, 1, 4)
        );
    }

    #[test]
    fn a_success_is_not_retried() {
        let target = serve(TcpListener::bind("127.0.0.1:0").unwrap(), Config::default()).unwrap();
        assert_eq!(fetch(target.address(), 42, 3).unwrap(), 200);
        assert_eq!(target.stop().unwrap().requests, 1);
    }
}
