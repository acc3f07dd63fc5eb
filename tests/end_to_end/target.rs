//! `crawlmark serve` as a child of the test, and its counts: the second witness.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::command::{Started, program, start, words};
use crate::process::{children, signal, wait_for};
use crate::report::{Report, counts};
use crate::run::crawl;

/// A running target. Dropped, it is ended.
pub(crate) struct Target {
    serve: Started,
    origin: String,
}

impl Target {
    /// Start `crawlmark serve` with `flags` on a free port.
    pub(crate) fn start(flags: &str) -> Self {
        Self::start_on("127.0.0.1:0", flags)
    }

    /// The same on another address.
    pub(crate) fn start_on(listen: &str, flags: &str) -> Self {
        Self::of(start(&format!("serve --listen {listen} {flags}")))
    }

    /// Start it on a free port with a variable in its environment.
    pub(crate) fn start_with(name: &str, value: &Path, flags: &str) -> Self {
        let mut command = Command::new(program());
        command.env(name, value);
        command.args(words(&format!("serve --listen 127.0.0.1:0 {flags}")));
        Self::of(Started::new(command))
    }

    fn of(mut serve: Started) -> Self {
        let origin = wait_for("the target's address", || {
            assert_eq!(serve.child.try_wait().unwrap(), None, "{}", serve.stderr());
            let said = serve.stdout();
            let (line, _) = said.split_once('\n')?;
            Some(line.strip_prefix("listening on ").unwrap().to_owned())
        });
        Self { serve, origin }
    }

    /// What it has said on standard error.
    pub(crate) fn stderr(&self) -> String {
        self.serve.stderr()
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.origin.split_once("://").unwrap().1
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// What to crawl.
    pub(crate) fn url(&self) -> String {
        format!("{}/items/{{id}}", self.origin)
    }

    /// Its counts now, over HTTP.
    pub(crate) fn ledger(&self) -> Value {
        Client::connect(self).admin("GET /ledger", "").json()
    }

    /// The number of requests for items that it has had.
    pub(crate) fn requests(&self) -> u64 {
        self.ledger()["requests"].as_u64().unwrap()
    }

    /// Wait until it has been asked for this many items.
    pub(crate) fn wait_for_requests(&self, requests: u64) {
        wait_for("requests at the target", || {
            (self.requests() >= requests).then_some(())
        });
    }

    /// End it with SIGTERM, and return the counts that it prints.
    pub(crate) fn stop(self) -> Value {
        self.serve.signal(Signal::SIGTERM);
        let said = self.serve.end().code(&[0]).stdout;
        let (_, ledger) = said.split_once('\n').unwrap();
        serde_json::from_str(ledger).unwrap_or_else(|error| panic!("{error} in {ledger}"))
    }

    /// End it and its processes as an accident would.
    pub(crate) fn kill(&self) {
        let serving = self.processes();
        assert!(!serving.is_empty());
        self.serve.signal(Signal::SIGKILL);
        for pid in serving {
            signal(pid, Signal::SIGKILL);
        }
    }

    /// The processes that serve.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let children = children(self.serve.pid());
        children.into_iter().map(|(pid, _)| pid).collect()
    }
}

/// Crawl `target`, and have it confirm the report. Return the counts as well.
#[track_caller]
pub(crate) fn confirmed(target: &Target, flags: &str) -> (Report, Value) {
    let report = crawl(&format!("{} {flags}", target.url()));
    let ledger = target.ledger();
    assert_agree(&report, &ledger);
    (report, ledger)
}

/// Check that the client's report and the target's counts agree, to the last request.
#[track_caller]
pub(crate) fn assert_agree(report: &Report, ledger: &Value) {
    let book = |name: &str| ledger[name].as_u64().unwrap();
    let total = |name: &str| report.count(&format!("/totals/{name}"));
    let (sent, retries) = (total("attempts_sent"), total("retries"));
    assert_eq!(book("requests"), sent, "{ledger}");
    assert_eq!(counts(&ledger["by_status"]), report.statuses());
    // Each item is asked for once, and again as often as it was tried again.
    let (again, untracked) = (book("duplicate_ids"), book("ids_beyond_tracking"));
    assert_eq!(book("unique_ids") + again + untracked, sent);
    let is_exact = untracked == 0 && sent == total("attempts");
    assert!(
        again <= retries && (again == retries || !is_exact),
        "{retries}: {ledger}"
    );
    let used = total("connections_opened") - total("connections_unused");
    assert_eq!(book("connections"), used);
}
