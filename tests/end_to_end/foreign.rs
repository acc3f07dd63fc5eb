//! Servers and proxies that this project did not write. What is not installed is skipped, with a
//! line that says so.

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::process::{end_with_children, wait_for};

/// A foreign server. Dropped, it is ended.
pub(crate) struct Foreign {
    child: Child,
    pub(crate) port: u16,
    pub(crate) place: TempDir,
}

impl Foreign {
    /// Start a program on a free port, with the arguments that `args` makes of it and of a
    /// directory. None, and a word about it, if it is not installed.
    pub(crate) fn start(
        program: &str,
        args: impl Fn(u16, &TempDir) -> Vec<String>,
    ) -> Option<Self> {
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
        for _ in 0..10 {
            // Another process may take the port first; then the next one is tried.
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let place = tempfile::tempdir().unwrap();
            let mut command = Command::new(program);
            command
                .args(args(port, &place))
                .env("PATH", &path)
                .stdin(Stdio::null());
            let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
                println!("skipped: there is no {program} on this machine");
                return None;
            };
            let mut foreign = Self { child, port, place };
            let serves = wait_for(program, || match foreign.child.try_wait().unwrap() {
                Some(_) => Some(false),
                None => TcpStream::connect(("127.0.0.1", port))
                    .is_ok()
                    .then_some(true),
            });
            if serves {
                return Some(foreign);
            }
        }
        panic!("{program} does not start");
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The lines of its access log for items that follow the first `from`, once there are `count`.
    #[track_caller]
    pub(crate) fn log_of(&self, from: usize, count: usize) -> Vec<String> {
        let log = wait_for("the log", || {
            let log = fs::read_to_string(self.place.path().join("access.log")).ok()?;
            let items = log.lines().filter(|line| line.contains("/items/"));
            let log: Vec<String> = items.skip(from).map(str::to_owned).collect();
            Some(log).filter(|log| log.len() >= count)
        });
        assert_eq!(log.len(), count);
        log
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

/// The values in a column of a log.
pub(crate) fn column(log: &[String], number: usize) -> BTreeSet<&str> {
    log.iter()
        .map(|line| line.split(' ').nth(number).unwrap())
        .collect()
}

/// nginx that answers items, with parameters of its port, such as `ssl`, and settings.
pub(crate) fn nginx(parameters: &str, settings: &str) -> Option<Foreign> {
    Foreign::start("nginx", |port, place| {
        let text = configuration(place.path(), &format!("{port} {parameters}"), settings);
        fs::write(place.path().join("nginx.conf"), text).unwrap();
        let place = place.path().to_str().unwrap();
        ["-p", place, "-c", "nginx.conf", "-e", "error.log"]
            .map(str::to_owned)
            .to_vec()
    })
}

/// One process in the foreground, which keeps to its own directory.
fn configuration(place: &Path, port: &str, settings: &str) -> String {
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
                   server {{
                 listen 127.0.0.1:{port};
                 root {place};
                 {settings}
                 location /items/ {{ return 200 'an item'; }}
             }}
         }}"
    )
}
