//! Responses that all servers are to send, written down the way each of them reads it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::error::Error;

/// Number of stubs.
pub(super) const STUBS: u32 = 1_000;

/// The one that is requested: a server that looks at stubs one by one has half of them before it.
const ASKED: u32 = STUBS / 2;

/// The path that is asked for.
pub(super) fn path() -> String {
    format!("/stub/{ASKED}")
}

/// Return the body of that path's response.
pub(super) fn body() -> String {
    body_of(ASKED)
}

fn body_of(stub: u32) -> String {
    format!(
        r#"{{"id":{stub},"name":"stub-{stub}","text":"about a hundred bytes of JSON, as many an answer has them"}}"#
    )
}

/// A folder with everything that servers read. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Writes the stubs.
    pub(super) fn new() -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let stub = |id: u32| {
            let headers = json!({"Content-Type": "application/json"});
            json!({
                "request": {"method": "GET", "url": format!("/stub/{id}")},
                "response": {"status": 200, "headers": headers, "body": body_of(id)},
            })
        };
        let mappings = json!({"mappings": (0..STUBS).map(stub).collect::<Vec<_>>()});
        let place = folder.path().join("mappings");
        fs::create_dir(&place)?;
        fs::write(place.join("stubs.json"), mappings.to_string())?;
        // WireMock makes it if it is not there, and its absence is one difference less.
        fs::create_dir(folder.path().join("__files"))?;
        Ok(Self { folder })
    }

    /// The folder that has `mappings` in it.
    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Writes what makes nginx answer every request with the one body, from `port`, at the least cost. Returns the
    /// file.
    pub(super) fn write_nginx_conf(&self, port: u16) -> Result<PathBuf, Error> {
        let root = self.root().display();
        let mut text = format!(
            "worker_processes 1;\ndaemon off;\npid {root}/nginx.pid;\nerror_log stderr crit;\n\
             events {{ worker_connections 4096; }}\nhttp {{\naccess_log off;\nkeepalive_requests 1000000000;\n\
             keepalive_timeout 3600;\ndefault_type application/json;\n"
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind}_temp_path {root}/nginx-{kind};");
        }
        let _ = writeln!(text, "server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{}'; }} }}\n}}", body());
        let file = self.root().join("nginx.conf");
        fs::write(&file, text)?;
        Ok(file)
    }
}
