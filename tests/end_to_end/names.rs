//! A name whose address changes during the run: a thread of this test has a hosts file of its own,
//! which the machine's other processes do not see.
//!
//! That takes root and the program `mount`; without them it is skipped, and says so.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::process::wait_for;
use crate::run::start;
use crate::target::Target;

/// Hosts file of a thread and of the processes that it starts.
struct Hosts {
    path: PathBuf,
    _place: TempDir,
}

impl Hosts {
    /// Give this thread a hosts file, or say why not.
    fn mount() -> Result<Self, String> {
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("mounts of its own: {error}"))?;
        let place = tempfile::tempdir().unwrap();
        let hosts = Self {
            path: place.path().join("hosts"),
            _place: place,
        };
        hosts.write("");
        let mount = |arguments: &[&Path]| {
            let status = Command::new("mount")
                .args(arguments)
                .stdin(Stdio::null())
                .status();
            let status = status.map_err(|error| format!("`mount` cannot be started: {error}"))?;
            if status.success() {
                Ok(())
            } else {
                Err(format!("mount {arguments:?}: {status}"))
            }
        };
        // What is mounted here is seen nowhere else.
        mount(&[Path::new("--make-rprivate"), Path::new("/")])?;
        mount(&[Path::new("--bind"), &hosts.path, Path::new("/etc/hosts")])?;
        Ok(hosts)
    }

    /// Have the file say this, in place.
    fn write(&self, lines: &str) {
        fs::write(&self.path, lines).unwrap();
    }
}

/// Run a test with a hosts file of its own.
fn with_hosts(test: impl FnOnce(&Hosts) + Send) {
    let run = || match Hosts::mount() {
        Ok(hosts) => test(&hosts),
        Err(reason) => println!("skipped: {reason}"),
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

/// Targets at these addresses, with one port.
fn targets<const N: usize>(addresses: [&str; N]) -> ([Target; N], String) {
    let free = |port: &u16| {
        addresses
            .iter()
            .all(|address| TcpListener::bind((*address, *port)).is_ok())
    };
    let any = || {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    };
    let port = std::iter::repeat_with(any).take(100).find(free).unwrap();
    (
        addresses.map(|address| {
            Target::start_on(
                &format!("{address}:{port}"),
                "--processes 1 --allow-host moves.test",
            )
        }),
        port.to_string(),
    )
}

#[test]
fn a_name_is_looked_up_again_and_new_connections_move_with_it() {
    with_hosts(|hosts| {
        let ([old, new], port) = targets(["127.0.0.2", "127.0.0.3"]);
        hosts.write("127.0.0.2 moves.test\n");
        let flags =
            "-d 60s --shards 1 -c 2 --rate 200 --max-requests-per-connection 5 --dns-ttl 50ms";
        let run = start(&format!("http://moves.test:{port}/items/{{id}} {flags}"));
        old.wait_for_requests(20);
        // It is gone for a while: the old address is kept.
        hosts.write("");
        let so_far = old.requests();
        old.wait_for_requests(so_far + 100);
        hosts.write("127.0.0.3 moves.test\n");
        new.wait_for_requests(50);
        wait_for("the old address to be left", || {
            let before = old.requests();
            let target = new.requests() + 20;
            new.wait_for_requests(target);
            (old.ledger()["requests"] == json!(before)).then_some(())
        });
        run.signal(Signal::SIGINT);
        let report = run.end().report(130);
        let (lookups, failed) = (
            report.count("/totals/lookups"),
            report.count("/totals/lookups_failed"),
        );
        assert!(failed >= 1 && lookups > failed, "{failed} of {lookups}");
        assert_eq!(report.text("/plan/workload/dns_ttl"), "50ms");
        assert!(report.errors().is_empty(), "{:?}", report.errors());
    });
}
