//! The crawl against nginx, where there is one: a server that neither this project nor its
//! libraries wrote.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test whose server cannot be started is over"
)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::process::wait_for;
use crate::run::crawl;

/// A running nginx. Dropped, it is ended.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) port: u16,
    place: TempDir,
}

/// Where nginx is, on a machine that has it.
pub(crate) fn nginx() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    candidates
        .map(|directory| directory.join("nginx"))
        .find(|program| program.is_file())
}

impl Nginx {
    /// Starts it on a free port, with these locations.
    fn start(program: &Path, locations: &str) -> Self {
        Self::start_on(program, "", locations)
    }

    /// Start it with parameters of the port, such as `ssl`, and settings of the server beside its
    /// locations.
    pub(crate) fn start_on(program: &Path, parameters: &str, locations: &str) -> Self {
        for _ in 0..10 {
            // Somebody may take the port before nginx does; then the next one is tried.
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let place = tempfile::tempdir().unwrap();
            fs::write(
                place.path().join("nginx.conf"),
                configuration(place.path(), &format!("{port} {parameters}"), locations),
            )
            .unwrap();
            fs::write(place.path().join("item"), "an item").unwrap();
            let child = Command::new(program)
                .arg("-p")
                .arg(place.path())
                .args(["-c", "nginx.conf", "-e", "error.log"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut nginx = Self { child, port, place };
            let serves = wait_for("nginx", || {
                if nginx.child.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                // The pid file is written once the port is bound.
                let bound = nginx
                    .place
                    .path()
                    .join("pid")
                    .metadata()
                    .is_ok_and(|file| file.len() > 0);
                (bound && TcpStream::connect(("127.0.0.1", port)).is_ok()).then_some(true)
            });
            if serves {
                return nginx;
            }
        }
        panic!("nginx does not start");
    }

    /// The lines of its access log for items.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.place.path().join("access.log")).unwrap();
        log.lines()
            .filter(|line| line.contains("/items/"))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One process in the foreground, which keeps to its own directory.
fn configuration(place: &Path, port: &str, locations: &str) -> String {
    let place = place.display();
    format!(
        "daemon off;
         master_process off;
         pid {place}/pid;
         error_log {place}/error.log;
         events {{ worker_connections 256; }}
         http {{
             log_format line '$status $connection $request_uri $server_protocol $http_user_agent';
             access_log {place}/access.log line;
             client_body_temp_path {place}/body;
             proxy_temp_path {place}/proxy;
             fastcgi_temp_path {place}/fastcgi;
             uwsgi_temp_path {place}/uwsgi;
             scgi_temp_path {place}/scgi;
             keepalive_requests 100;
             limit_req_zone $binary_remote_addr zone=two:1m rate=2r/s;
             limit_req_status 429;
             server {{
                 listen 127.0.0.1:{port};
                 root {place};
                 {locations}
             }}
         }}"
    )
}

#[test]
fn nginx_has_logged_what_the_report_counts() {
    let Some(program) = nginx() else {
        println!("skipped: there is no nginx on this machine");
        return;
    };
    let nginx = Nginx::start(
        &program,
        "location /items/ { return 200 'an item'; } location /items/9 { return 404; }",
    );
    let report = crawl(&format!(
        "http://127.0.0.1:{}/items/{{id}} --ids 1000..3000 --shards 2 -c 8",
        nginx.port
    ));
    report.assert_states(&[("ok", 2_000)]);
    let missing = crawl(&format!(
        "http://127.0.0.1:{}/items/{{id}} --ids 9000..9100 --shards 2 -c 4",
        nginx.port
    ));
    missing.assert_states(&[("not_found", 100)]);
    // nginx logs a request after it has answered it.
    let log = wait_for("the log", || {
        Some(nginx.log()).filter(|log| log.len() >= 2_100)
    });
    assert_eq!(
        log.len() as u64,
        report.count("/totals/attempts") + missing.count("/totals/attempts")
    );
    let with = |status: &str| log.iter().filter(|line| line.starts_with(status)).count();
    assert_eq!((with("200 "), with("404 ")), (2_000, 100));
    assert!(
        log.iter()
            .all(|line| line.ends_with(concat!(" crawlmark/", env!("CARGO_PKG_VERSION"))))
    );
    let column = |line: &String, number| line.split(' ').nth(number).map(str::to_owned);
    let distinct = |number| {
        log.iter()
            .map(|line| column(line, number))
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    assert_eq!(distinct(2), 2_100, "each item once");
    // It closes each connection after a hundred requests, and says so in time: none is lost, and
    // each is replaced.
    let opened =
        report.count("/totals/connections_opened") + missing.count("/totals/connections_opened");
    assert_eq!(distinct(1) as u64, opened);
    assert!(report.count("/totals/connections_opened") >= 20);
}

/// The strictest foreign limit there is: no burst, counted in milliseconds. A file, because
/// `return` would answer before the limit is asked.
#[test]
fn nginx_turns_nobody_away_who_keeps_to_its_limit() {
    let Some(program) = nginx() else {
        println!("skipped: there is no nginx on this machine");
        return;
    };
    // Where the machine holds a request up on its way to nginx, the next one comes too soon after
    // it: one of three runs has to be free of that. A client that did not keep its requests apart
    // would be refused in each.
    let mut refused = Vec::new();
    for _ in 0..3 {
        let nginx = Nginx::start(
            &program,
            "location /items/ { limit_req zone=two; try_files /item =404; }",
        );
        let report = crawl(&format!(
            "http://127.0.0.1:{}/items/{{id}} --ids 0..24 --rate 2/s",
            nginx.port
        ));
        let attempts = report.count("/totals/attempts");
        let log = wait_for("the log", || {
            Some(nginx.log()).filter(|log| log.len() as u64 >= attempts)
        });
        assert_eq!(log.len() as u64, attempts);
        report.assert_states(&[("ok", 24)]);
        let turned_away: Vec<String> = log
            .into_iter()
            .filter(|line| !line.starts_with("200 "))
            .collect();
        if turned_away.is_empty() {
            return;
        }
        refused.push(turned_away);
    }
    panic!("{refused:?}");
}
