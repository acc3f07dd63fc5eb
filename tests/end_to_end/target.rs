//! `crawlmark serve` as a child of the test, and its counts: the second witness.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{DEADLINE, children, end_with_children, signal, wait_for, working_in};
use crate::report::{Report, counts};
use crate::run::{crawl, program};

/// A running target. Dropped, it is ended.
pub(crate) struct Target {
    child: Child,
    scheme: String,
    address: String,
    place: TempDir,
}

impl Target {
    /// Starts `crawlmark serve` with `flags` on a free port.
    pub(crate) fn start(flags: &str) -> Self {
        Self::start_with("127.0.0.1:0", flags, Stdio::inherit)
    }

    /// The same on another address.
    pub(crate) fn start_on(listen: &str, flags: &str) -> Self {
        Self::start_with(listen, flags, Stdio::inherit)
    }

    /// The same, with what it said on standard error until it listened.
    pub(crate) fn start_and_listen_to_stderr(flags: &str) -> (Self, String) {
        let mut said = tempfile::tempfile().unwrap();
        let target = Self::start_with("127.0.0.1:0", flags, || said.try_clone().unwrap().into());
        let mut text = String::new();
        said.rewind().unwrap();
        said.read_to_string(&mut text).unwrap();
        (target, text)
    }

    fn start_with(listen: &str, flags: &str, stderr: impl FnOnce() -> Stdio) -> Self {
        let place = tempfile::tempdir().unwrap();
        let stdout = place.path().join("stdout");
        let mut child = Command::new(program())
            .args(["serve", "--listen", listen])
            .args(flags.split_whitespace())
            .current_dir(place.path())
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).unwrap())
            .stderr(stderr())
            .spawn()
            .unwrap();
        let (scheme, address) = wait_for("the target's address", || {
            assert_eq!(child.try_wait().unwrap(), None, "the target ended");
            let said = fs::read_to_string(&stdout).unwrap();
            let (line, _) = said.split_once('\n')?;
            let (scheme, address) = line
                .strip_prefix("listening on ")
                .unwrap()
                .split_once("://")
                .unwrap();
            Some((scheme.to_owned(), address.to_owned()))
        });
        Self {
            child,
            scheme,
            address,
            place,
        }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// What to crawl.
    pub(crate) fn url(&self) -> String {
        self.origin() + "/items/{id}"
    }

    /// Its counts now, over HTTP.
    pub(crate) fn books(&self) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(
            stream,
            "GET /__admin/ledger HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        serde_json::from_str(body).unwrap()
    }

    /// The number of requests for items that it has had.
    pub(crate) fn requests(&self) -> u64 {
        self.books()["requests"].as_u64().unwrap()
    }

    /// Waits until it has been asked for this many items.
    pub(crate) fn wait_for_requests(&self, requests: u64) {
        wait_for("requests at the target", || {
            (self.requests() >= requests).then_some(())
        });
    }

    /// Ends it with SIGTERM, and returns the counts that it prints.
    pub(crate) fn stop(mut self) -> Value {
        signal(self.pid(), Signal::SIGTERM);
        let status = wait_for("the end of the target", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0));
        assert_eq!(
            working_in(&self.place.path().canonicalize().unwrap()),
            Vec::<i32>::new(),
            "a process is left"
        );
        let said = fs::read_to_string(self.place.path().join("stdout")).unwrap();
        let (_, books) = said.split_once('\n').unwrap();
        serde_json::from_str(books).unwrap_or_else(|error| panic!("{error} in {books}"))
    }

    /// Ends it and its processes as an accident would.
    pub(crate) fn kill(&self) {
        let children = children(self.pid());
        assert!(!children.is_empty());
        for pid in [self.pid()]
            .into_iter()
            .chain(children.into_iter().map(|(pid, _)| pid))
        {
            signal(pid, Signal::SIGKILL);
        }
    }

    /// The processes that serve.
    pub(crate) fn processes(&self) -> Vec<i32> {
        children(self.pid())
            .into_iter()
            .map(|(pid, _)| pid)
            .collect()
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

/// Crawls `target`, and has it confirm the report. Returns the counts as well.
#[track_caller]
pub(crate) fn confirmed(target: &Target, flags: &str) -> (Report, Value) {
    let report = crawl(&format!("{} {flags}", target.url()));
    let books = target.books();
    assert_agree(&report, &books);
    (report, books)
}

/// The client's report and the target's counts tell the same story, to the last request.
#[track_caller]
pub(crate) fn assert_agree(report: &Report, books: &Value) {
    let book = |name: &str| {
        books[name]
            .as_u64()
            .unwrap_or_else(|| panic!("the books have no {name}: {books}"))
    };
    let (sent, retries) = (
        report.count("/totals/attempts_sent"),
        report.count("/totals/retries"),
    );
    assert_eq!(book("requests"), sent, "{books}");
    assert_eq!(counts(&books["by_status"]), report.statuses());
    // Each item is asked for once, and again as often as it was tried again.
    let seen_again = book("duplicate_ids");
    assert_eq!(
        book("unique_ids") + seen_again + book("ids_beyond_tracking"),
        sent
    );
    if book("ids_beyond_tracking") == 0 && sent == report.count("/totals/attempts") {
        assert_eq!(seen_again, retries, "{books}");
    } else {
        assert!(seen_again <= retries, "{seen_again} of {retries}: {books}");
    }
    let used =
        report.count("/totals/connections_opened") - report.count("/totals/connections_unused");
    assert_eq!(book("connections"), used);
}
