//! The page of a run while it goes on: each second arrives, its report in the end, and nobody reads
//! it but who knows its address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::command::Started;
use crate::process::{DEADLINE, wait_for, working_in};
use crate::run::start;

/// What a run serves at an address.
pub(crate) struct Page {
    pub(crate) host: String,
    pub(crate) root: String,
}

impl Page {
    /// The page of a run.
    fn of(run: &Started) -> Self {
        let page = Self::told(run, "Live: http://");
        assert!(page.host.starts_with("127.0.0.1:"), "{}", page.host);
        assert_eq!(page.root.len(), 26, "{}", page.root);
        page
    }

    /// What the rest of a line of a run names, once it has said it.
    pub(crate) fn told(run: &Started, line: &str) -> Self {
        let url = wait_for(line, || {
            let said = run.stderr();
            assert!(!working_in(&run.work()).is_empty(), "{said}");
            let mut lines = said
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            lines.find_map(|said| Some(said.strip_prefix(line)?.trim_end().to_owned()))
        });
        let (host, root) = url.split_at(url.find('/').unwrap());
        Self {
            host: host.to_owned(),
            root: root.to_owned(),
        }
    }

    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // It may have been refused by then.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The answer to a request with this first line and these further lines; empty if there is none.
    pub(crate) fn answer(&self, first: &str, host: &str, more: &str) -> String {
        self.answer_in(first, "HTTP/1.1", host, more)
    }

    /// The same in a version of HTTP.
    pub(crate) fn answer_in(&self, first: &str, version: &str, host: &str, more: &str) -> String {
        let head = format!("{first} {version}\r\nhost: {host}\r\n{more}\r\n");
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(&self.host) {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            // It may have been refused by then.
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, name: &str) -> String {
        self.answer(&format!("GET {}{name}", self.root), &self.host, "")
    }

    /// A reader of its events.
    fn reader(&self) -> TcpStream {
        let head = format!(
            "GET {}events HTTP/1.1\r\nhost: {}\r\n\r\n",
            self.root, self.host
        );
        self.send(head.as_bytes())
    }
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn each_second_is_shown_and_the_report_in_the_end() {
    let run = start("--target-latency 5ms --rate 100 -d 4s --page");
    let page = Page::of(&run);
    let shown = page.get("");
    assert_eq!(status(&shown), "200");
    assert!(shown.contains("connect-src 'self'") && shown.contains("data-form"));
    // One of them never reads, which costs the others nothing.
    let silent = page.reader();
    let mut seconds = 0;
    for line in BufReader::new(page.reader()).lines() {
        let line = line.unwrap();
        seconds += u32::from(line == "event: second");
        if line == "event: end" {
            break;
        }
    }
    assert!(seconds >= 3, "{seconds}");
    let report = page.get("report");
    assert_eq!(status(&report), "200");
    assert!(report.contains("id=\"reproduce\"") && !report.contains("data-form"));
    drop(silent);
    let done = run.end();
    done.report(0);
    assert!(report.contains(done.file("report.html").trim()));
}

#[test]
fn only_reads_of_its_own_address_are_answered() {
    let run = start("--target-latency 5ms --rate 10 -d 30s --page");
    let page = Page::of(&run);
    let Page { host, root } = &page;
    let get = format!("GET {root}");
    let port = host.rsplit_once(':').unwrap().1;
    let long = format!("x-long: {}\r\n", "x".repeat(5_000));
    let longer = format!("x-long: {}\r\n", "x".repeat(50_000));
    for (first, host, more, expected) in [
        (&*get, &**host, "", "200"),
        (&get, &format!("localhost:{port}"), "", "200"),
        (&get, "localhost", "", "421"),
        (&get, "example.org", "", "421"),
        (&get, &format!("127.0.0.1.example.org:{port}"), "", "421"),
        (&get, host, "host: example.org\r\n", "421"),
        (&get, host, "sec-fetch-site: cross-site\r\n", "403"),
        (&get, host, "sec-fetch-site: none\r\n", "200"),
        (
            &format!("POST {root}"),
            host,
            "content-length: 0\r\n",
            "405",
        ),
        (&format!("HEAD {root}"), host, "", "405"),
        (&format!("DELETE {root}"), host, "", "405"),
        ("GET /", host, "", "404"),
        (&format!("GET {}", root.replace('/', "")), host, "", "404"),
        (&format!("{get}../etc/passwd"), host, "", "404"),
        (&format!("{get}report"), host, "", "404"),
        (&get, host, &long, "431"),
        (&get, host, &longer, "431"),
    ] {
        let answer = page.answer(first, host, more);
        assert_eq!(status(&answer), expected, "{first} {host} {more:.60}");
        assert!(
            !answer.to_lowercase().contains("access-control"),
            "{answer:.400}"
        );
    }
    // Sixteen connections are open at most; a further one is closed.
    let readers: Vec<TcpStream> = (0..16).map(|_| page.reader()).collect();
    wait_for("a refusal", || page.get("").is_empty().then_some(()));
    drop(readers);
    wait_for("room again", || {
        (status(&page.get("")) == "200").then_some(())
    });
    // Junk, of which some begins as a request does.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    for n in 0..200 {
        let junk: Vec<u8> = (0..=n % 16).flat_map(|_| random()).collect();
        let start = if n % 2 == 0 { "" } else { &get };
        drop(page.send(&[start.as_bytes(), &junk].concat()));
    }
    wait_for("an answer after all", || {
        (status(&page.get("")) == "200").then_some(())
    });
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.end().code, Some(143));
}
