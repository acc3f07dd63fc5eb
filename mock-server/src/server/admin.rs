//! The admin routes: reading and resetting the books from outside. `answer` hands over every request below `/__admin`.
//!
//! It must not be counted, limited, delayed or made to fail: a witness does not change what it watches.

use crate::ledger::Ledger;
use crate::shared::Shared;
use bytes::Bytes;
use hyper::{Method, StatusCode};

/// Everything below this is for the operator; `/__adminx` is an item.
const PREFIX: &str = "/__admin";

const UNKNOWN: &[u8] = br#"{"error":"no such admin route","routes":["GET /__admin/health","GET /__admin/ledger","POST /__admin/ledger/reset"]}"#;

/// Whether a path belongs to the operator.
pub(super) fn is_admin(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Does what an admin request asks for, and says what to answer.
pub(super) fn answer(method: &Method, path: &str, shared: &Shared) -> (StatusCode, Bytes) {
    let route = path.strip_prefix(PREFIX).unwrap_or_default();
    match (method, route) {
        (&Method::GET | &Method::HEAD, "/health") => (StatusCode::OK, Bytes::from_static(br#"{"status":"healthy"}"#)),
        (&Method::GET | &Method::HEAD, "/ledger") => match serde_json::to_vec_pretty(&Ledger::read(shared)) {
            Ok(json) => (StatusCode::OK, json.into()),
            Err(error) => {
                let json = serde_json::json!({ "error": format!("failed to write the ledger as JSON: {error}") });
                (StatusCode::INTERNAL_SERVER_ERROR, json.to_string().into())
            }
        },
        (&Method::POST, "/ledger/reset") => {
            Ledger::reset(shared);
            (StatusCode::NO_CONTENT, Bytes::new())
        }
        _ => (StatusCode::NOT_FOUND, Bytes::from_static(UNKNOWN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_prefix_itself_and_what_is_below_it_is_admin() {
        for (path, expected) in [
            ("/__admin", true),
            ("/__admin/", true),
            ("/__admin/ledger", true),
            ("/__adminx", false),
            ("/items/__admin/ledger", false),
            ("/", false),
        ] {
            assert_eq!(is_admin(path), expected, "{path}");
        }
    }

    #[test]
    fn routes_want_their_own_method() {
        let shared = Shared::new().unwrap();
        for (method, path, status) in [
            (Method::GET, "/__admin/health", 200),
            (Method::HEAD, "/__admin/ledger", 200),
            (Method::GET, "/__admin/ledger/reset", 404),
            (Method::POST, "/__admin/ledger", 404),
            (Method::POST, "/__admin/ledger/reset", 204),
            (Method::GET, "/__admin", 404),
            (Method::GET, "/__admin/mappings", 404),
        ] {
            assert_eq!(answer(&method, path, &shared).0.as_u16(), status, "{method} {path}");
        }
    }

    #[test]
    fn an_unknown_route_names_the_known_ones() {
        let shared = Shared::new().unwrap();
        let (_, body) = answer(&Method::GET, "/__admin/nothing", &shared);
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["routes"].as_array().map(Vec::len), Some(3));
    }
}
