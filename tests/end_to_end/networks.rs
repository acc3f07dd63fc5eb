//! Crawls from one network namespace into another, over a link that delays packets and may lose
//! some: what is lost is named.
//!
//! That takes root, the program `ip`, Python for the link (`benches/diagnoses`) and `/dev/net/tun`;
//! without them it is skipped, and says so.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{Backlog, listen};
use serde_json::Value;

use crate::process::have_the_machine_alone;
use crate::report::Report;
use crate::run::crawl;
use crate::target::Target;

/// Where the target listens.
const THERE: &str = "10.77.0.2:0";

/// A link between two network namespaces. Dropped, all of it is gone.
struct Link {
    client: Space,
    target: Space,
    relay: Child,
}

/// A network namespace with a name.
struct Space(String);

impl Space {
    fn make(name: &str) -> Result<Self, String> {
        let name = format!("crawlmark-{}-{name}", std::process::id());
        let output = Command::new("ip").args(["netns", "add", &name]).output();
        let output = output.map_err(|error| format!("`ip` cannot be started: {error}"))?;
        if output.status.success() {
            Ok(Self(name))
        } else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("a network of its own: {said}"))
        }
    }

    /// Have this thread, and what it starts, use it.
    fn enter(&self) {
        let space = File::open(PathBuf::from("/run/netns").join(&self.0)).unwrap();
        setns(space, CloneFlags::CLONE_NEWNET).unwrap();
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

impl Link {
    /// Make a link with a delay and a share of packets that it loses, or say why not.
    fn make(name: &str, delay_s: &str, loss: &str) -> Result<Self, String> {
        let client = Space::make(&format!("{name}-client"))?;
        let target = Space::make(&format!("{name}-target"))?;
        let mut relay = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/diagnoses"))
            .args(["relay", &client.0, &target.0, delay_s, loss])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("Python cannot be started: {error}"))?;
        let said = relay.stdout.take().map(BufReader::new).unwrap();
        let is_ready = said.lines().next().is_some_and(|line| line.is_ok());
        let link = Self {
            client,
            target,
            relay,
        };
        is_ready
            .then_some(link)
            .ok_or_else(|| "the link says why".to_owned())
    }

    /// Start a target at one end, and leave this thread at the other.
    fn target(&self) -> Target {
        self.target.enter();
        let target = Target::start_on(THERE, "--processes 1");
        self.client.enter();
        target
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

/// Run a test in a thread, which may enter networks.
fn in_networks(test: fn() -> Result<(), String>) {
    let run = || {
        if let Err(reason) = test() {
            println!("skipped: {reason}");
        }
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

/// Crawl over a link, while connections of this network find a full listen queue: their packets
/// are sent again, and the queue's overflows counted, without any of the crawl.
fn crawl_over(link: &Link) -> Report {
    let target = link.target();
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&full, Backlog::new(0).unwrap()).unwrap();
    let at: SocketAddr = full.local_addr().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(move || TcpStream::connect_timeout(&at, Duration::from_secs(3)));
        }
        let flags = "-n 1200 --shards 1 -c 8 --retries 0";
        crawl(&format!("{} {flags}", target.url()))
    })
}

#[test]
fn losses_are_named_and_the_times_without_them_are_those_of_a_link_that_loses_nothing() {
    in_networks(|| {
        have_the_machine_alone();
        let good = Link::make("good", "0.01", "0")?;
        let lossy = Link::make("lossy", "0.01", "0.03")?;
        let good = crawl_over(&good);
        // What others of the machine lose is counted, and no fault of the run.
        assert!(good.count("/host/tcp_retransmits") > 0);
        assert!(good.count("/host/listen_overflows") > 0);
        assert_eq!(*good.finding("packet_loss"), Value::Null);
        assert_eq!(*good.finding("listen_queue_full"), Value::Null);

        let us = |of: &Value| of.as_f64().unwrap();
        let usual = us(good.at("/tcp/p99_us"));
        // A machine that stops for a moment makes responses slow that nothing was sent again for.
        let explained = (0..3).any(|_| {
            let lossy = crawl_over(&lossy);
            let found = lossy.finding("packet_loss");
            assert_eq!(found["waited"], *lossy.at("/tcp/slow_with_retransmit"));
            let (with, without) = (us(&found["p99_us"]), us(&found["p99_without_us"]));
            // The kernel waits for 200 ms at least.
            assert!(with > 200_000.0 && usual > 20_000.0, "{with} {usual}");
            (without - usual).abs() < (with - usual) / 4.0
        });
        assert!(explained);
        Ok(())
    });
}
